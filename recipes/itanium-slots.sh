#!/bin/sh
# SPDX-License-Identifier: MIT
# Random bundles, disassembled. In: /main (the checkout); out: /out.
set -eu
perl /main/hypervisor/itanium/decode/tests/slots.pl 400000 > /obj/bundles
ia64-linux-gnu-objdump -D -z -b binary -m ia64-elf64 /obj/bundles | gzip > /out/slots.gz
