// SPDX-License-Identifier: MIT
//! What an access through a translation gives, and which fault comes first.

mod common;

use common::{ACCESSED, DIRTY, GOOD, KERNEL, Machine, PRESENT, USER, ma, rr};
use itanium_mmu::config::Config;
use itanium_mmu::fault::{Kind, Kinds};
use itanium_mmu::fields::Attribute;
use itanium_mmu::mmu::{Access, Psr};
use itanium_mmu::rights::{EXECUTE, READ, WRITE, allowed};
use itanium_mmu::tlb::Side;

const VA: u64 = 0x0000_0040_0000;

fn machine() -> Machine {
    Machine::new(Config::default())
}

/// A machine with one page of data and one of instructions.
fn with(pte: u64, key: u64) -> Machine {
    let mut machine = machine();
    for side in [Side::Instruction, Side::Data] {
        machine.itc(side, VA, pte, 14, key);
    }
    machine
}

#[test]
fn every_size_translates_all_of_its_addresses_and_no_other() {
    for shift in [12, 13, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32] {
        let mut machine = machine();
        let bytes = 1_u64 << shift;
        let (va, physical) = (5 * bytes, 9 * bytes);
        machine.itc(Side::Data, va + bytes / 2, GOOD | physical | (bytes - 1) & 0xffff_f000, shift, 0);
        for offset in [0, 1, bytes / 2, bytes - 1] {
            assert_eq!(machine.physical(USER, Access::Read, va + offset), Ok(physical + offset), "2^{shift}");
        }
        for outside in [va - 1, va + bytes] {
            assert_eq!(machine.kind(USER, Access::Read, outside), Kind::AlternateData, "2^{shift}");
        }
    }
}

#[test]
fn instructions_and_data_have_translations_of_their_own() {
    let mut machine = machine();
    machine.itc(Side::Instruction, VA, GOOD | 0x4000, 14, 0);
    assert_eq!(machine.physical(USER, Access::Fetch, VA), Ok(0x4000));
    assert_eq!(machine.kind(USER, Access::Read, VA), Kind::AlternateData);
    machine.itc(Side::Data, VA, GOOD | 0x8000, 14, 0);
    assert_eq!(machine.physical(USER, Access::Read, VA), Ok(0x8000));
    assert_eq!(machine.physical(USER, Access::Fetch, VA), Ok(0x4000));
}

#[test]
fn the_identifier_tags_translations_and_the_regions_number_does_not() {
    let mut machine = machine();
    machine.map(VA, 0x4000);
    assert_eq!(machine.kind(USER, Access::Read, 1 << 61 | VA), Kind::AlternateData);
    machine.mmu.set_region(1, rr(0x100, 14, false)).expect("a good word");
    assert_eq!(machine.physical(USER, Access::Read, 1 << 61 | VA), Ok(0x4000));
    machine.mmu.set_region(0, rr(0x200, 14, false)).expect("a good word");
    assert_eq!(machine.kind(USER, Access::Read, VA), Kind::AlternateData);
    machine.mmu.set_region(0, rr(0x100, 16, false)).expect("a good word");
    assert_eq!(machine.physical(USER, Access::Read, VA), Ok(0x4000), "the region's size does not matter to a hit");
}

