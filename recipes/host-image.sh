#!/bin/sh
# SPDX-License-Identifier: MIT
# The hosts' root image: libvirt, Debian's QEMU, Xen's tools, our kernel's modules and the agents.
# In: /in/root, /in/linux, /in/agent, /main (the checkout); scratch: /obj; out: /out.
set -eu
mkdir /obj/tree
tar -C /in/root --one-file-system -c \
	--exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale --exclude=./usr/share/info \
	--exclude=./var/cache --exclude=./var/lib/apt --exclude=./usr/share/i18n --exclude=./usr/lib/modules \
	--exclude='./usr/lib/x86_64-linux-gnu/perl*' --exclude='./usr/share/qemu/*.efi' --exclude='./usr/share/qemu/*.lid' \
	--exclude=./.mmdebstrap.log . | tar -C /obj/tree -x
tree=/obj/tree
cp -a /in/linux/modules/lib/modules "$tree/usr/lib/modules"
mkdir -p $tree/abh $tree/image $tree/proc $tree/sys $tree/dev $tree/tmp $tree/run $tree/var/cache/libvirt $tree/var/log
cp /in/agent/* $tree/abh/
cp /main/vm-configs/libvirt/etc/*.conf $tree/etc/libvirt/
cp /main/vm-configs/libvirt/etc/x86_abh-emulated.xml $tree/usr/share/libvirt/cpu_map/
sed -i "s|<include filename='x86_features.xml'/>|&<include filename='x86_abh-emulated.xml'/>|" \
	$tree/usr/share/libvirt/cpu_map/index.xml
rm -rf $tree/etc/libvirt/qemu/networks
# Of the machine and the day that the root was made on nothing goes into the image.
: >"$tree/etc/resolv.conf"
echo abh >"$tree/etc/hostname"
[ ! -e "$tree/etc/shadow" ] || sed -i 's/^\([^:]*:[^:]*:\)[0-9]*/\10/' "$tree/etc/shadow"
mkfs.erofs --quiet -zlz4 --all-root -T0 -U6b1f3f3e-7a34-4f3a-9a52-0c6f7a0b0003 /out/host.erofs $tree
