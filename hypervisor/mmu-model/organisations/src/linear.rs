// SPDX-License-Identifier: MIT
//! Linear tables in virtual memory, walked from the bottom up: ULTRIX and MACH on MIPS (Jacob & Mudge, ASPLOS-VIII 1998,
//! section 3.1), and the linear virtual array of Elphinstone 1999, section 2.3.
//!
//! The table of a space is one array of entries, by page number. It is so large that it must itself be mapped: by a
//! second array, which has an entry for each page of the first, and so on, until one fits into a page. That one lies in
//! memory that is not translated. A refill loads from the first array; if the TLB does not translate that address, another
//! handler loads from the second, and so on. A large page has an entry for each of its base pages.

use std::collections::{BTreeMap, HashMap};

use mmu_model::address::{Machine, PageSize};

use crate::arena::{long, short};
use crate::replicated::{self, Slots};
use crate::table::{InArray, Level, Pair, Shape, Space, Store, Table, Visit};

const PAGE: u64 = 4096;

/// Instructions of the handlers, and what else they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handlers {
    /// Of the one that loads a program's entries.
    pub user: u64,
    /// Of those between.
    pub kernel: u64,
    /// Of the one that loads from the last array.
    pub root: u64,
    /// Loads of the last one that have nothing to do with tables.
    pub administrative: u64,
}

impl Handlers {
    /// Of ULTRIX, by the paper: ten instructions, and twenty for its table's own pages.
    pub const ULTRIX: Self = Self { user: 10, kernel: 20, root: 20, administrative: 0 };
    /// Of the linear virtual array: 10 cycles a refill, as the thesis estimates, at each level.
    pub const LVA: Self = Self { user: 10, kernel: 10, root: 10, administrative: 0 };
    /// Of MACH: the last goes through the general interrupt vector.
    pub const MACH: Self = Self { user: 10, kernel: 20, root: 500, administrative: 10 };
}

/// What the second array has an entry for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    /// Each page of one space's first array: each space has arrays of its own.
    EachSpace,
    /// Each page of a kernel's address space of this many bits, in which the first arrays of all spaces lie.
    Kernel(u32),
}

/// Linear tables of all spaces.
#[derive(Debug)]
pub struct Linear {
    bits: u32,
    /// log2 of an entry's bytes.
    entry: u32,
    handlers: Handlers,
    mapped: Mapped,
    pages: HashMap<(u8, Space, u64), Machine>,
    mapped_pages: BTreeMap<Space, u64>,
    sizes: Vec<PageSize>,
    uses: Uses,
    /// The TLB takes pairs.
    pairs: bool,
}

/// What finds the pages of arrays that are mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uses {
    /// The TLB, whose slots they share with all others.
    Tlb,
    /// The TLB's protected slots.
    Protected,
    /// No TLB but virtual caches: a page of an array is looked for when no cache has what is loaded from it.
    Caches,
}

impl Linear {
    /// Of addresses of this many bits and entries of this many bytes, 4 or 8, for a TLB that takes pairs or not.
    pub fn new(bits: u32, entry_bytes: u64, handlers: Handlers, mapped: Mapped, uses: Uses, pairs: bool) -> Self {
        assert!([4, 8].contains(&entry_bytes) && (24..=64).contains(&bits));
        Self {
            bits,
            entry: entry_bytes.trailing_zeros(),
            handlers,
            mapped,
            pages: HashMap::new(),
            mapped_pages: BTreeMap::new(),
            sizes: replicated::sizes(),
            uses,
            pairs,
        }
    }

    /// log2 of the bytes of each array, from the first to the last.
    pub fn arrays(&self) -> Vec<u32> {
        let mut bits = self.bits - 12 + self.entry;
        let mut found = vec![bits];
        if let Mapped::Kernel(kernel) = self.mapped {
            bits = kernel;
        }
        while bits > 12 {
            bits = (bits - 12 + self.entry).max(self.entry);
            found.push(bits);
        }
        found
    }

    fn last(&self) -> u8 {
        (self.arrays().len() - 1) as u8
    }

    /// Where the entry for an address is in the first array.
    fn first(&self, space: Space, address: u64) -> InArray {
        let page = (address & (u64::MAX >> (64 - self.bits))) >> 12;
        InArray { tier: 0, space, offset: page << self.entry }
    }

    /// Where the entry for a page of an array is in the next.
    fn above(&self, at: InArray) -> InArray {
        let (space, base) = match (self.mapped, at.tier) {
            (Mapped::Kernel(_), 0) => (0, u64::from(at.space) << (self.bits - 12 + self.entry)),
            _ => (at.space, 0),
        };
        InArray { tier: at.tier + 1, space, offset: (base + at.offset) >> 12 << self.entry }
    }

    /// The machine address of a place in an array, if there is memory.
    fn find(&self, at: InArray) -> Option<Machine> {
        let page = self.pages.get(&(at.tier, at.space, at.offset / PAGE))?;
        Some(page.plus(at.offset % PAGE))
    }

    /// The same, with memory given to it, and entries in the arrays above.
    fn make(&mut self, store: &mut Store, at: InArray) -> Machine {
        if let Some(found) = self.find(at) {
            return found;
        }
        let page = store.arena.take(PAGE, PAGE);
        self.pages.insert((at.tier, at.space, at.offset / PAGE), page);
        if at.tier < self.last() {
            let entry = self.make(store, self.above(at));
            store.arena.put32(entry, short(page));
        }
        page.plus(at.offset % PAGE)
    }

    fn level(&self, tier: u8) -> Level {
        match tier {
            0 => Level::User,
            tier if tier == self.last() => Level::Root,
            _ => Level::Kernel,
        }
    }

