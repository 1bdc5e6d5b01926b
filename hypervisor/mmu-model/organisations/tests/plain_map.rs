// SPDX-License-Identifier: MIT
//! Every organisation against a plain map: pages mapped, changed, unmapped, replaced by larger ones and back, tasks
//! ended; and each refill finds what the map has, or that it has nothing.

use std::collections::BTreeMap;

use mmu_model::address::{Machine, PageSize};
use mmu_model::synthetic::Random;
use mmu_model::walk::Rights;
use mmu_organisations::catalogue;
use mmu_organisations::table::{InArray, Level, Page, Pair, Shape, Space, Store, Table, Visit};

/// A TLB that holds a page of a table now and then, and a cache that has a line now and then.
struct Sometimes(Random);

impl Visit for Sometimes {
    fn interrupt(&mut self, _: Level) {}
    fn run(&mut self, _: Level, _: u64, _: u64) {}
    fn spend(&mut self, _: u64) {}
    fn load(&mut self, _: Level, _: Machine, bytes: u64) {
        assert!(bytes > 0);
    }
    fn translates(&mut self, _: InArray) -> bool {
        self.0.one_in(2)
    }
    fn protect(&mut self, at: InArray, pages: [Option<Machine>; 2]) {
        assert!(pages[(at.offset >> 12 & 1) as usize].is_some());
    }
    fn load_virtual(&mut self, _: Level, _: InArray, _: Machine, _: u64) -> bool {
        self.0.one_in(2)
    }
    fn short_cut(&mut self) {}
}

/// What is mapped, by space and first address.
type Map = BTreeMap<(Space, u64), Page>;

struct Both {
    table: Box<dyn Table>,
    store: Store,
    map: Map,
    pairs: bool,
    sizes: Vec<PageSize>,
    visit: Sometimes,
}

impl Both {
    fn new(table: Box<dyn Table>, pairs: bool, seed: u64) -> Self {
        // The sizes that a machine would have, as far as the table has them.
        let machine = if pairs { [12, 14, 16, 20] } else { [12, 12, 21, 21] }.map(PageSize::of_shift);
        let sizes = machine.into_iter().filter(|size| table.sizes().contains(size)).collect();
        Self { table, store: Store::default(), map: Map::new(), pairs, sizes, visit: Sometimes(Random::new(seed)) }
    }

    fn expected(&self, space: Space, address: u64) -> Option<Page> {
        let (&(_, begin), page) = self.map.range((space, 0)..=(space, address)).next_back()?;
        (address - begin < page.size.bytes()).then_some(*page)
    }

    /// All that overlaps goes.
    fn forget(&mut self, space: Space, begin: u64, bytes: u64) {
        let end = begin + (bytes - 1);
        let first = self.expected(space, begin).map_or(begin, |page| begin & !page.size.offset_mask());
        let gone: Vec<_> = self.map.range((space, first)..=(space, end)).map(|(key, _)| *key).collect();
        gone.into_iter().for_each(|key| _ = self.map.remove(&key));
    }

    fn set_one(&mut self, space: Space, address: u64, size: PageSize, page: Option<Page>) {
        let entry = page.map_or(0, |page| self.store.pages.entry(page));
        for gone in self.table.set(&mut self.store, space, address, size, entry) {
            assert_ne!(gone, 0);
            self.store.pages.drop(gone);
        }
        self.table.changed(&mut self.store, space, address, size);
        if let Some(page) = page {
            self.map.insert((space, address), page);
        }
    }

