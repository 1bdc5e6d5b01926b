// SPDX-License-Identifier: MIT
//! Instructions that ask about a translation and do not use it: probe, tpa, tak.

mod common;

use common::{ACCESSED, GOOD, KERNEL, Machine, PRESENT, USER, itir, ma};
use itanium_mmu::config::Config;
use itanium_mmu::fault::Kind;
use itanium_mmu::fields::Pte;
use itanium_mmu::mmu::Psr;
use itanium_mmu::tlb::Side;

const VA: u64 = 0x40_0000;
const KEYED: Psr = Psr { pk: true, ..KERNEL };

fn with(pte: u64, key: u64) -> Machine {
    let mut machine = Machine::new(Config { virtual_msb: 50, ..Config::default() });
    machine.mmu.itc(Side::Data, Pte(pte), itir(16, key), VA).expect("a good insertion");
    machine
}

fn probe(machine: &mut Machine, psr: Psr, level: u8, write: bool) -> Result<bool, Kind> {
    machine.mmu.probe(&mut machine.ram, psr, VA + 0x123, level, write).map_err(|fault| fault.kind)
}

#[test]
fn probe_answers_by_rights_at_the_level_asked() {
    let mut machine = with(PRESENT | 3 << 7 | 4 << 9, 0); // level 3 reads, more privileged ones write
    for (level, write, want) in [(3, false, true), (3, true, false), (2, true, true), (0, true, true)] {
        assert_eq!(probe(&mut machine, KERNEL, level, write), Ok(want), "{level} {write}");
    }
    assert_eq!(probe(&mut machine, USER, 0, true), Ok(false), "a program asks for itself at most");
    assert_eq!(probe(&mut with(PRESENT, 0), KERNEL, 1, false), Ok(false));
}

#[test]
fn probe_does_not_look_at_accessed_and_dirty_bits() {
    assert_eq!(probe(&mut with(PRESENT | 2 << 9, 0), KERNEL, 0, true), Ok(true));
}

#[test]
fn probe_faults_on_what_is_no_answer() {
    assert_eq!(probe(&mut with(0, 0), KERNEL, 0, false), Err(Kind::DataNotPresent));
    assert_eq!(probe(&mut with(GOOD | ma(7), 0), KERNEL, 0, false), Err(Kind::DataNatPage));
    assert_eq!(probe(&mut Machine::new(Config::default()), KERNEL, 0, false), Err(Kind::AlternateData));
    let uncollected = Psr { ic: false, ..KERNEL };
    assert_eq!(probe(&mut Machine::new(Config::default()), uncollected, 0, false), Err(Kind::DataNested));
    let mut machine = with(GOOD, 7);
    assert_eq!(probe(&mut machine, KEYED, 0, false), Err(Kind::DataKeyMiss));
    machine.mmu.set_key(0, 7 << 8 | 1 << 1 | 1).expect("a good word");
    assert_eq!((probe(&mut machine, KEYED, 0, false), probe(&mut machine, KEYED, 0, true)), (Ok(true), Ok(false)));
}

#[test]
fn probe_of_an_unimplemented_address_says_no() {
    let mut machine = with(GOOD, 0);
    assert_eq!(machine.mmu.probe(&mut machine.ram, KERNEL, 1 << 50, 0, false), Ok(false));
}

#[test]
fn probe_in_physical_mode_asks_the_tlb() {
    assert_eq!(probe(&mut with(GOOD, 0), Psr { ic: true, ..Psr::default() }, 0, false), Ok(true));
}

#[test]
fn tpa_translates_whatever_the_rights() {
    let mut machine = with(PRESENT | 0x0123_0000, 7);
    assert_eq!(machine.mmu.tpa(&mut machine.ram, KEYED, VA + 0x1234), Ok(0x0123_1234));
    let kind = |mut machine: Machine, va| machine.mmu.tpa(&mut machine.ram, KERNEL, va).expect_err("a fault").kind;
    assert_eq!(kind(with(0, 0), VA), Kind::DataNotPresent);
    assert_eq!(kind(with(GOOD | ma(7), 0), VA), Kind::DataNatPage);
    assert_eq!(kind(with(GOOD, 0), VA + 0x1_0000), Kind::AlternateData);
    assert_eq!(kind(with(GOOD, 0), 1 << 50), Kind::UnimplementedData);
}

#[test]
fn tak_gives_the_key_of_a_page_that_is_present() {
    let ask = |pte, va| {
        let mut machine = with(pte, 0x00ab_cdef);
        machine.mmu.tak(&mut machine.ram, KEYED, va)
    };
    assert_eq!(ask(PRESENT & !ACCESSED, VA), 0xabcd_ef00);
    assert_eq!(ask(GOOD | ma(7), VA), 0xabcd_ef00);
    assert_eq!((ask(0, VA), ask(GOOD, VA + 0x1_0000), ask(GOOD, 1 << 50)), (1, 1, 1));
}
