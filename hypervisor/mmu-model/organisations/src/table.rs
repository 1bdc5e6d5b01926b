// SPDX-License-Identifier: MIT
//! What every organisation's table has to do, and what it is given to do it with.

use std::collections::BTreeMap;

use mmu_model::address::{Machine, PageSize};
use mmu_model::walk::Rights;

use crate::arena::Arena;

/// Names an address space: a task's own part, or a part that tasks share.
pub type Space = u32;

/// What a table says of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Where the page begins.
    pub machine: Machine,
    /// Its size.
    pub size: PageSize,
    /// What is allowed.
    pub rights: Rights,
    /// The bits of the TLB's tag that matter.
    pub mask: u64,
    /// The size of the leaf that the trace's own tables have, of which this page may be a piece.
    pub leaf: PageSize,
}

/// A page-table entry as tables hold it: four bytes, 0 being invalid. What it says is looked up here, which no cache
/// sees: real entries say it in bits that differ from machine to machine.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    pages: Vec<Page>,
    free: Vec<u32>,
    mapped: u64,
}

impl Pages {
    /// An entry that says this.
    pub fn entry(&mut self, page: Page) -> u32 {
        self.mapped += page.size.bytes() >> 12;
        if let Some(entry) = self.free.pop() {
            self.pages[entry as usize - 1] = page;
            return entry;
        }
        self.pages.push(page);
        self.pages.len() as u32
    }

    /// What an entry says; none if it is invalid.
    pub fn get(&self, entry: u32) -> Option<&Page> {
        (entry != 0).then(|| &self.pages[entry as usize - 1])
    }

    /// The entry is used no more.
    pub fn drop(&mut self, entry: u32) {
        if let Some(page) = self.get(entry) {
            self.mapped -= page.size.bytes() >> 12;
            self.free.push(entry);
        }
    }

    /// Base pages that all entries in use map together.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }
}

/// Memory and entries: what all tables of a machine are made of.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Words at addresses.
    pub arena: Arena,
    /// What entries say.
    pub pages: Pages,
}

/// The two entries of one refill: those of an even page and of the odd one behind it. An organisation that loads one
/// entry at a time leaves the other at 0.
pub type Pair = [u32; 2];

/// A virtual address of a table: which array, and how far in. Arrays are too many and too large for one address space of
/// 64 bits, so each has one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InArray {
    /// The tier of the table.
    pub tier: u8,
    /// Whose.
    pub space: Space,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// Which handler runs, or whose entry is loaded. The names are those of Jacob & Mudge, 1998.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Level {
    /// For the program's own pages.
    User = 0,
    /// For pages of a table that is itself translated.
    Kernel = 1,
    /// For the last table, which is not.
    Root = 2,
}

impl Level {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// As results name them.
    pub const NAMES: [&'static str; Self::COUNT] = ["user", "kernel", "root"];
}

/// What a refill does, told to whoever counts it.
pub trait Visit {
    /// A handler is entered by an interrupt.
    fn interrupt(&mut self, level: Level);
    /// It runs this many instructions, which are fetched; `from` is how many lie before them.
    fn run(&mut self, level: Level, from: u64, instructions: u64);
    /// Cycles of hardware that walks.
    fn spend(&mut self, cycles: u64);
    /// A load of this many bytes at an address that is not translated.
    fn load(&mut self, level: Level, at: Machine, bytes: u64);
    /// Whether the data TLB translates this virtual address of a table.
    fn translates(&mut self, at: InArray) -> bool;
    /// The page of a table at this virtual address is put into the TLB: into its protected slots, if it has any. The even
    /// page and the odd one behind it are given, as far as they are there.
    fn protect(&mut self, at: InArray, pages: [Option<Machine>; 2]);
    /// A load of this many bytes at a virtual address of a table, which is at this machine address.
    /// Returns whether a cache had it.
    fn load_virtual(&mut self, level: Level, at: InArray, machine: Machine, bytes: u64) -> bool;
    /// The refill was served without its table, by a cache of entries in memory.
    fn short_cut(&mut self);
}

/// Bytes and whatever else of a table can be counted, by name.
pub type Shape = BTreeMap<&'static str, u64>;

/// An organisation's table, for all address spaces.
pub trait Table: Send {
    /// The sizes that it can map a page by, from the smallest to the largest.
    fn sizes(&self) -> &[PageSize];

    /// How many bits of an address it maps; those above must be alike.
    fn bits(&self) -> u32 {
        64
    }

    /// Whether there is no TLB: the table is asked when no cache has what is wanted.
    fn without_tlb(&self) -> bool {
        false
    }

    /// Whether it keeps pages of itself in the TLB's protected slots, so that they must be kept free of others.
    fn protects(&self) -> bool {
        false
    }

    /// Whether it lies in virtual memory, which the TLB or a virtual cache must translate.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Make this entry say this of the page at this address, in place of whatever was there; 0 unmaps. The address is
    /// a multiple of the size; what is smaller and lies in it goes. Returns the entries that are no longer used.
    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32>;

    /// The entry for an address and the size it is mapped by, without counting; 0: none.
    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize);

    /// The pages that are mapped in a region, found as an unmap of it looks for them: by their first addresses, and
    /// sizes. The region is a power of two and begins at a multiple of itself.
    fn within(&self, store: &Store, space: Space, begin: u64, bytes: u64) -> Vec<(u64, PageSize)> {
        let (mut found, mut offset) = (vec![], 0);
        while offset < bytes {
            let (entry, size) = self.get(store, space, begin + offset);
            if entry != 0 {
                found.push(((begin + offset) & !size.offset_mask(), size));
            }
            offset = if entry == 0 { offset + 4096 } else { (offset | size.offset_mask()) + 1 };
        }
        found
    }

    /// Find the entries for an address as a refill does; none: it is not mapped. It may rearrange the table.
    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair>;

    /// The mapping of an address was changed or removed: what is kept of it elsewhere than in the table goes.
    fn changed(&mut self, _store: &mut Store, _space: Space, _address: u64, _size: PageSize) {}

    /// A task ends; its part of the table goes. Returns the entries that are no longer used.
    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32>;

    /// Sizes and counts; `bytes` is always there.
    fn shape(&self, store: &Store) -> Shape;
}
