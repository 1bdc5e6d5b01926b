#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the MMU model: the plugin for the emulated machine, and the program that replays traces.
# In: /main (the checkout); out: /out.
# shellcheck source=hypervisor/mmu-model/debian.sh
. /main/hypervisor/mmu-model/debian.sh
cargo build --release -p mmu-plugin -p abh-mmu
cp /cache/cargo-target/release/libmmu_plugin.so /out/mmu.so
cp /cache/cargo-target/release/abh-mmu /out/
