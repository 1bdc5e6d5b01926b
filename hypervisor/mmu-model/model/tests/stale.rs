// SPDX-License-Identifier: MIT
//! What is remembered after the tables have changed is told, and nothing else is.

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::context::{Kind, Layer};
use mmu_model::cpu::Cpu;
use mmu_model::mmu::{Looked, Mmu};
use mmu_model::synthetic::{Builder, OPEN, Pages};
use mmu_model::x86::{Context, Control, Event, Levels, Tables, bit};

const SMALL: u64 = 0x1000_0000;
const LARGE: u64 = 0xffff_8000_4000_0000;
const ASID: u16 = 7;

/// A page of each size in a table of its own, both accessed under an ASID; and where their entries are.
struct Bench {
    mmu: Mmu,
    memory: Pages,
    table: Builder,
    small: Machine,
    large: Machine,
}

impl Bench {
    fn new(kind: Kind, bits: u64) -> Self {
        let mut memory = Pages::default();
        let mut table = Builder::new(0x1000, 0, Levels::Four);
        let small = table.map(&mut memory, SMALL, PageSize::K4, 1 << 32, bits);
        let large = table.map(&mut memory, LARGE, PageSize::M2, 2 << 32, bits);
        let mmu = Mmu::new(&Cpu::built_in("zen2").unwrap().unwrap());
        let mut bench = Self { mmu, memory, table, small, large };
        bench.mmu.set_context(&bench.context());
        for address in [SMALL, LARGE + 0x5008] {
            bench.mmu.access(&mut bench.memory, Virtual::new(address), kind).unwrap();
        }
        bench
    }

    fn context(&self) -> Context {
        Context {
            layer: Layer::GuestUser,
            space: 0,
            user: true,
            control: Control::default(),
            asid: ASID,
            pcid: 0,
            tables: Tables::Flat { root: Machine::new(self.table.root), levels: Levels::Four },
        }
    }

    fn look(&mut self) -> Looked {
        let context = self.context();
        self.mmu.stale(&mut self.memory, &context)
    }

    /// Where each stale entry begins and of which level it is, without repetition.
    fn stale(&mut self) -> Vec<(u64, u8, bool)> {
        let stale = self.look().stale;
        let mut found: Vec<_> = stale.iter().map(|s| (s.address.raw(), s.held.level, s.held.leaf)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Changes a bit of an entry.
    fn flip(&mut self, at: Machine, bits: u64) {
        let value = self.memory.get(at);
        self.memory.write(at, value ^ bits);
    }
}

const SMALL_PAGE: (u64, u8, bool) = (SMALL, 1, true);
const LARGE_PAGE: (u64, u8, bool) = (LARGE, 2, true);

#[test]
fn what_the_tables_say_is_not_stale() {
    let mut bench = Bench::new(Kind::Load, OPEN);
    // Both levels of the TLB have both pages; half walks: three to the small page, two to the large one.
    assert_eq!(bench.look(), Looked { entries: 4 + 5, stale: vec![] });
    // Rights that were given since, and what no right depends on.
    let mut bench = Bench::new(Kind::Fetch, bit::PRESENT | bit::USER);
    bench.flip(bench.small, bit::WRITE | bit::DIRTY | bit::GLOBAL);
    bench.flip(bench.large, bit::WRITE | bit::ACCESSED | 1 << 12);
    assert_eq!(bench.look().stale, []);
}

#[test]
fn looking_changes_nothing() {
    let mut bench = Bench::new(Kind::Load, OPEN);
    let (before, counters) = (bench.memory.get(bench.small), bench.mmu.counters());
    bench.memory.write(bench.small, before & !bit::ACCESSED);
    assert!(bench.look().stale.is_empty());
    assert_eq!(bench.memory.get(bench.small), before & !bit::ACCESSED);
    assert_eq!(bench.mmu.counters().to_json(), counters.to_json());
}

#[test]
fn each_change_that_takes_something_away_is_seen_until_it_is_flushed() {
    let one = bit::PRESENT | bit::WRITE | bit::USER;
    for bits in [bit::PRESENT, bit::WRITE, bit::USER, bit::NO_EXECUTE, 1 << 33, 1 << 45] {
        let mut bench = Bench::new(Kind::Load, one);
        bench.flip(bench.small, bits);
        assert_eq!(bench.stale(), [SMALL_PAGE], "{bits:#x}");
        bench.flip(bench.large, bits);
        assert_eq!(bench.stale(), [SMALL_PAGE, LARGE_PAGE], "{bits:#x}");
        bench.mmu.invalidate(Event::Invlpga { address: Virtual::new(SMALL), asid: ASID });
        assert_eq!(bench.stale(), [LARGE_PAGE], "{bits:#x}");
        bench.mmu.invalidate(Event::Vmrun { tlb_control: 3, asid: ASID });
        assert_eq!(bench.look(), Looked::default());
    }
}

#[test]
fn a_page_that_has_another_size_now_is_stale() {
    let mut bench = Bench::new(Kind::Load, OPEN);
    // The same memory by the same rights, in pieces.
    bench.memory.write(bench.large, 0x90_0000 | OPEN);
    for piece in 0..512 {
        bench.memory.write(Machine::new(0x90_0000 + 8 * piece), 2 << 32 | piece << 12 | OPEN);
    }
    assert_eq!(bench.stale(), [LARGE_PAGE]);
    // And the other way round: what leads to the pieces' table is stale with them.
    let mut bench = Bench::new(Kind::Load, OPEN);
    let above = bench.table.entry(&mut bench.memory, SMALL, PageSize::M2);
    bench.memory.write(above, 1 << 32 | OPEN | bit::LARGE);
    assert_eq!(bench.stale(), [SMALL_PAGE, (SMALL, 2, false)]);
}

#[test]
fn half_walks_are_looked_at() {
    let mut bench = Bench::new(Kind::Load, OPEN);
    let above = bench.table.entry(&mut bench.memory, SMALL, PageSize::M2);
    // Another table that says the same of the page.
    let entry = bench.memory.get(bench.small);
    bench.memory.write(Machine::new(0x90_0000), entry);
    bench.memory.write(above, 0x90_0000 | OPEN);
    assert_eq!(bench.stale(), [(SMALL, 2, false)]);
    // And less that it allows, to all below.
    let mut bench = Bench::new(Kind::Load, OPEN);
    let top = bench.table.entry(&mut bench.memory, LARGE, PageSize::G1);
    bench.flip(top, bit::WRITE);
    assert_eq!(bench.stale(), [LARGE_PAGE, (LARGE, 3, false)]);
}

#[test]
fn other_address_spaces_and_nested_tables_are_left_alone() {
    let mut bench = Bench::new(Kind::Load, OPEN);
    bench.flip(bench.small, bit::PRESENT);
    let other = Context { asid: ASID + 1, ..bench.context() };
    assert_eq!(bench.mmu.stale(&mut bench.memory, &other), Looked::default());
    let root = Machine::new(bench.table.root);
    let nested = Tables::Nested { guest: None, root, levels: Levels::Four, nxe: true };
    let nested = Context { tables: nested, ..bench.context() };
    assert_eq!(bench.mmu.stale(&mut bench.memory, &nested), Looked::default());
}
