// SPDX-License-Identifier: MIT
//! Random bundles (`slots.pl`) are what Debian's disassembler for this architecture says: `sample.txt` has some of each
//! instruction, and a file that `ITANIUM_SLOTS` names, as objdump has written it, may have any number.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use itanium_decode::{Bundle, Unit, assemble, decode};

/// What only the Itanium 9500 has, and the manual not: the disassembler knows it.
const LATER: [&str; 3] = ["dahr", "msr[", "lfetch.count"];

/// What the disassembler has a number of instructions and restrictions for: to the manual it is a hint with a number.
const HINT: &str = "hint.m";

#[derive(Default)]
struct Compared {
    slots: u64,
    passed_over: u64,
    valid: u64,
    /// How often each row of the table was met.
    rows: BTreeMap<usize, u64>,
}

/// The lines of a bundle: its bytes, its template's name, and the text of each slot that has one.
#[derive(Default)]
struct Lines {
    address: u64,
    bytes: Vec<u8>,
    template: String,
    texts: Vec<String>,
}

fn lines(path: &str, mut take: impl FnMut(&Lines)) {
    let file = File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut bundle = Lines::default();
    for line in BufReader::new(file).lines().map(|line| line.expect("text")) {
        let Some((place, rest)) = line.split_once(":\t") else { continue };
        let Ok(address) = u64::from_str_radix(place.trim(), 16) else { continue };
        let (bytes, text) = rest.split_once('\t').unwrap_or((rest, ""));
        if address % 16 == 0 {
            bundle = Lines { address, ..Lines::default() };
        }
        bundle.bytes.extend(bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("a byte")));
        let mut text = text.trim();
        if let Some((template, tail)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            template.clone_into(&mut bundle.template);
            text = tail.trim();
        }
        bundle.texts.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
        if bundle.bytes.len() == 16 {
            take(&bundle);
        }
    }
}

fn compare(lines: &Lines, compared: &mut Compared) {
    let bundle = Bundle::of_bytes(lines.bytes[..].try_into().expect("16 bytes"));
    let units = bundle.units().expect("templates that there are");
    let name = units.map(|unit| format!("{unit:?}")).concat();
    assert_eq!(name, lines.template, "{:x}", lines.address);
    for (slot, unit) in units.into_iter().enumerate() {
        // An instruction of two slots is in the line of the first.
        let (at, unit) = match unit {
            Unit::L => (2, Unit::X),
            Unit::X => continue,
            unit => (slot, unit),
        };
        let Some(text) = lines.texts.get(slot).filter(|text| !text.is_empty()) else { panic!("{:x}", lines.address) };
        compared.slots += 1;
        let found = decode(unit, bundle.slot(at), bundle.slot(1));
        let later = LATER.iter().any(|name| text.contains(name));
        if later || found.is_some_and(|found| found.form.mnemonic == HINT) {
            compared.passed_over += 1;
            continue;
        }
        let stop = if bundle.stops_after(at) { ";;" } else { "" };
        let ours = match &found {
            Some(found) => found.text(lines.address) + stop,
            None => format!("data8 {:#011x}", bundle.slot(at)),
        };
        assert_eq!(ours, *text, "slot {slot} of {:x}, {unit:?} {:#x}", lines.address, bundle.slot(at));
        if let Some(found) = found {
            compared.valid += 1;
            *compared.rows.entry(found.form.id).or_default() += 1;
        }
    }
}

fn compared(path: &str) -> Compared {
    let mut compared = Compared::default();
    lines(path, |lines| compare(lines, &mut compared));
    compared
}

#[test]
fn a_sample_has_each_row_of_the_table() {
    let sample = compared(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample.txt"));
    let rows: Vec<usize> = itanium_decode::table::forms().iter().map(|form| form.id).collect();
    let names = |id: &usize| itanium_decode::table::forms()[*id].mnemonic;
    let missing: Vec<&str> = rows.iter().filter(|id| !sample.rows.contains_key(id)).map(names).collect();
    assert_eq!(missing, [HINT]);
}

#[test]
fn many_random_bundles_are_what_the_distribution_says() {
    let Ok(path) = std::env::var("ITANIUM_SLOTS") else { return };
    let all = compared(&path);
    assert!(all.slots >= 1_000_000, "{} slots", all.slots);
    assert!(all.valid * 4 > all.slots, "{} of {} are instructions", all.valid, all.slots);
    assert!(all.passed_over * 100 < all.slots, "{} of {} were passed over", all.passed_over, all.slots);
}

#[test]
fn what_the_disassembler_writes_can_be_assembled() {
    let mut rows = std::collections::BTreeSet::new();
    lines(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample.txt"), |lines| {
        for text in lines.texts.iter().map(|text| text.trim_end_matches(";;")) {
            let theirs = LATER.iter().chain([&HINT]).any(|name| text.contains(name));
            if text.is_empty() || text.starts_with("data8") || theirs {
                continue;
            }
            let (unit, slot, long) = assemble(text, lines.address).unwrap_or_else(|| panic!("{text}"));
            let found = decode(unit, slot, long).expect("an instruction");
            assert_eq!(found.text(lines.address), text);
            rows.insert(found.form.id);
        }
    });
    assert_eq!(rows.len() + 1, itanium_decode::table::forms().len(), "all rows but the hint");
    for text in ["add r1=r2", "add r1=r2,r3,r4", "adds r1=8192,r3", "(p64) nop.m 0x0", "(p01) cover", "mov r1=f2", ""]
    {
        assert_eq!(assemble(text, 0), None, "{text}");
    }
}
