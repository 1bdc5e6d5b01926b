// SPDX-License-Identifier: MIT
//! Words that software hands to the MMU, field by field, and which of their bits are reserved.

use serde::{Deserialize, Serialize};

/// Bits `low` to `high` of a word, both included.
pub(crate) const fn bits(word: u64, high: u32, low: u32) -> u64 {
    (word >> low) & (u64::MAX >> (63 - (high - low)))
}

pub(crate) const fn bit(word: u64, at: u32) -> bool {
    word >> at & 1 != 0
}

/// The region of an address: its top three bits.
pub const fn region(va: u64) -> usize {
    (va >> 61) as usize
}

/// An address within its region: all bits but the top three.
pub const fn within(va: u64) -> u64 {
    va & (u64::MAX >> 3)
}

/// The size of a page: a power of two of bytes that this processor can insert.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PageSize(u8);

impl PageSize {
    /// log2 of each size that can be inserted (thesis 3.1: 4K 8K 16K 64K 256K 1M 4M 16M 64M 256M 1G 4G; SDM vol. 2,
    /// 4.1.1.7, asks of every processor for those up to 256M).
    pub const SHIFTS: [u8; 12] = [12, 13, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32];

    /// The size that a field `ps` names; none where the encoding is reserved.
    pub const fn of_field(ps: u64) -> Option<Self> {
        let mut at = 0;
        while at < Self::SHIFTS.len() {
            if Self::SHIFTS[at] as u64 == ps {
                return Some(Self(ps as u8));
            }
            at += 1;
        }
        None
    }

    /// log2 of the size in bytes: what the field `ps` holds.
    pub const fn shift(self) -> u32 {
        self.0 as u32
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The bits of an address that lie within a page.
    pub const fn mask(self) -> u64 {
        self.bytes() - 1
    }
}

/// Memory attributes (SDM vol. 2, 4.4). Field `ma` has three bits: 1 to 3 are reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Attribute {
    /// Cacheable, written back.
    WriteBack,
    /// Not cacheable.
    Uncacheable,
    /// Not cacheable, fetchadd is done by the memory.
    UncacheableExported,
    /// Not cacheable, writes are gathered.
    WriteCoalescing,
    /// Speculative loads give a NaT; all others fault.
    NatPage,
}

impl Attribute {
    /// What a field `ma` names; none where the encoding is reserved.
    pub const fn of_field(ma: u64) -> Option<Self> {
        match ma {
            0 => Some(Self::WriteBack),
            4 => Some(Self::Uncacheable),
            5 => Some(Self::UncacheableExported),
            6 => Some(Self::WriteCoalescing),
            7 => Some(Self::NatPage),
            _ => None,
        }
    }
}

/// The first word of a translation, as an insertion has it and as both formats of the VHPT do
/// (SDM vol. 2, 4.1.1.5, table 4-3): p 0, ma 4:2, a 5, d 6, pl 8:7, ar 11:9, ppn 49:12, ed 52; 1 and 51:50 reserved,
/// 63:53 ignored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Pte(pub u64);

impl Pte {
    /// The page is present.
    pub const fn present(self) -> bool {
        bit(self.0, 0)
    }

    /// The field `ma`.
    pub const fn ma(self) -> u64 {
        bits(self.0, 4, 2)
    }

    /// Accessed.
    pub const fn accessed(self) -> bool {
        bit(self.0, 5)
    }

    /// Dirty.
    pub const fn dirty(self) -> bool {
        bit(self.0, 6)
    }

    /// The privilege level of the page, or that which it promotes to.
    pub const fn level(self) -> u8 {
        bits(self.0, 8, 7) as u8
    }

    /// Access rights: a row of the table in [`crate::rights`].
    pub const fn rights(self) -> u8 {
        bits(self.0, 11, 9) as u8
    }

    /// The physical address of the page, if the page has 4 KiB; a larger one ignores low bits of it.
    pub const fn frame(self) -> u64 {
        self.0 & bits(u64::MAX, 37, 0) << 12
    }

    /// Exception deferral: code of this page recovers from deferred exceptions.
    pub const fn deferral(self) -> bool {
        bit(self.0, 52)
    }

    /// The page size that a walker finds in the ignored bits 58:53, if it has been told to look there (not in any
    /// processor: [`crate::config::SizeFrom::Ignored`]).
    pub const fn ignored_size(self) -> u64 {
        bits(self.0, 58, 53)
    }
}

/// The second word of a translation, and the control register ITIR: ps 7:2, key 31:8; the rest reserved
/// (SDM vol. 2, 4.1.1.5, table 4-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Itir(pub u64);

impl Itir {
    /// Of its fields.
    pub const fn new(size: PageSize, key: u32) -> Self {
        Self((size.shift() as u64) << 2 | (key as u64) << 8)
    }

