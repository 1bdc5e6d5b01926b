// SPDX-License-Identifier: MIT
//! What the processors' documents say of their caches and TLBs beyond sizes: slices of the last-level cache, and where
//! pages of 1 GiB live.

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::context::Kind;
use mmu_model::counters::Bank;
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Pages, user_on};
use mmu_model::x86::{Context, Levels, Tables};

fn mmu(cpu: &str, context: &Context) -> Mmu {
    let mut mmu = Mmu::new(&Cpu::built_in(cpu).unwrap().unwrap());
    mmu.set_context(context);
    mmu.set_region(true);
    mmu
}

fn without_paging() -> Context {
    Context { tables: Tables::Off, ..user_on(&Builder::new(0, 0, Levels::Four), None) }
}

/// Lines at the same place of 2 MiB pages meet in one set of L1 and of L2, but the i7-3770 spreads them over the four
/// slices of its L3: up to four times 16 find room there, where a cache indexed by the low bits alone has 16.
#[test]
fn congruent_lines_spread_over_the_slices_of_the_l3() {
    let served = |cpu: &str, lines: u64| {
        let mut mmu = mmu(cpu, &without_paging());
        let mut memory = Pages::default();
        for _ in 0..2 {
            for line in 0..lines {
                mmu.access(&mut memory, Virtual::new(5 << 30 | line << 21 | 0x1240), Kind::Load).unwrap();
            }
        }
        mmu.counters().total().data_served
    };
    assert_eq!(served("i7-3770", 48), [0, 0, 48, 48]);
    assert_eq!(served("i7-3770", 65), [0, 0, 48, 82], "17 in one slice, whose set thrashes; the others stay");
    assert_eq!(served("zen2", 17), [0, 0, 0, 34], "indexed linearly, as its file says");
}

/// Loads from 1 GiB pages, the first of which is used again at last, at its beginning and at another 2 MiB.
fn pages_of_1g(cpu: &str, pages: u64) -> Bank {
    let mut memory = Pages::default();
    let mut table = Builder::new(0x1000, 0, Levels::Four);
    for page in (0..pages).map(|n| n << 30) {
        table.map(&mut memory, page, PageSize::G1, page, OPEN);
    }
    let mut mmu = mmu(cpu, &user_on(&table, None));
    // Each at another place of its page: else their pieces of 2 MiB would meet in one set of the second level.
    for address in (0..pages).map(|n| n << 30 | n << 21).chain([0, 0x1234_5678]) {
        let found = mmu.access(&mut memory, Virtual::new(address), Kind::Load);
        assert_eq!(found, Ok(Machine::new(address)));
    }
    mmu.counters().total()
}

/// Of 4 KiB, 2 MiB and 1 GiB.
fn sizes(counts: &[u64; PageSize::COUNT]) -> [u64; 3] {
    PageSize::ALL.map(|size| counts[size.index()])
}

/// Zen 2 keeps a piece of 2 MiB in the second level, and puts the whole page back into the first (56305, 2.7.2).
#[test]
fn zen_2_installs_the_whole_1_gib_page_again() {
    let bank = pages_of_1g("zen2", 65);
    let load = Kind::Load as usize;
    assert_eq!(sizes(&bank.fills[load]), [0, 0, 65], "each page is walked to once");
    assert_eq!(sizes(&bank.hits[1][load]), [0, 1, 0], "the piece in the second level");
    assert_eq!(sizes(&bank.hits[0][load]), [0, 0, 1], "then anywhere in the page, in the first");
}

/// Zen 5's second level has room for 4 KiB and 2 MiB pages only.
#[test]
fn zen_5_walks_again_to_a_1_gib_page_that_left_the_first_level() {
    let bank = pages_of_1g("zen5", 97);
    let load = Kind::Load as usize;
    assert_eq!(sizes(&bank.fills[load]), [0, 0, 98]);
    assert_eq!((sizes(&bank.hits[1][load]), sizes(&bank.hits[0][load])), ([0; 3], [0, 0, 1]));
}
