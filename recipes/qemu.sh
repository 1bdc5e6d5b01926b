#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the emulated machine: TCG with plugins, nothing else. Debian's own patches are applied first.
# In: /src (patched), scratch: /obj; out: /out.
set -eu
cd /obj
export CC="ccache gcc"
/src/configure --prefix=/out --target-list=x86_64-softmmu --without-default-features --enable-tcg --enable-plugins \
	--disable-docs --disable-install-blobs --disable-werror --disable-debug-info
ninja qemu-system-x86_64
strip -o /out/qemu-system-x86_64 qemu-system-x86_64
mkdir -p /out/include
cp /src/include/qemu/qemu-plugin.h /out/include/
