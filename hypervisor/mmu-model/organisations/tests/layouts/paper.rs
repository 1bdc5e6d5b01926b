// SPDX-License-Identifier: MIT
//! What Jacob and Mudge print of each refill: their table 4, and the length of chains.

use mmu_model::address::Machine;
use mmu_model::synthetic::Random;
use mmu_organisations::table::{InArray, Level, Visit};

use super::{Count, Made};

/// Jacob & Mudge, table 4: 10 instructions and a load where the TLB has the table's page, else 20 and a load more; MACH's
/// root 500, with ten loads besides.
#[test]
fn linear_tables_cost_what_the_paper_counts() {
    let mut ultrix = Made::new("ultrix");
    ultrix.map(1, 0x1234_5000);
    let mut count = ultrix.refill(1, 0x1234_5000);
    assert_eq!((count.instructions, count.loads.len()), (30, 2));
    assert_eq!(count.interrupts, [Level::User, Level::Root]);
    let again = std::mem::take(&mut count.held);
    let mut count = Count { held: again, ..Count::default() };
    ultrix.table.refill(&mut ultrix.store, 1, 0x1234_5000, &mut count).unwrap();
    assert_eq!((count.instructions, count.loads.len()), (10, 1));
    let mut mach = Made::new("mach");
    mach.map(1, 0x1234_5000);
    let count = mach.refill(1, 0x1234_5000);
    assert_eq!((count.instructions, count.loads.len()), (530, 13));
    assert_eq!(count.interrupts, [Level::User, Level::Kernel, Level::Root]);
}

/// Jacob & Mudge, table 4: INTEL 7 cycles and exactly two loads, no instruction; PA-RISC 20 instructions, and as many loads
/// as the place in the chain.
#[test]
fn hardware_walks_and_inverted_tables_cost_what_the_paper_counts() {
    let mut intel = Made::new("intel");
    intel.map(1, 0x1234_5000);
    let count = intel.refill(1, 0x1234_5000);
    assert_eq!((count.cycles, count.instructions, count.loads.len(), count.interrupts.len()), (7, 0, 2, 0));
    let mut inverted = Made::new("pa-risc");
    // The same index: the upper bits of the page's number are XORed with the lower.
    let pages = [0x1_0000_0000, 0x1_0100_1000, 0x1_0200_2000].map(|page: u64| page ^ 0x1000);
    pages.iter().for_each(|page| inverted.map(1, *page));
    let loads = pages.map(|page| inverted.refill(1, page).loads.len());
    assert_eq!(loads, [1, 2, 3]);
    assert_eq!(inverted.refill(1, pages[2]).instructions, 20);
    assert_eq!(inverted.shape("bytes"), 4096 * 16 + 2 * 16);
}

/// Chains under uniform hashing at two entries a frame: 1 + load / 2 probes a hit, 1.25 (section 3.1). 2048 random pages
/// of 4096 entries; the bound is five standard deviations of the mean, from the variance of a chain's place.
#[test]
fn chains_are_as_long_as_expected() {
    let (mut sum, mut refills) = (0, 0);
    for seed in 0..20 {
        let (mut made, mut random) = (Made::new("pa-risc"), Random::new(seed));
        let mut pages: Vec<u64> = (0..2048).map(|_| random.below(1 << 31) & !0xfff).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.iter().for_each(|page| made.map(1, *page));
        sum += pages.iter().map(|page| made.refill(1, *page).loads.len()).sum::<usize>();
        refills += pages.len();
    }
    let mean = sum as f64 / refills as f64;
    assert!((mean - 1.25).abs() < 5.0 * (0.25_f64 / refills as f64).sqrt() + 0.001, "{mean}");
}

/// NOTLB: ten instructions at each miss, and twenty and a load more where the table's entry misses as well.
#[test]
fn without_a_tlb_the_table_is_asked_by_misses() {
    struct Misses(Count);
    impl Visit for Misses {
        fn interrupt(&mut self, level: Level) {
            self.0.interrupt(level);
        }
        fn run(&mut self, level: Level, from: u64, instructions: u64) {
            self.0.run(level, from, instructions);
        }
        fn spend(&mut self, _: u64) {}
        fn load(&mut self, level: Level, at: Machine, bytes: u64) {
            self.0.load(level, at, bytes);
        }
        fn translates(&mut self, _: InArray) -> bool {
            panic!("there is no TLB");
        }
        fn protect(&mut self, _: InArray, _: [Option<Machine>; 2]) {
            panic!("there is no TLB");
        }
        fn load_virtual(&mut self, level: Level, at: InArray, machine: Machine, bytes: u64) -> bool {
            self.0.load_virtual(level, at, machine, bytes);
            false
        }
        fn short_cut(&mut self) {}
    }
    let mut made = Made::new("notlb");
    made.map(1, 0x1234_5000);
    assert_eq!(made.refill(1, 0x1234_5000).instructions, 10);
    let mut missing = Misses(Count::default());
    made.table.refill(&mut made.store, 1, 0x1234_5000, &mut missing).unwrap();
    assert_eq!((missing.0.instructions, missing.0.loads.len()), (30, 2));
    assert_eq!(missing.0.interrupts, [Level::User, Level::Root]);
}