    /// Map a page. Of a pair's machine, a large page comes with the other of its pair, as promised to tables.
    fn set(&mut self, space: Space, address: u64, size: PageSize, random: &mut Random, unmap: bool) {
        let large = size > PageSize::K4;
        let span = if large && self.pairs { 2 * size.bytes() } else { size.bytes() };
        let begin = address & !(span - 1);
        // A base page in a large pair takes all of it away.
        let (mut gone, mut bytes) = (begin, span);
        if let Some(old) = self.expected(space, begin) {
            if old.size > size || (old.size == size && large) {
                let old_span =
                    if self.pairs && old.size > PageSize::K4 { 2 * old.size.bytes() } else { old.size.bytes() };
                (gone, bytes) = (begin & !(old_span - 1), old_span.max(span));
            }
        }
        if self.pairs && !large {
            let other = self.expected(space, begin ^ 4096).filter(|page| page.size > size);
            if let Some(old) = other {
                (gone, bytes) = (begin & !(2 * old.size.bytes() - 1), 2 * old.size.bytes());
            }
        }
        self.forget(space, gone, bytes);
        for part in (begin..=begin + (span - 1)).step_by(size.bytes() as usize) {
            let machine = Machine::new(random.next() >> 20 << size.shift());
            let rights = Rights::from_index(random.below(32) as u8);
            let page = Page { machine, size, rights, mask: u64::MAX, leaf: size };
            self.set_one(space, part, size, (!unmap).then_some(page));
        }
    }

    fn compare(&mut self, space: Space, address: u64, what: &str) {
        let expected = self.expected(space, address);
        let (entry, size) = self.table.get(&self.store, space, address);
        let got = self.store.pages.get(entry).copied();
        assert_eq!(got, expected, "{what}: get {address:#x}");
        if let Some(page) = expected {
            assert_eq!(size, page.size, "{what}: size at {address:#x}");
        }
        let found = self.table.refill(&mut self.store, space, address, &mut self.visit);
        let half = (address >> expected.map_or(PageSize::K4, |page| page.size).shift() & 1) as usize;
        let got = found.and_then(|pair| self.store.pages.get(pair[half]).copied());
        assert_eq!(got, expected, "{what}: refill {address:#x}");
    }

    /// What an unmap of the region around an address finds.
    fn compare_within(&self, space: Space, address: u64, bytes: u64, what: &str) {
        let begin = address & !(bytes - 1);
        let end = begin + (bytes - 1);
        let first = self.expected(space, begin).map_or(begin, |page| begin & !page.size.offset_mask());
        let expected: Vec<_> =
            self.map.range((space, first)..=(space, end)).map(|((_, at), page)| (*at, page.size)).collect();
        let mut found = self.table.within(&self.store, space, begin, bytes);
        found.sort_unstable();
        assert_eq!(found, expected, "{what}: within {begin:#x}, {bytes:#x} bytes");
    }

    fn end(&mut self, space: Space) {
        for gone in self.table.end(&mut self.store, space) {
            self.store.pages.drop(gone);
        }
        self.map.retain(|(of, _), _| *of != space);
    }
}

/// Addresses near each other, far from each other, and at both ends of the table's reach.
fn address(random: &mut Random, bits: u32) -> u64 {
    let bases = [0, 0x40_0000, 1 << 30, (1 << (bits.min(48) - 1)) - (1 << 24), 0x5555_5540_0000, 0x7fff_0000_0000];
    let base = bases[random.below(6) as usize] & ((1 << (bits.min(48) - 1)) - 1);
    let upper = if bits >= 48 && random.one_in(4) { 0xffff_8000_0000_0000 } else { 0 };
    let within = [1_u64 << 16, 1 << 23, 1 << 30][random.below(3) as usize];
    (base + random.below(within)) & ((1 << (bits.min(48) - 1)) - 1) & !0xfff | upper
}

fn agrees(name: &str, pairs: bool, seed: u64, operations: u64) {
    agree(name, catalogue::table(name, pairs).unwrap(), pairs, seed, operations);
}

