// SPDX-License-Identifier: MIT
//! Which words are registers and translations, and which have something reserved.

mod common;

use common::{GOOD, Machine, PRESENT, itir, ma, rr};
use itanium_mmu::config::Config;
use itanium_mmu::fields::{
    Attribute, Itir, KeyRegister, PageSize, Pta, Pte, Region, Reserved, check, region, within,
};
use itanium_mmu::mmu::Refused;
use itanium_mmu::tlb::Side;

#[test]
fn the_sizes_are_the_twelve_from_4_kib_to_4_gib() {
    let sizes: Vec<u64> = (0..64).filter_map(PageSize::of_field).map(PageSize::bytes).collect();
    let kib = 1024;
    let want =
        [4, 8, 16, 64, 256, 1024, 4096, 16384, 65536, 262_144, 1_048_576, 4_194_304].map(|each: u64| each * kib);
    assert_eq!(sizes, want);
}

#[test]
fn an_address_has_a_region_and_a_place_in_it() {
    assert_eq!(region(0xe000_0000_0000_1234), 7);
    assert_eq!(within(0xe000_0000_0000_1234), 0x1234);
    assert_eq!(within(u64::MAX), 0x1fff_ffff_ffff_ffff);
}

#[test]
fn the_fields_of_a_translation_are_where_the_manual_has_them() {
    let pte = Pte(0x0010_1234_5678_8000 | 1 << 12 | 1 | 5 << 2 | 1 << 6 | 2 << 7 | 6 << 9 | 0x21 << 53);
    assert!(pte.present() && !pte.accessed() && pte.dirty() && pte.deferral());
    assert_eq!((pte.ma(), pte.level(), pte.rights(), pte.ignored_size()), (5, 2, 6, 0x21));
    assert_eq!(Pte(u64::MAX).frame(), 0x0003_ffff_ffff_f000);
    assert_eq!((Itir(0xabcd_ef58).ps(), Itir(0xabcd_ef58).key()), (22, 0x00ab_cdef));
    assert!(Pte(1 << 5).accessed() && !Pte(!(1 << 52)).deferral());
}

#[test]
fn attributes_are_five_and_three_encodings_are_reserved() {
    let named: Vec<Option<Attribute>> = (0..8).map(Attribute::of_field).collect();
    let want = [
        Some(Attribute::WriteBack),
        None,
        None,
        None,
        Some(Attribute::Uncacheable),
        Some(Attribute::UncacheableExported),
        Some(Attribute::WriteCoalescing),
        Some(Attribute::NatPage),
    ];
    assert_eq!(named, want);
}

fn checked(pte: u64, itir: u64) -> Result<u32, Reserved> {
    check(Pte(pte), Itir(itir), 44).map(PageSize::shift)
}

#[test]
fn a_translation_that_is_present_has_no_reserved_bit() {
    let good = itir(14, 0x00ff_ffff).0;
    assert_eq!(checked(GOOD, good), Ok(14));
    for bit in [1, 50, 51] {
        assert_eq!(checked(GOOD | 1 << bit, good), Err(Reserved::Bits), "bit {bit}");
    }
    for bit in [0, 1, 32, 63] {
        assert_eq!(checked(GOOD, good | 1 << bit), Err(Reserved::Bits), "bit {bit} of the second word");
    }
    for bit in 53..64 {
        assert_eq!(checked(GOOD | 1 << bit, good), Ok(14), "bit {bit} is ignored");
    }
    for reserved in 1..4 {
        assert_eq!(checked(GOOD | ma(reserved), good), Err(Reserved::Attribute));
    }
    assert_eq!(checked(GOOD | 1 << 43, good), Ok(14));
    assert_eq!(checked(GOOD | 1 << 44, good), Err(Reserved::Physical));
    for ps in [0, 11, 15, 17, 31, 33, 63] {
        assert_eq!(checked(GOOD, ps << 2), Err(Reserved::PageSize), "2^{ps}");
    }
}

#[test]
fn one_that_is_not_has_a_size_and_the_rest_is_softwares() {
    let rest = !PRESENT;
    assert_eq!(checked(rest, itir(14, 0).0 | 0xffff_ffff << 32), Ok(14));
    assert_eq!(checked(rest, 15 << 2), Err(Reserved::PageSize));
    assert_eq!(checked(rest, itir(14, 0).0 | 1), Err(Reserved::Bits));
}

#[test]
fn a_region_register_has_an_identifier_a_size_and_the_walkers_switch() {
    let region = Region::of_word(rr(0x00ab_cdef, 16, true)).expect("a good word");
    assert_eq!((region.rid, region.size.shift(), region.walker), (0x00ab_cdef, 16, true));
    assert_eq!(region.word(), rr(0x00ab_cdef, 16, true));
    assert_eq!(region.itir(), itir(16, 0x00ab_cdef));
    for bad in [rr(1, 16, true) | 2, rr(1, 16, true) | 1 << 32, rr(1, 15, true), rr(1, 0, false)] {
        assert_eq!(Region::of_word(bad), None, "{bad:#x}");
    }
}

