#!/bin/sh
# SPDX-License-Identifier: MIT
# The hosts' root image, with xl and libxl of the series in place of Debian's. What it was built against is Debian's.
# In: as in host-image.sh, and /in/xen-tools; scratch and out as there.
set -eu
# shellcheck disable=SC1091 # it is in the checkout, which a recipe has there
. /main/recipes/host-image.sh
# shellcheck disable=SC2154 # tree is host-image.sh's
library=$(readlink -e "$tree/usr/lib/x86_64-linux-gnu/libxenlight.so.4.20")
[ -x "$tree/usr/lib/xen-4.20/bin/xl" ]
cp /in/xen-tools/libxenlight.so.4.20 "$library"
cp /in/xen-tools/xl "$tree/usr/lib/xen-4.20/bin/xl"
mkfs.erofs --quiet -zlz4 --all-root -T0 -U6b1f3f3e-7a34-4f3a-9a52-0c6f7a0b0003 /out/host.erofs "$tree"
