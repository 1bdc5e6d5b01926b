#!/bin/sh
# SPDX-License-Identifier: MIT
# An initramfs that holds a root image and the agent that attaches it. Not compressed: the image is.
# In: /in/image (one *.erofs), /in/agent, for a host also /in/guest-image and /in/linux; scratch: /obj; out: /out.
set -eu
mkdir -p /obj/tree/images
cd /obj/tree
cp /in/agent/abh-init init
cp /in/image/*.erofs root.erofs
[ ! -d /in/guest-image ] || cp /in/guest-image/guest.erofs /in/linux/vmlinuz images/
find . -exec touch -h -d @0 {} +
find . | LC_ALL=C sort | cpio --quiet -o -H newc --reproducible --owner=0:0 > /out/initramfs.cpio
