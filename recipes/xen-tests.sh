#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Xen's test guests, one a folder of tests/xen, small ones and Linux', and packs them with what runs them.
# In: /main (the checkout); scratch: /obj; out: /out.
set -eu
cd /main/tests/xen
mkdir /obj/tests

flags="-O2 -Wall -Wextra -Werror -ffreestanding -fno-pic -mgeneral-regs-only -fno-stack-protector -fcf-protection=none
	-nostdlib -static -no-pie -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-z,max-page-size=4096
	-Wl,--no-warn-rwx-segments -Wl,-T,lib/guest.lds -Wl,-s"
for name in */main.c; do
	name=${name%/main.c}
	# shellcheck disable=SC2086 # flags are words
	gcc $flags -mno-red-zone -o "/obj/tests/$name" lib/start.S lib/lib.c "$name/main.c"
	# In 32 bits with PAE: formats are checked above, for numbers of 64 bits that are long there.
	# shellcheck disable=SC2086
	gcc $flags -m32 -march=i686 -Wno-format -o "/obj/tests/$name-pae" lib/start32.S lib/lib.c "$name/main.c"
	[ ! -e "$name/xl.cfg" ] || tee "/obj/tests/$name.cfg" "/obj/tests/$name-pae.cfg" <"$name/xl.cfg" >/dev/null
done
# First processes of Linux guests, each alone in its initramfs: without a C library, which would be most of it. Nothing
# may call memset() and the like.
for name in */init.c; do
	name=${name%/init.c}
	mkdir "/obj/$name"
	gcc -O2 -Wall -Wextra -Werror -ffreestanding -fno-pic -fno-stack-protector -fno-tree-loop-distribute-patterns \
		-nostdlib -static -no-pie -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-s -o "/obj/$name/init" "$name/init.c"
	touch -d @0 "/obj/$name/init"
	(cd "/obj/$name" && echo init | cpio --quiet -o -H newc --reproducible --owner=0:0) >"/obj/tests/$name.cpio"
done
# With the host's own C library: a static program would be ten times all of the guests.
gcc -O2 -Wall -Wextra -Werror -Wl,-s -o /obj/tests/ask host/ask.c
gcc -O2 -Wall -Wextra -Werror -Wl,-s -shared -fPIC -o /obj/tests/no-extents.so host/no-extents.c
cp run /obj/tests/
chmod 755 /obj/tests/*
# Small: the host reads it from the machine byte by byte, and each part of it from the beginning.
tar -C /obj/tests --sort=name --owner=0 --group=0 --mtime=@0 -c . | gzip -9n >/out/tests.tgz
