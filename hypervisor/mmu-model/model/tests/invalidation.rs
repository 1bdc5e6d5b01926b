// SPDX-License-Identifier: MIT
//! After each kind of invalidation the model has forgotten what the manual says, and nothing more.
//!
//! Each test fills the TLB from two address spaces, changes every entry in memory, invalidates, and looks which
//! addresses still find the old page: a stale translation is the sign that it was not forgotten.

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::context::{Kind, Layer};
use mmu_model::cpu::Cpu;
use mmu_model::invalidate::Cause;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Pages, user_on};
use mmu_model::x86::{Context, Control, Event, Levels, Tables, bit};

const LOCAL: u64 = 0x1000_0000;
const OTHER: u64 = 0x1000_1000;
const GLOBAL: u64 = 0x2000_0000;

struct Bench {
    mmu: Mmu,
    memory: Pages,
    entries: Vec<Machine>,
    root: Machine,
    control: Control,
}

impl Bench {
    fn new() -> Self {
        let mut memory = Pages::default();
        let mut table = Builder::new(0x1000, 0, Levels::Four);
        let entries = [(LOCAL, 0), (OTHER, 0), (GLOBAL, bit::GLOBAL)]
            .into_iter()
            .zip(1..)
            .map(|((address, bits), n)| table.map(&mut memory, address, PageSize::K4, n << 32, OPEN | bits))
            .collect();
        let cpu = Cpu::built_in("zen2").unwrap().unwrap();
        Self { mmu: Mmu::new(&cpu), memory, entries, root: Machine::new(table.root), control: Control::default() }
    }

    fn enter(&mut self, asid: u16, pcid: u16) {
        self.mmu.set_context(&Context {
            layer: Layer::GuestUser,
            space: 0,
            user: true,
            control: self.control,
            asid,
            pcid,
            tables: Tables::Flat { root: self.root, levels: Levels::Four },
        });
    }

    fn find(&mut self, address: u64) -> Machine {
        self.mmu.access(&mut self.memory, Virtual::new(address), Kind::Load).unwrap()
    }

    /// Fill from (asid, pcid) 1.1, 1.2 and 2.1, then change what is mapped.
    fn filled() -> Self {
        Self::filled_with(Control::default())
    }

    fn filled_with(control: Control) -> Self {
        let mut bench = Self { control, ..Self::new() };
        for (asid, pcid) in [(1, 1), (1, 2), (2, 1)] {
            bench.enter(asid, pcid);
            for address in [LOCAL, OTHER, GLOBAL] {
                bench.find(address);
            }
        }
        for at in bench.entries.clone() {
            let value = bench.memory.get(at);
            bench.memory.write(at, value + (9 << 32));
        }
        bench
    }

    /// Whether LOCAL, OTHER and GLOBAL are still known in an address space.
    fn known(&self, asid: u16, pcid: u16) -> [bool; 3] {
        // On a copy: looking must not fill.
        let mut copy = Self {
            mmu: self.mmu.clone(),
            memory: self.memory.clone(),
            entries: vec![],
            root: self.root,
            control: self.control,
        };
        copy.enter(asid, pcid);
        [LOCAL, OTHER, GLOBAL].map(|address| copy.find(address).raw() >> 32 < 9)
    }

    fn after(event: Event) -> [[bool; 3]; 3] {
        let mut bench = Self::filled();
        bench.enter(1, 1);
        bench.mmu.invalidate(event);
        [bench.known(1, 1), bench.known(1, 2), bench.known(2, 1)]
    }
}

const ALL: [bool; 3] = [true; 3];
const NONE: [bool; 3] = [false; 3];
const ONLY_GLOBAL: [bool; 3] = [false, false, true];

#[test]
fn nothing_is_forgotten_by_itself() {
    let bench = Bench::filled();
    assert_eq!([bench.known(1, 1), bench.known(1, 2), bench.known(2, 1)], [ALL; 3]);
    // An address space never seen finds a global page of the same ASID only.
    assert_eq!(bench.known(1, 3), ONLY_GLOBAL);
    assert_eq!(bench.known(3, 1), NONE);
}

