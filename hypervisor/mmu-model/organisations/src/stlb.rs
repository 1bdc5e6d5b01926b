// SPDX-License-Identifier: MIT
//! A second-level TLB in memory, searched by software before a table: Elphinstone 1999, chapter 5.
//!
//! One for all spaces. An entry has 16 bytes: a tag of 8 with the pair's address and its space, and the pair's two
//! entries. The set is the low bits of the pair's number; both ways of a set lie in a line of 32 bytes.

use mmu_model::address::{Machine, PageSize};

use crate::table::{Level, Pair, Shape, Space, Store, Table, Visit};

const ENTRY: u64 = 16;
/// Spaces that a tag can name.
const SPACES: Space = 1 << 13;
/// Instructions of a refill served by the first way (table 6.4: 19 of a direct-mapped one, 20 or 22 of two ways).
const DIRECT: u64 = 19;
const FIRST: u64 = 20;
const SECOND: u64 = 22;
/// Of them, those before the tags were seen to differ: an assumption.
const IN_VAIN: u64 = 11;
/// Instructions that store what the table had: an assumption.
const FILL: u64 = 6;

/// A software TLB before a table.
pub struct Stlb {
    entries: u64,
    ways: u64,
    table: Box<dyn Table>,
    at: Option<Machine>,
}

impl Stlb {
    /// So many entries in sets of one or two, before this table.
    pub fn new(entries: u64, ways: u64, table: Box<dyn Table>) -> Self {
        assert!((1..=2).contains(&ways) && (entries / ways).is_power_of_two());
        Self { entries, ways, table, at: None }
    }

    fn base(&mut self, store: &mut Store) -> Machine {
        *self.at.get_or_insert_with(|| {
            let at = store.arena.take(self.entries * ENTRY, 4096);
            (0..self.entries).for_each(|i| store.arena.put64(at.plus(i * ENTRY), u64::MAX));
            at
        })
    }

    fn set_at(&self, base: Machine, address: u64) -> Machine {
        base.plus((address >> 13 & (self.entries / self.ways - 1)) * self.ways * ENTRY)
    }

    const fn tag(space: Space, address: u64) -> u64 {
        address & !0x1fff | space as u64
    }
}

impl Table for Stlb {
    fn sizes(&self) -> &[PageSize] {
        self.table.sizes()
    }

    fn bits(&self) -> u32 {
        self.table.bits()
    }

    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32> {
        self.table.set(store, space, address, size, entry)
    }

    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
        self.table.get(store, space, address)
    }

    fn within(&self, store: &Store, space: Space, begin: u64, bytes: u64) -> Vec<(u64, PageSize)> {
        self.table.within(store, space, begin, bytes)
    }

    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair> {
        if space >= SPACES {
            return self.table.refill(store, space, address, visit);
        }
        let base = self.base(store);
        let (first, tag) = (self.set_at(base, address), Self::tag(space, address));
        let found = [DIRECT, FIRST, SECOND][if self.ways == 1 { 0..1 } else { 1..3 }].iter().zip(0..self.ways);
        for (instructions, way) in found {
            let at = first.plus(way * ENTRY);
            visit.load(Level::User, at, 8);
            if store.arena.get64(at) == tag {
                visit.run(Level::User, 0, *instructions);
                visit.load(Level::User, at.plus(8), 8);
                visit.short_cut();
                return Some([store.arena.get32(at.plus(8)), store.arena.get32(at.plus(12))]);
            }
        }
        visit.run(Level::User, 0, IN_VAIN);
        let pair = self.table.refill(store, space, address, visit)?;
        // Only pairs of base pages have a set of their own.
        if pair.into_iter().filter_map(|entry| store.pages.get(entry)).all(|page| page.size == PageSize::K4) {
            visit.run(Level::User, 64, FILL);
            if self.ways == 2 {
                // The older of a set gives way.
                let (old_tag, old) = (store.arena.get64(first), store.arena.get64(first.plus(8)));
                store.arena.put64(first.plus(ENTRY), old_tag);
                store.arena.put64(first.plus(ENTRY + 8), old);
            }
            visit.load(Level::User, first, ENTRY);
            store.arena.put64(first, tag);
            store.arena.put32(first.plus(8), pair[0]);
            store.arena.put32(first.plus(12), pair[1]);
        }
        Some(pair)
    }

    fn changed(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize) {
        self.table.changed(store, space, address, size);
        let Some(base) = self.at else { return };
        let last = address + (size.bytes() - 1); // the end itself may be 2^64
        // An entry goes if its pair meets what changed; a large page is compared with all.
        if size.bytes() / 8192 >= self.entries {
            for i in 0..self.entries {
                let tag = store.arena.get64(base.plus(i * ENTRY));
                if tag & 0x1fff == u64::from(space) && (address..=last).contains(&(tag & !0x1fff)) {
                    store.arena.put64(base.plus(i * ENTRY), u64::MAX);
                }
            }
            return;
        }
        for pair in (address & !0x1fff..=last).step_by(8192) {
            for way in 0..self.ways {
                let at = self.set_at(base, pair).plus(way * ENTRY);
                if store.arena.get64(at) == Self::tag(space, pair) {
                    store.arena.put64(at, u64::MAX);
                }
            }
        }
    }

    /// Each page is unmapped, and searched for here.
    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32> {
        for half in [0, 1 << 63] {
            for (address, size) in self.table.within(store, space, half, 1 << 63) {
                self.changed(store, space, address, size);
            }
        }
        self.table.end(store, space)
    }

    /// As the thesis counts, without the software TLB's own bytes.
    fn shape(&self, store: &Store) -> Shape {
        let mut shape = self.table.shape(store);
        let own = if self.at.is_some() { self.entries * ENTRY } else { 0 };
        shape.insert("bytes", store.arena.used() - own);
        shape.insert("bytes_stlb", self.entries * ENTRY);
        shape
    }
}
