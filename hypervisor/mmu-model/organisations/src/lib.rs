// SPDX-License-Identifier: MIT
//! Organisations of page tables and TLB refill that two classics compared, each in a file, on the MMU of [`mmu_model`].
//!
//! An organisation is a [`table::Table`]: how it maps, unmaps and refills. [`software::Software`] makes an
//! [`mmu_model::organisation::Organisation`] of it: it keeps the table as the trace's own tables say, and checks each
//! refill against them. [`catalogue`] knows all by name.

pub mod arena;
pub mod base;
pub mod caches;
pub mod catalogue;
pub mod entry;
pub mod front;
pub mod guarded;
pub mod hashed;
pub mod inverted;
pub mod kept;
pub mod linear;
pub mod machine;
pub mod multilevel;
pub mod nested;
pub mod operations;
pub mod programs;
pub mod replicated;
pub mod software;
pub mod stlb;
pub mod table;
pub mod tally;
pub mod thesis;