fn agree(name: &str, table: Box<dyn Table>, pairs: bool, seed: u64, operations: u64) {
    let mut random = Random::new(seed);
    let mut both = Both::new(table, pairs, seed);
    let bits = both.table.bits();
    for step in 0..operations {
        let space = 1 + random.below(3) as Space;
        let at = address(&mut random, bits);
        // Half of all is done where something is, or beside it.
        let near = both.map.range((space, at)..).next().map(|((_, found), _)| found ^ (random.below(2) << 12));
        let at = if random.one_in(2) { near.unwrap_or(at) } else { at };
        let what = format!("{name}, pairs {pairs}, seed {seed}, step {step}");
        match random.below(100) {
            0..45 => {
                let size = both.sizes[random.below(both.sizes.len() as u64) as usize];
                let size = if random.one_in(3) { size } else { PageSize::K4 };
                both.set(space, at & !size.offset_mask(), size, &mut random, false);
            }
            45..60 => {
                let size = both.expected(space, at).map_or(PageSize::K4, |page| page.size);
                both.set(space, at & !size.offset_mask(), size, &mut random, true);
            }
            60 if random.one_in(200) => both.end(space),
            _ => {}
        }
        both.compare(space, at, &what);
        if random.one_in(8) {
            both.compare_within(space, at, 1 << (12 + random.below(11)), &what);
        }
    }
    for space in 1..=3 {
        both.end(space);
        both.compare(space, 0x40_0000, name);
    }
}

/// As many operations as MMU_OPERATIONS says; 10^7 in all by far, when it says so.
fn operations() -> u64 {
    std::env::var("MMU_OPERATIONS").map_or(20_000, |n| n.parse().expect("MMU_OPERATIONS is a number"))
}

#[test]
fn every_organisation_is_a_map() {
    for one in catalogue::ALL.iter().filter(|one| one.name != "base") {
        for pairs in [true, false] {
            for seed in 0..2 {
                agrees(one.name, pairs, seed, operations());
            }
        }
    }
}

/// What a mutant does wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    /// Every fiftieth change of a mapping is lost.
    Forgets,
    /// A refill looks beside the pair that is missed.
    Misreads,
    /// A task that ends leaves its mappings.
    KeepsTasks,
    /// What is kept elsewhere than in the table stays when a mapping changes.
    KeepsStale,
}

/// A structure with a fault.
struct Mutant {
    of: Box<dyn Table>,
    fault: Fault,
    sets: u64,
}

impl Table for Mutant {
    fn sizes(&self) -> &[PageSize] {
        self.of.sizes()
    }

    fn bits(&self) -> u32 {
        self.of.bits()
    }

    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32> {
        self.sets += 1;
        if self.fault == Fault::Forgets && self.sets % 50 == 0 {
            return vec![];
        }
        self.of.set(store, space, address, size, entry)
    }

    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
        self.of.get(store, space, address)
    }

    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair> {
        let beside = if self.fault == Fault::Misreads { 1 << 13 } else { 0 };
        self.of.refill(store, space, address ^ beside, visit)
    }

    fn changed(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize) {
        if self.fault != Fault::KeepsStale {
            self.of.changed(store, space, address, size);
        }
    }

    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32> {
        if self.fault == Fault::KeepsTasks { vec![] } else { self.of.end(store, space) }
    }

    fn shape(&self, store: &Store) -> Shape {
        self.of.shape(store)
    }
}

/// The comparison would see it if a structure did one of these things wrong.
#[test]
fn a_mutant_of_every_organisation_is_caught() {
    for one in catalogue::ALL.iter().filter(|one| one.name != "base") {
        let remembers = one.name.contains("-s");
        let faults = [Fault::Forgets, Fault::Misreads, Fault::KeepsTasks].into_iter();
        for fault in faults.chain(remembers.then_some(Fault::KeepsStale)) {
            let of = catalogue::table(one.name, true).unwrap();
            let mutant = Box::new(Mutant { of, fault, sets: 0 });
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                agree(one.name, mutant, true, 0, 60_000);
            }));
            assert!(caught.is_err(), "{}: {fault:?} was not seen", one.name);
        }
    }
}
