// SPDX-License-Identifier: MIT
//! The hashed, inverted table of PA-RISC as Huck and Hays describe it: Jacob & Mudge 1998, section 3.1.
//!
//! One table for all spaces, of entries of 16 bytes: tag, page's entry, link. The hash is one XOR of upper bits of the
//! virtual address, which name the space too, with the low bits of the page's number. What collides is chained in a
//! second table without bound. A large page has an entry for each of its base pages.
//!
//! And the inverted table behind an anchor table, which the thesis surveys (section 2.3): pointers of 4 bytes by hash, to
//! chains of entries that lie elsewhere, one a frame. Ours has one a mapping: what is mapped twice has two.

use std::collections::BTreeSet;

use mmu_model::address::{Machine, PageSize};

use crate::arena::{long, short};
use crate::replicated::{self, Slots};
use crate::table::{Level, Pair, Shape, Space, Store, Table, Visit};

const ENTRY: u64 = 16;
/// Instructions of the handler (table 4).
const INSTRUCTIONS: u64 = 20;
/// Of an anchor.
const ANCHOR: u64 = 4;
/// Instructions more for it: its address and its load; an assumption.
const ANCHORED: u64 = 2;

/// The table.
#[derive(Debug)]
pub struct Inverted {
    entries: u64,
    /// What the hash chooses are pointers.
    anchored: bool,
    at: Option<Machine>,
    /// What is mapped, for a task's end: the table itself cannot be searched by space.
    mapped: BTreeSet<(Space, u64)>,
    chained: u64,
    sizes: Vec<PageSize>,
    /// The TLB takes pairs: the other of one stays invalid, for one entry is loaded at a time.
    pairs: bool,
}

impl Inverted {
    /// Of so many entries, a power of two, for a TLB that takes pairs or not.
    pub fn new(entries: u64, pairs: bool) -> Self {
        assert!(entries.is_power_of_two());
        let sizes = replicated::sizes();
        Self { entries, anchored: false, at: None, mapped: BTreeSet::new(), chained: 0, sizes, pairs }
    }

    /// Behind so many anchors.
    pub fn behind_anchors(anchors: u64, pairs: bool) -> Self {
        Self { anchored: true, ..Self::new(anchors, pairs) }
    }

    /// Bytes of what the hash chooses.
    const fn slot(&self) -> u64 {
        if self.anchored { ANCHOR } else { ENTRY }
    }

    fn base(&mut self, store: &mut Store) -> Machine {
        let bytes = self.entries * self.slot();
        *self.at.get_or_insert_with(|| store.arena.take(bytes, 4096))
    }

    /// Page and space, and a bit that tells them from none.
    const fn tag(space: Space, address: u64) -> u64 {
        (address << 16 >> 28) << 27 | (space as u64) << 1 | 1
    }

    fn head(&self, base: Machine, space: Space, address: u64) -> Machine {
        let page = address << 16 >> 28;
        // Upper bits of the long address: the space, and what of the page's number is above the index.
        let upper = page >> self.entries.trailing_zeros() ^ u64::from(space);
        base.plus(((page ^ upper) & (self.entries - 1)) * self.slot())
    }

    /// The first entry of a chain; there always is one, though empty, where there are no anchors.
    fn first(&self, store: &Store, head: Machine) -> Option<Machine> {
        if self.anchored { long(store.arena.get32(head)) } else { Some(head) }
    }

    fn find(&self, store: &Store, space: Space, address: u64) -> Option<(Machine, Option<Machine>)> {
        let mut entry = self.first(store, self.head(self.at?, space, address))?;
        let mut before = None;
        loop {
            if store.arena.get64(entry) == Self::tag(space, address) {
                return Some((entry, before));
            }
            before = Some(entry);
            entry = long(store.arena.get32(entry.plus(12)))?;
        }
    }

