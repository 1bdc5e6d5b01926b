// SPDX-License-Identifier: MIT
//! Multi-level tables, walked from the top down: the MPT of Elphinstone 1999, section 6.1.1, by software; and INTEL of
//! Jacob & Mudge 1998, by hardware.

use std::collections::BTreeMap;

use mmu_model::address::{Machine, PageSize};

use crate::arena::{long, short};
use crate::table::{Level, Pair, Shape, Space, Store, Table, Visit};

/// What a refill costs besides its loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// Software's instructions.
    Instructions(u64),
    /// Cycles of hardware: no interrupt, nothing fetched.
    Cycles(u64),
}

/// What the last level holds for each of its indices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaf {
    /// 16 bytes: an even page's entry, the odd one's, and two pointers into the mapping tree.
    Pairs,
    /// One entry, as large as a pointer.
    Single,
}

/// Multi-level tables of all spaces.
#[derive(Debug)]
pub struct Multilevel {
    /// Shift and width of the index, from the top.
    levels: Vec<(u32, u32)>,
    bits: u32,
    pointer: u64,
    leaf: Leaf,
    /// The TLB takes pairs, of large pages too.
    pairs: bool,
    cost: Cost,
    roots: BTreeMap<Space, Machine>,
    nodes: u64,
    sizes: Vec<PageSize>,
}

/// An entry of an upper level that maps: 2 in its low bits is a page's entry, 3 points to a pair of them. A pointer to a
/// table has 1.
const PAGE: u32 = 2;
const PAIR: u32 = 3;

impl Multilevel {
    /// Indices of these widths, from the top down, over pages of 4 KiB or pairs of them.
    pub fn new(widths: &[u32], pointer: u64, leaf: Leaf, cost: Cost, pairs: bool) -> Self {
        let low = if leaf == Leaf::Pairs { 13 } else { 12 };
        let bits = low + widths.iter().sum::<u32>();
        let mut shift = bits;
        let levels: Vec<_> = widths
            .iter()
            .map(|width| {
                shift -= width;
                (shift, *width)
            })
            .collect();
        // Early ends: what an index of an upper level stands for, up to 1 GiB.
        let pairs = pairs && leaf == Leaf::Pairs;
        let ends =
            levels.iter().rev().skip(1).map(|(shift, _)| shift - u32::from(pairs)).filter(|shift| *shift <= 30);
        let sizes = std::iter::once(12).chain(ends).map(PageSize::of_shift).collect();
        Self { levels, bits, pointer, leaf, pairs, cost, roots: BTreeMap::new(), nodes: 0, sizes }
    }

    fn entry_bytes(&self, level: usize) -> u64 {
        if level + 1 == self.levels.len() && self.leaf == Leaf::Pairs { 16 } else { self.pointer }
    }

    fn bytes(&self, level: usize) -> u64 {
        self.entry_bytes(level) << self.levels[level].1
    }

    fn take(&mut self, store: &mut Store, level: usize) -> Machine {
        let bytes = self.bytes(level);
        self.nodes += 1;
        store.arena.take(bytes, bytes.min(4096))
    }

    fn place(&self, table: Machine, level: usize, address: u64) -> Machine {
        let (shift, width) = self.levels[level];
        table.plus((address >> shift & ((1 << width) - 1)) * self.entry_bytes(level))
    }

    /// Where the way to an address ends: the level, the place of its entry, and what a pair's block is if there is one.
    fn find(&self, store: &Store, space: Space, address: u64) -> Option<(usize, Machine)> {
        let mut table = *self.roots.get(&space)?;
        for level in 0..self.levels.len() {
            let at = self.place(table, level, address);
            if level + 1 == self.levels.len() {
                return Some((level, at));
            }
            let entry = store.arena.get32(at);
            match entry & 3 {
                0 => return None,
                1 => table = long(entry).expect("it is not 0"),
                _ => return Some((level, at)),
            }
        }
        None
    }

    /// The size of a page that ends at this level.
    fn size_at(&self, level: usize) -> PageSize {
        let last = level + 1 == self.levels.len();
        if last { PageSize::K4 } else { PageSize::of_shift(self.levels[level].0 - u32::from(self.pairs)) }
    }

    /// Which half of a pair a page is.
    fn half(&self, level: usize, address: u64) -> usize {
        let halves = self.leaf == Leaf::Pairs && (self.pairs || level + 1 == self.levels.len());
        if halves { (address >> self.size_at(level).shift() & 1) as usize } else { 0 }
    }

