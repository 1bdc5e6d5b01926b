// SPDX-License-Identifier: MIT
//! Hashed and clustered tables: Elphinstone 1999, sections 6.1.2 and 6.1.3.
//!
//! A bucket has a tag of 8 bytes, n entries of 4, a link, and n pointers into the mapping tree: 16 + 8 n bytes. With n of
//! 2 it is the hashed table (HPT) of pairs; with 4, 8 or 16 the clustered one (CPT), whose hash takes the number of a
//! block. Each task has a table of its own; buckets beyond it are chained. A hit in a chain may be promoted: it
//! changes places with the first bucket.
//!
//! Large pages are replicated in every base page's slot. In the clustered table a block's slots lie in one bucket, so that
//! a page up to a block's size is mapped by one, as the thesis has it, and a larger one by a bucket for each of its blocks.

use std::collections::BTreeMap;

use mmu_model::address::{Machine, PageSize};

use crate::arena::{long, short};
use crate::replicated::{self, Slots};
use crate::table::{Level, Pair, Shape, Space, Store, Table, Visit};

/// Instructions of a bucket further on: an assumption (load link and tag, test both, branch).
const FURTHER: u64 = 6;

/// Tables of one shape, for all spaces.
#[derive(Debug)]
pub struct Hashed {
    buckets: u64,
    /// Entries of a bucket.
    block: u64,
    promotes: bool,
    /// Instructions of a refill from the first bucket.
    instructions: u64,
    tables: BTreeMap<Space, Machine>,
    chained: u64,
    sizes: Vec<PageSize>,
    /// The TLB takes pairs.
    pairs: bool,
}

impl Hashed {
    /// Tables of so many buckets for so many entries each, for a TLB that takes pairs or not.
    pub fn new(buckets: u64, block: u64, promotes: bool, instructions: u64, pairs: bool) -> Self {
        assert!(buckets.is_power_of_two() && [2, 4, 8, 16].contains(&block));
        let sizes = replicated::sizes();
        Self { buckets, block, promotes, instructions, tables: BTreeMap::new(), chained: 0, sizes, pairs }
    }

    /// Bytes of a bucket.
    pub const fn bucket_bytes(&self) -> u64 {
        16 + 8 * self.block
    }

    fn shift(&self) -> u32 {
        12 + self.block.trailing_zeros()
    }

    /// A bucket's tag: the number of the block, and a bit that tells it from none.
    fn tag(&self, address: u64) -> u64 {
        address >> self.shift() << 1 | 1
    }

    const fn link(&self, bucket: Machine) -> Machine {
        bucket.plus(8 + 4 * self.block)
    }

    fn head(&self, space: Space, address: u64) -> Option<Machine> {
        let table = self.tables.get(&space)?;
        Some(table.plus((address >> self.shift() & (self.buckets - 1)) * self.bucket_bytes()))
    }

    /// Where the entry of an address is in its bucket.
    fn slot(&self, bucket: Machine, address: u64) -> Machine {
        bucket.plus(8 + 4 * (address >> 12 & (self.block - 1)))
    }

    /// The bucket of an address, and the one that links to it.
    fn find(&self, store: &Store, space: Space, address: u64) -> Option<(Machine, Option<Machine>)> {
        let (mut bucket, mut before) = (self.head(space, address)?, None);
        loop {
            if store.arena.get64(bucket) == self.tag(address) {
                return Some((bucket, before));
            }
            before = Some(bucket);
            bucket = long(store.arena.get32(self.link(bucket)))?;
        }
    }

    fn make(&mut self, store: &mut Store, space: Space, address: u64) -> Machine {
        if let Some((bucket, _)) = self.find(store, space, address) {
            return bucket;
        }
        let bytes = self.bucket_bytes();
        self.tables.entry(space).or_insert_with(|| store.arena.take(bytes * self.buckets, 4096));
        let head = self.head(space, address).expect("it was made");
        let mut bucket = head;
        if store.arena.get64(head) != 0 {
            bucket = store.arena.take(bytes, 16);
            self.chained += 1;
            let next = store.arena.get32(self.link(head));
            store.arena.put32(self.link(bucket), next);
            store.arena.put32(self.link(head), short(bucket));
        }
        store.arena.put64(bucket, self.tag(address));
        bucket
    }

    /// A bucket without entries goes, or what is chained first takes its place.
    fn remove_if_empty(&mut self, store: &mut Store, bucket: Machine, before: Option<Machine>) {
        if (0..self.block).any(|i| store.arena.get32(bucket.plus(8 + 4 * i)) != 0) {
            return;
        }
        let next = long(store.arena.get32(self.link(bucket)));
        let goes = match (before, next) {
            (Some(before), _) => {
                let link = store.arena.get32(self.link(bucket));
                store.arena.put32(self.link(before), link);
                bucket
            }
            (None, Some(next)) => {
                self.swap(store, bucket, next);
                let link = store.arena.get32(self.link(next));
                store.arena.put32(self.link(bucket), link);
                next
            }
            (None, None) => {
                store.arena.put64(bucket, 0);
                return;
            }
        };
        store.arena.give_back(goes, self.bucket_bytes(), 16);
        self.chained -= 1;
    }

