#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154  # packages/pack.sh, which reads this, sets doc and TREE
# The kernel and its modules, under its own release's name.
release=$(ls /in/linux/modules/lib/modules)
mkdir -p "$TREE/boot" "$TREE/usr/lib"
cp /in/linux/vmlinuz "$TREE/boot/vmlinuz-$release"
cp /in/linux/config "$TREE/boot/config-$release"
cp -a /in/linux/modules/lib/modules "$TREE/usr/lib/modules"
# depmod makes the others where the package is installed.
find "$TREE/usr/lib/modules" -name 'modules.*' ! -name modules.order ! -name 'modules.builtin*' -delete
rm -f "$TREE"/usr/lib/modules/*/modules.builtin.*bin
find "$TREE/boot" "$TREE/usr" -type f -exec chmod 644 {} +
sed -i "s/@RELEASE@/$release/" "$TREE/DEBIAN/postinst" "$TREE/DEBIAN/postrm"
