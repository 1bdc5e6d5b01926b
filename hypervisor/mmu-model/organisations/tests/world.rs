// SPDX-License-Identifier: MIT
//! Every organisation on a made-up machine of a hypervisor, a guest's kernel and two processes, which move pages, split,
//! clear, switch and flush as kernels do: each access finds the address that it has, whether the TLB has it or not.

use mmu_model::address::{Machine as At, PageSize, Virtual};
use mmu_model::cache::Served;
use mmu_model::context::Kind;
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Observer, Pages, World};
use mmu_model::x86::{Context, Event};
use mmu_organisations::caches::By;
use mmu_organisations::catalogue;
use mmu_organisations::machine::Machine;
use mmu_organisations::software::{self, Options, Software};
use mmu_organisations::tally::Counted;

/// Organisations that hear the same machine, by name.
struct Several(Vec<(String, Mmu<Software>)>);

impl Observer for Several {
    fn context(&mut self, context: &Context) {
        self.0.iter_mut().for_each(|(_, mmu)| mmu.set_context(context));
    }

    fn access(&mut self, memory: &mut Pages, address: Virtual, kind: Kind, machine: At) {
        for (name, mmu) in &mut self.0 {
            let found = mmu.access(memory, address, kind).unwrap_or_else(|stop| panic!("{name}: {stop:?}"));
            if !name.starts_with("notlb") && !name.starts_with("base") {
                assert_eq!(found, machine, "{name}: {kind:?} {address:#x}");
            }
        }
    }

    fn invalidate(&mut self, event: Event) {
        self.0.iter_mut().for_each(|(_, mmu)| mmu.invalidate(event));
    }

    fn region(&mut self, on: bool) {
        self.0.iter_mut().for_each(|(_, mmu)| mmu.set_region(on));
    }
}

fn machine(name: &str) -> Machine {
    let cpu = || Machine::of_cpu(&Cpu::built_in(name).unwrap().unwrap());
    Machine::built_in(name).map_or_else(cpu, Result::unwrap)
}

fn run(machine_name: &str, superpages: bool, accesses: u64) -> Vec<(String, Mmu<Software>)> {
    run_on(&machine(machine_name), superpages, accesses)
}

fn run_on(machine: &Machine, superpages: bool, accesses: u64) -> Vec<(String, Mmu<Software>)> {
    let (mut several, pages) = (Several(vec![]), machine.pages());
    for one in catalogue::ALL {
        let table = catalogue::table(one.name, machine.pairs).unwrap();
        let wants_virtual = table.without_tlb() && machine.cache.iter().any(|shape| shape.tag != By::Virtual);
        if table.bits() < 48 || wants_virtual {
            continue;
        }
        // Those whose sizes are not the machine's are refused (hardware's levels on the R4700), which another test is for.
        let fits = !superpages || table.sizes().iter().any(|size| *size > PageSize::K4 && pages.contains(size));
        if !fits {
            continue;
        }
        let mmu = software::mmu(table, machine, Options { superpages }).unwrap();
        several.0.push((one.name.to_owned(), mmu));
    }
    World::new(3).run(accesses, &mut several);
    several.0
}

#[test]
fn every_access_finds_its_address() {
    for (machine, superpages) in
        [("r4700", false), ("r4700", true), ("jacob-mudge", false), ("i7-3770", false), ("zen2", true)]
    {
        // A large page in every base page's slot takes its time.
        let run = run(machine, superpages, if superpages { 12_000 } else { 40_000 });
        assert!(run.len() >= 25, "{}", run.len());
        for (name, mmu) in &run {
            let (tallies, total) = (mmu.organisation().tallies(), mmu.counters().total());
            let tally = tallies.total();
            assert_eq!(tallies.mismatches(), 0, "{name} on {machine}");
            assert!(tally.refills > 300 || name == "base", "{name} on {machine}: {tally:?}");
            let misses: u64 = Kind::ALL.iter().map(|kind| total.misses(*kind)).sum();
            if !name.starts_with("notlb") && !name.starts_with("base") {
                assert_eq!(tally.refills, misses, "{name} on {machine}: each miss is a refill");
                assert_eq!(tally.cycles, total.all_walk_cycles());
            }
        }
    }
}

/// What the TLB misses does not depend on how it is refilled, where no table uses its slots and entries give way in order:
/// ULTRIX and INTEL differ by their reserved slots only (page-tables.md, B7).
#[test]
fn misses_are_the_tlbs_own() {
    let run = run("i7-3770", false, 30_000);
    let misses = |name: &str| {
        let (_, mmu) = run.iter().find(|(n, _)| n == name).unwrap();
        mmu.counters().total().misses(Kind::Load)
    };
    for name in ["g2", "mpt", "h8192", "c8192", "pa-risc", "intel-48", "g16-s128k"] {
        assert_eq!(misses(name), misses("g16"), "{name}");
    }
}

