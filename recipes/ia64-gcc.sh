#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds GCC as a cross compiler: C alone, for programs without a C library, with the root's binutils.
# In: the root (its package gcc-12-source); scratch: /obj; out: /out, a tree that works wherever it is put.
set -eu
mkdir /obj/src /obj/gcc
tar -xf /usr/src/gcc-12/gcc-12*.tar.xz --no-same-owner -C /obj/src --strip-components=1
cd /obj/gcc
# A helper by its name in PATH: MAKEINFO=missing, because the documentation is not in Debian's tarball.
export CC="ccache gcc" CXX="ccache g++" MAKEINFO=missing
../src/configure --target=ia64-linux-gnu --prefix=/out --enable-languages=c --without-headers --with-newlib \
	--with-as=/usr/bin/ia64-linux-gnu-as --with-ld=/usr/bin/ia64-linux-gnu-ld --with-system-zlib --without-zstd \
	--disable-bootstrap --disable-threads --disable-shared --disable-multilib --disable-lto --disable-nls \
	--disable-plugin --disable-libssp --disable-libgomp --disable-libquadmath --disable-libatomic --disable-libvtv \
	--disable-libsanitizer --disable-libstdcxx --disable-libcc1 --disable-libitm
make -j"$(nproc)" all-gcc CFLAGS="-O1" CXXFLAGS="-O1"
make -j"$(nproc)" all-target-libgcc
touch gcc/s-tm-texi
make install-gcc install-target-libgcc
strip /out/bin/* /out/libexec/gcc/ia64-linux-gnu/*/cc1 2>/dev/null || true
# GCC's own tests of what programs do, which the machine runs.
mkdir /out/torture
cp -r /obj/src/gcc/testsuite/gcc.c-torture/execute /out/torture/
