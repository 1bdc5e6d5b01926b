#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154  # packages/pack.sh, which reads this, sets doc and TREE
# What puts the library in place and takes it away, and the folder for the system's own meanwhile.
here=/main/packages/abh-glibc-system
mkdir -p "$TREE/usr/lib/abh/stock"
install -Dm755 $here/in-place "$TREE/usr/lib/abh/in-place"
install -Dm644 $here/lintian-overrides "$TREE/usr/share/lintian/overrides/abh-glibc-system"
