#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs malloc's own tests: as they are, and a second time with glibc.malloc.abh (*-malloc-abh). Their summary is kept,
# and with it the results of elf's tests of tunables, whose list the series changes.
# In: /src (Debian's patches, then ours); scratch: /obj; out: /out/malloc.sum, a line "PASS: malloc/tst-…" for each.
set -eu
cd /obj
CC="ccache gcc" CXX="ccache g++" /src/configure --prefix=/usr --enable-stack-protector=strong --enable-bind-now \
	--disable-profile --disable-werror --disable-nscd --without-selinux
make -j"$(nproc)"
# In malloc's folder, as "make check" would first install the whole, manual included, which Debian's source lacks.
make -r -j"$(nproc)" -k -C /src/malloc subdir=malloc objdir=/obj ..=../ TIMEOUTFACTOR=10 tests || true # the summary judges
cp malloc/subdir-tests.sum /out/malloc.sum
for each in list-tunables tst-tunables tst-tunables-enable_secure tst-tunables-enable_secure-env; do
	make -r -j"$(nproc)" -C /src/elf subdir=elf objdir=/obj ..=../ TIMEOUTFACTOR=10 /obj/elf/$each.out || true # the same
	head -n 1 elf/$each.test-result >>/out/malloc.sum
done
grep -v '^PASS:' /out/malloc.sum || true # all have passed
# The variants of hugetlb need pages that an administrator has reserved.
if grep -E '^(FAIL|ERROR|UNRESOLVED|XPASS):' /out/malloc.sum | grep -v -e '-malloc-hugetlb[12]$'; then
	exit 1
fi
# Nothing that did not run has passed.
grep -q '^PASS: malloc/tst-realloc$' /out/malloc.sum
grep -q '^PASS: malloc/tst-realloc-malloc-abh$' /out/malloc.sum
grep -q '^PASS: elf/list-tunables$' /out/malloc.sum
