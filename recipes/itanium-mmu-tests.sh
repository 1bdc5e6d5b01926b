#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests of the walkers of the Itanium machine's MMU, and the thesis' small programs on it, which need nothing but Rust.
# What is kept is the log.
# In: /main (the checkout).
workspace=itanium
# shellcheck source=hypervisor/mmu-model/debian.sh
. /main/hypervisor/mmu-model/debian.sh
cargo test --release -p itanium-mmu --test walkers --test thesis
