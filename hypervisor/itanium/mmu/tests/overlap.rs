// SPDX-License-Identifier: MIT
//! Insertions and purges: what overlaps goes, registers stay, and which entry of a full cache has to go.

mod common;

use common::{GOOD, KERNEL, Machine, itir, rr};
use itanium_mmu::config::{Config, Replacement};
use itanium_mmu::fault::Kind;
use itanium_mmu::fields::{Itir, Pte};
use itanium_mmu::mmu::{Access, Refused};
use itanium_mmu::tlb::{Side, Translation};

const SIDES: [Side; 2] = [Side::Instruction, Side::Data];

fn machine() -> Machine {
    Machine::new(Config::default())
}

/// Where each translation of a side begins.
fn held(machine: &Machine, side: Side) -> Vec<u64> {
    let mut begins: Vec<u64> = machine.mmu.tlb(side).all().map(|each| each.range.begin).collect();
    begins.sort_unstable();
    begins
}

#[test]
fn an_insertion_removes_what_it_overlaps_in_its_own_cache() {
    for side in SIDES {
        for (shift, va, gone) in [(12, 0x2000, 1), (13, 0x2000, 2), (14, 0, 4), (16, 0x3000, 4), (32, 0, 4)] {
            let mut machine = machine();
            for page in [0, 0x1000, 0x2000, 0x3000, 0x1_0000_0000] {
                machine.itc(side, page, GOOD, 12, 0);
            }
            machine.itc(side, va, GOOD, shift, 0);
            assert_eq!(held(&machine, side).len(), 5 - gone + 1, "2^{shift}");
        }
    }
}

#[test]
fn an_insertion_inside_a_larger_page_removes_it() {
    let mut machine = machine();
    machine.itc(Side::Data, 0, GOOD, 28, 0);
    machine.itc(Side::Data, 0x0fff_f000, GOOD, 12, 0);
    assert_eq!(held(&machine, Side::Data), [0x0fff_f000]);
}

#[test]
fn neighbours_other_identifiers_and_the_other_side_do_not_overlap() {
    let mut machine = machine();
    machine.itc(Side::Data, 0x4000, GOOD, 14, 0);
    machine.itc(Side::Data, 0, GOOD, 14, 0);
    machine.itc(Side::Data, 0x8000, GOOD, 14, 0);
    machine.itc(Side::Instruction, 0x4000, GOOD, 14, 0);
    machine.itc(Side::Data, 1 << 61 | 0x4000, GOOD, 14, 0);
    assert_eq!(held(&machine, Side::Data), [0, 0x4000, 0x4000, 0x8000]);
    assert_eq!(held(&machine, Side::Instruction), [0x4000]);
}

#[test]
fn overlap_goes_by_identifier_not_by_region() {
    let mut machine = machine();
    machine.mmu.set_region(1, rr(0x100, 14, false)).expect("a good word");
    machine.itc(Side::Data, 0x4000, GOOD, 14, 0);
    machine.itc(Side::Data, 1 << 61 | 0x4000, GOOD | 0x8000, 14, 0);
    assert_eq!(held(&machine, Side::Data), [0x4000]);
    machine.mmu.ptc_l(1 << 61 | 0x4000, itir(14, 0)).expect("a good purge");
    assert_eq!(held(&machine, Side::Data), [0_u64; 0]);
}

#[test]
fn a_register_survives_what_the_cache_does_not() {
    let mut machine = machine();
    machine.mmu.itr(Side::Data, 3, Pte(GOOD | 0x1_0000), itir(16, 0), 0x1_0000).expect("a good insertion");
    for page in 0..1000 {
        machine.itc(Side::Data, 0x10_0000 + page * 0x4000, GOOD, 14, 0);
    }
    machine.mmu.ptc_e();
    assert_eq!(held(&machine, Side::Data), [0x1_0000]);
    assert_eq!(machine.physical(KERNEL, Access::Read, 0x1_2345), Ok(0x1_2345));
}

#[test]
fn a_register_takes_the_place_of_what_it_overlaps_in_the_cache() {
    for side in SIDES {
        let mut machine = machine();
        machine.itc(side, 0x4000, GOOD, 14, 0);
        machine.itc(side, 0x10_0000, GOOD, 14, 0);
        machine.mmu.itr(side, 0, Pte(GOOD), itir(16, 0), 0).expect("a good insertion");
        assert_eq!(held(&machine, side), [0, 0x10_0000]);
    }
}

#[test]
fn what_a_register_held_is_gone_when_another_comes() {
    let mut machine = machine();
    machine.mmu.itr(Side::Data, 0, Pte(GOOD), itir(14, 0), 0).expect("a good insertion");
    machine.mmu.itr(Side::Data, 0, Pte(GOOD), itir(14, 0), 0x4000).expect("a good insertion");
    assert_eq!(held(&machine, Side::Data), [0x4000]);
}