#[test]
fn access_rights_are_the_manuals_table() {
    // By ar, and then by the page's level from 3 to 0: what levels 3, 2, 1 and 0 may do (SDM vol. 2, table 4-4).
    let table = [
        ["r r r r", "- r r r", "- - r r", "- - - r"],
        ["rx rx rx rx", "- rx rx rx", "- - rx rx", "- - - rx"],
        ["rw rw rw rw", "- rw rw rw", "- - rw rw", "- - - rw"],
        ["rwx rwx rwx rwx", "- rwx rwx rwx", "- - rwx rwx", "- - - rwx"],
        ["r rw rw rw", "- r rw rw", "- - r rw", "- - - rw"],
        ["rx rx rx rwx", "- rx rx rwx", "- - rx rwx", "- - - rwx"],
        ["rwx rw rw rw", "- rwx rw rw", "- - rwx rw", "- - - rw"],
        ["x x x rx", "x x x rx", "x x x rx", "x x x rx"],
    ];
    for (ar, rows) in table.iter().enumerate() {
        for (row, pl) in rows.iter().zip([3, 2, 1, 0]) {
            for (cell, cpl) in row.split(' ').zip([3, 2, 1, 0]) {
                for (letter, wants) in [('r', READ), ('w', WRITE), ('x', EXECUTE)] {
                    let got = allowed(ar as u8, pl, cpl, wants);
                    assert_eq!(got, cell.contains(letter), "ar {ar} pl {pl} cpl {cpl} {letter}");
                }
                let both = cell.contains('r') && cell.contains('w');
                assert_eq!(allowed(ar as u8, pl, cpl, READ | WRITE), both, "ar {ar} pl {pl} cpl {cpl}");
            }
        }
    }
}

#[test]
fn rights_and_level_of_the_page_are_looked_at() {
    let mut machine = with(PRESENT | ACCESSED | DIRTY, 0); // of level 0, for reading
    assert_eq!(machine.physical(KERNEL, Access::Read, VA), Ok(0));
    for access in [Access::Read, Access::Write, Access::ReadWrite, Access::StackRead, Access::StackWrite] {
        assert_eq!(machine.kind(USER, access, VA), Kind::DataAccessRights, "{access:?}");
    }
    assert_eq!(machine.kind(USER, Access::Fetch, VA), Kind::InstructionAccessRights);
    assert_eq!(machine.kind(KERNEL, Access::Write, VA), Kind::DataAccessRights);
    assert_eq!(machine.kind(KERNEL, Access::ReadWrite, VA), Kind::DataAccessRights);
    assert_eq!(machine.kind(KERNEL, Access::Fetch, VA), Kind::InstructionAccessRights);
}

#[test]
fn accessed_and_dirty_bits_fault_when_clear() {
    let mut machine = with(GOOD & !ACCESSED, 0);
    assert_eq!(machine.kind(USER, Access::Read, VA), Kind::DataAccessBit);
    assert_eq!(machine.kind(USER, Access::Write, VA), Kind::DataAccessBit);
    assert_eq!(machine.kind(USER, Access::Fetch, VA), Kind::InstructionAccessBit);
    let without_data = Psr { da: true, ..USER };
    let without_instructions = Psr { ia: true, ..USER };
    assert_eq!(machine.physical(without_data, Access::Read, VA), Ok(0));
    assert_eq!(machine.physical(without_instructions, Access::Fetch, VA), Ok(0));
    assert_eq!(machine.kind(without_data, Access::Fetch, VA), Kind::InstructionAccessBit);
    assert_eq!(machine.kind(without_instructions, Access::Read, VA), Kind::DataAccessBit);

    let mut machine = with(GOOD & !DIRTY, 0);
    assert_eq!(machine.physical(USER, Access::Read, VA), Ok(0));
    assert_eq!(machine.physical(USER, Access::Fetch, VA), Ok(0));
    for access in [Access::Write, Access::ReadWrite, Access::StackWrite] {
        assert_eq!(machine.kind(USER, access, VA), Kind::DataDirtyBit, "{access:?}");
        assert_eq!(machine.physical(without_data, access, VA), Ok(0));
    }
}