#[test]
fn cr3_write_forgets_its_pcid_except_global_pages() {
    assert_eq!(Bench::after(Event::Cr3 { keep: false }), [ONLY_GLOBAL, ALL, ALL]);
}

#[test]
fn without_pge_no_page_is_global() {
    let mut bench = Bench::filled_with(Control { pge: false, ..Control::default() });
    bench.enter(1, 1);
    bench.mmu.invalidate(Event::Cr3 { keep: false });
    assert_eq!([bench.known(1, 1), bench.known(1, 2), bench.known(1, 3)], [NONE, ALL, NONE]);
}

#[test]
fn cr3_write_with_bit_63_forgets_nothing() {
    assert_eq!(Bench::after(Event::Cr3 { keep: true }), [ALL, ALL, ALL]);
}

#[test]
fn control_register_change_forgets_all_of_the_asid() {
    assert_eq!(Bench::after(Event::Control), [NONE, NONE, ALL]);
}

#[test]
fn invlpg_forgets_one_address_of_one_pcid_and_global_ones_of_all() {
    let local = Bench::after(Event::Invlpg(Virtual::new(LOCAL + 0xabc)));
    assert_eq!(local, [[false, true, true], ALL, ALL]);
    let global = Bench::after(Event::Invlpg(Virtual::new(GLOBAL)));
    let without_global = [true, true, false];
    assert_eq!(global, [without_global, without_global, ALL]);
}

#[test]
fn invlpga_forgets_one_address_of_the_asid_named() {
    let event = Event::Invlpga { address: Virtual::new(LOCAL), asid: 2 };
    assert_eq!(Bench::after(event), [ALL, ALL, [false, true, true]]);
}

#[test]
fn invpcid_by_type() {
    let address = Virtual::new(LOCAL);
    let one = Bench::after(Event::InvpcidAddress { pcid: 2, address });
    assert_eq!(one, [ALL, [false, true, true], ALL]);
    let global = Bench::after(Event::InvpcidAddress { pcid: 2, address: Virtual::new(GLOBAL) });
    assert_eq!(global, [ALL, ALL, ALL]);
    assert_eq!(Bench::after(Event::InvpcidContext { pcid: 2 }), [ALL, ONLY_GLOBAL, ALL]);
    assert_eq!(Bench::after(Event::InvpcidAllAndGlobal), [NONE, NONE, ALL]);
    assert_eq!(Bench::after(Event::InvpcidAll), [ONLY_GLOBAL, ONLY_GLOBAL, ALL]);
}

#[test]
fn vmrun_by_tlb_control() {
    let run = |tlb_control| Bench::after(Event::Vmrun { tlb_control, asid: 2 });
    assert_eq!(run(0), [ALL, ALL, ALL]);
    assert_eq!(run(1), [NONE, NONE, NONE]);
    assert_eq!(run(3), [ALL, ALL, NONE]);
    assert_eq!(run(7), [ALL, ALL, ONLY_GLOBAL]);
}

#[test]
fn without_asids_every_world_switch_forgets_all() {
    let mut bench = Bench::new();
    let mut cpu = Cpu::built_in("zen2").unwrap().unwrap();
    cpu.asid_tags.holds = false;
    bench.mmu = Mmu::new(&cpu);
    bench.enter(0, 0);
    bench.find(LOCAL);
    bench.enter(1, 0);
    bench.enter(0, 0);
    assert_eq!(bench.mmu.occupancy().iter().map(|(_, n)| n).sum::<usize>(), 0);
}

