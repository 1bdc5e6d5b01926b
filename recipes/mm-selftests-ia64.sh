#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds those of the patched kernel's own tests of memory management that need no more of a C library than there is for
# this architecture, and no more of the kernel than the bench's has (madv_populate and mlock2-tests read
# /proc/self/smaps), and packs them with the first process that runs them.
# In: /src (patched), /main (the checkout), /in/ia64-gcc; scratch: /obj; out: /out.
set -eu
tests="map_fixed_noreplace map_hugetlb mremap_dontunmap mremap_test on-fault-limit mrelease_test"
from=/src/tools/testing/selftests/vm
make -s -C /src ARCH=ia64 O=/obj/linux headers
mkdir -p /obj/root/dev /obj/root/proc /obj/root/t
compile() {
	/in/ia64-gcc/bin/ia64-linux-gnu-gcc -std=gnu17 -O2 -w -ffreestanding -isystem /main/tests/itanium/selftests/include \
		-isystem /main/agent/ia64/include -isystem /obj/linux/usr/include "$@"
}
cd /obj
compile -c /main/agent/ia64/start.S
compile -fno-tree-loop-distribute-patterns -c -o libc.o /main/agent/ia64/libc.c
compile -c /main/tests/itanium/selftests/library.c
for name in $tests; do
	compile -nostdlib -static -o "root/t/$name" "$from/$name.c" start.o libc.o library.o -lgcc
done
# shellcheck disable=SC2086 # words
compile -nostdlib -static -DTESTS="$(printf '"%s",' $tests)" -o root/init /main/tests/itanium/selftests/run.c \
	start.o libc.o library.o -lgcc
find root -type f -perm /111 -exec ia64-linux-gnu-strip {} +
cd root
find . -exec touch -h -d @0 {} +
find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible >/out/initramfs.cpio