#[test]
fn keys_are_checked_where_the_processor_says_so() {
    let mut machine = with(GOOD, 7);
    let keyed = Psr { pk: true, ..USER };
    assert_eq!(machine.physical(USER, Access::Read, VA), Ok(0));
    assert_eq!(machine.kind(keyed, Access::Read, VA), Kind::DataKeyMiss);
    assert_eq!(machine.kind(keyed, Access::Fetch, VA), Kind::InstructionKeyMiss);
    machine.mmu.set_key(5, 7 << 8).expect("a good word");
    assert_eq!(machine.kind(keyed, Access::Read, VA), Kind::DataKeyMiss, "it is not valid");
    for (forbids, read, write, fetch) in
        [(0, true, true, true), (2, true, false, true), (4, false, true, true), (8, true, true, false)]
    {
        machine.mmu.set_key(5, 7 << 8 | forbids | 1).expect("a good word");
        let may = |granted: bool, kind: Kind| if granted { Ok(0) } else { Err(kind) };
        assert_eq!(machine.physical(keyed, Access::Read, VA), may(read, Kind::DataKeyPermission));
        assert_eq!(machine.physical(keyed, Access::Write, VA), may(write, Kind::DataKeyPermission));
        assert_eq!(machine.physical(keyed, Access::ReadWrite, VA), may(read && write, Kind::DataKeyPermission));
        assert_eq!(machine.physical(keyed, Access::Fetch, VA), may(fetch, Kind::InstructionKeyPermission));
    }
}

#[test]
fn faults_come_in_the_order_of_priority() {
    // Everything is wrong; each line mends what the line before it showed.
    let keyed = Psr { pk: true, ..USER };
    let mut pte = ma(7);
    let mut machine = with(pte, 7);
    assert_eq!(machine.kind(keyed, Access::Write, VA), Kind::DataNotPresent);
    assert_eq!(machine.kind(keyed, Access::Fetch, VA), Kind::InstructionNotPresent);
    pte |= PRESENT;
    machine = with(pte, 7);
    assert_eq!(machine.kind(keyed, Access::Write, VA), Kind::DataNatPage);
    assert_eq!(machine.kind(keyed, Access::Fetch, VA), Kind::InstructionNatPage);
    pte &= !ma(7);
    machine = with(pte, 7);
    assert_eq!(machine.kind(keyed, Access::Write, VA), Kind::DataKeyMiss);
    assert_eq!(machine.kind(keyed, Access::Fetch, VA), Kind::InstructionKeyMiss);
    machine.mmu.set_key(0, 7 << 8 | 0xf).expect("a good word");
    assert_eq!(machine.kind(keyed, Access::Write, VA), Kind::DataKeyPermission);
    assert_eq!(machine.kind(keyed, Access::Fetch, VA), Kind::InstructionKeyPermission);
    machine.mmu.set_key(0, 7 << 8 | 1).expect("a good word");
    assert_eq!(machine.kind(keyed, Access::Write, VA), Kind::DataAccessRights);
    assert_eq!(machine.kind(keyed, Access::Fetch, VA), Kind::InstructionAccessRights);
    machine = with(pte | 3 << 7 | 3 << 9, 7);
    assert_eq!(machine.kind(USER, Access::Write, VA), Kind::DataDirtyBit);
    assert_eq!(machine.kind(USER, Access::Fetch, VA), Kind::InstructionAccessBit);
    machine = with(pte | 3 << 7 | 3 << 9 | DIRTY, 7);
    assert_eq!(machine.kind(USER, Access::Write, VA), Kind::DataAccessBit);
    machine = with(pte | 3 << 7 | 3 << 9 | DIRTY | ACCESSED, 7);
    assert_eq!(machine.physical(USER, Access::Write, VA), Ok(0));
}

#[test]
fn each_fault_has_its_vector() {
    let vectors = Kind::ALL.map(Kind::vector);
    let want = [
        0x0c00, 0x0000, 0x0400, 0x5000, 0x5600, 0x1800, 0x5100, 0x5200, 0x2400, 0x5400, 0x1400, 0x1000, 0x0000,
        0x0800, 0x5000, 0x5600, 0x1c00, 0x5100, 0x5300, 0x2000, 0x2800,
    ];
    assert_eq!(vectors, want);
    assert!(Kind::ALL.is_sorted(), "their order is their priority");
}