/// A guest's table entry is changed, with or without what follows; the paging-structure caches must not outlive it.
#[test]
fn invlpg_forgets_paging_structures_of_every_address() {
    for (flush, expected) in [(false, 1 << 32), (true, 9 << 32)] {
        let mut bench = Bench::new();
        bench.enter(1, 0);
        bench.find(OTHER);
        // LOCAL has the same PDE, which is now remembered. It comes to point to another table.
        let mut second = Builder::new(0x10_0000, 0, Levels::Four);
        second.map(&mut bench.memory, LOCAL, PageSize::K4, 9 << 32, OPEN);
        let pde = |table: &mut Builder, memory: &mut Pages| table.entry(memory, LOCAL, PageSize::M2);
        let new = pde(&mut second, &mut bench.memory);
        let mut first = Builder::new(bench.root.raw(), 0, Levels::Four);
        let old = pde(&mut first, &mut bench.memory);
        let value = bench.memory.get(new);
        bench.memory.write(old, value);
        if flush {
            bench.mmu.invalidate(Event::Invlpg(Virtual::new(GLOBAL)));
        }
        assert_eq!(bench.find(LOCAL), Machine::new(expected));
    }
}

struct Splintered {
    mmu: Mmu,
    memory: Pages,
    guest_entry: Machine,
}

/// A guest's 2 MiB page over 4 KiB host pages, half of them at another place than the guest would think.
fn splintered(cpu: &str) -> Splintered {
    let mut memory = Pages::default();
    let moved = 1 << 30;
    let mut guest = Builder::new(0x1000, moved, Levels::Four);
    let guest_entry = guest.map(&mut memory, LOCAL, PageSize::M2, 0x40_0000, OPEN);
    let mut host = Builder::new(0x10_0000, 0, Levels::Four);
    for page in (0..0x80_0000).step_by(4096) {
        host.map(&mut memory, page, PageSize::K4, moved + page + (page & 0x1000) * 0x1_0000, OPEN);
    }
    // The guest's tables: only those in even pages are where `moved` says, so put the host's odd ones back.
    for page in (0x1000..0x8000).step_by(4096) {
        host.map(&mut memory, page, PageSize::K4, moved + page, OPEN);
    }
    let mut mmu = Mmu::new(&Cpu::built_in(cpu).unwrap().unwrap());
    mmu.set_context(&user_on(&guest, Some(&host)));
    mmu.set_region(true);
    Splintered { mmu, memory, guest_entry }
}

/// The guest unmaps its huge page and flushes it by any one of its addresses: every splinter must go (SDM 4.10.4.1).
#[test]
fn flushing_one_address_forgets_all_splinters_of_the_leaf() {
    for cpu in ["i7-3770", "icelake-sp", "zen2", "zen5"] {
        let Splintered { mut mmu, mut memory, guest_entry } = splintered(cpu);
        let pages = (LOCAL..LOCAL + (2 << 20)).step_by(4096).map(Virtual::new);
        for address in pages.clone() {
            mmu.access(&mut memory, address, Kind::Load).unwrap();
        }
        let bank = mmu.counters().total();
        assert_eq!(bank.fills_nested[PageSize::M2.index()][PageSize::K4.index()], 512);
        assert_eq!(bank.splintered(), 512);
        assert_eq!(bank.well_aligned_share(), Some(0.0));
        memory.write(guest_entry, 0);
        mmu.invalidate(Event::Invlpg(Virtual::new(LOCAL + 0x12_3000)));
        for address in pages {
            assert!(mmu.access(&mut memory, address, Kind::Load).is_err(), "{cpu}: {address:?} is still known");
        }
        assert_eq!(mmu.occupancy().iter().map(|(_, n)| n).sum::<usize>(), 0, "{cpu}");
        assert_eq!(mmu.counters().total().flushes[Cause::Invlpg as usize], 1);
    }
}

/// The host changes what is behind a guest's page: only an ASID flush makes the nested TLB forget.
#[test]
fn nested_translations_outlive_the_guests_own_flushes() {
    let host_change = |event| {
        let Splintered { mut mmu, mut memory, .. } = splintered("zen2");
        let address = Virtual::new(LOCAL);
        let before = mmu.access(&mut memory, address, Kind::Load).unwrap();
        let mut host = Builder::new(0x10_0000, 0, Levels::Four);
        host.map(&mut memory, 0x40_0000, PageSize::K4, 0x77 << 30, OPEN);
        mmu.invalidate(event);
        (before, mmu.access(&mut memory, address, Kind::Load).unwrap())
    };
    let (before, after) = host_change(Event::Cr3 { keep: false });
    assert_eq!(before, after, "the nested TLB forgot by a guest's flush");
    for tlb_control in [1, 3, 7] {
        let (_, after) = host_change(Event::Vmrun { tlb_control, asid: 1 });
        assert_eq!(after, Machine::new(0x77 << 30), "TLB_CONTROL {tlb_control}");
    }
}