    /// Run the handler that loads from this place; the machine address of what it has found there.
    fn handle(&self, store: &Store, at: InArray, visit: &mut dyn Visit) -> Option<Machine> {
        let level = self.level(at.tier);
        let instructions = match level {
            Level::User => self.handlers.user,
            Level::Kernel => self.handlers.kernel,
            Level::Root => self.handlers.root,
        };
        visit.interrupt(level);
        visit.run(level, 0, instructions);
        let bytes = 1 << self.entry;
        if at.tier == self.last() {
            let found = self.find(at)?;
            // What is loaded besides lies behind the table: where, the paper does not say.
            let begin = self.pages[&(at.tier, at.space, at.offset / PAGE)];
            (0..self.handlers.administrative).for_each(|i| visit.load(level, begin.plus(i * 64 % PAGE), 4));
            visit.load(level, found, bytes);
            return Some(found);
        }
        if self.uses == Uses::Caches {
            let found = self.find(at)?;
            if !visit.load_virtual(level, at, found, bytes) {
                self.handle(store, self.above(at), visit)?;
            }
            return Some(found);
        }
        if !visit.translates(at) {
            let entry = self.handle(store, self.above(at), visit)?;
            let even = at.offset / PAGE & !1;
            let page = |number| self.pages.get(&(at.tier, at.space, number)).copied();
            debug_assert_eq!(long(store.arena.get32(entry)), page(at.offset / PAGE));
            long(store.arena.get32(entry))?;
            visit.protect(at, [page(even), page(even + 1)]);
        }
        let found = self.find(at)?;
        visit.load_virtual(level, at, found, bytes);
        Some(found)
    }
}

impl Slots for Linear {
    fn couples(&self) -> bool {
        self.pairs
    }

    fn read(&self, store: &Store, space: Space, address: u64) -> u32 {
        self.find(self.first(space, address)).map_or(0, |at| store.arena.get32(at))
    }

    fn write(&mut self, store: &mut Store, space: Space, address: u64, entry: u32) {
        let place = self.first(space, address);
        let at = if entry == 0 { self.find(place) } else { Some(self.make(store, place)) };
        let Some(at) = at else { return };
        let old = store.arena.get32(at);
        store.arena.put32(at, entry);
        let mapped = self.mapped_pages.entry(space).or_default();
        *mapped = *mapped + u64::from(entry != 0) - u64::from(old != 0);
    }
}

impl Table for Linear {
    fn sizes(&self) -> &[PageSize] {
        &self.sizes
    }

    fn bits(&self) -> u32 {
        self.bits
    }

    fn protects(&self) -> bool {
        self.uses == Uses::Protected
    }

    fn without_tlb(&self) -> bool {
        self.uses == Uses::Caches
    }

    fn is_virtual(&self) -> bool {
        true
    }

    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32> {
        let pairs = self.pairs;
        replicated::set(self, store, (space, address), size, entry, pairs)
    }

    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
        replicated::get(self, store, space, address)
    }

    /// Pages of the array that are not there are passed over.
    fn within(&self, store: &Store, space: Space, begin: u64, bytes: u64) -> Vec<(u64, PageSize)> {
        let (mut found, mut offset) = (vec![], 0);
        let reach = PAGE >> self.entry << 12; // of one page of the array
        while offset < bytes {
            let at = begin + offset;
            if self.find(self.first(space, at)).is_none() {
                offset = (offset | (reach - 1)) + 1;
                continue;
            }
            let (entry, size) = replicated::get(self, store, space, at);
            if entry != 0 {
                found.push((at & !size.offset_mask(), size));
            }
            offset = if entry == 0 { offset + PAGE } else { (offset | size.offset_mask()) + 1 };
        }
        found
    }

    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair> {
        let place = self.first(space, address);
        let at = self.handle(store, place, visit)?;
        // The other of the pair lies beside it, in the same page and line.
        let step = 1 << self.entry;
        let even = InArray { offset: place.offset & !step, ..place };
        let pair = [even, InArray { offset: even.offset + step, ..even }];
        let pair = pair.map(|place| self.find(place).map_or(0, |at| store.arena.get32(at)));
        (store.arena.get32(at) != 0).then_some(pair)
    }

    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32> {
        let mut gone = vec![];
        let own = |tier: u8, of: Space| of == space && (tier == 0 || self.mapped == Mapped::EachSpace);
        let pages: Vec<_> = self.pages.keys().copied().filter(|(tier, of, _)| own(*tier, *of)).collect();
        for (tier, of, number) in pages {
            if tier == 0 {
                let begin = self.pages[&(tier, of, number)];
                let entries = (0..PAGE).step_by(1 << self.entry).map(|i| store.arena.get32(begin.plus(i)));
                gone.extend(entries.filter(|entry| *entry != 0));
                let above = self.above(InArray { tier, space: of, offset: number * PAGE });
                if let Some(at) = self.find(above) {
                    store.arena.put32(at, 0);
                }
            }
        }
        self.pages.retain(|(tier, of, _), page| {
            let goes = own(*tier, *of);
            if goes {
                store.arena.give_back(*page, PAGE, PAGE);
            }
            !goes
        });
        self.mapped_pages.remove(&space);
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    fn shape(&self, store: &Store) -> Shape {
        let spaces = self.mapped_pages.len() as u64;
        let whole: u64 = self
            .arrays()
            .iter()
            .fold(0, |sum, bits| sum.saturating_add(1_u64.checked_shl(*bits).unwrap_or(u64::MAX)));
        [("bytes", store.arena.used()), ("bytes_reserved_a_space", whole), ("spaces", spaces)].into()
    }
}
