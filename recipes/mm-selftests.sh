#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the patched kernel's own tests of memory management: static, so that they need no system around them. Those
# that want a library which the build root has not (libcap, libnuma) are left out.
# In: /src (patched); out: /out.
set -eu
cd /src
make -s headers
make -k -C tools/testing/selftests TARGETS=mm CC="ccache gcc" LDFLAGS=-static EXTRA_CFLAGS="-w -DKSFT_SKIP=4" || true # khugepaged.c of 6.12 lacks the include
cd tools/testing/selftests/mm
find . -maxdepth 1 -type f -perm -u+x ! -name '*.sh' ! -name '*.py' -exec cp {} /out/ \;
strip /out/*
ls /out/mremap_test /out/map_fixed_noreplace /out/mlock2-tests > /dev/null # else all failed
