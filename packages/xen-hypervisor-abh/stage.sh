#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154  # packages/pack.sh, which reads this, sets doc and TREE
# The hypervisor, under a name that boot loaders take for one.
mkdir -p "$TREE/boot"
gzip -9nc /in/xen/xen > "$TREE/boot/xen-${VERSION%%-*}-abh.gz"
cp /in/xen/config "$TREE/boot/xen-${VERSION%%-*}-abh.config"
find "$TREE" -type f -exec chmod 644 {} +
