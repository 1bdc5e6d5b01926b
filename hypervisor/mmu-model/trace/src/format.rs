// SPDX-License-Identifier: MIT
//! The format: numbers, and how records become bytes.
//!
//! ```text
//! file    magic[8] version:u32 fetches:u8 block* end
//! block   'B' compressed:u32 raw:u32 zstd-frame[compressed]
//! end     'E' records:u64 accesses:u64
//! access  byte: kind in bits 0-1, "more" in bit 2, low five bits of the zigzag distance from the last address of
//!         this kind; then, if more, a varint with the rest
//! other   byte: 3 in bits 0-1, the record's number in bits 2-7; then its fields, mostly varints
//! ```
//!
//! All numbers are little-endian.

use mmu_model::address::{GuestPhysical, Machine, Virtual};
use mmu_model::context::{Kind, Layer};
use mmu_model::x86::{Context, Control, Event, Levels, Tables};

/// What every trace begins with. The line feed shows a transfer that took it for text.
pub const MAGIC: [u8; 8] = *b"ABHMMU\r\n";
/// This version. The first did not count instructions, the second did not tell of changed ASIDs, the third not which
/// fetches it had.
pub const VERSION: u32 = 4;
/// A block is written when it has grown to this many bytes.
pub const BLOCK: usize = 256 << 10;
/// No block is larger than this.
pub const BLOCK_MOST: usize = BLOCK + 4096;
/// Mark of a block.
pub const MARK_BLOCK: u8 = b'B';
/// Mark of the end.
pub const MARK_END: u8 = b'E';

/// Which fetches of instructions a trace has; a letter each, which differ in more than one bit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Fetches {
    /// One whenever instructions begin to come from another page: all that a TLB can tell apart.
    #[default]
    Pages = b'P',
    /// One whenever they begin to come from another line of [`LINE`] bytes, which instruction caches need.
    Lines = b'L',
}

/// Bytes that one fetch of [`Fetches::Lines`] stands for: no cache has shorter lines.
pub const LINE: u64 = 16;

impl Fetches {
    /// As results name them.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Lines => "lines",
        }
    }

    /// From the header's byte.
    pub const fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            b'P' => Some(Self::Pages),
            b'L' => Some(Self::Lines),
            _ => None,
        }
    }
}

/// Numbers of the records that are no accesses.
pub mod record {
    /// A page-table word: distance in words from the last one, value.
    pub const WORD: u8 = 0;
    /// A context not met before; it gets the next number, and runs.
    pub const NEW_CONTEXT: u8 = 1;
    /// A context met before, by number.
    pub const CONTEXT: u8 = 2;
    /// The region begins or ends.
    pub const REGION: u8 = 3;
    /// An instruction invalidates.
    pub const INVALIDATE: u8 = 4;
    /// Instructions and exits.
    pub const TALLY: u8 = 5;
    /// The following happens on another virtual processor.
    pub const PROCESSOR: u8 = 6;
}

/// Bytes under construction, with what distances are counted from.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The bytes.
    pub bytes: Vec<u8>,
    last: [u64; Kind::COUNT],
    last_word: u64,
}

const fn zigzag(from: u64, to: u64) -> u64 {
    let distance = to.wrapping_sub(from) as i64;
    ((distance << 1) ^ (distance >> 63)) as u64
}

const fn unzigzag(from: u64, z: u64) -> u64 {
    from.wrapping_add((z >> 1) ^ (z & 1).wrapping_neg())
}

impl Encoder {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    fn start(&mut self, number: u8) {
        self.bytes.push(3 | number << 2);
    }

    /// An access.
    #[inline]
    pub fn access(&mut self, address: Virtual, kind: Kind) {
        let last = &mut self.last[kind as usize];
        let z = zigzag(*last, address.raw());
        *last = address.raw();
        let more = z >= 32;
        self.bytes.push(kind as u8 | u8::from(more) << 2 | (z as u8 & 31) << 3);
        if more {
            self.varint(z >> 5);
        }
    }

    /// A page-table word.
    pub fn word(&mut self, at: Machine, value: u64) {
        self.start(record::WORD);
        let index = at.raw() >> 3;
        self.varint(zigzag(self.last_word, index));
        self.last_word = index;
        self.bytes.extend(value.to_le_bytes());
    }

    /// A context met before.
    pub fn context(&mut self, number: u32) {
        self.start(record::CONTEXT);
        self.varint(number.into());
    }

    /// A context met for the first time.
    pub fn new_context(&mut self, c: &Context) {
        self.start(record::NEW_CONTEXT);
        let Control { wp, nxe, smep, pge, smap, physical_bits } = c.control;
        let bits =
            [c.user, wp, nxe, smep, smap, pge].into_iter().rev().fold(0, |bits, bit| bits << 1 | u8::from(bit));
        self.bytes.extend([c.layer as u8, bits, physical_bits]);
        for n in [c.space, c.asid.into(), c.pcid.into()] {
            self.varint(n);
        }
        match c.tables {
            Tables::Off => self.bytes.push(0),
            Tables::Flat { root, levels } => {
                self.bytes.extend([1, levels as u8]);
                self.varint(root.raw());
            }
            Tables::Nested { guest, root, levels, nxe } => {
                self.bytes.extend([2, levels as u8, u8::from(nxe), guest.map_or(0, |(_, l)| l as u8)]);
                self.varint(root.raw());
                self.varint(guest.map_or(0, |(g, _)| g.raw()));
            }
        }
    }