#[test]
fn to_overlap_a_register_is_a_machine_check_and_changes_nothing() {
    for side in SIDES {
        let mut machine = machine();
        machine.mmu.itr(side, 0, Pte(GOOD), itir(16, 0), 0x1_0000).expect("a good insertion");
        machine.itc(side, 0x2_0000, GOOD, 14, 0);
        let before = machine.mmu.clone();
        let mmu = &mut machine.mmu;
        assert_eq!(mmu.itc(side, Pte(GOOD), itir(12, 0), 0x1_f000), Err(Refused::MachineCheck));
        assert_eq!(mmu.itc(side, Pte(GOOD), itir(20, 0), 0), Err(Refused::MachineCheck));
        assert_eq!(mmu.itr(side, 1, Pte(GOOD), itir(18, 0), 0), Err(Refused::MachineCheck));
        assert_eq!(mmu.itr(side, 0, Pte(GOOD), itir(16, 0), 0x1_0000), Err(Refused::MachineCheck));
        assert_eq!(mmu.ptc_l(0x1_0000, itir(12, 0)), Err(Refused::MachineCheck));
        assert_eq!(mmu.ptc_g(0, itir(28, 0), false), Err(Refused::MachineCheck));
        assert_eq!(*mmu, before);
        let other = if side == Side::Data { Side::Instruction } else { Side::Data };
        assert_eq!(mmu.itc(other, Pte(GOOD), itir(12, 0), 0x1_0000), Ok(()), "the other side's is free");
    }
}

#[test]
fn a_local_purge_removes_from_both_caches_what_overlaps() {
    let mut machine = machine();
    for side in SIDES {
        for page in [0, 0x4000, 0x8000, 0xc000] {
            machine.itc(side, page, GOOD, 14, 0);
        }
        machine.itc(side, 0x1000_0000, GOOD, 28, 0);
    }
    machine.mmu.ptc_l(0x5fff, itir(13, 0)).expect("a good purge");
    assert_eq!(held(&machine, Side::Data), [0, 0x8000, 0xc000, 0x1000_0000]);
    machine.mmu.ptc_l(0x8001, Itir(15 << 2 | 3)).expect_err("2^15 is no size");
    machine.mmu.ptc_l(0xabcd, itir(16, 0)).expect("a good purge");
    machine.mmu.ptc_l(0x1fff_f000, itir(12, 0)).expect("a good purge");
    for side in SIDES {
        assert_eq!(held(&machine, side), [0_u64; 0]);
    }
}

#[test]
fn a_purge_of_4_gib_takes_all_in_it() {
    let mut machine = machine();
    for page in [0, 0xffff_c000, 0x1_0000_0000] {
        machine.map(page, 0);
    }
    machine.mmu.ptc_l(0x8000_0000, itir(32, 0)).expect("a good purge");
    assert_eq!(held(&machine, Side::Data), [0x1_0000_0000]);
}

#[test]
fn a_global_purge_tells_the_others_and_spares_their_registers() {
    let mut here = machine();
    let mut there = machine();
    here.map(0x4000, 0);
    there.map(0x4000, 0);
    there.map(0x8000, 0);
    there.mmu.itr(Side::Instruction, 0, Pte(GOOD), itir(14, 0), 0x4000).expect("a good insertion");
    let told = here.mmu.ptc_g(0x4000, itir(14, 0), true).expect("a good purge");
    assert!(told.moved && !here.mmu.ptc_g(0x4000, itir(14, 0), false).expect("a good purge").moved);
    assert_eq!(held(&here, Side::Data), [0_u64; 0]);
    there.mmu.set_region(0, rr(0x999, 14, false)).expect("a good word"); // it goes by the sender's identifier
    there.mmu.receive(&told);
    assert_eq!(held(&there, Side::Data), [0x8000]);
    assert_eq!(held(&there, Side::Instruction), [0x4000]);
}

#[test]
fn emptying_the_caches_takes_both() {
    let mut machine = machine();
    for side in SIDES {
        machine.itc(side, 0, GOOD, 14, 0);
    }
    machine.mmu.ptc_e();
    assert_eq!((held(&machine, Side::Data), held(&machine, Side::Instruction)), (vec![], vec![]));
}

