// SPDX-License-Identifier: MIT
//! Two tables walked one within the other: how many references that takes, and that it finds what is there.

use mmu_model::address::{Machine as At, PageSize, Virtual};
use mmu_model::context::Kind;
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Observer, Pages, World, user_on};
use mmu_model::x86::{Context, Event, Levels, bit};
use mmu_organisations::catalogue;
use mmu_organisations::nested::{self, Nested, Options};
use mmu_organisations::tally::{Counted, Tally};

const BARE: Options = Options { superpages: false, nested_tlb: false, front: 0 };

fn made(guest: &str, host: &str, options: Options) -> Mmu<Nested> {
    let table = |name| catalogue::table(name, false).unwrap();
    let cpu = Cpu::built_in("i7-3770").unwrap().unwrap();
    nested::mmu(table(guest), table(host), &cpu, options).unwrap()
}

/// A guest's page of a size behind a host's of another.
fn machine(guest_size: PageSize, host_size: PageSize) -> (Pages, Context) {
    let (mut memory, bits) = (Pages::default(), OPEN | bit::ACCESSED | bit::DIRTY);
    let mut guest = Builder::new(0x1000, 1 << 30, Levels::Four);
    // Of base pages, one that hashes elsewhere than the guest's tables do.
    let frame = if guest_size == PageSize::K4 { 0x400_9000 } else { 64 << 20 };
    (0..8).for_each(|i| _ = guest.map(&mut memory, i << 30, guest_size, frame, bits));
    let mut host = Builder::new(0x10_0000, 0, Levels::Four);
    let step = host_size.bytes() as usize;
    (0..128 << 20).step_by(step).for_each(|at| _ = host.map(&mut memory, at, host_size, (1 << 30) + at, bits));
    let context = user_on(&guest, Some(&host));
    (memory, context)
}

/// The tally of one access to a page that nothing remembers.
fn one_walk(guest: &str, host: &str, options: Options, sizes: (PageSize, PageSize)) -> Tally {
    let (mut memory, context) = machine(sizes.0, sizes.1);
    let mut mmu = made(guest, host, options);
    mmu.set_context(&context);
    mmu.set_region(true);
    mmu.access(&mut memory, Virtual::new(0x10), Kind::Load).unwrap();
    assert_eq!(mmu.organisation().tallies().mismatches(), 0);
    mmu.organisation().tallies().total()
}

/// (g + 1) (h + 1) - 1, of which g are the guest's.
#[test]
fn references_are_those_of_both_tables_multiplied() {
    let small = (PageSize::K4, PageSize::K4);
    for (guest, g) in [("radix", 4), ("h8192", 1), ("pa-risc", 1), ("c8192", 1), ("g16", 2)] {
        for (host, h) in [("radix", 4), ("h8192", 1), ("pa-risc", 1), ("c8192", 1)] {
            let tally = one_walk(guest, host, BARE, small);
            assert_eq!(tally.references, [0, g, (g + 1) * h], "{guest}/{host}");
            assert_eq!(tally.most, (g + 1) * (h + 1) - 1);
        }
    }
    assert_eq!(one_walk("radix", "radix", BARE, small).most, 24);
}

/// A table that ends early saves a reference in its dimension: 24 become 19 with large pages in the guest, 19 in the host, 15
/// in both. A hashed table of base pages does not.
#[test]
fn large_pages_end_walks_early() {
    let large = Options { superpages: true, ..BARE };
    let most = |guest, host, sizes| one_walk(guest, host, large, sizes).most;
    let (small, m2) = (PageSize::K4, PageSize::M2);
    assert_eq!(most("radix", "radix", (small, small)), 24);
    assert_eq!(most("radix", "radix", (m2, small)), 19);
    assert_eq!(most("radix", "radix", (small, m2)), 19);
    assert_eq!(most("radix", "radix", (m2, m2)), 15);
}

/// The nested TLB remembers where the guest's tables are, a software TLB what both dimensions say.
#[test]
fn what_is_remembered_is_not_walked() {
    let (mut memory, context) = machine(PageSize::K4, PageSize::K4);
    let mut told = |options: Options| {
        let mut mmu = made("radix", "radix", options);
        mmu.set_context(&context);
        mmu.set_region(true);
        for _ in 0..2 {
            mmu.access(&mut memory, Virtual::new(0x10), Kind::Load).unwrap();
            mmu.invalidate(Event::Control);
        }
        mmu.organisation().tallies().total()
    };
    assert_eq!(told(BARE).references, [0, 8, 40]);
    let tally = told(Options { nested_tlb: true, ..BARE });
    assert_eq!((tally.references, tally.nested), ([0, 8, 20], [5, 5]), "the control bit empties no nested TLB");
    let tally = told(Options { front: 64, ..BARE });
    assert_eq!((tally.references, tally.short_cuts), ([2, 4, 20], 1));
}

