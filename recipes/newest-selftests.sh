#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the test that the series adds to the kernel's own: static, so that it needs no system around it.
# In: /src (patched); out: /out.
set -eu
cd /src
make -s headers
cd tools/testing/selftests
gcc -O2 -static -D_GNU_SOURCE -Wno-cpp -isystem ../../../usr/include -I . -o /out/brk_ahead mm/brk_ahead.c
strip /out/brk_ahead