    /// The region begins or ends.
    pub fn region(&mut self, on: bool) {
        self.start(record::REGION);
        self.bytes.push(on.into());
    }

    /// An instruction invalidates.
    pub fn invalidate(&mut self, event: Event) {
        self.start(record::INVALIDATE);
        let (number, a, b) = match event {
            Event::Cr3 { keep } => (0, keep.into(), 0),
            Event::Control => (1, 0, 0),
            Event::Invlpg(address) => (2, address.raw(), 0),
            Event::Invlpga { address, asid } => (3, address.raw(), asid.into()),
            Event::InvpcidAddress { pcid, address } => (4, address.raw(), pcid.into()),
            Event::InvpcidContext { pcid } => (5, pcid.into(), 0),
            Event::InvpcidAllAndGlobal => (6, 0, 0),
            Event::InvpcidAll => (7, 0, 0),
            Event::Vmrun { tlb_control, asid } => (8, tlb_control.into(), asid.into()),
            Event::AsidChange { from } => (9, from.into(), 0),
        };
        self.bytes.push(number);
        self.varint(a);
        self.varint(b);
    }

    /// Instructions and exits.
    pub fn tally(&mut self, instructions: u64, exits: u64) {
        self.start(record::TALLY);
        self.varint(instructions);
        self.varint(exits);
    }

    /// Another virtual processor.
    pub fn processor(&mut self, number: u32) {
        self.start(record::PROCESSOR);
        self.varint(number.into());
    }
}

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// An access.
    Access(Virtual, Kind),
    /// A page-table word.
    Word(Machine, u64),
    /// A context met for the first time.
    NewContext(Context),
    /// A context by number.
    Context(u64),
    /// The region.
    Region(bool),
    /// An invalidation.
    Invalidate(Event),
    /// Instructions and exits.
    Tally(u64, u64),
    /// Another virtual processor.
    Processor(u64),
}

/// What distances are counted from, while decoding.
#[derive(Debug, Default)]
pub struct Decoder {
    last: [u64; Kind::COUNT],
    last_word: u64,
}

/// Bytes yet to be decoded. Nothing is trusted: they may be anything.
struct Bytes<'a>(&'a [u8]);

const SHORT: &str = "a record is cut off";

impl Bytes<'_> {
    #[inline]
    fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.0.split_first().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*first)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return if shift == 63 && byte > 1 { Err("a number is too large") } else { Ok(n) };
            }
        }
        Err("a number is too long")
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, &'static str> {
        T::try_from(self.varint()?).map_err(|_| "a number is too large for its field")
    }

    fn flag(&mut self) -> Result<bool, &'static str> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a flag is neither 0 nor 1"),
        }
    }

    fn levels(&mut self) -> Result<Levels, &'static str> {
        match self.byte()? {
            4 => Ok(Levels::Four),
            5 => Ok(Levels::Five),
            _ => Err("a table has neither four nor five levels"),
        }
    }
}