    /// Tags and entries of two buckets change places; links stay.
    fn swap(&self, store: &mut Store, a: Machine, b: Machine) {
        for offset in (0..8 + 4 * self.block).step_by(4) {
            let (x, y) = (store.arena.get32(a.plus(offset)), store.arena.get32(b.plus(offset)));
            store.arena.put32(a.plus(offset), y);
            store.arena.put32(b.plus(offset), x);
        }
    }
}

impl Slots for Hashed {
    fn couples(&self) -> bool {
        self.pairs
    }

    fn read(&self, store: &Store, space: Space, address: u64) -> u32 {
        let found = self.find(store, space, address);
        found.map_or(0, |(bucket, _)| store.arena.get32(self.slot(bucket, address)))
    }

    fn write(&mut self, store: &mut Store, space: Space, address: u64, entry: u32) {
        if entry != 0 {
            let bucket = self.make(store, space, address);
            store.arena.put32(self.slot(bucket, address), entry);
        } else if let Some((bucket, before)) = self.find(store, space, address) {
            store.arena.put32(self.slot(bucket, address), 0);
            self.remove_if_empty(store, bucket, before);
        }
    }
}

impl Table for Hashed {
    fn sizes(&self) -> &[PageSize] {
        &self.sizes
    }

    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32> {
        let pairs = self.pairs;
        replicated::set(self, store, (space, address), size, entry, pairs)
    }

    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
        replicated::get(self, store, space, address)
    }

    /// Every block of the region is looked for.
    fn within(&self, store: &Store, space: Space, begin: u64, bytes: u64) -> Vec<(u64, PageSize)> {
        let (mut found, block) = (vec![], self.block << 12);
        for first in (begin & !(block - 1)..=begin + (bytes - 1)).step_by(block as usize) {
            let Some((bucket, _)) = self.find(store, space, first) else { continue };
            for at in (first..=first + (block - 1)).step_by(4096) {
                let entry = store.arena.get32(self.slot(bucket, at));
                let Some(page) = store.pages.get(entry) else { continue };
                // Of a large pair, one slot of two is the even page's, over both pages.
                let bytes = page.size.bytes();
                let coupled = self.pairs && page.size > PageSize::K4;
                let begin = if coupled { at & !(2 * bytes - 1) | (at >> 12 & 1) * bytes } else { at & !(bytes - 1) };
                found.push((begin, page.size));
            }
        }
        found.retain(|(at, size)| (at ^ begin) & !(bytes - 1) & !size.offset_mask() == 0);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair> {
        visit.run(Level::User, 0, self.instructions);
        let head = self.head(space, address)?;
        let (mut bucket, tag) = (head, self.tag(address));
        loop {
            visit.load(Level::User, bucket, 8);
            if store.arena.get64(bucket) == tag {
                break;
            }
            visit.run(Level::User, self.instructions, FURTHER);
            visit.load(Level::User, self.link(bucket), 4);
            bucket = long(store.arena.get32(self.link(bucket)))?;
        }
        if bucket != head && self.promotes {
            // Each word of both is loaded and stored, tags as one.
            let words = 1 + 2 * self.block;
            visit.run(Level::User, self.instructions + FURTHER, 4 * words);
            visit.load(Level::User, bucket, self.bucket_bytes());
            visit.load(Level::User, head, self.bucket_bytes());
            self.swap(store, head, bucket);
            bucket = head;
        }
        let even = self.slot(bucket, address & !4096);
        visit.load(Level::User, even, 8);
        Some([store.arena.get32(even), store.arena.get32(even.plus(4))])
    }

    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32> {
        let Some(table) = self.tables.remove(&space) else { return vec![] };
        let bytes = self.bucket_bytes();
        let mut gone = vec![];
        for head in 0..self.buckets {
            let mut next = Some(table.plus(head * bytes));
            let mut first = true;
            while let Some(bucket) = next {
                gone.extend((0..self.block).map(|i| store.arena.get32(bucket.plus(8 + 4 * i))));
                next = long(store.arena.get32(self.link(bucket)));
                if !first {
                    store.arena.give_back(bucket, bytes, 16);
                    self.chained -= 1;
                }
                first = false;
            }
        }
        store.arena.give_back(table, bytes * self.buckets, 4096);
        gone.retain(|entry| *entry != 0);
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    fn shape(&self, store: &Store) -> Shape {
        let heads = self.buckets * self.tables.len() as u64;
        [("bytes", store.arena.used()), ("buckets", heads), ("buckets_chained", self.chained)].into()
    }
}
