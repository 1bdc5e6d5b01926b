// SPDX-License-Identifier: MIT
//! Properties that hold for every machine.
//!
//! "A smaller cache never makes fewer references" is not one of them as it stands: a TLB filters what the
//! paging-structure caches see, and a hit that hides a use can cost an entry there (a Belady-like anomaly). It holds
//! where nothing below is filtered, and those cases are the ones tested.

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::assoc::Replacement;
use mmu_model::context::Kind;
use mmu_model::counters::{Bank, Counters};
use mmu_model::cpu::{ArraySpec, Cpu, PartialSpec, Side, TlbSpec};
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Observer, Pages, World, user_on};
use mmu_model::x86::{Context, Event, Levels, bit};

/// Many processors hear the same machine.
struct Several(Vec<Mmu>);

impl Observer for Several {
    fn context(&mut self, context: &Context) {
        self.0.iter_mut().for_each(|mmu| mmu.set_context(context));
    }

    fn access(&mut self, memory: &mut Pages, address: Virtual, kind: Kind, machine: Machine) {
        // Loads only: whether a store finds a clean entry depends on how long that was kept.
        let kind = if kind == Kind::Store { Kind::Load } else { kind };
        for mmu in &mut self.0 {
            assert_eq!(mmu.access(memory, address, kind), Ok(machine));
        }
    }

    fn invalidate(&mut self, event: Event) {
        self.0.iter_mut().for_each(|mmu| mmu.invalidate(event));
    }

    fn region(&mut self, on: bool) {
        self.0.iter_mut().for_each(|mmu| mmu.set_region(on));
    }
}

fn run(cpus: &[Cpu], seed: u64, accesses: u64) -> Vec<Counters> {
    let mut several = Several(cpus.iter().map(Mmu::new).collect());
    World::new(seed).run(accesses, &mut several);
    several.0.iter().map(Mmu::counters).collect()
}

fn references(bank: &Bank) -> u64 {
    bank.served.iter().sum()
}

fn fully_associative(entries: u32) -> Cpu {
    let pages = ["4k", "2m", "1g"].map(String::from).into();
    let source = "test".into();
    let (name, replacement) = ("only".into(), Replacement::Lru);
    let tlb = vec![TlbSpec { name, level: 1, side: Side::Both, pages, entries, ways: entries, replacement, source }];
    Cpu { tlb, ..Cpu::bare() }
}

#[test]
fn a_bigger_fully_associative_lru_tlb_never_misses_more() {
    let sizes = [1, 2, 3, 8, 17, 32, 64, 100, 256, 512, 1024];
    let cpus = sizes.map(fully_associative);
    for seed in 0..6 {
        let misses: Vec<u64> = run(&cpus, seed, 30_000).iter().map(|c| c.total().misses(Kind::Load)).collect();
        assert!(misses.is_sorted_by(|smaller, bigger| smaller >= bigger), "seed {seed}: {misses:?} for {sizes:?}");
        assert!(2 * misses[0] > 3 * misses[10], "the sizes make a difference: {misses:?}");
    }
}

fn partial(name: &str, levels: Vec<u8>, entries: u32) -> PartialSpec {
    let replacement = Replacement::Lru;
    PartialSpec { name: name.into(), levels, entries, ways: entries, replacement, source: "test".into() }
}

#[test]
fn taking_a_cache_away_never_lowers_references() {
    let nested = ArraySpec { entries: 16, ways: 16, replacement: Replacement::Lru, source: "test".into() };
    let tlb = fully_associative(64).tlb;
    let bare = Cpu::bare();
    let with_tlb = Cpu { tlb, ..Cpu::bare() };
    let with_partial = Cpu { partial: vec![partial("pde", vec![2], 16)], ..with_tlb.clone() };
    let with_nested = Cpu { nested_tlb: Some(nested.clone()), ..with_tlb.clone() };
    let with_host_partial = Cpu { host_partial: vec![partial("npde", vec![2, 3], 16)], ..with_tlb.clone() };
    let built_in = Cpu::built_in("zen2").unwrap().unwrap();
    let data_caches_off = Cpu { cache: bare.cache.clone(), ..built_in.clone() };
    let no_tlb = Cpu { tlb: vec![], ..built_in.clone() };
    let cpus = [bare, with_tlb, with_partial, with_nested, with_host_partial, built_in, data_caches_off, no_tlb];
    for seed in 10..14 {
        let counters = run(&cpus, seed, 30_000);
        let refs: Vec<u64> = counters.iter().map(|c| references(&c.total())).collect();
        let [bare, tlb, partial, nested, host_partial, built_in, caches_off, no_tlb] = refs[..] else { panic!() };
        assert!(refs.iter().all(|r| *r <= bare), "{refs:?}");
        assert!(partial < tlb && nested < tlb && host_partial < tlb, "{refs:?}");
        assert_eq!(built_in, caches_off, "data caches serve references, they do not spare any");
        assert!(no_tlb >= built_in, "{refs:?}");
        // The latency of a reference is the only thing the data caches change.
        assert_eq!(counters[5].total().fills, counters[6].total().fills);
    }
}

