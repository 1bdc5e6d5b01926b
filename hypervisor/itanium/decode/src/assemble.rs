// SPDX-License-Identifier: MIT
//! The other way: from the text that [`Instruction::text`] writes to a slot. It is for tests that are small programs; a
//! program has a real assembler.

use crate::bundle::Unit;
use crate::operand::{Kind, Operand, application, bits, control};
use crate::table::{Form, Instruction, Part, Piece, Place, decode, forms};

/// An instruction by its text, in a bundle at this address: a unit that has it, its slot, and the slot before it where
/// it has two. None where the text is no instruction.
pub fn assemble(text: &str, address: u64) -> Option<(Unit, u64, u64)> {
    let (predicate, text) = match text.strip_prefix("(p") {
        Some(rest) => {
            let (number, rest) = rest.split_once(") ")?;
            (number.parse().ok().filter(|&number: &u64| number < 64)?, rest)
        }
        None => (0, text),
    };
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
    forms().iter().find_map(|form| {
        let mut words = Words { slot: form.value | predicate, long: 0, set: 0 };
        spell(&form.parts, mnemonic, &mut words)?;
        words.operands(form, operands, address)?;
        words.twins(form);
        // A row of a shorter name may have taken these bits.
        let found = decode(form.unit, words.slot, words.long).filter(|found| found.form.id == form.id)?;
        (predicate == 0 || form.predicated).then_some((form.unit, found.slot, found.long))
    })
}

/// The slots of an instruction, and which bits of the last one its operands have settled.
struct Words {
    slot: u64,
    long: u64,
    set: u64,
}

fn place_mask((high, low): Place) -> u64 {
    bits(u64::MAX, high - low, 0) << low
}

/// Finds the values of a mnemonic's fields that write it.
fn spell(parts: &[Part], text: &str, words: &mut Words) -> Option<()> {
    let Some((part, rest)) = parts.split_first() else { return text.is_empty().then_some(()) };
    match part {
        Part::Text(known) => spell(rest, text.strip_prefix(known)?, words),
        Part::Choice(choice) => choice.names.iter().enumerate().find_map(|(value, name)| {
            spell(rest, text.strip_prefix((*name)?)?, words)?;
            let mut left = value as u64;
            for &(high, low) in choice.places.iter().rev() {
                words.slot |= bits(left, high - low, 0) << low;
                left >>= high - low + 1;
            }
            Some(())
        }),
    }
}

impl Words {
    fn operands(&mut self, form: &'static Form, mut text: &str, address: u64) -> Option<()> {
        for piece in &form.pieces {
            match piece {
                Piece::Text(known) => text = text.strip_prefix(known)?,
                Piece::Operand(operand) => {
                    let (word, rest) = text.split_at(text.find(|c| ",=[]".contains(c)).unwrap_or(text.len()));
                    self.put(form, *operand, value(*operand, word, address)?)?;
                    text = rest;
                }
            }
        }
        text.is_empty().then_some(())
    }

    /// Finds the bits that give an operand its value by trying each: all values of a field are a sum of its bits', but
    /// for a few short ones, of which all are tried.
    fn put(&mut self, form: &'static Form, operand: Operand, value: i64) -> Option<()> {
        let of = |(slot, long)| operand.value(&Instruction { form, slot, long });
        let none = of((0, 0));
        let ones: Vec<(u64, u64)> = (0..41).flat_map(|at| [(1 << at, 0), (0, 1 << at)]).collect();
        let field: Vec<_> = ones.into_iter().filter(|&one| of(one) != none).collect();
        let sum = |chosen: &[bool]| {
            field
                .iter()
                .zip(chosen)
                .filter(|(_, on)| **on)
                .fold((0, 0), |all, (one, _)| (all.0 | one.0, all.1 | one.1))
        };
        let found = if field.len() <= 7 {
            let tries =
                (0..1_u32 << field.len()).map(|try_| (0..field.len()).map(|at| try_ >> at & 1 != 0).collect());
            tries.map(|chosen: Vec<bool>| sum(&chosen)).find(|&words| of(words) == value)?
        } else {
            // Each bit but the sign has one bit of the value to itself; the sign has the highest.
            let chosen: Vec<bool> = field.iter().map(|&one| value >> (of(one).trailing_zeros()) & 1 != 0).collect();
            Some(sum(&chosen)).filter(|&words| of(words) == value)?
        };
        self.set |= field.iter().fold(0, |all, one| all | one.0);
        (self.slot, self.long) = (self.slot | found.0, self.long | found.1);
        Some(())
    }

    /// Where a row wants two fields to agree, operands have settled one of them.
    fn twins(&mut self, form: &Form) {
        let Some(twins) = &form.twins else { return };
        let (from, to) =
            if self.set & place_mask(twins.one) != 0 { (twins.one, twins.other) } else { (twins.other, twins.one) };
        let copied = bits(self.slot, from.0, from.1) << to.1;
        let copied = if twins.complement { copied ^ place_mask(to) } else { copied };
        self.slot = self.slot & !place_mask(to) | copied;
    }
}

/// What a word says for an operand.
fn value(operand: Operand, word: &str, address: u64) -> Option<i64> {
    let register = |prefix| word.strip_prefix(prefix)?.parse::<u8>().ok().map(i64::from);
    let named = |name: fn(i64) -> String| (0..128).find(|&number| name(number) == word);
    match operand.kind() {
        Kind::General => register("r"),
        Kind::Float => register("f"),
        Kind::Predicate => register("p"),
        Kind::Branch => register("b"),
        Kind::Application => named(application),
        Kind::Control => named(control),
        Kind::Number => word.parse().ok(),
        Kind::Bits => hexadecimal(word),
        Kind::Target => Some(hexadecimal(word)?.wrapping_sub(address as i64)),
        Kind::Permutation => match word {
            "@brcst" => Some(0),
            "@mix" => Some(8),
            "@shuf" => Some(9),
            "@alt" => Some(10),
            "@rev" => Some(11),
            _ => hexadecimal(word),
        },
    }
}

fn hexadecimal(word: &str) -> Option<i64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok().map(|value| value as i64)
}
