#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the C library and its loader, laid over the guest's own of the same version: the guest's libc, no preload.
# With them libc_malloc_debug: its tunables are numbers in a sorted list, so those of the series shift what it reads.
# The other companions (libm, libresolv, …) read none and stay Debian's: no patch of the series touches them.
# In: /src (Debian's patches, then ours); scratch: /obj; out: /out, laid over the guest's root.
set -eu
cd /obj
CC="ccache gcc" CXX="ccache g++" /src/configure --prefix=/usr --libdir=/usr/lib/x86_64-linux-gnu \
	--enable-stack-protector=strong --enable-bind-now --disable-profile --disable-werror --disable-nscd \
	--without-selinux libc_cv_slibdir=/usr/lib/x86_64-linux-gnu libc_cv_rtlddir=/usr/lib64
# Shared objects alone: the static library's would be as many again, and these are the same to the byte without them.
make -j"$(nproc)" lib object-suffixes=.os
make -r -C /src/malloc subdir=malloc objdir=/obj ..=../ /obj/malloc/libc_malloc_debug.so object-suffixes=.os
lib=/out/usr/lib/x86_64-linux-gnu
mkdir -p $lib
copy() { strip "--strip-$3" -o "$lib/$2" "$1"; }
copy libc.so libc.so.6 unneeded
# The loader keeps its symbols: Valgrind does not start without, and Debian's libc6-dbg has those of another build.
copy elf/ld.so ld-linux-x86-64.so.2 debug
copy malloc/libc_malloc_debug.so libc_malloc_debug.so.0 unneeded
chmod 755 $lib/*
