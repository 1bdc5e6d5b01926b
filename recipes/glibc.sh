#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the C library and installs its shared objects over the guest's: the guest's own libc, not a preload.
# In: /src (Debian's patches, then ours); scratch: /obj; out: /out, laid over the guest's root.
set -eu
cd /obj
CC="ccache gcc" CXX="ccache g++" /src/configure --prefix=/usr --libdir=/usr/lib/x86_64-linux-gnu \
	--enable-stack-protector=strong --enable-bind-now --disable-profile --disable-werror --disable-nscd \
	--without-selinux libc_cv_slibdir=/usr/lib/x86_64-linux-gnu libc_cv_rtlddir=/usr/lib64
make -j"$(nproc)" lib
lib=/out/usr/lib/x86_64-linux-gnu
mkdir -p $lib
copy() { strip --strip-unneeded -o "$lib/$2" "$1"; }
copy libc.so libc.so.6
copy elf/ld.so ld-linux-x86-64.so.2
copy math/libm.so libm.so.6
copy mathvec/libmvec.so libmvec.so.1
copy nptl/libpthread.so libpthread.so.0
copy dlfcn/libdl.so libdl.so.2
copy rt/librt.so librt.so.1
copy resolv/libresolv.so libresolv.so.2
chmod 755 $lib/*
