#!/bin/sh
# SPDX-License-Identifier: MIT
# Style and tests of the MMU model. What is kept is the log; a later run finds that these sources passed.
# In: /main (the checkout), network; scratch: /obj; out: /out.
set -eu
cd /main/hypervisor/mmu-model
export CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/obj CARGO_TERM_COLOR=never CARGO_NET_RETRY=5
export CARGO_HTTP_CAINFO="$SSL_CERT_FILE"
cargo fmt --all --check
cargo clippy --locked --release --workspace --all-targets -- -D warnings
cargo test --locked --release --workspace
