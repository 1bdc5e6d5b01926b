// SPDX-License-Identifier: MIT
//! Programs of a few lines, for firmware and for tests.

use crate::assemble::assemble;
use crate::bundle::{Bundle, Unit};

/// A nop of any unit but the branch unit.
const NOP: u64 = 1 << 27;

/// A bundle of an instruction, with nothing beside it.
pub fn alone(text: &str, address: u64) -> Bundle {
    let (unit, slot, long) = assemble(text, address).unwrap_or_else(|| panic!("{text}: no instruction"));
    match unit {
        Unit::M => Bundle::of_parts(1, [slot, NOP, NOP]),
        Unit::I => Bundle::of_parts(1, [NOP, slot, NOP]),
        Unit::F => Bundle::of_parts(0xd, [NOP, slot, NOP]),
        Unit::B => Bundle::of_parts(0x11, [NOP, NOP, slot]),
        Unit::X => Bundle::of_parts(5, [NOP, long, slot]),
        Unit::L => unreachable!("no instruction is the other half of one"),
    }
}

/// A bundle of several instructions, of a template.
pub fn together(template: u8, texts: [&str; 3], address: u64) -> Bundle {
    let slots = texts.map(|text| assemble(text, address).unwrap_or_else(|| panic!("{text}: no instruction")).1);
    Bundle::of_parts(template, slots)
}

/// A program of lines: a label with a colon, or an instruction, which has a bundle of its own, or three with bars
/// between them and a template before them. In operands a label stands for its address. What is no instruction panics.
pub fn program(start: u64, text: &str) -> Vec<Bundle> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut labels = vec![];
    let mut address = start;
    for line in &lines {
        match line.strip_suffix(':') {
            Some(label) => labels.push((label, address)),
            None => address += 16,
        }
    }
    let mut bundles = vec![];
    for line in lines.iter().filter(|line| !line.ends_with(':')) {
        let mut line = (*line).to_owned();
        for (label, at) in &labels {
            line = line.replace(&format!("@{label}"), &format!("{at:#x}"));
        }
        let address = start + 16 * bundles.len() as u64;
        bundles.push(match line.split_once('!') {
            None => alone(&line, address),
            Some((template, rest)) => {
                let texts: Vec<&str> = rest.split('|').map(str::trim).collect();
                let template = u8::from_str_radix(template.trim(), 16).expect("a template");
                together(template, texts[..].try_into().expect("three"), address)
            }
        });
    }
    bundles
}
