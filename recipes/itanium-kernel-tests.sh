#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds those programs that test a kernel which are for the Itanium machine, too, static, and packs them.
# In: /main (the checkout), of it the kernel's options among $READS; /in/ia64-gcc, /in/ia64-glibc; out: /out.
set -eu
mkdir -p /obj/root/dev
# The base pages of the kernel: as in its recipe, the last folder holds.
page=$(for each in $READS; do
	case $each in */kconfig/*) sed -n 's/^CONFIG_IA64_PAGE_SIZE_\(.*\)KB=y/\1/p' /main/"$each"/*.config ;; esac
done | tail -n 1)
cd /main/tests/kernel
compile() {
	name=$1
	shift
	/in/ia64-glibc/bin/cc -O2 -Wall -Wextra -Werror -DPAGE_KIB="$page" -o "/obj/root/$name" "$@"
	ia64-linux-gnu-strip "/obj/root/$name"
}
compile init init.c
compile fuzz fuzz.c model.c draw.c access.c map.c advise.c remap.c ops.c maps.c
for name in hello frugal; do
	compile "$name" "/main/tests/itanium/libc/$name.c"
done
# The kernel opens its console before it has mounted anything on /dev: its own archive has the node.
cd /obj/root
find . -exec touch -h -d @0 {} +
find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible >/out/initramfs.cpio
