#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes the headers that a kernel for Itanium has for programs.
# In: /src (as it is); scratch: /obj; out: /out/include.
set -eu
make -s -C /src ARCH=ia64 O=/obj INSTALL_HDR_PATH=/out headers_install
