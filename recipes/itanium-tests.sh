#!/bin/sh
# SPDX-License-Identifier: MIT
# Style and tests of the Itanium machine's crates. What is kept is the log: a later run finds that these sources passed.
# In: /main (the checkout), /in/itanium-slots (what a disassembler says, for ours to be compared with).
workspace=itanium
# shellcheck source=hypervisor/mmu-model/debian.sh
. /main/hypervisor/mmu-model/debian.sh
cargo fmt --all --check
cargo clippy --release --workspace --all-targets -- -D warnings
zcat /in/itanium-slots/slots.gz > /obj/slots
ITANIUM_SLOTS=/obj/slots cargo test --release --workspace
