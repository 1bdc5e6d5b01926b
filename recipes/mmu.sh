#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the MMU model: the plugin for the emulated machine, and the program that replays traces. The crates it needs
# are those of Cargo.lock, fetched and compiled once; its own are compiled anew, as cargo judges sources by their dates.
# In: /main (the checkout), network; out: /out.
set -eu
cd /main/hypervisor/mmu-model
export CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/cache/cargo/target CARGO_TERM_COLOR=never CARGO_NET_RETRY=5
export CARGO_HTTP_CAINFO="$SSL_CERT_FILE"
mkdir -p "$CARGO_TARGET_DIR"
exec 9> "$CARGO_TARGET_DIR/lock"
flock 9
cargo clean --locked --release -p mmu-model -p mmu-trace -p abh-mmu -p mmu-plugin
cargo build --locked --release -p mmu-plugin -p abh-mmu
cp "$CARGO_TARGET_DIR/release/libmmu_plugin.so" /out/mmu.so
cp "$CARGO_TARGET_DIR/release/abh-mmu" /out/