    /// The pair at a place.
    fn pair(&self, store: &Store, level: usize, at: Machine) -> (Machine, Pair) {
        let last = level + 1 == self.levels.len();
        let arena = &store.arena;
        match self.leaf {
            Leaf::Pairs => {
                let block = if last { at } else { long(arena.get32(at) & !2).expect("a pair's block") };
                let pair = [arena.get32(block), arena.get32(block.plus(4))];
                (block, if last || self.pairs { pair } else { [pair[0]; 2] })
            }
            Leaf::Single if last => (at, [arena.get32(at); 2]),
            Leaf::Single => (at, [arena.get32(at) >> 2; 2]),
        }
    }

    /// All below an entry of an upper level goes.
    fn clear(&mut self, store: &mut Store, level: usize, at: Machine, gone: &mut Vec<u32>) {
        let entry = store.arena.get32(at);
        store.arena.put32(at, 0);
        match entry & 3 {
            PAGE => gone.push(entry >> 2),
            PAIR => {
                let block = long(entry & !2).expect("a pair's block");
                gone.extend([0, 4].map(|half| store.arena.get32(block.plus(half))));
                store.arena.give_back(block, 16, 16);
            }
            1 => self.free(store, level + 1, long(entry).expect("it is not 0"), gone),
            _ => {}
        }
    }

    fn free(&mut self, store: &mut Store, level: usize, table: Machine, gone: &mut Vec<u32>) {
        for index in 0..1_u64 << self.levels[level].1 {
            let at = table.plus(index * self.entry_bytes(level));
            if level + 1 < self.levels.len() {
                self.clear(store, level, at, gone);
            } else {
                let halves: &[u64] = if self.leaf == Leaf::Pairs { &[0, 4] } else { &[0] };
                gone.extend(halves.iter().map(|half| store.arena.get32(at.plus(*half))));
            }
        }
        let bytes = self.bytes(level);
        store.arena.give_back(table, bytes, bytes.min(4096));
        self.nodes -= 1;
    }

    /// The table of this level on the way to an address, made if need be; what maps more than it goes.
    fn descend(&mut self, store: &mut Store, space: Space, address: u64, to: usize, gone: &mut Vec<u32>) -> Machine {
        let known = self.roots.get(&space).copied();
        let mut table = known.unwrap_or_else(|| self.take(store, 0));
        self.roots.insert(space, table);
        for level in 0..to {
            let at = self.place(table, level, address);
            if store.arena.get32(at) & 3 != 1 {
                self.clear(store, level, at, gone);
                let next = self.take(store, level + 1);
                store.arena.put32(at, short(next));
            }
            table = long(store.arena.get32(at)).expect("it was made");
        }
        table
    }

    /// Every page below a table of this level that begins at `first`, as far as it meets the region.
    fn scan(
        &self,
        store: &Store,
        (level, table): (usize, Machine),
        first: u64,
        region: (u64, u64),
        found: &mut Vec<(u64, PageSize)>,
    ) {
        let (shift, width) = self.levels[level];
        let last = level + 1 == self.levels.len();
        let meets = |index: &u64| {
            let begin = first + (index << shift);
            begin <= region.1 && begin + ((1 << shift) - 1) >= region.0
        };
        // What meets it lies side by side.
        let from = (region.0.saturating_sub(first) >> shift).min((1 << width) - 1);
        for index in (from..1 << width).take_while(meets) {
            let (at, begin) = (table.plus(index * self.entry_bytes(level)), first + (index << shift));
            let entry = store.arena.get32(at);
            if !last && entry & 3 == 1 {
                self.scan(store, (level + 1, long(entry).expect("it is not 0")), begin, region, found);
            } else if last || entry != 0 {
                let (size, pair) = (self.size_at(level), self.pair(store, level, at).1);
                let halves: &[u64] = if self.half(level, u64::MAX) == 1 { &[0, 1] } else { &[0] };
                let mapped = halves.iter().filter(|half| pair[**half as usize] != 0);
                found.extend(mapped.map(|half| (begin + half * size.bytes(), size)));
            }
        }
    }

