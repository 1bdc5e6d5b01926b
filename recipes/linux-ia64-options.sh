#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the kernel of the Itanium machine with other options: those of all folders of kconfig in $READS.
# In, scratch and out: as linux-ia64.sh has them.
set -eu
# shellcheck disable=SC2086 # words
READS=$(printf '%s\n' $READS | grep /kconfig/)
export READS
grep -v '^export READS=' /main/recipes/linux-ia64.sh >/obj/build.sh
# shellcheck source=/dev/null # made just now
. /obj/build.sh
