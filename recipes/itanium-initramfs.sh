#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the first process of the Itanium machine, and packs it.
# In: /main (the checkout), of it the kernel's options among $READS; /in/ia64-gcc; scratch: /obj; out: /out.
set -eu
mkdir -p /obj/root/dev
# The base pages of the kernel: as in its recipe, the last folder holds.
page=$(for each in $READS; do
	case $each in */kconfig/*) sed -n 's/^CONFIG_IA64_PAGE_SIZE_\(.*\)KB=y/\1/p' /main/"$each"/*.config ;; esac
done | tail -n 1)
/in/ia64-gcc/bin/ia64-linux-gnu-gcc -O2 -fwrapv -fno-optimize-sibling-calls -Wall -Werror -ffreestanding -nostdlib -static \
	-DPAGE_KIB="$page" -o /obj/root/init \
	/main/tests/itanium/boot/start.S /main/tests/itanium/boot/*.c /main/tests/itanium/thesis/*.c \
	/main/tests/itanium/fuzz/*.c -lgcc
cp /obj/root/init /out/
# The kernel opens its console before it has mounted anything on /dev: its own archive has the node.
cd /obj/root
find . -exec touch -h -d @0 {} +
find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible >/out/initramfs.cpio