    fn remove(&mut self, store: &mut Store, head: Machine, entry: Machine, before: Option<Machine>) {
        let arena = &mut store.arena;
        let next = arena.get32(entry.plus(12));
        let goes = match (before, long(next)) {
            (Some(before), _) => {
                arena.put32(before.plus(12), next);
                entry
            }
            (None, _) if self.anchored => {
                arena.put32(head, next);
                self.chained += u64::from(next == 0); // it was the only one, and none of a chain
                entry
            }
            (None, Some(second)) => {
                for word in [0, 8] {
                    let value = arena.get64(second.plus(word));
                    arena.put64(entry.plus(word), value);
                }
                second
            }
            (None, None) => {
                arena.put64(entry, 0);
                arena.put64(entry.plus(8), 0);
                return;
            }
        };
        arena.give_back(goes, ENTRY, ENTRY);
        self.chained -= 1;
    }
}

impl Slots for Inverted {
    fn couples(&self) -> bool {
        false
    }

    fn read(&self, store: &Store, space: Space, address: u64) -> u32 {
        self.find(store, space, address).map_or(0, |(at, _)| store.arena.get32(at.plus(8)))
    }

    fn write(&mut self, store: &mut Store, space: Space, address: u64, entry: u32) {
        let base = self.base(store);
        if let Some((at, before)) = self.find(store, space, address) {
            store.arena.put32(at.plus(8), entry);
            if entry == 0 {
                self.mapped.remove(&(space, address));
                let head = self.head(base, space, address);
                self.remove(store, head, at, before);
            }
            return;
        }
        if entry == 0 {
            return;
        }
        self.mapped.insert((space, address));
        let head = self.head(base, space, address);
        let first = self.first(store, head);
        let at = match first {
            Some(first) if store.arena.get64(first) == 0 => first,
            Some(mut last) => {
                // Chains grow at their end, where the handler comes last.
                while let Some(next) = long(store.arena.get32(last.plus(12))) {
                    last = next;
                }
                let at = store.arena.take(ENTRY, ENTRY);
                self.chained += 1;
                store.arena.put32(last.plus(12), short(at));
                at
            }
            None => {
                let at = store.arena.take(ENTRY, ENTRY);
                store.arena.put32(head, short(at));
                at
            }
        };
        store.arena.put64(at, Self::tag(space, address));
        store.arena.put32(at.plus(8), entry);
    }
}

impl Table for Inverted {
    fn sizes(&self) -> &[PageSize] {
        &self.sizes
    }

    fn bits(&self) -> u32 {
        48
    }

    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32> {
        let pairs = self.pairs;
        replicated::set(self, store, (space, address), size, entry, pairs)
    }

    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
        replicated::get(self, store, space, address)
    }

    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair> {
        visit.interrupt(Level::User);
        visit.run(Level::User, 0, INSTRUCTIONS + if self.anchored { ANCHORED } else { 0 });
        let head = self.head(self.at?, space, address);
        if self.anchored {
            visit.load(Level::User, head, ANCHOR);
        }
        let mut entry = self.first(store, head)?;
        loop {
            visit.load(Level::User, entry, ENTRY);
            if store.arena.get64(entry) == Self::tag(space, address) {
                let (mut pair, found) = ([0; 2], store.arena.get32(entry.plus(8)));
                let size = store.pages.get(found).map_or(PageSize::K4, |page| page.size);
                pair[(address >> size.shift() & 1) as usize] = found;
                return Some(pair);
            }
            entry = long(store.arena.get32(entry.plus(12)))?;
        }
    }

    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32> {
        let pages: Vec<u64> = self.mapped.range((space, 0)..=(space, u64::MAX)).map(|(_, page)| *page).collect();
        let mut gone: Vec<u32> = pages.iter().map(|page| self.read(store, space, *page)).collect();
        pages.into_iter().for_each(|page| self.write(store, space, page, 0));
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    fn shape(&self, store: &Store) -> Shape {
        [("bytes", store.arena.used()), ("entries_leaf", self.mapped.len() as u64), ("entries_chained", self.chained)]
            .into()
    }
}
