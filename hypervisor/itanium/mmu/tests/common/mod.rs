// SPDX-License-Identifier: MIT
//! What the tests share: memory, and words put together.
#![allow(dead_code)] // each test file is a program of its own and uses a part

use std::collections::HashMap;

use itanium_mmu::config::Config;
use itanium_mmu::fault::{Fault, Kind};
use itanium_mmu::fields::{Itir, PageSize, Pte};
use itanium_mmu::mmu::{Access, Hit, Memory, Mmu, Psr};
use itanium_mmu::tlb::Side;

/// Memory that has what was stored, and nothing elsewhere.
#[derive(Default)]
pub struct Ram(pub HashMap<u64, u64>);

impl Memory for Ram {
    fn read(&mut self, physical: u64) -> Option<u64> {
        self.0.get(&physical).copied()
    }
}

/// A kernel that runs translated.
pub const KERNEL: Psr = Psr { it: true, dt: true, rt: true, ic: true, pk: false, da: false, ia: false, cpl: 0 };
/// A program that runs translated.
pub const USER: Psr = Psr { cpl: 3, ..KERNEL };

/// A page that is present, accessed and dirty, write-back, of level 3, that all may read, write and run.
pub const GOOD: u64 = 1 | 1 << 5 | 1 << 6 | 3 << 7 | 3 << 9;
pub const PRESENT: u64 = 1;
pub const ACCESSED: u64 = 1 << 5;
pub const DIRTY: u64 = 1 << 6;

pub const fn ma(attribute: u64) -> u64 {
    attribute << 2
}

pub fn itir(shift: u64, key: u64) -> Itir {
    Itir(shift << 2 | key << 8)
}

pub fn size(shift: u64) -> PageSize {
    PageSize::of_field(shift).expect("a size that can be inserted")
}

pub const fn rr(rid: u64, shift: u64, walker: bool) -> u64 {
    rid << 8 | shift << 2 | walker as u64
}

/// An MMU and its memory.
pub struct Machine {
    pub mmu: Mmu,
    pub ram: Ram,
}

impl Machine {
    /// Regions 0 to 7 have identifiers 0x100 to 0x107, 16 KiB and no walker.
    pub fn new(config: Config) -> Self {
        let mut mmu = Mmu::new(config);
        for number in 0..8 {
            mmu.set_region(number, rr(0x100 + number as u64, 14, false)).expect("a good region register");
        }
        Self { mmu, ram: Ram::default() }
    }

    pub fn itc(&mut self, side: Side, va: u64, pte: u64, shift: u64, key: u64) {
        self.mmu.itc(side, Pte(pte), itir(shift, key), va).expect("a good insertion");
    }

    /// Data of region 0's size at `va`, mapped to `physical`.
    pub fn map(&mut self, va: u64, physical: u64) {
        self.itc(Side::Data, va, GOOD | physical, 14, 0);
    }

    pub fn access(&mut self, psr: Psr, access: Access, va: u64) -> Result<Hit, Fault> {
        self.mmu.translate(&mut self.ram, psr, access, va)
    }

    pub fn physical(&mut self, psr: Psr, access: Access, va: u64) -> Result<u64, Kind> {
        self.access(psr, access, va).map(|hit| hit.physical).map_err(|fault| fault.kind)
    }

    pub fn kind(&mut self, psr: Psr, access: Access, va: u64) -> Kind {
        self.access(psr, access, va).expect_err("a fault").kind
    }
}
