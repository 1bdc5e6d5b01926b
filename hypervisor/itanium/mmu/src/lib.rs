// SPDX-License-Identifier: MIT
//! The memory management unit of an Itanium processor: regions, protection keys, translation registers and caches, and
//! both walkers of the virtual hash page table (VHPT).
//!
//! It knows nothing of the processor: whoever uses it passes the bits of the processor status register that matter,
//! lets it read memory, and writes the interruption registers from the [`fault::Fault`] that comes back. See
//! [`mmu::Mmu`].
//!
//! Where a rule comes from stands beside it: "SDM" is Intel's *Itanium Architecture Software Developer's Manual*,
//! revision 2.3, by volume and section; "thesis" is Wienand 2008; "choice" is ours where the manual leaves one.

pub mod config;
pub mod counters;
pub mod fault;
pub mod fields;
mod first;
mod insert;
pub mod mmu;
mod purge;
mod replace;
pub mod rights;
pub mod tlb;
mod translate;
pub mod walker;
