// SPDX-License-Identifier: MIT
//! Both walkers: where an entry is, when one is looked for, and what becomes of it.

mod common;

use common::{ACCESSED, GOOD, KERNEL, Machine, PRESENT, itir, ma, rr};
use itanium_mmu::config::{Config, SizeFrom};
use itanium_mmu::fault::Kind;
use itanium_mmu::fields::Pte;
use itanium_mmu::mmu::{Access, Psr};
use itanium_mmu::tlb::Side;
use itanium_mmu::walker::Abort;

const SHORT: u64 = 1;
const LONG: u64 = 1 | 1 << 8;
/// The short format's table begins here in each region: 2^40 bytes of 8-byte entries, for 2^51 bytes of 16 KiB pages.
const LINEAR: u64 = 0x1f00_0000_0000_0000;
/// The long format's: 64 KiB in region 7.
const HASH: u64 = 0xe000_0000_0008_0000;
/// Where the page of the table that a test uses is in memory.
const TABLE: u64 = 0x10_0000;
const VA: u64 = 0x1234_4000;

fn machine(pta: u64, config: Config) -> Machine {
    let mut machine = Machine::new(config);
    for number in 0..8 {
        machine.mmu.set_region(number, rr(0x100 + number as u64, 14, true)).expect("a good word");
    }
    machine.mmu.set_pta(pta).expect("a good word");
    machine
}

/// A machine with the short format, whose table's page for `VA` is mapped by this word.
fn short_through(table: u64, config: Config) -> Machine {
    let mut machine = machine(LINEAR | 40 << 2 | SHORT, config);
    let at = machine.mmu.thash(VA);
    machine.itc(Side::Data, at, table | TABLE, 14, 5);
    machine
}

fn short() -> Machine {
    short_through(GOOD, Config::default())
}

fn long() -> Machine {
    let mut machine = machine(HASH | 16 << 2 | LONG, Config::default());
    machine.mmu.itr(Side::Data, 0, Pte(GOOD | TABLE), itir(16, 0), HASH).expect("a good insertion");
    machine
}

/// Where the entry for an address is in memory.
fn entry(machine: &Machine, va: u64) -> u64 {
    let mask = if machine.mmu.pta().long() { 0xffff } else { 0x3fff };
    TABLE | machine.mmu.thash(va) & mask
}

fn store(machine: &mut Machine, va: u64, words: &[u64]) {
    let at = entry(machine, va);
    for (word, offset) in words.iter().zip([0, 8, 16, 24]) {
        machine.ram.0.insert(at + offset, *word);
    }
}

fn store_long(machine: &mut Machine, va: u64, pte: u64, shift: u64, key: u64) {
    let tag = machine.mmu.ttag(va);
    store(machine, va, &[pte, itir(shift, key).0, tag]);
}

fn aborted(machine: &mut Machine, reason: Abort) {
    assert_eq!(machine.kind(KERNEL, Access::Read, VA), Kind::DataTlb, "{reason:?}");
    assert_eq!(machine.mmu.counters().aborts.iter().collect::<Vec<_>>(), [(&reason, &1)]);
    assert_eq!(machine.mmu.counters().data.walker_insertions, 0);
}

#[test]
fn the_short_formats_entry_is_in_the_regions_own_table() {
    let mut mmu = machine(LINEAR | 40 << 2 | SHORT, Config::default()).mmu;
    assert_eq!(mmu.thash(0), LINEAR);
    assert_eq!(mmu.thash(0x4000), LINEAR + 8);
    assert_eq!(mmu.thash(3 << 61 | 0x7fff), 3 << 61 | LINEAR + 8);
    assert_eq!(mmu.thash(0x1234_4000), LINEAR + 0x1234_4000 / 0x4000 * 8);
    mmu.set_region(0, rr(0x100, 12, true)).expect("a good word");
    assert_eq!(mmu.thash(0x4000), LINEAR + 32, "by the region's size");
    mmu.set_pta(LINEAR | 15 << 2).expect("a good word");
    assert_eq!(mmu.thash(0x0100_0000), LINEAR, "4,096 entries, and again from the first");
}

#[test]
fn the_table_of_pages_reaches_what_the_thesis_says() {
    let mmu = machine(LINEAR | 50 << 2 | SHORT, Config::default()).mmu;
    let page = |va: u64| mmu.thash(va) >> 14;
    assert_eq!(page(0), page((32 << 20) - 1), "a page of 16 KiB has the entries of 32 MiB");
    assert_ne!(page(0), page(32 << 20));
    let mut large = machine(LINEAR | 50 << 2 | SHORT, Config::default()).mmu;
    large.set_region(0, rr(0x100, 16, true)).expect("a good word");
    let page = |va: u64| large.thash(va) >> 16;
    assert_eq!(page(0), page((512 << 20) - 1), "one of 64 KiB those of 512 MiB");
    assert_ne!(page(0), page(512 << 20));
}