#[test]
fn purging_registers_takes_those_that_overlap_of_one_side() {
    let mut machine = machine();
    for side in SIDES {
        for (register, page) in [(0, 0), (1, 0x1_0000), (2, 0x2_0000)] {
            machine.mmu.itr(side, register, Pte(GOOD), itir(16, 0), page).expect("a good insertion");
        }
        machine.itc(side, 0x3_0000, GOOD, 16, 0);
    }
    machine.mmu.ptr(Side::Data, 0x1_8000, itir(12, 0)).expect("a good purge");
    assert_eq!(held(&machine, Side::Data), [0, 0x2_0000, 0x3_0000]);
    machine.mmu.ptr(Side::Data, 0x2_0000, itir(20, 0)).expect("a good purge");
    assert_eq!(held(&machine, Side::Data), [0_u64; 0]);
    assert_eq!(held(&machine, Side::Instruction), [0, 0x1_0000, 0x2_0000, 0x3_0000]);
}

#[test]
fn purges_of_bad_sizes_and_addresses_are_refused() {
    let mut mmu = Machine::new(Config { virtual_msb: 50, ..Config::default() }).mmu;
    assert_eq!(mmu.ptc_l(0, itir(15, 0)), Err(Refused::MachineCheck));
    assert_eq!(mmu.ptr(Side::Data, 0, itir(0, 0)), Err(Refused::MachineCheck));
    assert_eq!(mmu.ptc_l(1 << 50, itir(14, 0)), Err(Refused::Address));
    assert_eq!(mmu.ptr(Side::Data, 1 << 50, itir(14, 0)), Err(Refused::Address));
}

/// Fills a cache of four with pages 0 to 3, reads 0 again, adds page 4, and says which have stayed.
fn stay(replacement: Replacement) -> Vec<u64> {
    let mut machine = Machine::new(Config { cache_entries: 4, first_entries: 0, replacement, ..Config::default() });
    for page in 0..4 {
        machine.map(page * 0x4000, page * 0x4000);
    }
    machine.physical(KERNEL, Access::Read, 0).expect("it is there");
    machine.map(4 * 0x4000, 0);
    assert_eq!(machine.mmu.counters().data.overwritten, 1);
    held(&machine, Side::Data).into_iter().map(|begin| begin / 0x4000).collect()
}

#[test]
fn the_policy_says_which_entry_goes() {
    assert_eq!(stay(Replacement::Lru), [0, 2, 3, 4]);
    assert_eq!(stay(Replacement::Fifo), [1, 2, 3, 4]);
    assert_eq!(stay(Replacement::Random(1)), stay(Replacement::Random(1)));
    let drawn: std::collections::BTreeSet<Vec<u64>> = (0..64).map(|seed| stay(Replacement::Random(seed))).collect();
    assert_eq!(drawn.len(), 4, "any of the four may go");
}

#[test]
fn a_free_entry_is_taken_first() {
    let mut machine = Machine::new(Config { cache_entries: 4, ..Config::default() });
    for page in 0..4 {
        machine.map(page * 0x4000, 0);
    }
    machine.mmu.ptc_l(0x8000, itir(14, 0)).expect("a good purge");
    machine.map(0x10_0000, 0);
    assert_eq!(held(&machine, Side::Data), [0, 0x4000, 0xc000, 0x10_0000]);
    assert_eq!(machine.mmu.counters().data.overwritten, 0);
}

#[test]
fn levels_are_counted() {
    let mut machine = Machine::new(Config { first_entries: 2, ..Config::default() });
    machine.map(0, 0);
    let mut counted = |va| {
        let before = machine.mmu.counters().data;
        let _ = machine.physical(KERNEL, Access::Read, va);
        let after = machine.mmu.counters().data;
        (
            after.lookups - before.lookups,
            after.first_misses - before.first_misses,
            after.second_misses - before.second_misses,
        )
    };
    assert_eq!(counted(0), (1, 1, 0), "the second level has it");
    assert_eq!(counted(8), (1, 0, 0), "now the first too");
    assert_eq!(counted(0x1000), (1, 1, 0), "its pieces have 4 KiB");
    assert_eq!(counted(0x2000), (1, 1, 0), "it has two");
    assert_eq!(counted(0), (1, 1, 0), "and the oldest went");
    assert_eq!(counted(0x2000), (1, 0, 0));
    assert_eq!(counted(0x4000), (1, 1, 1));
}

#[test]
fn the_first_level_forgets_what_has_left_the_second() {
    let mut machine = machine();
    machine.map(0, 0x4000);
    assert_eq!(machine.physical(KERNEL, Access::Read, 0), Ok(0x4000));
    machine.mmu.ptc_l(0, itir(12, 0)).expect("a good purge");
    assert_eq!(machine.kind(KERNEL, Access::Read, 0), Kind::AlternateData);
    machine.map(0, 0x8000);
    assert_eq!(machine.physical(KERNEL, Access::Read, 0), Ok(0x8000));
    machine.map(0, 0xc000);
    assert_eq!(machine.physical(KERNEL, Access::Read, 0), Ok(0xc000));
}

