// SPDX-License-Identifier: MIT
//! A software TLB before tables that hardware walks, in one dimension or two: the thesis's direct-mapped one (Elphinstone
//! 1999, chapter 5), read by the walker, as its conclusion proposes.
//!
//! Entries have 16 bytes, one for each page: what all dimensions say together. Base pages and large ones have a half
//! each, as the thesis suggests for two sizes, and a lookup reads one after the other.

use mmu_model::address::PageSize;

use crate::table::{Page, Space};

const ENTRY: u64 = 16;
/// Where it lies: in the machine's memory, apart from all tables.
const AT: u64 = 3 << 45;

/// Whose page, its number, and what it is.
type Entry = Option<(Space, u64, Page)>;

/// The software TLB.
#[derive(Debug)]
pub struct Front {
    /// Of each size, its pages by set.
    halves: Vec<(PageSize, Vec<Entry>)>,
}

impl Front {
    /// Of so many entries, a power of two; with a half for large pages of one size, if there are such.
    pub fn new(entries: u64, large: Option<PageSize>) -> Self {
        assert!(entries.is_power_of_two() && entries > 1);
        let sizes: Vec<_> = std::iter::once(PageSize::K4).chain(large).collect();
        let each = entries as usize / sizes.len();
        Self { halves: sizes.into_iter().map(|size| (size, vec![None; each])).collect() }
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.halves.iter().map(|(_, entries)| entries.len() as u64 * ENTRY).sum()
    }

    /// Whether it has this page of an address; `read` is told what is looked at. An entry that says something else is of a
    /// mapping that has been changed: whoever changed it has invalidated it.
    pub fn find(&self, space: Space, address: u64, page: &Page, mut read: impl FnMut(u64, u64)) -> bool {
        let mut begin = AT;
        for (size, entries) in &self.halves {
            let (number, set) = Self::place(*size, entries.len(), address);
            read(begin + set as u64 * ENTRY, ENTRY);
            if entries[set] == Some((space, number, *page)) {
                return true;
            }
            begin += entries.len() as u64 * ENTRY;
        }
        false
    }

    /// Keep a page; one of a size that has no half is not kept.
    pub fn fill(&mut self, space: Space, address: u64, page: &Page) {
        if let Some((size, entries)) = self.halves.iter_mut().find(|(size, _)| *size == page.size) {
            let (number, set) = Self::place(*size, entries.len(), address);
            entries[set] = Some((space, number, *page));
        }
    }

    const fn place(size: PageSize, entries: usize, address: u64) -> (u64, usize) {
        let number = address >> size.shift();
        (number, number as usize & (entries - 1))
    }
}
