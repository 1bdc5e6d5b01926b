// SPDX-License-Identifier: MIT
//! As much of Linux for Itanium as the thesis' small programs need: a page table, and the handlers of misses for both
//! formats of the VHPT, base pages and superpages. Base pages have 16 KiB.

use std::collections::HashMap;

use itanium_mmu::config::{Config, SizeFrom};
use itanium_mmu::fault::Kind;
use itanium_mmu::fields::{Itir, PageSize, Pte};
use itanium_mmu::mmu::{Access, Memory, Mmu, Psr};
use itanium_mmu::tlb::Side;

pub const BASE: u64 = 14;
const GOOD: u64 = 1 | 1 << 5 | 1 << 6 | 3 << 7 | 3 << 9;
/// The memory attribute that makes the walker end (thesis 5.4: an "invalid" state).
const ENDS: u64 = 1 << 2;
const USER: Psr = Psr { it: true, dt: true, rt: true, ic: true, pk: false, da: false, ia: false, cpl: 3 };
/// The linear table in each region: for 2^51 bytes of 16 KiB pages.
const LINEAR: u64 = 0x1f00_0000_0000_0000 | 40 << 2 | 1;
/// The hash table: 4 MiB, 2^17 entries (thesis 4.3.1), which a register maps.
const HASH: u64 = 0xe000_0000_0000_0000 | 22 << 2 | 1 << 8 | 1;
const HASH_PHYSICAL: u64 = 1 << 40;

/// Memory: tables only. An entry of the hash table that was never written has an invalid tag.
#[derive(Default)]
pub struct Tables {
    words: HashMap<u64, u64>,
    /// Entries of the hash table that held another page.
    pub overwritten: u64,
}

impl Memory for Tables {
    fn read(&mut self, physical: u64) -> Option<u64> {
        let never = if physical >= HASH_PHYSICAL && physical % 32 == 16 { 1 << 63 } else { 0 };
        Some(self.words.get(&physical).copied().unwrap_or(never))
    }
}

/// A system with one program after another on its one processor.
pub struct Kernel {
    pub mmu: Mmu,
    pub tables: Tables,
    long: bool,
    /// By region identifier and page: the entry, and log2 of the page's size.
    pages: HashMap<(u32, u64), (u64, u64)>,
    /// Where each page of a linear table is, by its identifier and page number.
    leaves: HashMap<(u32, u64), u64>,
    frames: u64,
}

impl Kernel {
    pub fn new(long: bool, config: Config) -> Self {
        let mut mmu = Mmu::new(config);
        mmu.set_pta(if long { HASH } else { LINEAR }).expect("a good word");
        let mut kernel =
            Self { mmu, tables: Tables::default(), long, pages: HashMap::new(), leaves: HashMap::new(), frames: 0 };
        for number in 0..8 {
            kernel.mmu.set_region(number, 7 << 8 | BASE << 2).expect("a good word");
        }
        if long {
            let table = Pte(GOOD & !(3 << 7) | HASH_PHYSICAL);
            kernel.mmu.itr(Side::Data, 0, table, Itir(22 << 2), HASH).expect("a good insertion");
        }
        kernel.switch(0x100);
        kernel
    }

    /// Lets the program with this identifier run.
    pub fn switch(&mut self, rid: u64) {
        self.mmu.set_region(1, rid << 8 | BASE << 2 | 1).expect("a good word");
    }

    fn rid(&self) -> u32 {
        self.mmu.region(1).rid
    }

    /// Memory for a page of this size.
    fn allocate(&mut self, shift: u64) -> u64 {
        self.frames = (self.frames >> shift) + 1 << shift;
        self.frames
    }

    /// Makes the page around an address present: every base page of a superpage has an entry (thesis 5.2.1).
    pub fn populate(&mut self, va: u64, shift: u64) {
        let begin = va >> shift << shift;
        let pte = GOOD | self.allocate(shift);
        for page in begin >> BASE..(begin + (1 << shift)) >> BASE {
            self.pages.insert((self.rid(), page), (pte, shift));
            if !self.long {
                self.set_leaf(page << BASE, pte, shift);
            }
        }
    }

    /// Writes an entry of the linear table. The processor's walker is kept from a superpage's; one that reads the size
    /// finds it there.
    fn set_leaf(&mut self, va: u64, pte: u64, shift: u64) {
        let entry = self.mmu.thash(va);
        let leaf = (self.rid(), entry >> BASE);
        let frame = self.leaves.get(&leaf).copied().unwrap_or_else(|| self.allocate(BASE));
        self.leaves.insert(leaf, frame);
        let word = match (shift == BASE, self.mmu.config().size_from) {
            (true, _) => pte,
            (false, SizeFrom::Region) => pte | ENDS,
            (false, _) => pte | shift << 53,
        };
        self.tables.words.insert(frame | entry & (1 << BASE) - 1, word);
    }

    /// Writes the one entry of the hash table that the walker would have looked at (thesis 5.5).
    fn set_slot(&mut self, va: u64, pte: u64, shift: u64) {
        let slot = HASH_PHYSICAL | self.mmu.thash(va) & 0x003f_ffff;
        let tag = self.mmu.ttag(va);
        let old = self.tables.words.insert(slot + 16, tag);
        self.tables.overwritten += u64::from(old.is_some_and(|old| old != tag));
        self.tables.words.insert(slot, pte);
        self.tables.words.insert(slot + 8, shift << 2);
    }

    /// A store by the program, with all the faults on its way.
    pub fn touch(&mut self, va: u64) {
        for _ in 0..8 {
            match self.mmu.translate(&mut self.tables, USER, Access::Write, va) {
                Ok(_) => return,
                Err(fault) => self.handle(fault.kind, va),
            }
        }
        panic!("{va:#x}: faults without end");
    }

    fn handle(&mut self, kind: Kind, va: u64) {
        let page = self.pages.get(&(self.rid(), va >> BASE)).copied();
        match (kind, page) {
            (Kind::DataNotPresent, _) => {
                self.mmu.ptc_l(va, Itir(BASE << 2)).expect("a good purge");
                self.populate(va, BASE);
            }
            (_, None) => self.populate(va, BASE),
            (Kind::VhptData, Some(page)) => {
                self.insert(va, page);
                let entry = self.mmu.thash(va);
                let frame = self.leaves[&(self.rid(), entry >> BASE)];
                self.insert(entry, (GOOD & !(3 << 7) | frame, BASE));
            }
            (Kind::DataTlb, Some(page)) => {
                if self.long {
                    self.set_slot(va, page.0, page.1);
                }
                self.insert(va, page);
            }
            (kind, _) => panic!("{va:#x}: {kind:?} has no handler"),
        }
    }

    fn insert(&mut self, va: u64, (pte, shift): (u64, u64)) {
        let size = PageSize::of_field(shift).expect("a size that can be inserted");
        self.mmu.itc(Side::Data, Pte(pte), Itir::new(size, 0), va).expect("a good insertion");
    }

    /// Translations that the walker inserted.
    pub fn walked(&self) -> u64 {
        self.mmu.counters().data.walker_insertions
    }

    pub fn misses(&self) -> u64 {
        self.mmu.counters().data.second_misses
    }

    pub fn faults(&self, kind: Kind) -> u64 {
        self.mmu.counters().faults_of(kind)
    }
}
