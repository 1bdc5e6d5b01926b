// SPDX-License-Identifier: MIT
//! A computer around an Itanium processor. [`Machine`] has all of it: a kernel is started with [`Machine::boot`], and runs
//! until it ends, or something that cannot go on is told of. Nothing here looks at the time or at chance: a run is decided
//! by what it was started with.
//!
//! The firmware is Rust ([`efi`], [`sal`], [`pal`]) behind a few bundles in memory, whose breaks call it.

pub mod acpi;
pub mod board;
pub mod bytes;
pub mod efi;
pub mod elf;
pub mod firmware;
pub mod machine;
pub mod map;
pub mod pal;
pub mod sal;
pub mod sapic;
pub mod snapshot;
pub mod uart;

pub use itanium_cpu::Stuck;
pub use machine::{Counted, End, Machine, Refused, Setup};
