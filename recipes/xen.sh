#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the hypervisor with the options of vm-configs/kconfig/xen over its defaults.
# In: /src (patched), /main (the checkout); out: /out.
set -eu
cd /src/xen
cat /main/vm-configs/kconfig/xen/*.config > .config
make -s CC="ccache gcc" olddefconfig
grep '^CONFIG_.*=y' /main/vm-configs/kconfig/xen/*.config | sed 's/.*://' | while IFS= read -r line; do
	grep -qxF "$line" .config || { echo "option that this Xen does not take as asked: $line" >&2; exit 1; }
done
make CC="ccache gcc" XEN_BUILD_DATE=2026-01-01 XEN_BUILD_TIME=00:00:00 XEN_WHOAMI=abh XEN_DOMAIN=abh -j"$(nproc)" xen
cp xen /out/xen
cp .config /out/config
