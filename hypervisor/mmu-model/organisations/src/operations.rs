// SPDX-License-Identifier: MIT
//! What a kernel does to a table besides refilling a TLB from it: map, unmap of a region, creation and deletion of tasks
//! (Elphinstone 1999, sections 4.3 to 4.5, 5.3 and 6.6), on the R4700's data cache.
//!
//! Each word of the table that an operation reads or writes costs the instructions below, and what it waits for. What the
//! kernel does besides (system calls, mapping trees, messages to a pager) is the same for every table and left out, so
//! orders and differences mean something, and sums do not.

use mmu_model::address::{Machine, PageSize};
use mmu_model::cache::{Caches, Served};
use mmu_model::walk::Rights;

use crate::caches::Hierarchy;
use crate::catalogue;
use crate::machine;
use crate::table::{InArray, Level, Page, Space, Store, Table, Visit};

/// Instructions for each word read or written: an assumption (its address, the load or store, a test or branch).
const WORD: u64 = 3;
/// Instructions for each eight bytes of a block that is cleared: an assumption (an unrolled loop of stores).
const CLEAR: u64 = 1;

/// What operations have cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// Words of tables read and written.
    pub words: u64,
    /// Lines that the data cache had not.
    pub misses: u64,
    /// Cycles: instructions, and what they waited for.
    pub cycles: u64,
}

/// A kernel with one organisation's table.
pub struct Kernel {
    table: Box<dyn Table>,
    store: Store,
    caches: Hierarchy,
    latency: [u64; Served::COUNT],
    cost: Cost,
    counts: bool,
}

impl Kernel {
    /// One with this organisation, on the R4700; none: there is no such.
    pub fn new(name: &str) -> Option<Self> {
        let machine = machine::Machine::built_in("r4700")?.ok()?;
        Some(Self {
            table: catalogue::table(name, machine.pairs)?,
            store: Store::default(),
            caches: Hierarchy::new(&machine.cache),
            latency: machine.latency(),
            cost: Cost::default(),
            counts: true,
        })
    }

    /// What has been done since the last time this was asked.
    pub fn cost(&mut self) -> Cost {
        std::mem::take(&mut self.cost)
    }

    /// Whether operations are counted from now on; where only sizes are asked for, that takes a while.
    pub fn set_counting(&mut self, on: bool) {
        self.counts = on;
    }

    /// Bytes of the table, and whatever else of it is counted.
    pub fn shape(&self, name: &str) -> u64 {
        self.table.shape(&self.store)[name]
    }

    fn counted<T>(&mut self, work: impl FnOnce(&mut dyn Table, &mut Store) -> T) -> T {
        if !self.counts {
            return work(&mut *self.table, &mut self.store);
        }
        self.store.arena.listen();
        let done = work(&mut *self.table, &mut self.store);
        for (at, bytes) in self.store.arena.heard() {
            self.cost.cycles += if bytes > 8 { bytes / 8 * CLEAR } else { WORD };
            self.cost.words += bytes.div_ceil(8);
            self.touch(at, bytes);
        }
        done
    }

    fn touch(&mut self, at: Machine, bytes: u64) {
        let line = self.caches.line();
        for number in at.raw() / line..=(at.raw() + bytes - 1) / line {
            let served = self.caches.table(Machine::new(number * line));
            self.cost.misses += u64::from(served != Served::L1);
            self.cost.cycles += self.latency[served as usize] - self.latency[Served::L1 as usize];
        }
    }

    /// Map a base page.
    pub fn map(&mut self, space: Space, address: u64) {
        let size = PageSize::K4;
        let machine = Machine::new(address & 0xffff_f000);
        let page = Page { machine, size, rights: Rights::USER, mask: u64::MAX, leaf: size };
        let entry = self.store.pages.entry(page);
        self.set(space, address, size, entry);
    }

    /// Unmap whatever is in a region of a power of two; how many pages.
    pub fn unmap(&mut self, space: Space, begin: u64, bytes: u64) -> usize {
        let pages = self.counted(|table, store| table.within(store, space, begin, bytes));
        for (address, size) in &pages {
            self.set(space, *address, *size, 0);
        }
        pages.len()
    }

    fn set(&mut self, space: Space, address: u64, size: PageSize, entry: u32) {
        let gone = self.counted(|table, store| {
            let gone = table.set(store, space, address, size, entry);
            table.changed(store, space, address, size);
            gone
        });
        gone.into_iter().for_each(|entry| self.store.pages.drop(entry));
    }

    /// Refill the TLB from the table.
    pub fn refill(&mut self, space: Space, address: u64) -> bool {
        let Self { table, store, caches, latency, cost, .. } = self;
        table.refill(store, space, address, &mut Refilled { caches, latency: *latency, cost }).is_some()
    }

    /// A task ends.
    pub fn end(&mut self, space: Space) {
        let gone = self.counted(|table, store| table.end(store, space));
        gone.into_iter().for_each(|entry| self.store.pages.drop(entry));
    }
}

/// Counts a refill among operations: its instructions and loads. Tables of the thesis lie in memory that is not
/// translated; of those that do not, virtual loads are taken to be translated.
struct Refilled<'a> {
    caches: &'a mut Hierarchy,
    latency: [u64; Served::COUNT],
    cost: &'a mut Cost,
}

impl Visit for Refilled<'_> {
    fn interrupt(&mut self, _: Level) {}

    fn run(&mut self, _: Level, _: u64, instructions: u64) {
        self.cost.cycles += instructions;
    }

    fn spend(&mut self, cycles: u64) {
        self.cost.cycles += cycles;
    }

    fn load(&mut self, _: Level, at: Machine, bytes: u64) {
        let line = self.caches.line();
        for number in at.raw() / line..=(at.raw() + bytes - 1) / line {
            let served = self.caches.table(Machine::new(number * line));
            self.cost.misses += u64::from(served != Served::L1);
            self.cost.cycles += self.latency[served as usize] - self.latency[Served::L1 as usize];
        }
    }

    fn translates(&mut self, _: InArray) -> bool {
        true
    }

    fn protect(&mut self, _: InArray, _: [Option<Machine>; 2]) {}

    fn load_virtual(&mut self, level: Level, _: InArray, machine: Machine, bytes: u64) -> bool {
        self.load(level, machine, bytes);
        true
    }

    fn short_cut(&mut self) {}
}