/// Another nested root under the same ASID: a processor that tags with it walks, another finds the old page.
#[test]
fn nested_root_switch_is_seen_only_where_entries_are_tagged_with_it() {
    for (cpu, stale) in [("i7-3770", false), ("zen2", true)] {
        let Splintered { mut mmu, mut memory, .. } = splintered(cpu);
        let address = Virtual::new(LOCAL);
        let before = mmu.access(&mut memory, address, Kind::Load).unwrap();
        let mut second = Builder::new(0x4000_0000 - 0x80_0000, 0, Levels::Four);
        for page in (0..0x80_0000).step_by(4096) {
            let shift = if page < 0x10_0000 { 0 } else { 0x55 << 30 };
            second.map(&mut memory, page, PageSize::K4, (1 << 30) + page + shift, OPEN);
        }
        let mut context = *mmu.context();
        let Tables::Nested { guest, levels, nxe, .. } = context.tables else { unreachable!() };
        context.tables = Tables::Nested { guest, root: Machine::new(second.root), levels, nxe };
        mmu.set_context(&context);
        let after = mmu.access(&mut memory, address, Kind::Load).unwrap();
        assert_eq!(before == after, stale, "{cpu}");
        assert_eq!(mmu.counters().total().flushes[Cause::NestedRoot as usize], 1);
    }
}

/// A page loaded while clean: the first store walks to set the dirty bit, the second does not.
#[test]
fn a_first_store_walks_for_the_dirty_bit() {
    let mut bench = Bench::new();
    bench.enter(1, 0);
    bench.mmu.set_region(true);
    bench.find(LOCAL);
    for _ in 0..2 {
        bench.mmu.access(&mut bench.memory, Virtual::new(LOCAL), Kind::Store).unwrap();
    }
    let bank = bench.mmu.counters().total();
    assert_eq!((bank.rewalks, bank.fills[1][0], bank.hits[0][1][0]), (1, 1, 1));
    assert_ne!(bench.memory.get(bench.entries[0]) & bit::DIRTY, 0);
}

/// Rights raised without a flush: the old entry may not cause a fault.
#[test]
fn raised_rights_are_found_by_a_new_walk() {
    let mut bench = Bench::new();
    let value = bench.memory.get(bench.entries[0]);
    bench.memory.write(bench.entries[0], value & !bit::WRITE);
    bench.enter(1, 0);
    bench.find(LOCAL);
    assert!(bench.mmu.access(&mut bench.memory, Virtual::new(LOCAL), Kind::Store).is_err());
    bench.find(LOCAL);
    bench.memory.write(bench.entries[0], value);
    bench.mmu.access(&mut bench.memory, Virtual::new(LOCAL), Kind::Store).unwrap();
}

/// LOCAL and GLOBAL come of different tables of every level but the top. What the walk after INVPCID type 0 takes from
/// paging-structure caches says what these have kept (SDM vol. 3, 4.10.4.1: mappings for the address only).
#[test]
fn invpcid_of_an_address_leaves_the_partial_walks_of_others() {
    let references = |event| {
        let mut bench = Bench::new();
        bench.mmu.set_region(true);
        bench.enter(1, 1);
        for address in [LOCAL, GLOBAL] {
            bench.find(address);
        }
        bench.mmu.invalidate(event);
        // A page beside each, not in the TLB but with the same tables above.
        let before = bench.mmu.counters().total().partial_hits[1];
        bench.find(OTHER);
        bench.mmu.counters().total().partial_hits[1] - before
    };
    let address = Virtual::new(GLOBAL);
    assert_eq!(
        references(Event::InvpcidAddress { pcid: 1, address }),
        1,
        "LOCAL's table of the lowest level is known"
    );
    assert_eq!(references(Event::InvpcidAddress { pcid: 1, address: Virtual::new(LOCAL) }), 0);
    assert_eq!(references(Event::Invlpg(address)), 0, "INVLPG's are all gone");
}

