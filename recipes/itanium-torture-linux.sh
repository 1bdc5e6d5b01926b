#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles GCC's tests of execution as programs of Linux, and packs them with the first process that runs them all. What
# is left out is what itanium-torture.sh leaves out.
# In: /main (the checkout), /in/ia64-gcc; scratch: /obj; out: /out/initramfs.cpio, /out/left.
set -eu
export CC=/in/ia64-gcc/bin/ia64-linux-gnu-gcc from=/main/tests/itanium/torture
# The programs are compiled as for the bare machine, but for where they begin and lie.
# shellcheck disable=SC2016 # what is looked for is a name, not its value
sed -e 's|"$from/start.S"|/main/tests/itanium/linux/start.S|; s| -Wl,-N -Wl,-Ttext=0x4000000||' \
	/main/recipes/itanium-torture.sh >/obj/compile.sh
mkdir -p /obj/root/dev
# shellcheck source=/dev/null # made just now
. /obj/compile.sh
mkdir /obj/root/t
mv /out/O? /obj/root/t/
$CC -O2 -fwrapv -fno-optimize-sibling-calls -Wall -Werror -ffreestanding -nostdlib -static -o /obj/root/init \
	/main/tests/itanium/boot/start.S /main/tests/itanium/linux/run.c -lgcc
cd /obj/root
for level in O0 O2 O3; do
	printf '%s\n' t/$level/* >$level
done
find . -exec touch -h -d @0 {} +
find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible >/out/initramfs.cpio
