#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles GCC's tests of execution, each to a program that the machine starts as a kernel. Those that say that they need
# a system, or that need more of a C library than there is, are named in `left`, with why.
# In: /main (the checkout), /in/ia64-gcc; scratch: /obj; out: /out/<level>/<name>, /out/left.
set -eu
export CC=/in/ia64-gcc/bin/ia64-linux-gnu-gcc from=/main/tests/itanium/torture tests=/in/ia64-gcc/torture/execute
$CC -O1 -ffreestanding -fno-builtin -I"$from/include" -c -o /obj/libc.o "$from/libc.c"
$CC -c -o /obj/start.o "$from/start.S"
cat >/obj/one <<'END'
#!/bin/bash
# A level and a test, with the options that its comments ask for on every target.
name=${2##*/} name=${name%.c}
if grep -qE 'requires (io|qsort)|effective-target (fileio|unwrapped|mmap)' "$2"; then
	echo "$1 $name: it needs a system"
	exit
fi
options=$(grep -v target "$2" | sed -n 's/.*dg-\(additional-\)\?options *[{ ]*"\([^"]*\)".*/\2/p' | tr '\n' ' ')
$CC -"$1" -w -static -nostdlib -s -I"$from/include" -Wl,-N -Wl,-Ttext=0x4000000 $options \
	-o "/out/$1/$name" /obj/start.o "$2" /obj/libc.o -lgcc >"/obj/$1-$name" 2>&1 ||
	{ rm -f "/out/$1/$name"; echo "$1 $name: $(grep -m1 -E 'error:|undefined' "/obj/$1-$name" | sed 's/.*: //')"; }
END
chmod +x /obj/one
mkdir /out/O0 /out/O2 /out/O3
for level in O0 O2 O3; do
	printf '%s\0' "$tests"/*.c | xargs -0 -n1 -P"$(nproc)" /obj/one "$level"
done | sort >/out/left
