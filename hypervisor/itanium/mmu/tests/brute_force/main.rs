// SPDX-License-Identifier: MIT
//! Random operations, of which each answer, and at the end of each round all that is held, must be what a naive MMU
//! says. `ITANIUM_FUZZ` says how many; a failure names the seed of its round, which `ITANIUM_SEED` repeats alone.

mod naive;

use itanium_mmu::config::{Config, Replacement, SizeFrom};
use itanium_mmu::fields::{Itir, Pte};
use itanium_mmu::mmu::{Access, Memory, Mmu, Psr};
use itanium_mmu::tlb::Side;
use naive::{Act, Answer, Entry, Naive, State, Words};

/// Operations of a round: on a new MMU, with its own choice of sizes, formats and policy.
const ROUND: u64 = 4000;
const SIZES: [u64; 12] = [12, 13, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32];
const SIDES: [Side; 2] = [Side::Instruction, Side::Data];

struct Ram(Words);

impl Memory for Ram {
    fn read(&mut self, physical: u64) -> Option<u64> {
        self.0.get(&physical).copied()
    }
}

/// A multiply-and-rotate generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x2545_f491_4f6c_dd1d);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(23)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Both, and what is drawn for them.
struct Pair {
    random: Random,
    mmu: Mmu,
    ram: Ram,
    naive: Naive,
    /// Sizes that are drawn in this round: a few, so that pages meet.
    sizes: Vec<u64>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let (replacement, refreshed) = random.of(&[(Replacement::Lru, true), (Replacement::Fifo, false)]);
        let (size_from, entry) = random.of(&[
            (SizeFrom::Region, Entry::Region),
            (SizeFrom::Region, Entry::Region),
            (SizeFrom::Ignored, Entry::Ignored),
            (SizeFrom::Wide, Entry::Wide),
        ]);
        let entries = random.of(&[1, 4, 16, 128]);
        let virtual_msb = random.of(&[60, 60, 50, 53]);
        // A first level would keep uses from the second, whose order the naive MMU has; where uses do not matter it is
        // there, to show that it changes no answer.
        let first_entries = if refreshed { 0 } else { random.of(&[0, 1, 32]) };
        let config = Config {
            cache_entries: entries,
            first_entries,
            replacement,
            size_from,
            virtual_msb: virtual_msb as u32,
            ..Config::default()
        };
        let naive = Naive {
            region: [12 << 2; 8],
            pta: 15 << 2,
            keys: [0; 16],
            fixed: [vec![None; 8], vec![None; 8]],
            cached: [vec![], vec![]],
            entries,
            refreshed,
            entry,
            top_bit: virtual_msb,
        };
        let sizes = (0..3).map(|_| random.of(&SIZES)).collect();
        Self { random, mmu: Mmu::new(config), ram: Ram(Words::new()), naive, sizes }
    }

    /// An address: of a few regions and of few enough pages that most are met again; at times anything.
    fn va(&mut self) -> u64 {
        let random = &mut self.random;
        if random.one_in(100) {
            return random.next();
        }
        let size = self.sizes[random.below(3) as usize];
        let page = random.below(6) << size;
        random.of(&[0, 1, 5, 7]) << 61 | page | random.below(1 << 14)
    }

    fn first(&mut self) -> u64 {
        let random = &mut self.random;
        let mut word = random.next() & 0x0000_0000_ffff_f000 | random.next() & 0x0f80;
        word |= u64::from(!random.one_in(12)) | u64::from(!random.one_in(8)) << 5 | u64::from(!random.one_in(4)) << 6;
        word |= random.of(&[0, 0, 0, 0, 0, 0, 4, 5, 6, 7]) << 2;
        match random.below(40) {
            0 => word ^= 1 << random.below(64),
            1 => word |= random.below(4) << 2,
            2..6 => word |= random.next() & 0x81f0_0000_0000_0000,
            6..16 => word |= random.of(&SIZES) << 53,
            _ => {}
        }
        word
    }

    fn second(&mut self) -> u64 {
        let random = &mut self.random;
        let size = self.sizes[random.below(3) as usize];
        let word = size << 2 | random.below(4) << 8;
        if random.one_in(40) { word ^ 1 << random.below(64) } else { word }
    }

    /// Writes one of the registers.
    fn register(&mut self) {
        let random = &mut self.random;
        match random.below(4) {
            0 | 1 => {
                let size = self.sizes[random.below(3) as usize];
                let word = random.below(4) << 8 | size << 2 | u64::from(!random.one_in(4));
                let at = random.below(8) as usize;
                self.mmu.set_region(at, word).expect("a good word");
                self.naive.region[at] = word;
            }
            2 => {
                let long = random.below(2) << 8;
                let size = if long == 0 { 15 + random.below(36) } else { 15 + random.below(6) };
                let base = random.of(&[0, 5, 7]) << 61 | random.of(&[0, 1 << 16, 0x0007_0000_0000_0000]);
                let word = base | long | size << 2 | u64::from(!random.one_in(8));
                self.mmu.set_pta(word).expect("a good word");
                self.naive.pta = word;
            }
            _ => {
                let word = random.below(6) << 8 | random.of(&[0, 0, 0, 2, 4, 8, 14]) | u64::from(!random.one_in(4));
                let at = random.below(16) as usize;
                self.mmu.set_key(at, word).expect("a good word");
                let same = |other: &u64| word % 2 == 1 && other >> 8 == word >> 8;
                self.naive.keys.iter_mut().filter(|other| same(other)).for_each(|other| *other &= !1);
                self.naive.keys[at] = word;
            }
        }
    }

    /// Puts an entry for an address where the walker will look, and the table's page where it is mapped.
    fn entry(&mut self) {
        let va = self.va();
        let (first, second) = (self.first(), self.second());
        let at = self.naive.hash(va);
        let size = self.random.of(&[14, 16, 24]);
        let table = self.random.below(4) << 24;
        let good = !self.random.one_in(6);
        let word = if good { 0x661 | table } else { self.first() };
        self.insert(1, None, at, word, size << 2 | self.random.0 % 2 << 8);
        let bytes = 1 << size;
        let physical = (word & 0x0003_ffff_ffff_f000) / bytes * bytes + at % bytes;
        let mut tag = self.naive.tag(va);
        if self.random.one_in(10) {
            tag ^= 1 << self.random.below(64);
        }
        for (index, value) in
            [first, second, tag].into_iter().enumerate().take(if self.random.one_in(30) { 1 } else { 3 })
        {
            self.ram.0.insert(physical + index as u64 * 8, value);
        }
    }

    fn insert(&mut self, side: usize, register: Option<usize>, va: u64, first: u64, second: u64) {
        let (pte, itir) = (Pte(first), Itir(second));
        let done = match register {
            None => self.mmu.itc(SIDES[side], pte, itir, va),
            Some(at) => self.mmu.itr(SIDES[side], at, pte, itir, va),
        };
        let wanted = self.naive.insert(side, register, va, first, second);
        assert_eq!(done.is_ok(), wanted, "insert {side} {register:?} {va:#x} {first:#x} {second:#x}: {done:?}");
    }

    fn purge(&mut self) {
        let va = self.va();
        let size =
            if self.random.one_in(20) { self.random.below(64) } else { self.sizes[self.random.below(3) as usize] };
        let side = self.random.of(&[None, None, Some(0), Some(1)]);
        if self.random.one_in(60) {
            self.mmu.ptc_e();
            self.naive.cached = [vec![], vec![]];
        }
        let done = match side {
            None if self.random.one_in(2) => {
                self.mmu.ptc_g(va, Itir(size << 2), true).map(|told| self.mmu.receive(&told))
            }
            None => self.mmu.ptc_l(va, Itir(size << 2)),
            Some(side) => self.mmu.ptr(SIDES[side], va, Itir(size << 2)),
        };
        assert_eq!(done.is_ok(), self.naive.purge(side, va, size), "purge {side:?} {va:#x} 2^{size}: {done:?}");
    }

    fn state(&mut self) -> (String, u64) {
        let random = &mut self.random;
        let often = if random.one_in(8) { 2 } else { 1000 };
        let mut on: String = "idrc".chars().filter(|_| !random.one_in(often)).collect();
        on.extend("kax".chars().filter(|_| random.one_in(4)));
        (on, random.below(4))
    }

    fn access(&mut self) {
        let va = self.va();
        let (on, level) = self.state();
        let has = |letter: char| on.contains(letter);
        let psr = Psr {
            it: has('i'),
            dt: has('d'),
            rt: has('r'),
            ic: has('c'),
            pk: has('k'),
            da: has('a'),
            ia: has('x'),
            cpl: level as u8,
        };
        let state = State { on: &on, level };
        let kinds = [
            (Access::Fetch, Act::Fetch),
            (Access::Read, Act::Load),
            (Access::Write, Act::Store),
            (Access::ReadWrite, Act::Swap),
            (Access::StackRead, Act::Fill),
            (Access::StackWrite, Act::Spill),
            (Access::Flush, Act::Flush),
        ];
        let pick = self.random.below(10) as usize;
        let Self { mmu, ram, naive, random, .. } = self;
        let (got, want): (Answer, Answer) = match pick {
            0..7 if kinds[pick].0 == Access::Fetch && !mmu.implements(va) => return, // the processor's to see
            0..7 => {
                let (access, act) = kinds[pick];
                let got = mmu.translate(ram, psr, access, va).map(|hit| hit.physical);
                (got.map_err(|fault| fault.kind.vector()), naive.access(&ram.0, state, act, va))
            }
            7 => {
                let (asked, letter) = (random.below(4), random.of(&['r', 'w']));
                let got = mmu.probe(ram, psr, va, asked as u8, letter == 'w').map(u64::from);
                (got.map_err(|fault| fault.kind.vector()), naive.probe(&ram.0, state, va, asked, letter))
            }
            8 => {
                let got = mmu.tpa(ram, psr, va);
                (got.map_err(|fault| fault.kind.vector()), naive.tpa(&ram.0, state, va))
            }
            _ => (Ok(mmu.tak(ram, psr, va)), Ok(naive.tak(&ram.0, state, va))),
        };
        assert_eq!(got, want, "pick {pick} {state:?} {va:#x}: got, and what the naive MMU has");
    }

    /// All that is held is what the naive MMU holds.
    fn same(&self) {
        for (side, name) in SIDES.into_iter().enumerate() {
            let mut got: Vec<(u64, u64, u64, u64)> = self
                .mmu
                .tlb(name)
                .all()
                .map(|each| {
                    (u64::from(each.range.rid), each.range.begin, each.pte.0, u64::from(each.range.size.shift()))
                })
                .collect();
            let held = self.naive.fixed[side].iter().flatten().chain(&self.naive.cached[side]);
            let mut want: Vec<(u64, u64, u64, u64)> = held
                .map(|each| {
                    (
                        each.rid,
                        each.va % (1 << 61) >> (each.second >> 2 & 63) << (each.second >> 2 & 63),
                        each.first,
                        each.second >> 2 & 63,
                    )
                })
                .collect();
            got.sort_unstable();
            want.sort_unstable();
            assert_eq!(got, want, "{name:?}");
        }
    }
}

