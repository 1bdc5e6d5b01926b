// SPDX-License-Identifier: MIT
//! Data in memory: addresses are translated, and what that gave is remembered as long as the first-level TLB would give it
//! again. The MMU is told of each such answer, so that it counts and replaces as if it had given it.

use itanium_mmu::fault::{Kind, Kinds};
use itanium_mmu::fields::{Attribute, Pte};
use itanium_mmu::mmu::{Access, Hit, Psr, Ticket};
use itanium_mmu::tlb::Side;

use crate::bus::{Bus, Walked};
use crate::cpu::{Cpu, ar, cr};
use crate::interruption::{Done, Trouble, of_mmu, stuck};
use crate::psr;

const WAYS: usize = 256;

/// Bits of DCR, and faults of speculative loads that each lets be deferred (SDM vol. 2, 3.3.4.1, table 3-7).
const BY_DCR: [(u32, Kind); 8] = [
    (8, Kind::VhptData),
    (8, Kind::DataTlb),
    (8, Kind::AlternateData),
    (9, Kind::DataNotPresent),
    (10, Kind::DataKeyMiss),
    (11, Kind::DataKeyPermission),
    (12, Kind::DataAccessRights),
    (13, Kind::DataAccessBit),
];

fn way(access: Access, address: u64) -> usize {
    access as usize * WAYS + (address >> 12 ^ address >> 58) as usize % WAYS
}

#[derive(Clone, Copy)]
struct Answer {
    page: u64,
    mode: u64,
    generation: u64,
    physical: u64,
    attribute: Attribute,
    pte: Pte,
    /// None in physical mode.
    ticket: Option<Ticket>,
}

/// Answers of the MMU, for pieces of 4 KiB, by kind of access.
#[derive(Clone, Default)]
pub(crate) struct Remembered(Vec<Option<Answer>>);

/// A physical address and how memory is to take it.
pub(crate) type Place = (u64, Attribute);

impl Cpu {
    /// What the MMU has to know of the processor's state.
    pub(crate) fn mode(&self, access: Access) -> Psr {
        let level = match access {
            Access::StackRead | Access::StackWrite => (self.ar[ar::RSC] >> 2 & 3) as u8,
            _ => self.level(),
        };
        Psr {
            it: self.has(psr::IT),
            dt: self.has(psr::DT),
            rt: self.has(psr::RT),
            ic: self.has(psr::IC),
            pk: self.has(psr::PK),
            da: self.has(psr::DA),
            ia: self.has(psr::IA),
            cpl: level,
        }
    }

    /// Translates an address for an access that faults where it must.
    pub(crate) fn translate(&mut self, bus: &mut dyn Bus, access: Access, address: u64, isr: u64) -> Done<Place> {
        if let Some(place) = self.recall(access, address) {
            return Ok(place);
        }
        let (state, mut walked) = (self.mode(access), self.walker(bus));
        let found = self.mmu.translate(&mut walked, state, access, address);
        let hit = found.map_err(|fault| of_mmu(&fault, isr))?;
        self.remember(access, address, &hit);
        Ok((hit.physical, hit.attribute))
    }

    /// What decides whether an access may be done, but for the MMU's own state.
    fn deciding(&self, access: Access) -> u64 {
        match access {
            Access::Fetch => self.psr & (psr::IT | psr::PK | psr::IA | psr::CPL),
            Access::StackRead | Access::StackWrite => {
                self.psr & (psr::RT | psr::PK | psr::DA) | self.ar[ar::RSC] >> 2 & 3
            }
            _ => self.psr & (psr::DT | psr::PK | psr::DA | psr::CPL),
        }
    }

    fn recall(&mut self, access: Access, address: u64) -> Option<Place> {
        let answer = self.remembered.0.get(way(access, address))?.as_ref()?;
        if answer.page != address >> 12
            || answer.mode != self.deciding(access)
            || answer.generation != self.mmu.generation()
        {
            return None;
        }
        let side = if access == Access::Fetch { Side::Instruction } else { Side::Data };
        if answer.ticket.is_some_and(|ticket| !self.mmu.again(side, ticket)) {
            return None;
        }
        if access == Access::Fetch {
            self.code_page = answer.pte;
        }
        Some((answer.physical | address & 0xfff, answer.attribute))
    }

