// SPDX-License-Identifier: MIT
//! Large pages in tables that have an entry for each base page: the large page's entry stands in every base page's slot
//! (Elphinstone 1999, beside figure 3.7, of hashed tables; linear and inverted ones know no other way).
//!
//! A refill loads a slot, or the two of a pair of base pages. So that it need not know sizes, the two slots hold what the
//! TLB takes: of a large pair its even page's entry and its odd one's, over both pages.

use mmu_model::address::PageSize;

use crate::table::{Space, Store};

const BASE: u64 = 4096;

/// A table of slots, one for each base page.
pub trait Slots {
    /// The TLB takes pairs, and both slots of a pair of base pages are loaded at once.
    fn couples(&self) -> bool;

    /// What is in the slot of the base page at this address; 0: nothing.
    fn read(&self, store: &Store, space: Space, address: u64) -> u32;

    /// Write a slot.
    fn write(&mut self, store: &mut Store, space: Space, address: u64, entry: u32);
}

/// Bytes of what goes together: a page, or a pair of large pages.
const fn span(size: PageSize, pairs: bool) -> u64 {
    if pairs && size.shift() > 12 { 2 * size.bytes() } else { size.bytes() }
}

/// The size of what is in the slot of an address or in its neighbour, if it is large or its own.
fn size_at(table: &impl Slots, store: &Store, space: Space, address: u64) -> Option<PageSize> {
    let size = |address| store.pages.get(table.read(store, space, address)).map(|page| page.size);
    let own = size(address);
    if own.is_some() || !table.couples() { own } else { size(address ^ BASE).filter(|size| *size > PageSize::K4) }
}

/// The slot that a refill of an address uses, where pages have this size.
fn slot(table: &impl Slots, address: u64, size: PageSize) -> u64 {
    if table.couples() && size > PageSize::K4 {
        address & !(2 * BASE - 1) | (address >> size.shift() & 1) << 12
    } else {
        address
    }
}

/// The entry for an address and the size of its page.
pub fn get(table: &impl Slots, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
    let size = size_at(table, store, space, address).unwrap_or(PageSize::K4);
    (table.read(store, space, slot(table, address, size)), size)
}

/// As [`crate::table::Table::set`]. Whether the TLB takes pairs; then a large page goes and comes with the other of its
/// pair.
pub fn set<T: Slots>(
    table: &mut T,
    store: &mut Store,
    (space, address): (Space, u64),
    size: PageSize,
    entry: u32,
    pairs: bool,
) -> Vec<u32> {
    let mut gone = vec![];
    let mut write = |table: &mut T, store: &mut Store, address: u64, entry: u32| {
        let old = table.read(store, space, address);
        if old != entry {
            gone.push(old);
            table.write(store, space, address, entry);
        }
    };
    let (bytes, large) = (span(size, pairs), size > PageSize::K4);
    let begin = address & !(bytes - 1);
    for at in (begin..=begin + (bytes - 1)).step_by(BASE as usize) {
        if let Some(other) = size_at(table, store, space, at).filter(|other| *other != size) {
            let (first, other) = (at & !(span(other, pairs) - 1), span(other, pairs));
            (first..=first + (other - 1)).step_by(BASE as usize).for_each(|at| write(table, store, at, 0));
        }
    }
    if large && table.couples() {
        let half = (address >> size.shift() & 1) * BASE;
        (begin..=begin + (bytes - 1)).step_by(2 * BASE as usize).for_each(|at| write(table, store, at + half, entry));
    } else {
        let end = address + (size.bytes() - 1);
        (address..=end).step_by(BASE as usize).for_each(|at| write(table, store, at, entry));
    }
    gone.retain(|old| *old != 0);
    gone.sort_unstable();
    gone.dedup();
    gone
}

/// The sizes of tables that replicate: up to 16 MiB, the largest of the thesis's machine. A page of 1 GiB in 262,144 slots
/// would be nobody's wish.
pub fn sizes() -> Vec<PageSize> {
    (12..=24).map(PageSize::of_shift).collect()
}