    /// The field `ps`.
    pub const fn ps(self) -> u64 {
        bits(self.0, 7, 2)
    }

    /// The protection key.
    pub const fn key(self) -> u32 {
        bits(self.0, 31, 8) as u32
    }
}

/// Why words are no translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reserved {
    /// Bit 1 or 51:50 of the first word, or a bit of the second.
    Bits,
    /// An encoding of `ma` that stands for nothing.
    Attribute,
    /// A page size that cannot be inserted.
    PageSize,
    /// A physical address that the processor has not so many bits for.
    Physical,
}

/// Whether words may become a translation. Of one that is not present most fields are software's, but ITIR's low bits
/// and size are looked at all the same (SDM vol. 2, 4.1.1.5, figures 4-5 and 4-6).
pub fn check(pte: Pte, itir: Itir, physical_bits: u32) -> Result<PageSize, Reserved> {
    if bits(itir.0, 1, 0) != 0 {
        return Err(Reserved::Bits);
    }
    let size = PageSize::of_field(itir.ps()).ok_or(Reserved::PageSize)?;
    if !pte.present() {
        return Ok(size);
    }
    if bit(pte.0, 1) || bits(pte.0, 51, 50) != 0 || bits(itir.0, 63, 32) != 0 {
        return Err(Reserved::Bits);
    }
    if Attribute::of_field(pte.ma()).is_none() {
        return Err(Reserved::Attribute);
    }
    if pte.frame() >> physical_bits != 0 {
        return Err(Reserved::Physical);
    }
    Ok(size)
}

/// A region register: ve 0, ps 7:2, rid 31:8; the rest reserved (SDM vol. 2, 4.1.2, table 4-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Region {
    /// The walker may serve this region.
    pub walker: bool,
    /// The preferred page size: what the walker takes, and what addresses are hashed by.
    pub size: PageSize,
    /// The region identifier, which tags translations.
    pub rid: u32,
}

impl Region {
    /// Of the register's value; none where it has a reserved bit or size.
    pub fn of_word(word: u64) -> Option<Self> {
        if bit(word, 1) || word >> 32 != 0 {
            return None;
        }
        let size = PageSize::of_field(bits(word, 7, 2))?;
        Some(Self { walker: bit(word, 0), size, rid: bits(word, 31, 8) as u32 })
    }

    /// The register's value.
    pub const fn word(self) -> u64 {
        self.walker as u64 | (self.size.shift() as u64) << 2 | (self.rid as u64) << 8
    }

    /// What ITIR holds by default after a fault in this region: its size, and its identifier for a key
    /// (SDM vol. 2, chapter 8, under each vector).
    pub const fn itir(self) -> Itir {
        Itir::new(self.size, self.rid)
    }
}

/// The page table address register: ve 0, size 7:2, vf 8, base 63:15; 1 and 14:9 reserved
/// (SDM vol. 2, 3.3.4.4; size is 15 at least).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pta(u64);

impl Pta {
    /// Of the register's value; none where it has a reserved bit or size.
    pub const fn of_word(word: u64) -> Option<Self> {
        let size = bits(word, 7, 2);
        if bit(word, 1) || bits(word, 14, 9) != 0 || size < 15 || size > 61 { None } else { Some(Self(word)) }
    }

    /// The register's value.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The walker may serve the regions that want it.
    pub const fn walker(self) -> bool {
        bit(self.0, 0)
    }

    /// The format: long, one hash table; else short, a linear table in each region.
    pub const fn long(self) -> bool {
        bit(self.0, 8)
    }

    /// log2 of the table's size in bytes.
    pub const fn size(self) -> u32 {
        bits(self.0, 7, 2) as u32
    }

    /// Where the table begins, its region included.
    pub const fn base(self) -> u64 {
        self.0 >> 15 << 15
    }
}

/// A protection key register: v 0, wd 1, rd 2, xd 3, key 31:8; the rest reserved (SDM vol. 2, 4.1.3, table 4-7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KeyRegister(u64);

impl KeyRegister {
    /// Of the register's value; none where it has a reserved bit.
    pub const fn of_word(word: u64) -> Option<Self> {
        if bits(word, 7, 4) != 0 || word >> 32 != 0 { None } else { Some(Self(word)) }
    }

    /// The register's value.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// It counts.
    pub const fn valid(self) -> bool {
        bit(self.0, 0)
    }

    /// The same, but it does not count.
    #[must_use]
    pub const fn invalidated(self) -> Self {
        Self(self.0 & !1)
    }

    /// The key that it is about.
    pub const fn key(self) -> u32 {
        bits(self.0, 31, 8) as u32
    }

    /// Whether what is wanted is forbidden: bits wd, rd, xd.
    pub const fn forbids(self, write: bool, read: bool, execute: bool) -> bool {
        self.0 & ((write as u64) << 1 | (read as u64) << 2 | (execute as u64) << 3) != 0
    }
}