#[test]
fn a_flush_that_finds_nothing_is_counted_apart() {
    let counted = |events: &[Event]| {
        let mut bench = Bench::filled();
        bench.enter(1, 1);
        bench.mmu.set_region(true);
        events.iter().for_each(|event| bench.mmu.invalidate(*event));
        let total = bench.mmu.counters().total();
        (total.effective_flushes(), total.flushes_empty, total.flushed_entries > 0)
    };
    let flush = Event::Cr3 { keep: false };
    assert_eq!(counted(&[flush]), (1, 0, true));
    assert_eq!(counted(&[flush, flush]), (1, 1, true));
    assert_eq!(counted(&[Event::Vmrun { tlb_control: 3, asid: 7 }]), (0, 1, false), "an ASID that never ran");
    assert_eq!(counted(&[Event::Invlpg(Virtual::new(1 << 40)), flush]), (2, 0, true), "it took the partial walks");
    assert_eq!(counted(&[Event::Cr3 { keep: true }]), (0, 0, false), "it is to forget nothing");
    assert_eq!(counted(&[Event::Vmrun { tlb_control: 0, asid: 1 }]), (0, 0, false));
}

#[test]
fn a_change_of_asid_forgets_nothing_and_says_what_it_leaves() {
    assert_eq!(Bench::after(Event::AsidChange { from: 2 }), [ALL; 3]);
    let mut bench = Bench::filled();
    bench.mmu.set_region(true);
    for from in [2, 2, 3] {
        bench.mmu.invalidate(Event::AsidChange { from });
    }
    let total = bench.mmu.counters().total();
    let held = total.abandoned_entries / 2;
    assert_eq!((total.flushes[Cause::AsidChange as usize], total.flushed_entries), (3, 0));
    assert_eq!((total.effective_flushes(), total.flushes_empty), (2, 1), "no entry is of ASID 3");
    assert!(held >= 3 && total.abandoned_entries == 2 * held, "three pages, in the levels that hold them");
}

/// A table whose page directory entry for LOCAL and OTHER is read-only at first.
struct Upgraded {
    mmu: Mmu,
    memory: Pages,
    entry: Machine,
}

impl Upgraded {
    fn new(cpu: &str, nested: bool) -> Self {
        let mut memory = Pages::default();
        let moved = if nested { 1 << 30 } else { 0 };
        let mut table = Builder::new(0x1000, moved, Levels::Four);
        for address in [LOCAL, OTHER] {
            table.map(&mut memory, address, PageSize::K4, 0x4000_0000 + address, OPEN);
        }
        let mut entry = table.entry(&mut memory, LOCAL, PageSize::M2);
        let mut mmu = Mmu::new(&Cpu::built_in(cpu).unwrap().unwrap());
        if nested {
            let mut host = Builder::new(0x10_0000, 0, Levels::Four);
            for page in (0..0x8000).step_by(4096) {
                host.map(&mut memory, page, PageSize::K4, moved + page, OPEN);
            }
            for address in [LOCAL, OTHER] {
                host.map(&mut memory, 0x4000_0000 + address, PageSize::K4, 0x4000_0000 + address, OPEN);
            }
            entry = host.entry(&mut memory, 0x4000_0000 + LOCAL, PageSize::M2);
            mmu.set_context(&user_on(&table, Some(&host)));
        } else {
            mmu.set_context(&user_on(&table, None));
        }
        mmu.set_region(true);
        let value = memory.get(entry);
        memory.write(entry, value & !bit::WRITE);
        Self { mmu, memory, entry }
    }