#[test]
fn the_long_formats_entry_is_in_one_table_by_page_and_identifier() {
    let mut mmu = machine(HASH | 22 << 2 | LONG, Config::default()).mmu; // 4 MiB: 2^17 entries
    let base = 0xe000_0000_0000_0000;
    assert_eq!(mmu.thash(0), base + 0x100 * 32);
    assert_eq!(mmu.thash(1 << 61 | 0x4000), base + (0x101 ^ 1) * 32);
    assert_eq!(mmu.thash(2 << 30), mmu.thash(0), "2^17 pages of 16 KiB: the same again after 2 GiB (thesis 4.3.1)");
    assert_ne!(mmu.thash(1 << 30), mmu.thash(0));
    // Two processes with contiguous identifiers share a slot (thesis 3.4): pages 0x1000 and 0x1001.
    let first = mmu.thash(0x1000 << 14);
    mmu.set_region(0, rr(0x101, 14, true)).expect("a good word");
    assert_eq!(mmu.thash(0x1001 << 14), first);
    assert_eq!(first, base + 0x1100 * 32);
}

#[test]
fn index_and_tag_together_name_page_and_identifier() {
    let mut mmu = machine(HASH | 15 << 2 | LONG, Config::default()).mmu; // the smallest table: 2^10 entries
    let mut seen = std::collections::HashMap::new();
    for rid in [0, 1, 2, 0x3ff, 0x400, 0x401, 0x00ff_ffff, 0x0080_0000] {
        for bit in 0..49 {
            for low in [0, 1] {
                let page = low | 1_u64 << bit;
                for shift in [12, 14] {
                    mmu.set_region(0, rr(rid, shift, true)).expect("a good word");
                    let va = page << shift & (u64::MAX >> 3);
                    let name = (mmu.thash(va), mmu.ttag(va), shift);
                    let other = seen.insert(name, (rid, va));
                    assert!(other.is_none_or(|other| other == (rid, va)), "{name:x?}: {other:x?}, {rid:x} {va:x}");
                    assert_eq!(mmu.ttag(va) >> 63, 0, "the bit of invalid tags is clear");
                }
            }
        }
    }
}

#[test]
fn a_short_entry_becomes_a_page_of_the_regions_size_and_key() {
    let mut machine = short();
    store(&mut machine, VA, &[GOOD | 0x0abc_c000]);
    let hit = machine.access(KERNEL, Access::Read, VA + 5).expect("the walker found it");
    assert_eq!(hit.physical, 0x0abc_c005);
    let translation = hit.translation.expect("it was translated");
    assert_eq!((translation.range.size.shift(), translation.key), (14, 0x100));
    let counters = machine.mmu.counters();
    assert_eq!((counters.walks, counters.data.walker_insertions, counters.data.second_misses), (1, 1, 1));
    assert_eq!((machine.mmu.lines_touched(), machine.physical(KERNEL, Access::Read, VA + 9)), (1, Ok(0x0abc_c009)));
    assert_eq!(machine.mmu.counters().walks, 1, "it stays");
}

#[test]
fn a_long_entry_becomes_a_page_of_its_own_size_and_key() {
    let mut machine = long();
    store_long(&mut machine, VA, GOOD | 0x1000_0000, 20, 0x77);
    let hit = machine.access(KERNEL, Access::Read, VA + 5).expect("the walker found it");
    assert_eq!(hit.physical, 0x1000_0000 | (VA + 5) & 0xf_ffff);
    let translation = hit.translation.expect("it was translated");
    assert_eq!((translation.range.size.shift(), translation.key), (20, 0x77));
    assert_eq!(machine.physical(KERNEL, Access::Read, VA & !0xf_ffff), Ok(0x1000_0000), "all of it");
    assert_eq!(machine.mmu.counters().walks, 1);
}

#[test]
fn instructions_are_walked_for_through_the_data_tlb() {
    let mut machine = short();
    store(&mut machine, VA, &[GOOD | 0x0abc_c000]);
    assert_eq!(machine.physical(KERNEL, Access::Fetch, VA), Ok(0x0abc_c000));
    let counters = machine.mmu.counters();
    assert_eq!((counters.instruction.walker_insertions, counters.data.walker_insertions), (1, 0));
    assert_eq!(machine.mmu.tlb(Side::Instruction).all().count(), 1);
}