    fn write(&mut self, store: &mut Store, level: usize, at: Machine, half: u64, entry: u32, gone: &mut Vec<u32>) {
        let last = level + 1 == self.levels.len();
        let arena = &mut store.arena;
        match self.leaf {
            Leaf::Single => {
                let (old, new) =
                    if last { (arena.get32(at), entry) } else { (arena.get32(at) >> 2, entry << 2 | PAGE) };
                arena.put32(at, if entry == 0 { 0 } else { new });
                gone.extend((old != entry).then_some(old));
            }
            Leaf::Pairs => {
                if !last && arena.get32(at) == 0 {
                    let block = arena.take(16, 16);
                    arena.put32(at, short(block) | 2);
                }
                let block = if last { at } else { long(arena.get32(at) & !2).expect("it was made") };
                let old = arena.get32(block.plus(half * 4));
                arena.put32(block.plus(half * 4), entry);
                gone.extend((old != entry).then_some(old));
                if !last && arena.get64(block) == 0 {
                    arena.give_back(block, 16, 16);
                    arena.put32(at, 0);
                }
            }
        }
    }
}

impl Table for Multilevel {
    fn sizes(&self) -> &[PageSize] {
        &self.sizes
    }

    fn bits(&self) -> u32 {
        self.bits
    }

    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32> {
        let stands_for = |(shift, _): &(u32, u32)| *shift == size.shift() + u32::from(self.pairs);
        let last = self.levels.len() - 1;
        let early = if size == PageSize::K4 { None } else { self.levels.iter().position(stands_for) };
        let level = early.unwrap_or(last);
        let mut gone = vec![];
        if entry == 0 && self.find(store, space, address).is_none() && level + 1 == self.levels.len() {
            return gone;
        }
        let table = self.descend(store, space, address, level, &mut gone);
        let at = self.place(table, level, address);
        let table_below = level + 1 < self.levels.len() && store.arena.get32(at) & 3 == 1;
        if table_below {
            self.clear(store, level, at, &mut gone);
        }
        self.write(store, level, at, self.half(level, address) as u64, entry, &mut gone);
        gone.retain(|entry| *entry != 0);
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
        let Some((level, at)) = self.find(store, space, address) else { return (0, PageSize::K4) };
        let size = self.size_at(level);
        (self.pair(store, level, at).1[self.half(level, address)], size)
    }

    /// From the top, what is not there being passed over.
    fn within(&self, store: &Store, space: Space, begin: u64, bytes: u64) -> Vec<(u64, PageSize)> {
        let mut found = vec![];
        let unused = 64 - self.bits.min(64);
        let (first, upper) = (begin << unused >> unused, begin & !(u64::MAX << unused >> unused));
        if let Some(root) = self.roots.get(&space) {
            self.scan(store, (0, *root), 0, (first, first + (bytes - 1)), &mut found);
        }
        found.iter_mut().for_each(|(at, _)| *at |= upper);
        found.retain(|(at, size)| at + (size.bytes() - 1) >= begin && *at <= begin + (bytes - 1));
        found
    }

    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair> {
        match self.cost {
            Cost::Instructions(n) => visit.run(Level::User, 0, n),
            Cost::Cycles(n) => visit.spend(n),
        }
        let mut table = *self.roots.get(&space)?;
        for level in 0..self.levels.len() {
            let at = self.place(table, level, address);
            let last = level + 1 == self.levels.len();
            let whose = if last { Level::User } else { Level::Root };
            if last {
                visit.load(whose, at, if self.leaf == Leaf::Pairs { 8 } else { self.pointer });
                let mut pair = self.pair(store, level, at).1;
                if self.leaf == Leaf::Single {
                    pair[(address >> 12 & 1 ^ 1) as usize] = 0;
                }
                return Some(pair).filter(|pair| *pair != [0; 2]);
            }
            visit.load(whose, at, self.pointer);
            let entry = store.arena.get32(at);
            match entry & 3 {
                0 => return None,
                1 => table = long(entry).expect("it is not 0"),
                _ => {
                    let (block, pair) = self.pair(store, level, at);
                    if self.leaf == Leaf::Pairs {
                        visit.load(Level::User, block, 8);
                    }
                    return Some(pair);
                }
            }
        }
        None
    }

    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32> {
        let mut gone = vec![];
        if let Some(root) = self.roots.remove(&space) {
            self.free(store, 0, root, &mut gone);
        }
        gone.retain(|entry| *entry != 0);
        gone
    }

    fn shape(&self, store: &Store) -> Shape {
        [("bytes", store.arena.used()), ("nodes", self.nodes)].into()
    }
}
