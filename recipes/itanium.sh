#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the program that is the Itanium machine.
# In: /main (the checkout); out: /out.
workspace=itanium
# shellcheck source=hypervisor/mmu-model/debian.sh
. /main/hypervisor/mmu-model/debian.sh
cargo build --release -p itanium
cp /cache/cargo-target/release/itanium /out/