#[test]
fn the_table_register_has_a_base_a_size_and_a_format() {
    let pta = Pta::of_word(0xa000_0000_0001_8000 | 1 << 8 | 20 << 2 | 1).expect("a good word");
    assert!(pta.walker() && pta.long());
    assert_eq!((pta.base(), pta.size()), (0xa000_0000_0001_8000, 20));
    for bad in [14 << 2, 62 << 2, 20 << 2 | 2, 20 << 2 | 1 << 9, 20 << 2 | 1 << 14] {
        assert_eq!(Pta::of_word(bad), None, "{bad:#x}");
    }
    assert!(Pta::of_word(15 << 2).is_some() && Pta::of_word(61 << 2).is_some());
}

#[test]
fn a_key_register_has_a_key_and_what_it_forbids() {
    let key = KeyRegister::of_word(0x00ab_cdef << 8 | 1 << 2 | 1).expect("a good word");
    assert!(key.valid() && !key.invalidated().valid());
    assert_eq!((key.key(), key.word()), (0x00ab_cdef, 0xabcd_ef05));
    assert_eq!((key.forbids(true, false, false), key.forbids(false, true, false)), (false, true));
    assert!(KeyRegister::of_word(2).expect("a good word").forbids(true, false, false));
    assert!(KeyRegister::of_word(8).expect("a good word").forbids(false, false, true));
    for bit in [4, 5, 6, 7, 32, 63] {
        assert_eq!(KeyRegister::of_word(1 << bit), None, "bit {bit}");
    }
}

#[test]
fn a_register_keeps_its_value_when_a_reserved_one_is_written() {
    let mut machine = Machine::new(Config::default());
    let before = machine.mmu.clone();
    assert_eq!(machine.mmu.set_region(0, 2), Err(Refused::RegisterField));
    assert_eq!(machine.mmu.set_pta(2), Err(Refused::RegisterField));
    assert_eq!(machine.mmu.set_key(0, 1 << 4), Err(Refused::RegisterField));
    assert_eq!(machine.mmu.set_key(16, 1), Err(Refused::RegisterField));
    assert_eq!(machine.mmu, before);
    machine.mmu.set_pta(20 << 2 | 1).expect("a good word");
    assert_eq!((machine.mmu.pta().word(), machine.mmu.region(3).rid), (20 << 2 | 1, 0x103));
}

#[test]
fn a_key_is_valid_in_one_register_only() {
    let mut machine = Machine::new(Config::default());
    machine.mmu.set_key(0, 7 << 8 | 1).expect("a good word");
    machine.mmu.set_key(1, 8 << 8 | 1).expect("a good word");
    machine.mmu.set_key(2, 7 << 8).expect("a good word");
    assert!(machine.mmu.key(0).is_some_and(KeyRegister::valid), "an invalid one takes nothing from another");
    machine.mmu.set_key(3, 7 << 8 | 1).expect("a good word");
    let valid: Vec<bool> = (0..4).map(|at| machine.mmu.key(at).is_some_and(KeyRegister::valid)).collect();
    assert_eq!(valid, [false, true, false, true]);
}

#[test]
fn addresses_between_the_highest_bit_and_the_region_repeat_that_bit() {
    let mmu = Machine::new(Config { virtual_msb: 50, ..Config::default() }).mmu;
    for good in [0, 1 << 50 | 0x3ff << 51, 0x0003_ffff_ffff_ffff, 7 << 61, u64::MAX, 0x1ffc_0000_0000_0000] {
        assert!(mmu.implements(good), "{good:#x}");
    }
    for bad in [1 << 50, 1 << 51, 1 << 60, 0x1ff8_0000_0000_0000, 7 << 61 | 1 << 50] {
        assert!(!mmu.implements(bad), "{bad:#x}");
    }
    let all = Machine::new(Config::default()).mmu;
    assert!(all.implements(1 << 60) && all.implements(1 << 50));
}

#[test]
fn an_insertion_with_something_reserved_changes_nothing() {
    let mut machine = Machine::new(Config { virtual_msb: 50, ..Config::default() });
    let before = machine.mmu.clone();
    let mmu = &mut machine.mmu;
    let refused = [
        mmu.itc(Side::Data, Pte(GOOD | 2), itir(14, 0), 0),
        mmu.itc(Side::Data, Pte(GOOD | ma(1)), itir(14, 0), 0),
        mmu.itc(Side::Data, Pte(GOOD), itir(15, 0), 0),
        mmu.itc(Side::Data, Pte(GOOD), itir(14, 0), 1 << 50),
        mmu.itr(Side::Data, 8, Pte(GOOD), itir(14, 0), 0),
        mmu.itr(Side::Data, 0, Pte(GOOD), itir(14, 0), 1 << 50),
    ];
    let want = [
        Err(Refused::Words(Reserved::Bits)),
        Err(Refused::Words(Reserved::Attribute)),
        Err(Refused::Words(Reserved::PageSize)),
        Err(Refused::Address),
        Err(Refused::RegisterField),
        Err(Refused::Address),
    ];
    assert_eq!(refused, want);
    assert_eq!(*mmu, before);
    assert_eq!(mmu.itr(Side::Data, 7, Pte(GOOD), itir(14, 0), 0), Ok(()));
}