/// Large pages cover more: fewer misses, on every organisation that maps them.
#[test]
fn large_pages_miss_less() {
    let [small, large] = [false, true].map(|superpages| run("r4700", superpages, 12_000));
    for name in ["g2", "g16", "g8", "g256", "mpt", "g16-s8k", "h512", "h8192", "c512-4", "c512-16", "c8192", "lva"] {
        let misses = |run: &[(String, Mmu<Software>)]| {
            let (_, mmu) = run.iter().find(|(n, _)| n == name).unwrap();
            mmu.counters().total().misses(Kind::Load)
        };
        assert!(4 * misses(&large) < 3 * misses(&small), "{name}: {} and {}", misses(&large), misses(&small));
    }
}

/// Large pages that are asked for and cannot be mapped are no base pages: who asks is told.
#[test]
fn large_pages_that_cannot_be_mapped_are_refused() {
    for (name, machine_name, says) in [
        ("radix", "r4700", "its table has pages of 4k, 2m, 1g, the machine's TLBs of 4k, 16k"),
        ("intel", "i7-3770", "its table has pages of 4k, 4m, the machine's TLBs of 4k, 2m, 1g"),
        ("ultrix-48", "jacob-mudge", "the machine's TLBs of 4k; expected one in common above 4k"),
        ("base", "jacob-mudge", "its table has pages of no size"),
    ] {
        let machine = machine(machine_name);
        let table = || catalogue::table(name, machine.pairs).unwrap();
        let error = software::mmu(table(), &machine, Options { superpages: true }).unwrap_err();
        assert!(error.contains(says) && error.contains("Leave out --superpages on"), "{name}: {error}");
        assert!(software::mmu(table(), &machine, Options { superpages: false }).is_ok(), "{name} without them");
    }
}

/// Jacob & Mudge, table 4, over a whole run: loads and instructions of each handler by how often it was entered.
#[test]
fn handlers_cost_what_they_are_entered_for() {
    let run = run("jacob-mudge", false, 30_000);
    let tally = |name: &str| run.iter().find(|(n, _)| n == name).unwrap().1.organisation().tallies().total();
    let loads = |tally: &mmu_organisations::tally::Tally, level: usize| tally.loads[level].iter().sum::<u64>();
    let ultrix = tally("ultrix-48");
    assert_eq!(
        ultrix.instructions,
        [10 * ultrix.interrupts[0], 20 * ultrix.interrupts[1], 20 * ultrix.interrupts[2]]
    );
    assert_eq!([0, 1, 2].map(|level| loads(&ultrix, level)), ultrix.interrupts);
    let mach = tally("mach-48");
    assert_eq!((mach.instructions[2], loads(&mach, 2)), (500 * mach.interrupts[2], 11 * mach.interrupts[2]));
    let intel = tally("intel-48");
    assert_eq!((intel.interrupts, intel.instructions, intel.fetches), ([0; 3], [0; 3], [0; 4]));
    assert_eq!(loads(&intel, 0) + loads(&intel, 2), 4 * intel.refills);
    let inverted = tally("pa-risc");
    assert_eq!((inverted.interrupts[0], inverted.instructions[0]), (inverted.refills, 20 * inverted.refills));
    let notlb = tally("notlb-48");
    assert_eq!(notlb.interrupts[0], notlb.refills);
    assert!(tally("base").refills == 0 && tally("base").cycles == 0);
    // Each entry of NOTLB's handlers is a miss of the last cache, by the program or by a handler's own load.
    let total = run.iter().find(|(n, _)| n == "notlb-48").unwrap().1.counters().total();
    let memory = Served::Memory as usize;
    assert_eq!(notlb.interrupts[1] + notlb.interrupts[2], notlb.loads[0][memory] + notlb.loads[1][memory]);
    let faults: u64 = total.faults.iter().sum();
    assert_eq!(notlb.refills + faults, total.data_served[memory] + total.fetches_served[memory]);
}

/// An interrupt is paid at each entry of a handler, at whatever price, and changes nothing else. INTEL's hardware has none, and
/// the thesis's times are without the exception (table 6.4).
#[test]
fn interrupts_are_paid_for_each_entry_of_a_handler() {
    let priced = |cycles| {
        let machine = Machine { interrupt_cycles: cycles, ..machine("jacob-mudge") };
        run_on(&machine, false, 10_000)
    };
    for ((name, cheap), (_, dear)) in priced(10).iter().zip(&priced(200)) {
        let [cheap, mut dear] = [cheap, dear].map(|mmu| mmu.organisation().tallies().total());
        let entries: u64 = cheap.interrupts.iter().sum();
        let paid = ["ultrix-48", "mach-48", "lva", "pa-risc", "ipt", "notlb-48"].contains(&&name[..]);
        assert_eq!(entries > 0, paid, "{name}: {entries} entries");
        assert_eq!(dear.cycles - cheap.cycles, 190 * entries, "{name}");
        dear.cycles = cheap.cycles;
        assert_eq!(dear, cheap, "{name}");
    }
}
