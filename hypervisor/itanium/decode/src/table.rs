// SPDX-License-Identifier: MIT
//! The table of instructions, and finding a slot's row in it.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::bundle::Unit;
use crate::operand::{Operand, bits};

/// A place in the slot: its highest and its lowest bit.
pub(crate) type Place = (u32, u32);

/// A field of the slot, of one place or more, and what each of its values adds to a mnemonic; none where a value has no
/// instruction.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) places: Vec<Place>,
    pub(crate) names: Vec<Option<&'static str>>,
}

impl Choice {
    fn name(&self, slot: u64) -> Option<&'static str> {
        let join = |value: u64, &(high, low): &Place| value << (high - low + 1) | bits(slot, high, low);
        self.names[self.places.iter().fold(0, join) as usize]
    }
}

/// Two places whose bits are the same, or each other's complement.
#[derive(Debug)]
pub(crate) struct Twins {
    pub(crate) one: Place,
    pub(crate) other: Place,
    pub(crate) complement: bool,
}

impl Twins {
    fn agree(&self, slot: u64) -> bool {
        let (high, low) = self.one;
        let mask = if self.complement { bits(u64::MAX, high - low, 0) } else { 0 };
        bits(slot, high, low) == bits(slot, self.other.0, self.other.1) ^ mask
    }
}

#[derive(Debug)]
pub(crate) enum Part {
    Text(&'static str),
    Choice(Choice),
}

/// What operands are written with: text, or an operand.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(&'static str),
    Operand(Operand),
}

/// A row of the table: all instructions of one kind.
#[derive(Debug)]
pub struct Form {
    /// Its place in the table: whoever executes instructions can have a table of his own by it.
    pub id: usize,
    /// The mnemonic as the table has it, with the names of its fields in braces.
    pub mnemonic: &'static str,
    /// Its operands as the table has them.
    pub operands: &'static str,
    /// A unit that has it: memory, where that or integer may.
    pub unit: Unit,
    /// Whether it has a qualifying predicate, in the lowest six bits.
    pub predicated: bool,
    mask: u64,
    pub(crate) value: u64,
    pub(crate) twins: Option<Twins>,
    pub(crate) parts: Vec<Part>,
    pub(crate) pieces: Vec<Piece>,
}

impl Form {
    fn matches(&self, slot: u64) -> bool {
        slot & self.mask == self.value
            && self.twins.as_ref().is_none_or(|twins| twins.agree(slot))
            && self.parts.iter().all(|part| match part {
                Part::Text(_) => true,
                Part::Choice(choice) => choice.name(slot).is_some(),
            })
    }
}

/// An instruction: a form and the bits that fill it.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Which.
    pub form: &'static Form,
    /// The slot.
    pub slot: u64,
    /// The slot before, where the instruction has two.
    pub long: u64,
}

impl Instruction {
    /// The register of its qualifying predicate; 0, which is always true, where it has none.
    pub fn predicate(&self) -> u8 {
        if self.form.predicated { bits(self.slot, 5, 0) as u8 } else { 0 }
    }

    /// The mnemonic, completers included.
    pub fn mnemonic(&self) -> String {
        let name = |part: &Part| match part {
            Part::Text(text) => *text,
            Part::Choice(choice) => choice.name(self.slot).unwrap_or("?"),
        };
        self.form.parts.iter().map(name).collect()
    }

    /// Its operands, in the order in which they are written.
    pub fn operands(&self) -> impl Iterator<Item = Operand> {
        self.form
            .pieces
            .iter()
            .filter_map(|piece| if let Piece::Operand(operand) = piece { Some(*operand) } else { None })
    }

    /// The instruction of a bundle at this address as the GNU disassembler writes it.
    pub fn text(&self, address: u64) -> String {
        let mut text = match self.predicate() {
            0 => String::new(),
            predicate => format!("(p{predicate:02}) "),
        };
        text += &self.mnemonic();
        for (index, piece) in self.form.pieces.iter().enumerate() {
            text += if index == 0 { " " } else { "" };
            match piece {
                Piece::Text(piece) => text += piece,
                Piece::Operand(operand) => text += &operand.text(self, address),
            }
        }
        text
    }
}

/// Rows by unit and major opcode, bits 40:37.
struct Table {
    forms: Vec<Form>,
    rows: HashMap<(Unit, u64), Vec<usize>>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| parse(include_str!("table.txt")))
}

