#!/bin/sh
# SPDX-License-Identifier: MIT
# Style and tests of the MMU model, with the same compiled crates as recipes/mmu.sh. What is kept is the log: a later run
# finds that these sources passed.
# In: /main (the checkout), network.
set -eu
cd /main/hypervisor/mmu-model
export CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/cache/cargo/target CARGO_TERM_COLOR=never CARGO_NET_RETRY=5
export CARGO_HTTP_CAINFO="$SSL_CERT_FILE"
mkdir -p "$CARGO_TARGET_DIR"
exec 9> "$CARGO_TARGET_DIR/lock"
flock 9
cargo clean --locked --release -p mmu-model -p mmu-trace -p abh-mmu -p mmu-plugin
cargo fmt --all --check
cargo clippy --locked --release --workspace --all-targets -- -D warnings
cargo test --locked --release --workspace
