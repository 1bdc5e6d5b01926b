#!/bin/sh
# SPDX-License-Identifier: MIT
# The hosts' root image, with Python beside libvirt. No file in the image has a time, so Python's compiled modules, as
# Debian makes them, count as older than their sources: each start of Python would compile all anew, which takes most of
# its time. These here are taken as they are.
# In, scratch and out are as in host-image.sh.
set -eu
# shellcheck disable=SC1091 # it is in the checkout, which a recipe has there
. /main/recipes/host-image.sh
# shellcheck disable=SC2154 # tree is host-image.sh's
python3 -m compileall -q -f -j 0 --invalidation-mode unchecked-hash -s "$tree" -p / \
	"$tree/usr/lib/python3" "$tree"/usr/lib/python3.*
mkfs.erofs --quiet -zlz4 --all-root -T0 -U6b1f3f3e-7a34-4f3a-9a52-0c6f7a0b0003 /out/host.erofs "$tree"
