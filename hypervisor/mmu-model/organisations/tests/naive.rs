// SPDX-License-Identifier: MIT
//! Refills told twice: by each table, and by a naive reimplementation that knows which pages are mapped and in which order,
//! and has neither words nor addresses. Steps, chains, promotions and hits of software TLBs must agree, refill by refill.

use mmu_model::address::{Machine, PageSize};
use mmu_model::synthetic::Random;
use mmu_model::walk::Rights;
use mmu_organisations::catalogue;
use mmu_organisations::table::{InArray, Level, Page, Store, Visit};

/// What a refill did: instructions, loads, and whether a software TLB had it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Done {
    instructions: u64,
    loads: u64,
    short_cut: bool,
}

impl Visit for Done {
    fn interrupt(&mut self, _: Level) {}
    fn run(&mut self, _: Level, _: u64, instructions: u64) {
        self.instructions += instructions;
    }
    fn spend(&mut self, _: u64) {}
    fn load(&mut self, _: Level, _: Machine, _: u64) {
        self.loads += 1;
    }
    fn translates(&mut self, _: InArray) -> bool {
        true
    }
    fn protect(&mut self, _: InArray, _: [Option<Machine>; 2]) {}
    fn load_virtual(&mut self, _: Level, _: InArray, _: Machine, _: u64) -> bool {
        self.loads += 1;
        true
    }
    fn short_cut(&mut self) {
        self.short_cut = true;
    }
}

/// One that is told which pages are mapped, and says what a refill does.
trait Naive {
    fn map(&mut self, address: u64);
    fn refill(&mut self, address: u64) -> Done;
    fn agrees(&self, done: Done, expected: Done) -> bool {
        done == expected
    }
}

/// A guarded tree is what its keys make of it: below an entry all keys that agree so far; where they part, a node.
struct Tree {
    bits: u32,
    keys: Vec<u64>,
}

impl Naive for Tree {
    fn map(&mut self, address: u64) {
        self.keys.push(address >> 13);
    }

    fn refill(&mut self, address: u64) -> Done {
        let key = address >> 13;
        let width = if 51 % self.bits == 0 { self.bits } else { 51 % self.bits };
        let mut group: Vec<u64> = self.keys.iter().copied().filter(|k| (k ^ key) >> (51 - width) == 0).collect();
        let mut steps = 1;
        while group.iter().any(|k| *k != key) {
            let parts = group.iter().map(|k| k ^ key).max().expect("it is not empty");
            let shift = (63 - parts.leading_zeros()) / self.bits * self.bits;
            group.retain(|k| (k ^ key) >> shift == 0);
            steps += 1;
        }
        Done { instructions: 38 + 8 * steps, loads: steps + 1, short_cut: false }
    }
}

/// A hashed table is a list for each bucket: what comes new stands second, and what is found may change places with the
/// first.
struct Lists {
    shift: u32,
    first: u64,
    promotion: Option<u64>,
    buckets: Vec<Vec<u64>>,
}

impl Lists {
    fn new(buckets: usize, block: u64, first: u64, promotes: bool) -> Self {
        let promotion = promotes.then_some(4 * (1 + 2 * block));
        Self { shift: 12 + block.trailing_zeros(), first, promotion, buckets: vec![vec![]; buckets] }
    }
}

impl Naive for Lists {
    fn map(&mut self, address: u64) {
        let block = address >> self.shift;
        let index = block as usize % self.buckets.len();
        let list = &mut self.buckets[index];
        if !list.contains(&block) {
            list.insert(list.len().min(1), block);
        }
    }

    fn refill(&mut self, address: u64) -> Done {
        let block = address >> self.shift;
        let index = block as usize % self.buckets.len();
        let list = &mut self.buckets[index];
        let at = list.iter().position(|b| *b == block).expect("it is mapped") as u64;
        // Each bucket's tag, the links between, then the pair.
        let mut done = Done { instructions: self.first + 6 * at, loads: 2 + 2 * at, short_cut: false };
        if let (Some(instructions), true) = (self.promotion, at > 0) {
            list.swap(0, at as usize);
            done.instructions += instructions;
            done.loads += 2;
        }
        done
    }
}

/// A guarded tree whose nodes grow is never deeper than one of two entries a node, and as shallow as its widest allow; how
/// wide each is its history decides, so that only bounds are known without it.
struct Grown {
    keys: Vec<u64>,
}

impl Naive for Grown {
    fn map(&mut self, address: u64) {
        self.keys.push(address);
    }

    fn refill(&mut self, address: u64) -> Done {
        let mut tree = Tree { bits: 1, keys: vec![] };
        self.keys.iter().for_each(|key| tree.map(*key));
        tree.refill(address)
    }

    fn agrees(&self, done: Done, expected: Done) -> bool {
        let steps = done.loads - 1;
        done.instructions == 38 + 8 * steps && 0 < steps && done.loads <= expected.loads && !done.short_cut
    }
}

/// One table for all, whose chains grow at their end.
struct Chains(Vec<Vec<u64>>, u64);

impl Chains {
    fn index(address: u64) -> usize {
        let page = address >> 12;
        ((page ^ page >> 12 ^ 1) & 4095) as usize
    }
}

impl Naive for Chains {
    fn map(&mut self, address: u64) {
        self.0[Self::index(address)].push(address);
    }