#[test]
fn the_walker_runs_where_region_table_and_processor_let_it() {
    let walks = |psr: Psr, access: Access, walker: bool, pta: u64| {
        let mut machine = short();
        store(&mut machine, VA, &[GOOD]);
        machine.mmu.set_region(0, rr(0x100, 14, walker)).expect("a good word");
        machine.mmu.set_pta(LINEAR | 40 << 2 | pta).expect("a good word");
        (machine.physical(psr, access, VA), machine.mmu.counters().walks)
    };
    assert_eq!(walks(KERNEL, Access::Read, false, 1), (Err(Kind::AlternateData), 0));
    assert_eq!(walks(KERNEL, Access::Read, true, 0), (Err(Kind::AlternateData), 0));
    assert_eq!(walks(KERNEL, Access::Fetch, false, 1), (Err(Kind::AlternateInstruction), 0));
    assert_eq!(walks(Psr { ic: false, ..KERNEL }, Access::Read, true, 1), (Ok(0), 1), "data need no collection");
    assert_eq!(walks(Psr { ic: false, ..KERNEL }, Access::Fetch, true, 1), (Err(Kind::AlternateInstruction), 0));
    assert_eq!(walks(Psr { dt: false, ..KERNEL }, Access::Fetch, true, 1), (Err(Kind::AlternateInstruction), 0));
    assert_eq!(walks(Psr { it: false, ..KERNEL }, Access::Read, true, 1), (Ok(0), 1));
    assert_eq!(walks(KERNEL, Access::StackRead, true, 1), (Ok(0), 1));
    assert_eq!(walks(Psr { dt: false, ..KERNEL }, Access::StackRead, true, 1), (Err(Kind::AlternateData), 0));
}

#[test]
fn a_miss_on_the_table_is_a_fault_of_its_own() {
    for pta in [LINEAR | 40 << 2 | SHORT, HASH | 16 << 2 | LONG] {
        let mut machine = machine(pta, Config::default());
        machine.mmu.set_region(7, rr(0x777, 16, true)).expect("a good word");
        let fault = machine.access(KERNEL, Access::Read, VA).expect_err("a fault");
        assert_eq!((fault.kind, fault.address), (Kind::VhptData, VA));
        assert_eq!(fault.entry, Some(machine.mmu.thash(VA)));
        let of_table = if machine.mmu.pta().long() { itir(16, 0x777) } else { itir(14, 0x100) };
        assert_eq!(fault.itir, of_table);
        assert_eq!(machine.kind(KERNEL, Access::Fetch, VA), Kind::VhptInstruction);
        assert_eq!(machine.kind(Psr { ic: false, ..KERNEL }, Access::Read, VA), Kind::DataNested);
        assert_eq!((machine.mmu.counters().walks, machine.mmu.counters().walks_missed), (3, 3));
        assert_eq!(machine.mmu.counters().aborts.len(), 0);
    }
}

#[test]
fn a_walk_that_finds_nothing_is_a_tlb_fault_with_the_entrys_address() {
    let mut machine = short();
    store(&mut machine, VA, &[GOOD | ma(1)]);
    let fault = machine.access(KERNEL, Access::Read, VA).expect_err("a fault");
    assert_eq!((fault.kind, fault.entry), (Kind::DataTlb, Some(machine.mmu.thash(VA))));
    assert_eq!(machine.kind(KERNEL, Access::Fetch, VA), Kind::InstructionTlb);
    assert_eq!(machine.kind(Psr { ic: false, ..KERNEL }, Access::Read, VA), Kind::DataNested);
}

#[test]
fn an_entry_that_is_not_present_is_inserted_and_faults() {
    let mut machine = short();
    store(&mut machine, VA, &[!PRESENT]);
    assert_eq!(machine.kind(KERNEL, Access::Read, VA), Kind::DataNotPresent);
    assert_eq!(machine.mmu.counters().data.walker_insertions, 1);
    let mut machine = long();
    store_long(&mut machine, VA, !PRESENT, 16, 0);
    assert_eq!(machine.kind(KERNEL, Access::Read, VA), Kind::DataNotPresent);
}

#[test]
fn an_entry_with_something_reserved_ends_the_walk() {
    let bad = [
        (GOOD | 2, Abort::Bits),
        (GOOD | 1 << 50, Abort::Bits),
        (GOOD | ma(1), Abort::Attribute),
        (GOOD | ma(3), Abort::Attribute),
        (GOOD | 1 << 45, Abort::Physical),
    ];
    for (pte, reason) in bad {
        let mut machine = short_through(GOOD, Config { physical_bits: 45, ..Config::default() });
        store(&mut machine, VA, &[pte]);
        aborted(&mut machine, reason);
    }
    let mut machine = long();
    store_long(&mut machine, VA, GOOD, 15, 0);
    aborted(&mut machine, Abort::PageSize);
    let mut machine = long();
    let tag = machine.mmu.ttag(VA);
    store(&mut machine, VA, &[GOOD, itir(14, 0).0 | 1 << 32, tag]);
    aborted(&mut machine, Abort::Bits);
}

