# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by the recipes that run cargo: goes into a copy of a workspace, the folder of hypervisor/ that `workspace` names,
# where cargo builds with Debian's crates. One build at a time: they share what is compiled. The copy is made under the
# lock, so that it is newer than whatever an earlier build has left, as cargo judges sources by their dates.
set -eu
: "${workspace:=mmu-model}"
mkdir -p /cache/cargo-target
exec 9> /cache/cargo-target/lock
flock 9
tar -c -C /main/hypervisor --exclude=target --exclude=Cargo.lock "$workspace" | tar -xm -C /obj
cd "/obj/$workspace"
export CARGO_HOME=/obj/cargo
mkdir "$CARGO_HOME"
cp /main/hypervisor/mmu-model/debian.toml "$CARGO_HOME/config.toml"