#[test]
fn counters_add_up() {
    let cpus = ["i7-3770", "icelake-sp", "zen2", "zen5"].map(|n| Cpu::built_in(n).unwrap().unwrap());
    for counters in run(&cpus, 21, 60_000) {
        let total = counters.total();
        let accesses: u64 = Kind::ALL.iter().map(|k| total.accesses(*k)).sum();
        assert!(accesses >= 54_000, "{accesses}");
        let fills: u64 = total.fills.iter().flatten().sum();
        let by_walk: u64 = total.fills_flat.iter().chain(total.fills_nested.iter().flatten()).sum();
        assert_eq!(fills, by_walk);
        let by_level: u64 = total.refs.iter().flatten().sum();
        assert_eq!(by_level, references(&total));
        assert!(total.host_walk_cycles <= total.all_walk_cycles());
        let (users, names) = (counters.layer(mmu_model::context::Layer::GuestUser), total.by_name());
        assert!(users.accesses(Kind::Load) > 0);
        assert_eq!(names["tlb_misses"], names["walks_completed"]);
        assert_eq!(names["accesses"], accesses);
    }
}

/// One processor, which may have to look up everything anew at each access.
struct One {
    mmu: Mmu,
    shortcuts: bool,
}

impl Observer for One {
    fn context(&mut self, context: &Context) {
        self.mmu.set_context(context);
    }

    fn access(&mut self, memory: &mut Pages, address: Virtual, kind: Kind, machine: Machine) {
        // Like a program, which uses a line several times, then fetches from somewhere near.
        for (offset, kind) in [(0, kind), (0, Kind::Load), (8, kind), (0, Kind::Fetch), (0, Kind::Load)] {
            let line = address.raw() & !63;
            let within = (address.raw() + offset) % 64;
            if !self.shortcuts {
                self.mmu.forget_shortcuts();
            }
            let found = self.mmu.access(memory, Virtual::new(line + within), kind);
            let expected = Machine::new((machine.raw() & !63) + within);
            assert!(kind == Kind::Fetch || found == Ok(expected), "{found:?}, not {expected:?}");
        }
    }

    fn invalidate(&mut self, event: Event) {
        self.mmu.invalidate(event);
    }

    fn region(&mut self, on: bool) {
        self.mmu.set_region(on);
    }
}

#[test]
fn shortcuts_change_no_result() {
    for (seed, name) in ["i7-3770", "icelake-sp", "zen2", "zen5"].into_iter().enumerate() {
        let mut small = Cpu::built_in(name).unwrap().unwrap();
        let first = small.tlb[0].name.clone();
        small.resize(&first, 16).unwrap();
        for cpu in [small, fully_associative(24)] {
            let [with, without] = [true, false].map(|shortcuts| {
                let mut one = One { mmu: Mmu::new(&cpu), shortcuts };
                World::new(seed as u64).run(20_000, &mut one);
                one.mmu.counters()
            });
            assert_eq!(with.to_json(), without.to_json(), "{name}");
        }
    }
}

/// The shortest of shortcuts is for the line used last: each thing that may come between two uses of it comes here.
#[test]
fn a_line_used_again_is_looked_up_if_anything_came_between() {
    let (mut memory, mut tables) =
        (Pages::default(), [0x1000, 0x10_0000].map(|at| Builder::new(at, 0, Levels::Four)));
    let bits = OPEN | bit::ACCESSED | bit::DIRTY;
    for (process, table) in tables.iter_mut().enumerate() {
        for page in (0..8 << 12).step_by(4096) {
            table.map(&mut memory, page, PageSize::K4, (1 + process as u64) << 30 | page, bits);
        }
    }
    let mut contexts = tables.each_ref().map(|table| user_on(table, None));
    contexts[1].asid = 1;
    let [a, b, c] = [0x40, 0x1040, 0x2040].map(Virtual::new);
    let cpu = Cpu { tlb: fully_associative(2).tlb, ..Cpu::built_in("i7-3770").unwrap().unwrap() };
    let [with, without] = [true, false].map(|shortcuts| {
        let mut mmu = Mmu::new(&cpu);
        mmu.set_context(&contexts[0]);
        mmu.set_region(true);
        let mut use_line = |mmu: &mut Mmu, address, kind| {
            if !shortcuts {
                mmu.forget_shortcuts();
            }
            mmu.access(&mut memory, address, kind).unwrap()
        };
        let mut found = vec![];
        for between in 0..6 {
            found.extend([(); 3].map(|()| use_line(&mut mmu, a, Kind::Load)));
            match between {
                0 => mmu.invalidate(Event::Invlpg(a)),
                1 => mmu.set_context(&contexts[1]),
                2 => mmu.set_context(&contexts[0]),
                // A walk that takes the entry's place, then one that takes another's.
                3 => [b, c].into_iter().for_each(|other| _ = use_line(&mut mmu, other, Kind::Load)),
                4 => [false, true].into_iter().for_each(|on| {
                    mmu.set_data_through_caches(on);
                    found.push(use_line(&mut mmu, a, Kind::Load));
                }),
                // A fetch that makes the entry the one used longest ago, and does not walk.
                _ => {
                    let uses = [(b, Kind::Fetch), (a, Kind::Load), (a, Kind::Load), (b, Kind::Fetch)];
                    uses.into_iter().for_each(|(other, kind)| _ = use_line(&mut mmu, other, kind));
                }
            }
            found.push(use_line(&mut mmu, a, Kind::Store));
            found.extend([c, a].map(|then| use_line(&mut mmu, then, Kind::Load)));
        }
        (found, mmu.counters().to_json())
    });
    assert_eq!(with, without);
}

/// The region belongs to the process that ran when it began; the other one's accesses are told apart.
#[test]
fn other_processes_are_told_apart() {
    use mmu_model::context::Layer::{GuestOther, GuestUser};
    let counters = run(&[Cpu::bare()], 2, 200_000).remove(0);
    assert!(counters.layer(GuestUser).accesses(Kind::Load) > 0);
    assert!(counters.layer(GuestOther).accesses(Kind::Load) > 0);
}
