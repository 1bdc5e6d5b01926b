#!/bin/sh
# SPDX-License-Identifier: MIT
# The hosts' root image, with xl, libxl and libxenguest of the series in place of Debian's. What they were built against
# is Debian's.
# In: as in host-image.sh, and /in/xen-tools; scratch and out as there.
set -eu
# shellcheck disable=SC1091 # it is in the checkout, which a recipe has there
. /main/recipes/host-image.sh
# shellcheck disable=SC2154 # tree is host-image.sh's
for library in libxenlight libxenguest; do
	there=$(readlink -e "$tree/usr/lib/x86_64-linux-gnu/$library.so.4.20")
	cp "/in/xen-tools/$library.so.4.20" "$there"
done
[ -x "$tree/usr/lib/xen-4.20/bin/xl" ]
cp /in/xen-tools/xl "$tree/usr/lib/xen-4.20/bin/xl"
mkfs.erofs --quiet -zlz4 --all-root -T0 -U6b1f3f3e-7a34-4f3a-9a52-0c6f7a0b0003 /out/host.erofs "$tree"
