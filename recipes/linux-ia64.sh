#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds a kernel for Itanium with exactly the options of the folders of kconfig in $READS, as linux.sh does for this computer.
# In: /src (patched), /main (the checkout), /in/ia64-gcc; scratch: /obj; out: /out.
set -eu
export ARCH=ia64 CROSS_COMPILE=ia64-linux-gnu- PATH=/in/ia64-gcc/bin:"$PATH"
# shellcheck disable=SC2086 # words
READS=$(printf '%s\n' $READS | grep /kconfig/)
export READS
# The configuration, and the check that no option got lost, are those of any kernel here.
sed '/^export KBUILD/,$d' /main/recipes/linux.sh >/obj/configure.sh
# shellcheck source=/dev/null # made just now
. /obj/configure.sh
export KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=abh KBUILD_BUILD_HOST=abh
make O=/obj CC="ccache ${CROSS_COMPILE}gcc" -j"$(nproc)" vmlinux
cp /obj/vmlinux /obj/System.map /out/
cp /obj/.config /out/config
