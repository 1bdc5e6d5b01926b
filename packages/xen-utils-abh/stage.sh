#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154  # packages/pack.sh, which reads this, sets doc and TREE
# xl and its libraries where no other program looks for them, and what runs xl with them.
here=/main/packages/xen-utils-abh
lib=$TREE/usr/lib/xen-abh
install -Dm755 /in/xen-tools/xl "$lib/bin/xl"
install -m644 /in/xen-tools/libxenlight.so.4.20 /in/xen-tools/libxenguest.so.4.20 "$lib/"
install -Dm755 $here/xl-abh "$TREE/usr/sbin/xl-abh"
install -d "$TREE/usr/share/man/man8" "$doc/examples"
gzip -9nc $here/xl-abh.8 > "$TREE/usr/share/man/man8/xl-abh.8.gz"
chmod 644 "$TREE/usr/share/man/man8/xl-abh.8.gz"
install -m644 $here/superpages.cfg "$doc/examples/superpages.cfg"
