#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the MMU model: the plugin for the emulated machine, and the program that replays traces.
# The crates are those of Cargo.lock, fetched once and kept beside the compiler's cache.
# In: /main (the checkout), network; scratch: /obj; out: /out.
set -eu
cd /main/hypervisor/mmu-model
export CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/obj CARGO_TERM_COLOR=never CARGO_NET_RETRY=5
export CARGO_HTTP_CAINFO="$SSL_CERT_FILE"
cargo build --locked --release -p mmu-plugin -p abh-mmu
cp /obj/release/libmmu_plugin.so /out/mmu.so
cp /obj/release/abh-mmu /out/
