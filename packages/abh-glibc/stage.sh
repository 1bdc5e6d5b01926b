#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154  # packages/pack.sh, which reads this, sets doc and TREE
# The library in a folder of its own, and what runs a program under it.
lib=$TREE/usr/lib/abh/glibc
mkdir -p "$lib" "$TREE/usr/lib/x86_64-linux-gnu" "$TREE/usr/bin" "$TREE/usr/share/man/man1"
cp /in/glibc/usr/lib/x86_64-linux-gnu/* "$lib/"
chmod 644 "$lib"/*
chmod 755 "$lib"/ld-linux-x86-64.so.2 "$lib"/libc.so.6
install -m755 /main/packages/abh-glibc/abh-glibc-run "$TREE/usr/bin/abh-glibc-run"
# The build looks for locales below its own libdir; Debian's are here.
ln -s ../locale "$TREE/usr/lib/x86_64-linux-gnu/locale"
gzip -9nc /main/packages/abh-glibc/abh-glibc-run.1 > "$TREE/usr/share/man/man1/abh-glibc-run.1.gz"
install -Dm644 /main/packages/abh-glibc/lintian-overrides "$TREE/usr/share/lintian/overrides/abh-glibc"
