#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the emulated machine: TCG with plugins, nothing else. Debian's own patches are applied first.
# In: /src (patched), scratch: /obj; out: /out.
set -eu
cd /obj
export CC="ccache gcc"
# The devices of the PC that machines and tests use; all others would be a third of the build.
for device in I440FX HPET FDC_ISA VMPORT VMMOUSE PVPANIC_ISA ISA_DEBUG VIRTIO_PCI VIRTIO_BLK; do
	echo "CONFIG_$device=y"
done >/src/configs/devices/x86_64-softmmu/abh.mak
/src/configure --prefix=/out --target-list=x86_64-softmmu --without-default-features --enable-tcg --enable-plugins \
	--without-default-devices --with-devices-x86_64=abh --disable-docs --disable-install-blobs --disable-werror \
	--disable-debug-info --disable-tools
ninja qemu-system-x86_64
strip -o /out/qemu-system-x86_64 qemu-system-x86_64
mkdir -p /out/include
cp /src/include/qemu/qemu-plugin.h /out/include/
