// SPDX-License-Identifier: MIT
//! What processors differ in, and what is ours to try.

use serde::{Deserialize, Serialize};

/// Which entry of a full translation cache goes. The architecture leaves it open, and so does the thesis; each of these
/// does the same in every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Replacement {
    /// That which was used least recently.
    Lru,
    /// That which came first.
    Fifo,
    /// Any, drawn from this seed.
    Random(u64),
}

/// Where the walker of the short format takes the size of a page from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SizeFrom {
    /// The region register, as in every Itanium processor (SDM vol. 2, 4.1.5.3).
    Region,
    /// Bits 58:53 of the entry, which the processor ignores and software may use; 0 there means the region's. No
    /// processor does this: it is the thesis' future work (7.2.5).
    Ignored,
    /// A second word: entries have 16 bytes, of which the latter half is an ITIR. No processor does this: it is the
    /// thesis' future work with its page table of wide entries (5.2.1, 7.2.5).
    Wide,
}

/// A processor's MMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Entries of each second-level translation cache, of instructions and of data (thesis 4.2: 128).
    pub cache_entries: usize,
    /// Entries of each first-level TLB, which are of 4 KiB; 0: there is none (thesis 4.2: 32).
    pub first_entries: usize,
    /// Translation registers of each kind (SDM vol. 2, 4.1.1.1: 8 at least). They take no place of the caches: a choice.
    pub registers: usize,
    /// Which entry of a full cache goes.
    pub replacement: Replacement,
    /// The highest bit of an address within a region that is implemented, 50 to 60 (SDM vol. 2, 4.3.2).
    pub virtual_msb: u32,
    /// Bits of a physical address, 32 to 50 here: what the field `ppn` reaches (SDM vol. 2, 4.3.1 has up to 63).
    pub physical_bits: u32,
    /// Protection key registers (SDM vol. 2, 4.1.3: 16 at least).
    pub keys: usize,
    /// Where the walker of the short format takes a page's size from.
    pub size_from: SizeFrom,
    /// Bytes of a cache line, for the count of lines that the walker touches (thesis 4.2: 128 in the second level).
    pub line_bytes: u64,
}

impl Default for Config {
    /// An Itanium 2 as the thesis had it.
    fn default() -> Self {
        Self {
            cache_entries: 128,
            first_entries: 32,
            registers: 8,
            replacement: Replacement::Lru,
            virtual_msb: 60,
            physical_bits: 50,
            keys: 16,
            size_from: SizeFrom::Region,
            line_bytes: 128,
        }
    }
}
