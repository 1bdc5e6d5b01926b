#!/bin/sh
# SPDX-License-Identifier: MIT
# The guest's root image: Debian's userland, our glibc, the workloads and the agent. Read-only, compressed.
# In: /in/root, /in/glibc, /in/workloads, /in/agent; scratch: /obj; out: /out.
set -eu
tree=/obj/tree
mkdir $tree
tar -C /in/root --one-file-system -c \
	--exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale --exclude=./usr/share/info \
	--exclude=./var/cache --exclude=./var/lib/apt --exclude=./var/lib/dpkg --exclude=./usr/share/i18n \
	--exclude='./usr/lib/x86_64-linux-gnu/perl*' --exclude='*/__pycache__/*.opt-?.pyc' --exclude=./.mmdebstrap.log \
	--exclude=./usr/include --exclude='./usr/lib/jvm/*/jmods' \
	. | tar -C /obj/tree -x
[ ! -d /in/glibc ] || cp -a /in/glibc/. /obj/tree/
mkdir -p /obj/tree/abh/workloads /obj/tree/init.d /obj/tree/proc /obj/tree/sys /obj/tree/dev /obj/tree/tmp /obj/tree/run
cp -a /in/workloads/. /obj/tree/abh/workloads/
cp /in/agent/abh-init /in/agent/abh-fragment /obj/tree/abh/
# Of the machine and the day that the root was made on nothing goes into the image.
: >"$tree/etc/resolv.conf"
echo abh >"$tree/etc/hostname"
[ ! -e "$tree/etc/shadow" ] || sed -i 's/^\([^:]*:[^:]*:\)[0-9]*/\10/' "$tree/etc/shadow"
mkfs.erofs --quiet -zlz4 --all-root -T0 -U6b1f3f3e-7a34-4f3a-9a52-0c6f7a0b0002 /out/guest.erofs /obj/tree
# The last 8 KiB of the disk carry the cell (agent/protocol.h).
truncate -s %4096 /out/guest.erofs
truncate -s +8192 /out/guest.erofs
