#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the program that is the Itanium machine.
# In: /main (the checkout); out: /out.
workspace=itanium
# shellcheck source=hypervisor/mmu-model/debian.sh
. /main/hypervisor/mmu-model/debian.sh
# Across crates: a tenth faster. Not in Cargo.toml, where it would be for each program of the tests, too.
CARGO_PROFILE_RELEASE_LTO=fat cargo build --release -p itanium
cp /cache/cargo-target/release/itanium /out/