/// Natively the host's organisation is walked alone.
#[test]
fn what_is_not_nested_is_walked_in_one_dimension() {
    let (mut memory, bits) = (Pages::default(), OPEN | bit::ACCESSED | bit::DIRTY);
    let mut table = Builder::new(0x1000, 0, Levels::Four);
    table.map(&mut memory, 0, PageSize::K4, 64 << 20, bits);
    for (host, references) in [("radix", 4), ("h8192", 1)] {
        let mut mmu = made("g16", host, BARE);
        mmu.set_context(&user_on(&table, None));
        mmu.set_region(true);
        assert_eq!(mmu.access(&mut memory, Virtual::new(0x10), Kind::Load).unwrap().raw(), (64 << 20) + 0x10);
        assert_eq!(mmu.organisation().tallies().total().references, [references, 0, 0], "{host}");
    }
}

/// Pairs that hear the same machine, by name.
struct Several(Vec<(String, Mmu<Nested>)>);

impl Observer for Several {
    fn context(&mut self, context: &Context) {
        self.0.iter_mut().for_each(|(_, mmu)| mmu.set_context(context));
    }

    fn access(&mut self, memory: &mut Pages, address: Virtual, kind: Kind, machine: At) {
        for (name, mmu) in &mut self.0 {
            let found = mmu.access(memory, address, kind).unwrap_or_else(|stop| panic!("{name}: {stop:?}"));
            assert_eq!(found, machine, "{name}: {kind:?} {address:#x}");
        }
    }

    fn invalidate(&mut self, event: Event) {
        self.0.iter_mut().for_each(|(_, mmu)| mmu.invalidate(event));
    }

    fn region(&mut self, on: bool) {
        self.0.iter_mut().for_each(|(_, mmu)| mmu.set_region(on));
    }
}

#[test]
fn every_pair_finds_every_address() {
    const TABLES: [&str; 6] = ["radix", "g16", "mpt", "h8192", "c8192", "pa-risc"];
    let options = [
        BARE,
        Options { superpages: true, ..BARE },
        Options { superpages: true, nested_tlb: true, front: 1024 },
        Options { nested_tlb: true, ..BARE },
    ];
    let mut several = Several(vec![]);
    for options in options {
        for guest in TABLES {
            for host in TABLES {
                several.0.push((format!("{guest}/{host} {options:?}"), made(guest, host, options)));
            }
        }
    }
    World::new(5).run(5_000, &mut several);
    for (name, mmu) in &several.0 {
        let (tally, total) = (mmu.organisation().tallies().total(), mmu.counters().total());
        assert_eq!(mmu.organisation().tallies().mismatches(), 0, "{name}");
        let misses: u64 = Kind::ALL.iter().map(|kind| total.misses(*kind)).sum();
        assert!(misses > 300, "{name}: {misses}");
        assert_eq!((tally.refills, tally.cycles), (misses, total.all_walk_cycles()), "{name}: each miss is a refill");
        assert_eq!(tally.interrupts, [0; 3], "{name}: hardware has no handlers");
        let [flat, guest, host] = tally.references;
        assert!(guest > 0 && host > 0, "{name}");
        assert_eq!(flat > 0, name.contains("front: 1024"), "{name}: a software TLB belongs to neither");
        assert_eq!(tally.loads.iter().flatten().sum::<u64>(), flat + guest + host, "{name}");
    }
}

#[test]
fn tables_that_hardware_cannot_walk_are_refused() {
    let cpu = Cpu::built_in("i7-3770").unwrap().unwrap();
    let table = |name| catalogue::table(name, false).unwrap();
    for name in ["lva", "ultrix-48", "mach-48", "notlb-48", "base", "intel"] {
        let error = nested::mmu(table(name), table("radix"), &cpu, BARE).unwrap_err();
        assert!(error.contains("the guest's table is not one that hardware can walk"), "{name}: {error}");
        let error = nested::mmu(table("radix"), table(name), &cpu, BARE).unwrap_err();
        assert!(error.contains("the host's table"), "{name}: {error}");
    }
}
