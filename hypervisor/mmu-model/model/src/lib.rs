// SPDX-License-Identifier: MIT
//! A model of an MMU: TLBs, page walks in one and two dimensions, and what they cost.
//!
//! It knows nothing of emulators: whoever uses it tells it who runs, what is accessed and what is invalidated, and
//! lets it read page tables. See [`mmu::Mmu`].

pub mod address;
pub mod assoc;
pub mod cache;
pub mod context;
pub mod counters;
pub mod cpu;
pub mod estimate;
pub mod invalidate;
pub mod memory;
pub mod mmu;
mod numbered;
pub mod organisation;
pub mod perf;
mod shortcut;
pub mod synthetic;
pub mod tag;
pub mod tlb;
pub mod walk;
pub mod x86;