#[test]
fn a_long_entry_needs_the_right_tag() {
    let mut machine = long();
    let tag = machine.mmu.ttag(VA);
    store(&mut machine, VA, &[GOOD, itir(14, 0).0, tag ^ 1]);
    aborted(&mut machine, Abort::Tag);
    let mut machine = long();
    store(&mut machine, VA, &[GOOD, itir(14, 0).0, tag | 1 << 63]);
    aborted(&mut machine, Abort::TagInvalid);
}

#[test]
fn a_table_that_may_not_be_read_ends_the_walk() {
    for (table, reason) in [
        (0, Abort::TableNotPresent),
        (GOOD | ma(7), Abort::TableNatPage),
        (GOOD & !ACCESSED, Abort::TableAccessBit),
        (GOOD | ma(4), Abort::TableUncacheable),
        (GOOD | ma(6), Abort::TableUncacheable),
    ] {
        let mut machine = short_through(table, Config::default());
        store(&mut machine, VA, &[GOOD]);
        aborted(&mut machine, reason);
    }
}

#[test]
fn rights_and_dirt_of_the_tables_page_do_not_matter() {
    for rights in 0..8 {
        let mut machine = short_through(PRESENT | ACCESSED | rights << 9, Config::default());
        store(&mut machine, VA, &[GOOD]);
        assert_eq!(machine.physical(common::USER, Access::Read, VA), Ok(0), "ar {rights}");
    }
}

#[test]
fn the_tables_key_must_allow_reading() {
    let keyed = Psr { pk: true, ..KERNEL };
    for (register, reads) in
        [(0, false), (5 << 8 | 1, true), (5 << 8 | 4 | 1, false), (5 << 8 | 2 | 1, true), (5 << 8, false)]
    {
        let mut machine = short();
        store(&mut machine, VA, &[GOOD]);
        machine.mmu.set_key(1, 0x100 << 8 | 1).expect("a good word"); // of the page itself
        machine.mmu.set_key(2, register).expect("a good word");
        let got = machine.physical(keyed, Access::Read, VA);
        assert_eq!(got, if reads { Ok(0) } else { Err(Kind::DataTlb) }, "{register:#x}");
        assert_eq!(machine.mmu.counters().aborts_for(Abort::TableKey), u64::from(!reads));
    }
}

#[test]
fn an_entry_where_there_is_no_memory_ends_the_walk() {
    aborted(&mut short(), Abort::Unreadable);
    let mut machine = long();
    store(&mut machine, VA, &[GOOD, 0]); // its tag is nowhere
    aborted(&mut machine, Abort::Unreadable);
}

#[test]
fn an_entry_at_an_unimplemented_address_ends_the_walk() {
    let mut machine =
        machine(0x0100_0000_0000_0000 | 40 << 2 | SHORT, Config { virtual_msb: 50, ..Config::default() });
    aborted(&mut machine, Abort::EntryAddress);
}

#[test]
fn an_entry_that_would_overlap_a_register_is_not_taken() {
    let mut machine = long();
    machine.mmu.itr(Side::Data, 1, Pte(GOOD), itir(14, 0), VA + 0x4000).expect("a good insertion");
    store_long(&mut machine, VA, GOOD, 20, 0);
    aborted(&mut machine, Abort::OverRegister);
    assert_eq!(machine.mmu.tlb(Side::Data).all().count(), 2);
}

#[test]
fn a_walked_page_removes_what_it_overlaps() {
    let mut machine = long();
    machine.map(VA + 0x4000, 0x4000);
    store_long(&mut machine, VA, GOOD | 0x1000_0000, 20, 0);
    machine.physical(KERNEL, Access::Read, VA).expect("the walker found it");
    assert_eq!(machine.physical(KERNEL, Access::Read, VA + 0x4000), Ok(0x1000_0000 | (VA + 0x4000) & 0xf_ffff));
}

