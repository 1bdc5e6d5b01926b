// SPDX-License-Identifier: MIT
//! The walker of the virtual hash page table: where an entry is, and whether it becomes a translation.
//!
//! The table is in virtual memory. The walker reads it as data, at privilege level 0, whose reading no row of access
//! rights forbids. A miss on the table's page is a VHPT fault; whatever else is wrong with that page ends the walk, and
//! the access has its TLB fault.

use serde::{Deserialize, Serialize};

use crate::config::SizeFrom;
use crate::fields::{Attribute, Itir, Pte, Reserved, bit, bits, check};
use crate::mmu::{Memory, Mmu, Psr};
use crate::rights::READ;
use crate::tlb::{Place, Range, Side, Translation};

/// Why a walk ended with nothing inserted. A processor may end one at any time, for reasons of its own (SDM vol. 2,
/// 4.1.5.2): this one does for those here and no others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Abort {
    /// The entry's address is not implemented (SDM vol. 2, 4.1.7, from memory).
    EntryAddress,
    /// The table's page is not present (4.1.7, from memory, like the next three; another implementation has all four).
    TableNotPresent,
    /// It is a NaT page.
    TableNatPage,
    /// Keys are checked, and no register lets its key be read.
    TableKey,
    /// Its access bit is clear.
    TableAccessBit,
    /// It is not cacheable (another implementation has it so).
    TableUncacheable,
    /// There is no memory (choice: a processor would report a machine check).
    Unreadable,
    /// Long format: the entry's tag is invalid, bit `ti` (SDM vol. 2, 4.1.5.4, table 4-9).
    TagInvalid,
    /// Long format: the entry has another tag (4.1.5.2).
    Tag,
    /// The entry has reserved bits (4.1.5.2, like the next three).
    Bits,
    /// Its memory attribute is reserved: so software keeps an entry from the walker (thesis 5.4).
    Attribute,
    /// Its page size is reserved.
    PageSize,
    /// Its physical address is not implemented.
    Physical,
    /// The page would overlap a translation register (choice: software that inserts such a page has a machine check,
    /// but which entry the walker meets is not in its hand).
    OverRegister,
}

impl From<Reserved> for Abort {
    fn from(reserved: Reserved) -> Self {
        match reserved {
            Reserved::Bits => Self::Bits,
            Reserved::Attribute => Self::Attribute,
            Reserved::PageSize => Self::PageSize,
            Reserved::Physical => Self::Physical,
        }
    }
}

pub(crate) enum Walk {
    Inserted(Place),
    Missed,
    Aborted,
}

impl Mmu {
    /// `thash`: the address of the entry for an address. Short format: one in the linear table of its own region; long
    /// format: one in the hash table (SDM vol. 2, 4.1.6.1 and 4.1.6.2, figures 4-14 and 4-15). The long format's hash
    /// is left to the processor; it is the thesis' (3.4), page number XOR region identifier.
    pub fn thash(&self, va: u64) -> u64 {
        let offset = if self.pta.long() {
            (self.page(va) ^ u64::from(self.region_of(va).rid)) << 5
        } else {
            self.page(va) << if self.config.size_from == SizeFrom::Wide { 4 } else { 3 }
        };
        let region = if self.pta.long() { self.pta.base() } else { va } & 7 << 61;
        let mask = (1 << self.pta.size()) - 1;
        region | bits(self.pta.base(), 60, 0) & !mask | offset & mask
    }

    /// `ttag`: with the entry's address it names page and region identifier (SDM vol. 2, 4.1.6.2). The tag is left to
    /// the processor. The table has 2^10 entries at least, so that the index settles the 10 bits of the identifier that
    /// meet page bits here; 39 and the identifier's 24 leave bit 63, the invalid one, clear.
    pub fn ttag(&self, va: u64) -> u64 {
        self.page(va) ^ u64::from(self.region_of(va).rid) << 39
    }

    /// The number of an address's page in its region, in pages of the region's size.
    fn page(&self, va: u64) -> u64 {
        bits(va, self.config.virtual_msb, 0) >> self.region_of(va).size.shift()
    }

    /// Looks for an address in the table after a miss.
    pub(crate) fn walk(&mut self, memory: &mut impl Memory, psr: Psr, side: Side, va: u64) -> Walk {
        self.counters.walks += 1;
        let at = self.thash(va);
        let found = if !self.implements(at) {
            Err(Abort::EntryAddress)
        } else if let Some(place) = self.data.find(self.region_of(at).rid, at) {
            self.data.touch(place);
            let table = *self.data.get(place).expect("what was found is there");
            self.readable(&table, psr).and_then(|()| self.read(memory, table.physical(at), va))
        } else {
            self.counters.walks_missed += 1;
            return Walk::Missed;
        };
        match found.and_then(|translation| self.walked(side, translation)) {
            Ok(place) => Walk::Inserted(place),
            Err(reason) => {
                *self.counters.aborts.entry(reason).or_default() += 1;
                Walk::Aborted
            }
        }
    }

    /// Whether the walker may read the table through the translation of its page.
    fn readable(&self, table: &Translation, psr: Psr) -> Result<(), Abort> {
        if !table.pte.present() {
            return Err(Abort::TableNotPresent);
        }
        let attribute = Attribute::of_field(table.pte.ma());
        if attribute == Some(Attribute::NatPage) {
            return Err(Abort::TableNatPage);
        }
        if psr.pk && self.key_allows(table.key, READ) != Some(true) {
            return Err(Abort::TableKey);
        }
        if !table.pte.accessed() {
            return Err(Abort::TableAccessBit);
        }
        if attribute != Some(Attribute::WriteBack) {
            return Err(Abort::TableUncacheable);
        }
        Ok(())
    }

    /// What the entry at a physical address says of an address. One that is not present becomes a translation like any
    /// other, which faults (SDM vol. 2, 4.1.5.2).
    fn read(&mut self, memory: &mut impl Memory, physical: u64, va: u64) -> Result<Translation, Abort> {
        self.lines.insert(physical / self.config.line_bytes);
        let mut word = |at: u64| memory.read(physical + 8 * at).ok_or(Abort::Unreadable);
        let region = self.region_of(va);
        let pte = Pte(word(0)?);
        let itir = if self.pta.long() {
            let tag = word(2)?;
            if bit(tag, 63) {
                return Err(Abort::TagInvalid);
            }
            if tag != self.ttag(va) {
                return Err(Abort::Tag);
            }
            Itir(word(1)?)
        } else {
            match self.config.size_from {
                SizeFrom::Wide => Itir(word(1)?),
                SizeFrom::Ignored if pte.ignored_size() != 0 => {
                    Itir(region.itir().0 & !0xfc | pte.ignored_size() << 2)
                }
                SizeFrom::Region | SizeFrom::Ignored => region.itir(),
            }
        };
        let size = check(pte, itir, self.config.physical_bits)?;
        Ok(Translation { range: Range::around(region.rid, va, size), pte, key: itir.key() })
    }

    /// Puts a translation that the walker has found into the cache.
    fn walked(&mut self, side: Side, translation: Translation) -> Result<Place, Abort> {
        if self.tlb(side).registers_overlap(&translation.range) {
            return Err(Abort::OverRegister);
        }
        self.counters.of(side).walker_insertions += 1;
        Ok(self.insert_cache(side, translation))
    }
}