    fn access(&mut self, address: u64, kind: Kind) -> bool {
        self.mmu.access(&mut self.memory, Virtual::new(address), kind).is_ok()
    }

    /// The table's owner gives the right, and need not flush for it.
    fn upgrade(&mut self) {
        let value = self.memory.get(self.entry);
        self.memory.write(self.entry, value | bit::WRITE);
    }

    fn walked(&self) -> [u64; 3] {
        let bank = self.mmu.counters().total();
        [0, 1, 2].map(|dimension| bank.refs[dimension].iter().sum())
    }
}

/// A page fault makes the paging-structure caches forget what led to it, so that it cannot recur from what they
/// remember (SDM vol. 3, 4.10.4.1). AMD's processors walk again before they report one (APM vol. 2, 5.5.2).
#[test]
fn a_fault_forgets_the_paging_structures_of_its_address() {
    for (cpu, spurious) in [("i7-3770", true), ("icelake-sp", true), ("zen2", false), ("zen5", false)] {
        let mut bench = Upgraded::new(cpu, false);
        assert!(bench.access(OTHER, Kind::Load), "and the entry is remembered, without the right to write");
        bench.upgrade();
        assert_eq!(bench.access(LOCAL, Kind::Store), !spurious, "{cpu}");
        assert!(bench.access(LOCAL, Kind::Store), "{cpu}: the fault recurs");
        assert_eq!(bench.mmu.counters().total().faults[Kind::Store as usize], u64::from(spurious));
    }
}

/// The same of the host's tables: a nested fault forgets what led to it (SDM vol. 3, 29.4.3.1, of EPT violations).
#[test]
fn a_nested_fault_forgets_the_hosts_paging_structures() {
    for (cpu, spurious) in [("i7-3770", true), ("zen2", false)] {
        let mut bench = Upgraded::new(cpu, true);
        assert!(bench.access(OTHER, Kind::Load));
        bench.upgrade();
        assert_eq!(bench.access(LOCAL, Kind::Store), !spurious, "{cpu}");
        assert!(bench.access(LOCAL, Kind::Store), "{cpu}: the fault recurs");
    }
}

/// Only what leads to the address goes: another page directory stays remembered.
#[test]
fn a_fault_leaves_other_paging_structures_alone() {
    for cpu in ["i7-3770", "zen2"] {
        let mut bench = Upgraded::new(cpu, false);
        let far = 0x8000_0000;
        let mut table = Builder::new(0x1000, 0, Levels::Four);
        let mut second = Builder::new(0x10_0000, 0, Levels::Four);
        for page in [far, far + 4096] {
            second.map(&mut bench.memory, page, PageSize::K4, 7 << 32, OPEN);
        }
        let (from, to) = [&mut second, &mut table].map(|t| t.entry(&mut bench.memory, far, PageSize::G1)).into();
        let value = bench.memory.get(from);
        bench.memory.write(to, value);
        assert!(bench.access(far, Kind::Load) && bench.access(OTHER, Kind::Load));
        assert!(!bench.access(LOCAL, Kind::Store), "{cpu}: it is denied in memory, too");
        let before = bench.walked()[0];
        assert!(bench.access(far + 4096, Kind::Load));
        assert_eq!(bench.walked()[0] - before, 1, "{cpu}: only the last level is read");
        let before = bench.walked()[0];
        assert!(bench.access(LOCAL, Kind::Load));
        assert_eq!(bench.walked()[0] - before, 4, "{cpu}: all levels are");
    }
}

/// A fault forgets the page in the instruction TLB as well: any entry for the page's number.
#[test]
fn a_fault_forgets_the_page_on_both_sides() {
    for cpu in ["i7-3770", "icelake-sp", "zen2", "zen5"] {
        let mut bench = Upgraded::new(cpu, false);
        assert!(bench.access(LOCAL, Kind::Fetch));
        assert!(!bench.access(LOCAL, Kind::Store));
        assert_eq!(bench.mmu.occupancy().iter().map(|(_, n)| n).sum::<usize>(), 0, "{cpu}");
    }
}