/// All rows of the table, in its order.
pub fn forms() -> &'static [Form] {
    &table().forms
}

/// The instruction in a slot; none where the architecture has none. `long` is the slot before it, for [`Unit::X`].
pub fn decode(unit: Unit, slot: u64, long: u64) -> Option<Instruction> {
    let table = table();
    let rows = table.rows.get(&(unit, bits(slot, 40, 37)))?;
    let form = rows.iter().map(|&row| &table.forms[row]).find(|form| form.matches(slot))?;
    Some(Instruction { form, slot, long })
}

type Fields = HashMap<&'static str, Choice>;

/// Reads the table. It is part of the program, and a test reads it all: a mistake in it is a panic that names the line.
fn parse(text: &'static str) -> Table {
    let mut table = Table { forms: vec![], rows: HashMap::new() };
    let mut fields = Fields::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(field) = line.strip_prefix('@') {
            let mut words = field.split(' ');
            let (name, place) = (words.next().expect("a name"), words.next().expect("a place"));
            let places: Vec<Place> = place.split('+').map(span).collect();
            let names: Vec<_> = words
                .map(|word| match word {
                    "-" => None,
                    "_" => Some(""),
                    name => Some(name),
                })
                .collect();
            let width: u32 = places.iter().map(|(high, low)| high - low + 1).sum();
            assert_eq!(names.len(), 1 << width, "{line}");
            fields.insert(name, Choice { places, names });
            continue;
        }
        let [left, mnemonic, operands] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{line}: three columns")
        };
        let mut words = left.split(' ');
        let (unit, major) = (words.next().expect("a unit"), words.next().expect("a major opcode"));
        let major = u64::from_str_radix(major, 16).expect(line);
        let (mut mask, mut value) = (15 << 37, major << 37);
        let mut twins = None;
        for word in words {
            if let Some((one, other)) = word.split_once("==").or_else(|| word.split_once('~')) {
                twins = Some(Twins { one: span(one), other: span(other), complement: word.contains('~') });
                continue;
            }
            let (place, wanted) = word.split_once('=').expect(line);
            let (high, low) = span(place);
            let wanted = u64::from_str_radix(wanted, 16).expect(line);
            assert!(wanted >> (high - low + 1) == 0 && mask >> low & 1 == 0, "{line}");
            mask |= bits(u64::MAX, high - low, 0) << low;
            value |= wanted << low;
        }
        let id = table.forms.len();
        for &unit in units(unit) {
            table.rows.entry((unit, major)).or_default().push(id);
        }
        let unit = units(unit)[0];
        let plain = mnemonic.strip_prefix('!').unwrap_or(mnemonic);
        let predicated = plain.len() == mnemonic.len();
        let (parts, pieces) = (parts(plain, &fields), pieces(operands));
        table.forms.push(Form { id, mnemonic: plain, operands, unit, predicated, mask, value, twins, parts, pieces });
    }
    table
}

fn units(name: &str) -> &'static [Unit] {
    match name {
        "A" => &[Unit::M, Unit::I],
        "M" => &[Unit::M],
        "I" => &[Unit::I],
        "F" => &[Unit::F],
        "B" => &[Unit::B],
        "X" => &[Unit::X],
        _ => panic!("{name}: no unit"),
    }
}

/// `high:low`, or one bit.
fn span(place: &str) -> Place {
    let (high, low) = place.split_once(':').unwrap_or((place, place));
    (high.parse().expect(place), low.parse().expect(place))
}

fn parts(mnemonic: &'static str, fields: &Fields) -> Vec<Part> {
    let mut parts = vec![];
    for part in mnemonic.split_inclusive('}') {
        let (text, field) = part.split_once('{').unwrap_or((part, ""));
        parts.push(Part::Text(text));
        if let Some(name) = field.strip_suffix('}') {
            parts.push(Part::Choice(fields.get(name).unwrap_or_else(|| panic!("{name}: no field")).clone()));
        }
    }
    parts
}

fn pieces(operands: &'static str) -> Vec<Piece> {
    let mut pieces = vec![];
    let mut rest = operands;
    while !rest.is_empty() {
        let end = rest.find(|c| ",=[]".contains(c)).unwrap_or(rest.len()).max(1);
        let (word, tail) = rest.split_at(end);
        pieces.push(Operand::of_name(word).map_or(Piece::Text(word), Piece::Operand));
        rest = tail;
    }
    pieces
}
