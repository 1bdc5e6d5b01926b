#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the hypervisor as xen.sh does, with what takes things away from it (tests/xen/mutants) over the series.
# In: /src (patched), /main (the checkout); out: /out.
set -eu
patch -d /src -p1 -F0 --no-backup-if-mismatch </main/tests/xen/mutants/mutants.patch
READS="vm-configs/kconfig/xen vm-configs/kconfig/xen-debug" exec sh /main/recipes/xen.sh
