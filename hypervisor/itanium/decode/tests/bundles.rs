// SPDX-License-Identifier: MIT
//! Templates, slots, and what a decoded instruction says of itself.

use itanium_decode::operand::Kind;
use itanium_decode::{Bundle, Operand, Unit, decode};

#[test]
fn templates_are_the_manuals() {
    // SDM vol. 3, table 4-1; a bar is a stop.
    let table = [
        "MII", "MII|", "MI|I", "MI|I|", "MLX", "MLX|", "", "", "MMI", "MMI|", "M|MI", "M|MI|", "MFI", "MFI|", "MMF",
        "MMF|", "MIB", "MIB|", "MBB", "MBB|", "", "", "BBB", "BBB|", "MMB", "MMB|", "", "", "MFB", "MFB|", "", "",
    ];
    for (template, want) in table.into_iter().enumerate() {
        let bundle = Bundle::of_parts(template as u8, [0; 3]);
        let stop = |slot| if bundle.stops_after(slot) { "|" } else { "" };
        let slots = bundle.units().into_iter().flatten().enumerate();
        let got: Vec<String> = slots.map(|(slot, unit)| format!("{unit:?}{}", stop(slot))).collect();
        assert_eq!(got.concat(), want, "{template:#x}");
    }
}

#[test]
fn slots_are_41_bits_each() {
    let slots = [0x123_4567_89ab, 0x1ff_ffff_ffff, 0x100_0000_0001];
    let bundle = Bundle::of_parts(0x1d, slots);
    assert_eq!([0, 1, 2].map(|slot| bundle.slot(slot)), slots);
    assert_eq!((bundle.template(), Bundle::of_bytes(bundle.0.to_le_bytes())), (0x1d, bundle));
    assert_eq!(Bundle::of_parts(0xff, [u64::MAX; 3]).0, u128::MAX, "what does not fit is cut off");
}

#[test]
fn an_instruction_has_predicate_mnemonic_and_operands() {
    let add = decode(Unit::I, 8 << 37 | 5 << 20 | 4 << 13 | 3 << 6 | 7, 0).expect("add");
    assert_eq!((add.mnemonic().as_str(), add.predicate()), ("add", 7));
    assert_eq!(add.operands().collect::<Vec<_>>(), [Operand::R1, Operand::R2, Operand::R3]);
    assert_eq!(add.operands().map(|operand| operand.value(&add)).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!((Operand::R1.kind(), add.text(0)), (Kind::General, "(p07) add r3=r4,r5".to_owned()));
    let same = decode(Unit::M, add.slot, 0).expect("in slots of M too");
    assert_eq!(same.form.id, add.form.id);
    assert!(decode(Unit::B, add.slot, 0).is_none());
}

#[test]
fn one_without_predicate_ignores_the_bits_of_one() {
    let alloc = decode(Unit::M, 1 << 37 | 6 << 33 | 96 << 13 | 8 << 20 | 1 << 27 | 32 << 6 | 9, 0).expect("alloc");
    assert_eq!((alloc.predicate(), alloc.text(0)), (0, "alloc r32=ar.pfs,96,8,8".to_owned()));
}

#[test]
fn targets_are_from_the_bundle_on() {
    let branch = decode(Unit::B, 4 << 37 | 1 << 36 | 0xffffe << 13, 0).expect("br");
    assert_eq!((branch.text(0x1000), Operand::Target25.value(&branch)), ("br.few 0xfe0".to_owned(), -32));
}

#[test]
fn an_instruction_of_two_slots_has_the_bits_of_both() {
    let movl = decode(Unit::X, 6 << 37 | 1 << 36 | 0x1f << 22 | 1 << 21 | 5 << 6, 0x1ff_ffff_ffff).expect("movl");
    assert_eq!(Operand::Imm64.value(&movl) as u64, 1 << 63 | 0x1ff_ffff_ffff << 22 | 1 << 21 | 0x1f << 16);
}