#[test]
fn a_miss_without_walker_is_alternate_and_nested_without_collection() {
    let mut machine = machine();
    assert_eq!(machine.kind(KERNEL, Access::Read, VA), Kind::AlternateData);
    assert_eq!(machine.kind(KERNEL, Access::Fetch, VA), Kind::AlternateInstruction);
    let uncollected = Psr { ic: false, ..KERNEL };
    assert_eq!(machine.kind(uncollected, Access::Read, VA), Kind::DataNested);
    assert_eq!(machine.kind(uncollected, Access::StackWrite, VA), Kind::DataNested);
    assert_eq!(machine.kind(uncollected, Access::Fetch, VA), Kind::AlternateInstruction);
    machine.map(VA, 0);
    assert_eq!(machine.physical(uncollected, Access::Read, VA), Ok(0));
    let mut machine = with(0, 0);
    assert_eq!(machine.kind(uncollected, Access::Read, VA), Kind::DataNotPresent, "which is no miss");
}

#[test]
fn a_fault_names_address_size_and_identifier() {
    let mut machine = machine();
    let fault = machine.access(KERNEL, Access::Read, 3 << 61 | 0x1234).expect_err("a fault");
    assert_eq!((fault.kind, fault.address), (Kind::AlternateData, 3 << 61 | 0x1234));
    assert_eq!(fault.itir, common::itir(14, 0x103));
    assert_eq!(fault.entry, None);
    machine.itc(Side::Data, VA, 0, 22, 9);
    let fault = machine.access(KERNEL, Access::Read, VA + 5).expect_err("a fault");
    assert_eq!(fault.kind, Kind::DataNotPresent);
    assert_eq!(fault.itir, common::itir(14, 0x100), "the region's, not the page's");
}

#[test]
fn an_address_that_is_not_implemented_is_told_before_any_miss() {
    let mut machine = Machine::new(Config { virtual_msb: 50, ..Config::default() });
    for psr in [KERNEL, Psr { ic: false, ..KERNEL }] {
        assert_eq!(machine.kind(psr, Access::Read, 1 << 50), Kind::UnimplementedData);
        assert_eq!(machine.kind(psr, Access::StackRead, 1 << 55), Kind::UnimplementedData);
    }
    assert_eq!(machine.kind(KERNEL, Access::Read, 0x3ff << 51 | 1 << 50), Kind::AlternateData);
}

#[test]
fn physical_mode_takes_addresses_as_they_are() {
    let mut machine = machine();
    let physical = Psr::default();
    for access in [Access::Fetch, Access::Read, Access::Write, Access::StackRead] {
        let hit = machine.access(physical, access, 0x1234_5678).expect("no fault");
        assert_eq!((hit.physical, hit.attribute, hit.translation), (0x1234_5678, Attribute::WriteBack, None));
        let hit = machine.access(physical, access, 1 << 63 | 0x1234).expect("no fault");
        assert_eq!((hit.physical, hit.attribute), (0x1234, Attribute::Uncacheable));
    }
    assert_eq!(machine.kind(physical, Access::Read, 1 << 50), Kind::UnimplementedData);
    assert_eq!(machine.physical(physical, Access::Read, (1 << 50) - 1), Ok((1 << 50) - 1));
    assert_eq!(machine.mmu.counters().data.lookups, 0);
}

#[test]
fn each_kind_of_access_has_its_switch() {
    let mut machine = machine();
    let only = |it, dt, rt| Psr { it, dt, rt, ic: true, ..Psr::default() };
    let (fetch, read, stack) = (Access::Fetch, Access::Read, Access::StackRead);
    for (psr, translated) in
        [(only(true, false, false), fetch), (only(false, true, false), read), (only(false, false, true), stack)]
    {
        for access in [fetch, read, stack] {
            assert_eq!(machine.access(psr, access, VA).is_err(), access == translated, "{psr:?} {access:?}");
        }
    }
}

