#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154  # packages/pack.sh, which reads this, sets doc and TREE
# The hypervisor, under a name that boot loaders take for one, and what switches superpages of a domain in dom0.
here=/main/packages/xen-hypervisor-abh
mkdir -p "$TREE/boot" "$TREE/usr/share/man/man8"
gzip -9nc /in/xen/xen > "$TREE/boot/xen-${VERSION%%-*}-abh.gz"
cp /in/xen/config "$TREE/boot/xen-${VERSION%%-*}-abh.config"
gzip -9nc $here/xen-superpages.8 > "$TREE/usr/share/man/man8/xen-superpages.8.gz"
install -D /in/agent/xen-superpages "$TREE/usr/sbin/xen-superpages"
install -D $here/lintian-overrides "$TREE/usr/share/lintian/overrides/xen-hypervisor-abh"
find "$TREE" -type f -exec chmod 644 {} +
chmod 755 "$TREE/usr/sbin/xen-superpages"