    fn remember(&mut self, access: Access, address: u64, hit: &Hit) {
        let pte = hit.translation.map_or(Pte(0), |found| found.pte);
        if access == Access::Fetch {
            self.code_page = pte;
        }
        if hit.translation.is_some() && hit.ticket.is_none() {
            return; // without a first level, the second is to see each access
        }
        if self.remembered.0.is_empty() {
            self.remembered.0 = vec![None; 8 * WAYS];
        }
        self.remembered.0[way(access, address)] = Some(Answer {
            page: address >> 12,
            mode: self.deciding(access),
            generation: self.mmu.generation(),
            physical: hit.physical & !0xfff,
            attribute: hit.attribute,
            pte,
            ticket: hit.ticket,
        });
    }

    /// The same for a speculative load: none where its fault is deferred.
    pub(crate) fn speculate(&mut self, bus: &mut dyn Bus, address: u64, isr: u64) -> Done<Option<Place>> {
        if let Some(place) = self.recall(Access::Read, address) {
            return Ok(Some(place));
        }
        let defer = self.deferred();
        let (state, mut walked) = (self.mode(Access::Read), self.walker(bus));
        let found = self.mmu.speculate(&mut walked, state, Access::Read, address, defer);
        let hit = found.map_err(|fault| of_mmu(&fault, isr))?;
        if let Some(hit) = &hit {
            self.remember(Access::Read, address, hit);
        }
        Ok(hit.map(|hit| (hit.physical, hit.attribute)))
    }

    /// Faults that a speculative load defers: all, where PSR.ed says so or interruptions are not collected; of code that
    /// recovers, those that DCR names; and always those that would never be mended (SDM vol. 2, 5.5.5, from memory).
    fn deferred(&self) -> Kinds {
        let always = Kinds::NONE.with(Kind::UnimplementedData).with(Kind::DataNatPage);
        if self.has(psr::ED) || !self.has(psr::IC) {
            return Kind::ALL.into_iter().fold(always, Kinds::with);
        }
        if !self.code_page.deferral() {
            return always;
        }
        let dcr = self.cr[cr::DCR];
        BY_DCR.into_iter().filter(|(bit, _)| dcr >> bit & 1 != 0).fold(always, |all, (_, kind)| all.with(kind))
    }

    /// Memory as the walker reads it.
    pub(crate) fn walker<'a>(&self, bus: &'a mut dyn Bus) -> Walked<'a> {
        Walked { bus, big_endian: self.cr[cr::DCR] >> 1 & 1 != 0 }
    }

    pub(crate) fn load_physical(&mut self, bus: &mut dyn Bus, at: u64, size: u32, big_endian: bool) -> Done<u64> {
        self.load_place(bus, (at, Attribute::WriteBack), size, big_endian)
    }

    pub(crate) fn store_physical(
        &mut self,
        bus: &mut dyn Bus,
        at: u64,
        size: u32,
        value: u64,
        big_endian: bool,
    ) -> Done {
        self.store_place(bus, (at, Attribute::WriteBack), size, value, big_endian)
    }

    pub(crate) fn load_place(&mut self, bus: &mut dyn Bus, place: Place, size: u32, big_endian: bool) -> Done<u64> {
        let at = place.0 & !(1 << 63);
        let word = bus.load(at, size, place.1).ok_or_else(|| nothing_there("load", at, size))?;
        self.hear(bus, place.1);
        Ok(if big_endian { word.swap_bytes() >> (64 - 8 * size) } else { word })
    }

    pub(crate) fn store_place(
        &mut self,
        bus: &mut dyn Bus,
        place: Place,
        size: u32,
        value: u64,
        big_endian: bool,
    ) -> Done {
        let at = place.0 & !(1 << 63);
        let value = if size < 8 { value & ((1 << (8 * size)) - 1) } else { value };
        let value = if big_endian { value.swap_bytes() >> (64 - 8 * size) } else { value };
        self.alat.stored(at, size);
        bus.store(at, size, value, place.1).ok_or_else(|| nothing_there("store", at, size))?;
        self.hear(bus, place.1);
        Ok(())
    }

    /// What devices say after an access.
    fn hear(&mut self, bus: &mut dyn Bus, attribute: Attribute) {
        if attribute != Attribute::WriteBack {
            while let Some(vector) = bus.interrupt() {
                self.request(vector);
            }
        }
    }
}

/// A processor would have a machine check.
fn nothing_there(what: &str, at: u64, size: u32) -> Trouble {
    stuck(format!("{what} of {size} bytes at physical {at:#x}, where nothing answers"))
}
