# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by recipes/mmu.sh and recipes/mmu-tests.sh: goes into a copy of the workspace where cargo builds with Debian's
# crates. One build at a time: they share what is compiled. The copy is made under the lock, so that it is newer than
# whatever an earlier build has left, as cargo judges sources by their dates.
set -eu
mkdir -p /cache/cargo-target
exec 9> /cache/cargo-target/lock
flock 9
tar -c -C /main/hypervisor --exclude=target --exclude=Cargo.lock mmu-model | tar -xm -C /obj
cd /obj/mmu-model
export CARGO_HOME=/obj/cargo
mkdir "$CARGO_HOME"
cp debian.toml "$CARGO_HOME/config.toml"