    fn refill(&mut self, address: u64) -> Done {
        let at = self.0[Self::index(address)].iter().position(|a| *a == address).expect("it is mapped");
        Done { instructions: 20 + 2 * self.1, loads: at as u64 + 1 + self.1, short_cut: false }
    }
}

/// A software TLB of sets of one or two, of which the older gives way, before a tree.
struct Remembered {
    ways: usize,
    sets: Vec<Vec<u64>>,
    tree: Tree,
}

impl Naive for Remembered {
    fn map(&mut self, address: u64) {
        self.tree.map(address);
        // Its pair was changed.
        let pair = address >> 13;
        let index = pair as usize % self.sets.len();
        self.sets[index].iter_mut().filter(|entry| **entry == pair).for_each(|entry| *entry = u64::MAX);
    }

    fn refill(&mut self, address: u64) -> Done {
        let pair = address >> 13;
        let index = pair as usize % self.sets.len();
        let set = &mut self.sets[index];
        if let Some(way) = set.iter().position(|entry| *entry == pair) {
            let instructions = if self.ways == 1 { 19 } else { [20, 22][way] };
            return Done { instructions, loads: way as u64 + 2, short_cut: true };
        }
        set.insert(0, pair);
        set.truncate(self.ways);
        let below = self.tree.refill(address);
        let (instructions, loads) = (below.instructions + 11 + 6, below.loads + self.ways as u64 + 1);
        Done { instructions, loads, short_cut: false }
    }
}

/// As many loads and instructions each time.
struct Always(u64, u64);

impl Naive for Always {
    fn map(&mut self, _: u64) {}
    fn refill(&mut self, _: u64) -> Done {
        Done { instructions: self.0, loads: self.1, short_cut: false }
    }
}

fn naive(name: &str) -> Box<dyn Naive> {
    let tree = |entries: u32| Tree { bits: entries.trailing_zeros(), keys: vec![] };
    let remembered = |entries: usize, ways: usize| {
        let sets = vec![vec![u64::MAX; ways]; entries / ways];
        Box::new(Remembered { ways, sets, tree: tree(16) })
    };
    match name {
        "h512" => Box::new(Lists::new(256, 2, 19, true)),
        "h8192" => Box::new(Lists::new(4096, 2, 19, true)),
        "c512-4" => Box::new(Lists::new(128, 4, 27, true)),
        "c512-8" => Box::new(Lists::new(64, 8, 27, true)),
        "c512-16" => Box::new(Lists::new(32, 16, 27, true)),
        "c512-4-n" => Box::new(Lists::new(128, 4, 27, false)),
        "c512-8-n" => Box::new(Lists::new(64, 8, 27, false)),
        "c512-16-n" => Box::new(Lists::new(32, 16, 27, false)),
        "c8192" => Box::new(Lists::new(2048, 4, 27, true)),
        "pa-risc" => Box::new(Chains(vec![vec![]; 4096], 0)),
        "ipt" => Box::new(Chains(vec![vec![]; 4096], 1)),
        "gv" => Box::new(Grown { keys: vec![] }),
        "g16-s8k" => remembered(512, 1),
        "g16-s128k" => remembered(8192, 1),
        "g16-s2x4k" => remembered(512, 2),
        "g16-s2x64k" => remembered(8192, 2),
        "mpt" => Box::new(Always(34, 6)),
        "lva" | "ultrix-48" | "mach-48" => Box::new(Always(10, 1)), // the TLB has all pages of the table
        "intel-48" | "radix" => Box::new(Always(0, 4)),
        guarded => Box::new(tree(guarded[1..].parse().expect("a guarded table"))),
    }
}

#[test]
fn every_refill_does_what_a_naive_one_does() {
    let virtual_ones = ["ultrix", "mach", "intel", "notlb", "notlb-48", "base"]; // of 31 bits, or without refills
    for one in catalogue::ALL.iter().filter(|one| !virtual_ones.contains(&one.name)) {
        let (mut random, mut naive) = (Random::new(11), naive(one.name));
        let (mut table, mut store) = (catalogue::table(one.name, true).unwrap(), Store::default());
        let mut mapped = vec![];
        for step in 0..4000 {
            // Bursts of pages at random places, refilled as they come and again at random.
            if random.one_in(8) && mapped.len() < 600 {
                let begin = random.below(1 << 40) & !0xfff;
                for address in (0..=random.below(6)).map(|i| begin + (i << 12)) {
                    let (size, machine) = (PageSize::K4, Machine::new(address & 0xffff_f000));
                    let page = Page { machine, size, rights: Rights::USER, mask: u64::MAX, leaf: size };
                    let entry = store.pages.entry(page);
                    table.set(&mut store, 1, address, size, entry);
                    table.changed(&mut store, 1, address, size);
                    naive.map(address);
                    mapped.push(address);
                }
            }
            if mapped.is_empty() {
                continue;
            }
            let address = mapped[random.below(mapped.len() as u64) as usize];
            let mut done = Done::default();
            assert!(table.refill(&mut store, 1, address, &mut done).is_some());
            let expected = naive.refill(address);
            let what = || format!("{}, step {step}, {address:#x}: {done:?}, expected {expected:?}", one.name);
            assert!(naive.agrees(done, expected), "{}", what());
        }
    }
}