#[test]
fn a_hit_says_attribute_and_translation() {
    for (field, attribute) in [
        (0, Attribute::WriteBack),
        (4, Attribute::Uncacheable),
        (5, Attribute::UncacheableExported),
        (6, Attribute::WriteCoalescing),
    ] {
        let hit = with(GOOD | ma(field) | 1 << 52, 3).access(USER, Access::Read, VA).expect("no fault");
        assert_eq!(hit.attribute, attribute);
        let translation = hit.translation.expect("it was translated");
        assert!(translation.pte.deferral() && translation.key == 3);
    }
}

#[test]
fn flushing_needs_reading_but_neither_key_nor_access_bit() {
    let keyed = Psr { pk: true, ..USER };
    let mut machine = with(GOOD & !ACCESSED, 7);
    assert_eq!(machine.physical(keyed, Access::Flush, VA), Ok(0));
    assert_eq!(with(PRESENT, 7).kind(keyed, Access::Flush, VA), Kind::DataAccessRights);
    assert_eq!(with(0, 7).kind(keyed, Access::Flush, VA), Kind::DataNotPresent);
    assert_eq!(with(GOOD | ma(7), 7).kind(keyed, Access::Flush, VA), Kind::DataNatPage);
}

fn speculate(machine: &mut Machine, psr: Psr, defer: &[Kind]) -> Result<Option<u64>, Kind> {
    let defer = defer.iter().fold(Kinds::NONE, |kinds, &kind| kinds.with(kind));
    let done = machine.mmu.speculate(&mut machine.ram, psr, Access::Read, VA, defer);
    done.map(|hit| hit.map(|hit| hit.physical)).map_err(|fault| fault.kind)
}

#[test]
fn a_speculative_load_defers_what_it_may_and_raises_the_rest() {
    let keyed = Psr { pk: true, ..USER };
    let mut machine = with(GOOD & !ACCESSED & !(3 << 7), 7);
    assert_eq!(speculate(&mut machine, keyed, &[]), Err(Kind::DataKeyMiss));
    assert_eq!(speculate(&mut machine, keyed, &[Kind::DataKeyMiss]), Err(Kind::DataAccessRights));
    let both = [Kind::DataKeyMiss, Kind::DataAccessRights];
    assert_eq!(speculate(&mut machine, keyed, &both), Err(Kind::DataAccessBit));
    assert_eq!(speculate(&mut machine, keyed, &[both[0], both[1], Kind::DataAccessBit]), Ok(None));
    assert_eq!(speculate(&mut with(GOOD, 0), USER, &Kind::ALL), Ok(Some(0)));
    assert_eq!(speculate(&mut with(0, 0), keyed, &[Kind::DataNotPresent]), Ok(None), "it hides what is below");
    assert_eq!(speculate(&mut with(GOOD | ma(7), 0), USER, &[Kind::DataNatPage]), Ok(None));
    assert_eq!(speculate(&mut Machine::new(Config::default()), USER, &[Kind::AlternateData]), Ok(None));
    assert_eq!(speculate(&mut Machine::new(Config::default()), USER, &[Kind::DataTlb]), Err(Kind::AlternateData));
}

#[test]
fn a_deferred_fault_is_not_counted() {
    let mut machine = machine();
    speculate(&mut machine, USER, &[Kind::AlternateData]).expect("deferred");
    assert_eq!(machine.mmu.counters().faults_of(Kind::AlternateData), 0);
    assert_eq!(machine.kind(USER, Access::Read, VA), Kind::AlternateData);
    assert_eq!(machine.mmu.counters().faults_of(Kind::AlternateData), 1);
}

#[test]
fn an_unimplemented_physical_address_can_be_deferred() {
    let mut machine = machine();
    let defer = Kinds::NONE.with(Kind::UnimplementedData);
    let done = machine.mmu.speculate(&mut machine.ram, Psr::default(), Access::Read, 1 << 55, defer);
    assert_eq!(done, Ok(None));
}
