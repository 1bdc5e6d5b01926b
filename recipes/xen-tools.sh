#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds xl, libxl and libxenguest, configured as Debian does (debian/rules), for them to stand in the places of its own:
# all other tools and libraries of a host are Debian's.
# In: /src (patched); out: /out.
set -eu
cd /src
# Debian's source package has none of what autoconf makes, or copies.
cp /usr/share/misc/config.sub /usr/share/misc/config.guess .
./autogen.sh
cd tools
./configure --prefix=/usr --libdir=/usr/lib/x86_64-linux-gnu --sysconfdir=/etc --localstatedir=/var \
	--with-libexec-leaf-dir=xen-4.20 --with-libexec-libdir-suffix=/x86_64-linux-gnu \
	--with-system-qemu=/usr/libexec/xen-qemu-system-i386 --with-system-seabios=/usr/share/seabios/bios-256k.bin \
	--disable-rombios --disable-ocamltools --disable-golang --disable-xsmpolicy
for part in include libs xl; do
	make -C "$part" CC="ccache gcc" -j"$(nproc)"
done
strip -o /out/xl xl/xl
strip --strip-unneeded -o /out/libxenlight.so.4.20 libs/light/libxenlight.so.4.20.*
strip --strip-unneeded -o /out/libxenguest.so.4.20 libs/guest/libxenguest.so.4.20.*
