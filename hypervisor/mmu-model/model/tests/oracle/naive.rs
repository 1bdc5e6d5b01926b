// SPDX-License-Identifier: MIT
//! Lists in place of the model's arrays: slow, and meant to be seen to be right.

use std::collections::HashMap;

use mmu_model::address::PageSize;
use mmu_model::assoc::Replacement;
use mmu_model::cpu::CacheSpec;

/// Who an entry belongs to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Space {
    pub asid: u16,
    pub root: u16,
    pub pcid: u16,
}

/// What the tables allow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rights {
    pub user: bool,
    pub write: bool,
    pub no_execute: bool,
    pub dirty: bool,
    pub host_write: bool,
}

/// A TLB entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub page: u64,
    pub size: PageSize,
    pub space: Space,
    pub global: bool,
    pub machine: u64,
    pub rights: Rights,
    pub whole: PageSize,
    pub leaf: PageSize,
}

impl Entry {
    pub fn serves(&self, space: Space) -> bool {
        self.space.asid == space.asid
            && self.space.root == space.root
            && (self.global || self.space.pcid == space.pcid)
    }

    /// Whether the entry came of the leaf that maps this address.
    pub fn is_of_leaf_at(&self, address: u64) -> bool {
        self.page / self.leaf.bytes() == address / self.leaf.bytes()
    }
}

/// An entry of a paging-structure cache: what the tables above `level` have said.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    pub level: u8,
    pub prefix: u64,
    pub space: Space,
    pub table: u64,
    pub rights: Rights,
}

/// The host's translation of a guest-physical page.
#[derive(Clone, Copy, Debug)]
pub struct HostPage {
    pub page: u64,
    pub size: PageSize,
    pub space: Space,
    pub machine: u64,
    pub rights: Rights,
}

/// Sets of ways, each empty or with the time of its last use.
pub struct Sets<T> {
    ways: Vec<Vec<Option<(u64, T)>>>,
    replacement: Replacement,
    /// Of a tree over the ways of a set: whether the ways from..to have their next victim in the upper half.
    upper: HashMap<(usize, usize, usize), bool>,
    time: u64,
}

impl<T: Copy> Sets<T> {
    pub fn new(entries: u32, ways: u32, replacement: Replacement) -> Self {
        let ways = (0..entries / ways).map(|_| vec![None; ways as usize]).collect();
        Self { ways, replacement, upper: HashMap::new(), time: 0 }
    }

    fn set(&self, number: u64) -> usize {
        (number % self.ways.len() as u64) as usize
    }

    /// The first way of the set whose entry is wanted.
    pub fn find(&self, number: u64, wanted: impl Fn(&T) -> bool) -> Option<(usize, T)> {
        let ways = &self.ways[self.set(number)];
        (0..ways.len()).find_map(|way| ways[way].filter(|(_, entry)| wanted(entry)).map(|(_, entry)| (way, entry)))
    }

    pub fn touch(&mut self, number: u64, way: usize) {
        let set = self.set(number);
        self.time += 1;
        self.ways[set][way].as_mut().unwrap().0 = self.time;
        let (mut from, mut to) = (0, self.ways[set].len());
        while to - from > 1 {
            let middle = from.midpoint(to);
            let used_upper = way >= middle;
            self.upper.insert((set, from, to), !used_upper);
            (from, to) = if used_upper { (middle, to) } else { (from, middle) };
        }
    }

    fn victim(&self, set: usize) -> usize {
        let ways = &self.ways[set];
        if let Some(empty) = ways.iter().position(Option::is_none) {
            return empty;
        }
        match self.replacement {
            Replacement::Lru => (0..ways.len()).min_by_key(|way| ways[*way].unwrap().0).unwrap(),
            Replacement::Plru => {
                let (mut from, mut to) = (0, ways.len());
                while to - from > 1 {
                    let middle = from.midpoint(to);
                    let upper = self.upper.get(&(set, from, to)).copied().unwrap_or(false);
                    (from, to) = if upper { (middle, to) } else { (from, middle) };
                }
                from
            }
            Replacement::Random => unimplemented!("no processor of cpus/ has it"),
        }
    }

    /// Put an entry in the place of one like it, an empty way, or the victim's.
    pub fn put(&mut self, number: u64, like: impl Fn(&T) -> bool, entry: T) {
        let set = self.set(number);
        let way = self.find(number, like).map_or_else(|| self.victim(set), |(way, _)| way);
        self.ways[set][way] = Some((0, entry));
        self.touch(number, way);
    }

    /// Forget the entries that go; returns how many.
    pub fn forget(&mut self, goes: impl Fn(&T) -> bool) -> u64 {
        let mut gone = 0;
        for way in self.ways.iter_mut().flatten() {
            if way.is_some_and(|(_, entry)| goes(&entry)) {
                *way = None;
                gone += 1;
            }
        }
        gone
    }

    /// How many entries there are of a kind.
    pub fn count(&self, is: impl Fn(&T) -> bool) -> u64 {
        self.ways.iter().flatten().filter(|way| way.is_some_and(|(_, entry)| is(&entry))).count() as u64
    }
}

/// A cache of lines: for each slice and set, its lines from the last used to the one used longest ago.
pub struct Lines {
    sets: u64,
    ways: usize,
    slices: Vec<u64>,
    held: HashMap<(Vec<bool>, u64), Vec<u64>>,
}

impl Lines {
    pub fn new(spec: &CacheSpec) -> Self {
        let slices = spec.slices.as_ref().map_or(vec![], |s| s.parity_of.clone());
        let sets = spec.kib * 1024 / 64 / u64::from(spec.ways) / (1 << slices.len());
        Self { sets, ways: spec.ways as usize, slices, held: HashMap::new() }
    }

    /// Whether the line was there.
    pub fn read(&mut self, address: u64) -> bool {
        let line = address / 64;
        let slice = self.slices.iter().map(|of| (0..64).filter(|bit| address & of & 1 << bit != 0).count() % 2 == 1);
        let set = self.held.entry((slice.collect(), line % self.sets)).or_default();
        let before = set.len();
        set.retain(|other| *other != line);
        let hit = set.len() < before;
        set.insert(0, line);
        set.truncate(self.ways);
        hit
    }
}