#[test]
fn insertions_and_purges_are_counted() {
    let mut machine = machine();
    machine.map(0, 0);
    machine.map(0, 0);
    machine.itc(Side::Instruction, 0, GOOD, 14, 0);
    machine.mmu.itr(Side::Data, 0, Pte(GOOD), itir(16, 0), 0).expect("a good insertion");
    machine.mmu.ptr(Side::Data, 0, itir(16, 0)).expect("a good purge");
    machine.mmu.ptc_e();
    let (data, instruction) = (machine.mmu.counters().data, machine.mmu.counters().instruction);
    assert_eq!((data.cache_insertions, data.register_insertions, data.purged), (2, 1, 3));
    assert_eq!((instruction.cache_insertions, instruction.register_insertions, instruction.purged), (1, 0, 1));
    machine.mmu.reset_counters();
    assert_eq!(machine.mmu.counters(), machine.mmu.clone().counters());
    assert_eq!(machine.mmu.counters().data.purged, 0);
}

#[test]
fn registers_that_decide_answers_change_the_generation() {
    let mut machine = machine();
    let mut seen = vec![machine.mmu.generation()];
    let mut step = |machine: &Machine| seen.push(machine.mmu.generation());
    machine.mmu.set_region(0, rr(0x100, 14, false)).expect("a good word");
    step(&machine);
    machine.mmu.set_pta(20 << 2).expect("a good word");
    step(&machine);
    machine.mmu.set_key(0, 1).expect("a good word");
    step(&machine);
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    let before = machine.mmu.generation();
    machine.map(0, 0);
    machine.physical(KERNEL, Access::Read, 0).expect("it is there");
    assert_eq!(machine.mmu.generation(), before, "what TLBs hold is told by tickets");
}

#[test]
fn a_ticket_is_good_until_its_piece_has_left_the_first_level() {
    let ticket = |machine: &mut Machine| {
        let Machine { mmu, ram } = machine;
        mmu.translate(ram, KERNEL, Access::Read, 0).expect("it is there").ticket.expect("there is a first level")
    };
    let ends = |gone: &dyn Fn(&mut Machine)| {
        let mut machine = machine();
        machine.map(0, 0);
        let held = ticket(&mut machine);
        let before = machine.mmu.counters().data.lookups;
        assert!(machine.mmu.again(Side::Data, held) && !machine.mmu.again(Side::Instruction, held));
        assert_eq!(machine.mmu.counters().data.lookups, before + 1);
        gone(&mut machine);
        assert!(!machine.mmu.again(Side::Data, held));
    };
    ends(&|machine| machine.mmu.ptc_l(0, itir(14, 0)).expect("a good purge"));
    ends(&|machine| machine.mmu.ptc_e());
    ends(&|machine| machine.mmu.ptr(Side::Data, 0, itir(14, 0)).expect("a good purge"));
    ends(&|machine| machine.map(0, 0x4000));
    ends(&|machine| machine.mmu.itr(Side::Data, 0, Pte(GOOD), itir(14, 0), 0).expect("a good insertion"));
    // As many other pages as both levels have entries.
    ends(&|machine| {
        for page in 1..=128 {
            machine.map(page * 0x4000, 0);
        }
    });
    ends(&|machine| {
        for page in 1..=32 {
            machine.map(page * 0x4000, 0);
            machine.physical(KERNEL, Access::Read, page * 0x4000).expect("it is there");
        }
    });
}

#[test]
fn a_snapshot_goes_on_as_the_machine_would_have() {
    let mut machine =
        Machine::new(Config { cache_entries: 8, replacement: Replacement::Random(3), ..Config::default() });
    let run = |machine: &mut Machine, from: u64| {
        for page in from..from + 50 {
            machine.map(page % 23 * 0x4000, page * 0x4000);
            let _ = machine.physical(KERNEL, Access::Read, page % 7 * 0x4000);
        }
    };
    machine.mmu.itr(Side::Instruction, 1, Pte(GOOD), itir(14, 0), 0).expect("a good insertion");
    run(&mut machine, 0);
    let text = serde_json::to_string(&machine.mmu).expect("it can be written");
    let mut thawed =
        Machine { mmu: serde_json::from_str(&text).expect("it can be read"), ram: common::Ram::default() };
    assert_eq!(thawed.mmu, machine.mmu);
    run(&mut machine, 50);
    run(&mut thawed, 50);
    assert_eq!(thawed.mmu, machine.mmu);
    let translations: Vec<&Translation> = thawed.mmu.tlb(Side::Data).all().collect();
    assert_eq!(translations.len(), 8);
}
