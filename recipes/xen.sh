#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the hypervisor with the options of the folders $READS over its defaults. Where two give an option, the last holds.
# In: /src (patched), /main (the checkout); out: /out.
set -eu
cd /src/xen
for folder in $READS; do
	cat "/main/$folder"/*.config
done | awk -F= '/^CONFIG_/ { option[$1] = $0 } END { for (name in option) print option[name] }' | sort > /obj/wanted.config
cp /obj/wanted.config .config
make -s CC="ccache gcc" olddefconfig
grep '=y$' /obj/wanted.config | while IFS= read -r line; do
	grep -qxF "$line" .config || { echo "option that this Xen does not take as asked: $line" >&2; exit 1; }
done
make CC="ccache gcc" XEN_BUILD_DATE=2026-01-01 XEN_BUILD_TIME=00:00:00 XEN_WHOAMI=abh XEN_DOMAIN=abh -j"$(nproc)" xen
cp xen /out/xen
cp .config /out/config