/// What the rounds reached: without it, operations that all fail alike would show nothing.
#[derive(Default)]
struct Reached {
    walked: u64,
    ended: std::collections::BTreeSet<itanium_mmu::walker::Abort>,
    faults: std::collections::BTreeSet<itanium_mmu::fault::Kind>,
    overwritten: u64,
}

fn round(seed: u64, operations: u64, reached: &mut Reached) {
    let mut pair = Pair::new(seed);
    for _ in 0..operations {
        match pair.random.below(20) {
            0 => pair.register(),
            1..4 => pair.entry(),
            4..7 => {
                let (side, va) = (pair.random.below(2) as usize, pair.va());
                let register = pair.random.one_in(12).then(|| pair.random.below(8) as usize);
                let (first, second) = (pair.first(), pair.second());
                pair.insert(side, register, va, first, second);
            }
            7 => pair.purge(),
            _ => pair.access(),
        }
    }
    pair.same();
    let counters = pair.mmu.counters();
    reached.walked += counters.data.walker_insertions + counters.instruction.walker_insertions;
    reached.overwritten += counters.data.overwritten;
    reached.ended.extend(counters.aborts.keys());
    reached.faults.extend(counters.faults.keys());
}

#[test]
fn every_answer_is_the_naive_ones() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let mut reached = Reached::default();
    if let Some(seed) = number("ITANIUM_SEED") {
        return round(seed, ROUND, &mut reached);
    }
    let operations = number("ITANIUM_FUZZ").unwrap_or(1_000_000);
    for seed in 0..operations.div_ceil(ROUND) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(seed, ROUND, &mut reached)));
        assert!(result.is_ok(), "ITANIUM_SEED={seed} repeats it");
    }
    assert!(reached.walked > operations / 200, "the walker inserted {} times", reached.walked);
    assert!(reached.overwritten > operations / 200, "{} entries had to go", reached.overwritten);
    assert_eq!(reached.faults.len(), itanium_mmu::fault::Kind::ALL.len(), "{:?}", reached.faults);
    // Never met: a frame beyond the processor's bits, for all that the field has are implemented here.
    assert_eq!(reached.ended.len(), 13, "{:?}", reached.ended);
}