#[test]
fn the_walkers_use_of_the_tables_page_keeps_it() {
    let config = Config { cache_entries: 3, first_entries: 0, ..Config::default() };
    let mut machine = short_through(GOOD, config);
    for page in 0..8 {
        store(&mut machine, VA + page * 0x4000, &[GOOD | page * 0x4000]);
    }
    for page in 0..8 {
        assert_eq!(machine.physical(KERNEL, Access::Read, VA + page * 0x4000), Ok(page * 0x4000), "page {page}");
    }
    assert_eq!(machine.mmu.counters().walks_missed, 0);
}

#[test]
fn lines_that_the_walker_reads_are_counted_once() {
    let mut machine = long();
    for page in 0..8 {
        store_long(&mut machine, page * 0x4000, GOOD, 14, 0);
        machine.physical(KERNEL, Access::Read, page * 0x4000).expect("the walker found it");
    }
    assert_eq!(machine.mmu.lines_touched(), 2, "four entries of 32 bytes in a line of 128");
    machine.mmu.reset_counters();
    assert_eq!(machine.mmu.lines_touched(), 0);
}

#[test]
fn queries_walk_too() {
    let mut machine = short();
    store(&mut machine, VA, &[GOOD | 0x4000]);
    assert_eq!(machine.mmu.tpa(&mut machine.ram, KERNEL, VA), Ok(0x4000));
    for pick in 0..3 {
        let mut machine = short();
        store(&mut machine, VA, &[GOOD | 0x4000]);
        let off = Psr { dt: false, ..KERNEL };
        match pick {
            0 => assert_eq!(machine.mmu.tpa(&mut machine.ram, off, VA).map_err(|f| f.kind), Err(Kind::AlternateData)),
            1 => assert_eq!(
                machine.mmu.probe(&mut machine.ram, off, VA, 0, false).map_err(|f| f.kind),
                Err(Kind::AlternateData)
            ),
            _ => assert_eq!(machine.mmu.tak(&mut machine.ram, off, VA), 1),
        }
        assert_eq!(machine.mmu.counters().walks, 0, "the walker is off where data are not translated");
        assert_eq!(machine.mmu.tak(&mut machine.ram, KERNEL, VA), 0x100 << 8);
    }
}

#[test]
fn a_walker_that_reads_the_size_from_ignored_bits_takes_superpages() {
    let tagged = GOOD | 0x1000_0000 | 20 << 53;
    let mut stock = short();
    store(&mut stock, VA, &[tagged]);
    assert_eq!(
        stock.access(KERNEL, Access::Read, VA).expect("found").translation.expect("one").range.size.shift(),
        14
    );
    let config = Config { size_from: SizeFrom::Ignored, ..Config::default() };
    let mut machine = short_through(GOOD, config);
    store(&mut machine, VA, &[tagged]);
    store(&mut machine, VA + 0x4000, &[GOOD | 0x4000]);
    let hit = machine.access(KERNEL, Access::Read, VA).expect("the walker found it");
    assert_eq!(hit.translation.expect("one").range.size.shift(), 20);
    assert_eq!(hit.translation.expect("one").key, 0x100);
    assert_eq!(hit.physical, 0x1000_0000 | VA & 0xf_ffff);
    machine.mmu.ptc_e();
    let at = machine.mmu.thash(VA);
    machine.itc(Side::Data, at, GOOD | TABLE, 14, 5);
    let hit = machine.access(KERNEL, Access::Read, VA + 0x4000).expect("the walker found it");
    assert_eq!(hit.translation.expect("one").range.size.shift(), 14, "0 there is the region's");
    let mut machine = short_through(GOOD, config);
    store(&mut machine, VA, &[GOOD | 15 << 53]);
    aborted(&mut machine, Abort::PageSize);
}

#[test]
fn a_walker_of_wide_entries_takes_size_and_key_from_the_second_word() {
    let config = Config { size_from: SizeFrom::Wide, ..Config::default() };
    let mut machine = short_through(GOOD, config);
    assert_eq!(machine.mmu.thash(0x8000), LINEAR + 32, "entries have 16 bytes");
    store(&mut machine, VA, &[GOOD | 0x1000_0000, itir(20, 9).0]);
    let hit = machine.access(KERNEL, Access::Read, VA).expect("the walker found it");
    let translation = hit.translation.expect("one");
    assert_eq!((translation.range.size.shift(), translation.key), (20, 9));
    assert_eq!(machine.mmu.thash(0x8000 + (16 << 20)) & !0x3fff, (LINEAR + 32 + 0x4000) & !0x3fff, "half the reach");
    let mut other = long();
    other.mmu = common::Machine::new(config).mmu;
    other.mmu.set_pta(HASH | 16 << 2 | LONG).expect("a good word");
    assert_eq!(other.mmu.thash(0), (HASH & !0xffff) + 0x100 * 32, "the long format's have 32 still");
}
