#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the programs that test a kernel: static, so that an initramfs of a few files holds them.
# In: /main (the checkout); out: /out.
set -eu
cd /main/tests/kernel
compile() {
	name=$1
	shift
	gcc -O2 -Wall -Wextra -Werror -o "/out/$name" "$@"
	strip "/out/$name"
}
compile init -static init.c
compile fuzz -static fuzz.c model.c draw.c access.c map.c advise.c remap.c ops.c maps.c
# Position-independent, as most programs are.
compile semantics -static-pie -pthread cases.c semantics/*.c -lm
compile slack -static -pthread cases.c slack/*.c
compile cost -static cost.c
compile navarro -static navarro/*.c
compile nothing -static -nostdlib nothing.c
compile fixed -static -nostdlib tell.c
# A loader, and a program that names it.
compile tell -nostdlib -static-pie tell.c
gcc -O2 -Wall -Wextra -Werror -pie -nostdlib -Wl,--dynamic-linker=/tell -o /out/pie tell.c
# Of 32 bits there is no library, and no headers but the kernel's.
compile32() {
	compile "$@" -m32 -ffreestanding -isystem /usr/include/x86_64-linux-gnu -nostdlib bits.c
}
compile32 bits32 -static
compile32 bits32-loader -static-pie
compile32 bits32-pie -pie -Wl,--dynamic-linker=/bits32-loader
compile bits64 -static -nostdlib bits.c