impl Decoder {
    /// Decode the record at the head of `bytes`; returns it and what follows.
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<(Record, &'a [u8]), &'static str> {
        let mut rest = Bytes(bytes);
        let first = rest.byte()?;
        let kind = match first & 3 {
            0 => Kind::Load,
            1 => Kind::Store,
            2 => Kind::Fetch,
            _ => return Ok((self.other(first >> 2, &mut rest)?, rest.0)),
        };
        let mut z = u64::from(first >> 3);
        if first & 4 != 0 {
            z |= rest.varint()? << 5;
        }
        let address = unzigzag(self.last[kind as usize], z);
        self.last[kind as usize] = address;
        Ok((Record::Access(Virtual::new(address), kind), rest.0))
    }

    fn other(&mut self, number: u8, rest: &mut Bytes<'_>) -> Result<Record, &'static str> {
        Ok(match number {
            record::WORD => {
                self.last_word = unzigzag(self.last_word, rest.varint()?);
                let (value, after) = rest.0.split_first_chunk().ok_or(SHORT)?;
                rest.0 = after;
                Record::Word(Machine::new(self.last_word << 3), u64::from_le_bytes(*value))
            }
            record::NEW_CONTEXT => Record::NewContext(context(rest)?),
            record::CONTEXT => Record::Context(rest.varint()?),
            record::REGION => Record::Region(rest.flag()?),
            record::INVALIDATE => Record::Invalidate(event(rest)?),
            record::TALLY => Record::Tally(rest.varint()?, rest.varint()?),
            record::PROCESSOR => Record::Processor(rest.varint()?),
            _ => return Err("a record has a number that none has"),
        })
    }
}

fn context(rest: &mut Bytes<'_>) -> Result<Context, &'static str> {
    let layer = *Layer::ALL.get(usize::from(rest.byte()?)).ok_or("a context is of no layer")?;
    let bits = rest.byte()?;
    let bit = |n: u32| bits >> n & 1 == 1;
    let physical_bits = rest.byte()?;
    if bits >= 64 || !(32..=52).contains(&physical_bits) {
        return Err("a context's control bits are none");
    }
    let control = Control { wp: bit(1), nxe: bit(2), smep: bit(3), smap: bit(4), pge: bit(5), physical_bits };
    let (space, asid, pcid) = (rest.varint()?, rest.narrow()?, rest.narrow()?);
    let tables = match rest.byte()? {
        0 => Tables::Off,
        1 => {
            let levels = rest.levels()?;
            Tables::Flat { root: Machine::new(rest.varint()?), levels }
        }
        2 => {
            let (levels, nxe) = (rest.levels()?, rest.flag()?);
            let guest_levels =
                if rest.0.first() == Some(&0) { rest.byte().map(|_| None)? } else { Some(rest.levels()?) };
            let (root, guest) = (Machine::new(rest.varint()?), GuestPhysical::new(rest.varint()?));
            Tables::Nested { guest: guest_levels.map(|l| (guest, l)), root, levels, nxe }
        }
        _ => return Err("a context has tables of no kind"),
    };
    Ok(Context { layer, space, user: bit(0), control, asid, pcid, tables })
}

fn event(rest: &mut Bytes<'_>) -> Result<Event, &'static str> {
    let number = rest.byte()?;
    let a = rest.varint()?;
    let b: u16 = rest.narrow()?;
    let address = Virtual::new(a);
    let small = u16::try_from(a).map_err(|_| "a number is too large for its field");
    Ok(match number {
        0 => Event::Cr3 { keep: a != 0 },
        1 => Event::Control,
        2 => Event::Invlpg(address),
        3 => Event::Invlpga { address, asid: b },
        4 => Event::InvpcidAddress { pcid: b, address },
        5 => Event::InvpcidContext { pcid: small? },
        6 => Event::InvpcidAllAndGlobal,
        7 => Event::InvpcidAll,
        8 => Event::Vmrun { tlb_control: a as u8, asid: b },
        9 => Event::AsidChange { from: small? },
        _ => return Err("an invalidation has a number that none has"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_back() {
        let control = Control { wp: true, nxe: false, smep: true, pge: true, smap: false, physical_bits: 46 };
        let base = Context {
            layer: Layer::Hypervisor,
            space: u64::MAX,
            user: true,
            control,
            asid: 65535,
            pcid: 4095,
            tables: Tables::Off,
        };
        let root = Machine::new(0xf_ffff_ffff_f000);
        let guest = Some((GuestPhysical::new(0x1000), Levels::Five));
        let address = Virtual::new(0xffff_8000_0000_0001);
        let mut records: Vec<Record> = [
            Tables::Off,
            Tables::Flat { root, levels: Levels::Five },
            Tables::Nested { guest, root, levels: Levels::Four, nxe: true },
            Tables::Nested { guest: None, root, levels: Levels::Four, nxe: false },
        ]
        .map(|tables| Record::NewContext(Context { tables, ..base }))
        .into();
        records.extend(
            [
                Event::Cr3 { keep: false },
                Event::Cr3 { keep: true },
                Event::Control,
                Event::Invlpg(address),
                Event::Invlpga { address, asid: 65535 },
                Event::InvpcidAddress { pcid: 4095, address },
                Event::InvpcidContext { pcid: 4095 },
                Event::InvpcidAllAndGlobal,
                Event::InvpcidAll,
                Event::Vmrun { tlb_control: 7, asid: 65535 },
                Event::AsidChange { from: 65535 },
            ]
            .map(Record::Invalidate),
        );
        for address in [0, 1, u64::MAX, 1 << 63, 0x7fff_ffff_ffff, 64, 48] {
            records.extend(Kind::ALL.map(|kind| Record::Access(Virtual::new(address), kind)));
            records.push(Record::Word(Machine::new(address & !7), address));
        }
        records.extend([Record::Region(true), Record::Region(false), Record::Context(7), Record::Processor(3)]);
        records.push(Record::Tally(u64::MAX, 1));

        let mut encoder = Encoder::default();
        for record in &records {
            match *record {
                Record::Access(address, kind) => encoder.access(address, kind),
                Record::Word(at, value) => encoder.word(at, value),
                Record::NewContext(context) => encoder.new_context(&context),
                Record::Context(n) => encoder.context(n as u32),
                Record::Region(on) => encoder.region(on),
                Record::Invalidate(event) => encoder.invalidate(event),
                Record::Tally(a, b) => encoder.tally(a, b),
                Record::Processor(n) => encoder.processor(n as u32),
            }
        }
        let (mut decoder, mut rest) = (Decoder::default(), &encoder.bytes[..]);
        for record in records {
            let (got, after) = decoder.next(rest).unwrap();
            assert_eq!(got, record);
            rest = after;
        }
        assert!(rest.is_empty());
    }
}
