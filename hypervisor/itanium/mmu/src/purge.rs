// SPDX-License-Identifier: MIT
//! Purges: `ptc` and `ptr`. Each goes by region identifier, so that a translation goes whichever region's number it was
//! inserted by (SDM vol. 2, 4.1.1.4).

use serde::{Deserialize, Serialize};

use crate::fields::{Itir, PageSize};
use crate::insert::Refused;
use crate::mmu::Mmu;
use crate::tlb::{Range, Side};

/// What `ptc.g` and `ptc.ga` tell other processors: each is to pass it to [`Mmu::receive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Broadcast {
    /// What goes.
    pub range: Range,
    /// The page has moved: advanced loads from it are to be forgotten too (`ptc.ga`).
    pub moved: bool,
}

impl Mmu {
    /// `ptc.l`: what overlaps the range goes from both caches; the size is in the place of ITIR's. A range that
    /// overlaps a register is a machine check.
    pub fn ptc_l(&mut self, va: u64, size: Itir) -> Result<(), Refused> {
        let range = self.purgeable(va, size)?;
        if [Side::Instruction, Side::Data].iter().any(|&side| self.tlb(side).registers_overlap(&range)) {
            return Err(Refused::MachineCheck);
        }
        self.purge_caches(&range);
        Ok(())
    }

    /// `ptc.g`, `ptc.ga`: the same on this processor, and what the others are to be told.
    pub fn ptc_g(&mut self, va: u64, size: Itir, moved: bool) -> Result<Broadcast, Refused> {
        self.ptc_l(va, size)?;
        Ok(Broadcast { range: self.purgeable(va, size)?, moved })
    }

    /// Another processor's `ptc.g` or `ptc.ga`. Registers stay, and that one overlaps is no machine check here (choice).
    pub fn receive(&mut self, broadcast: &Broadcast) {
        self.purge_caches(&broadcast.range);
    }

    /// `ptc.e`: both caches are emptied. One step does it: firmware is to say so of this processor (PAL_PTCE_INFO).
    pub fn ptc_e(&mut self) {
        for side in [Side::Instruction, Side::Data] {
            let gone = self.tlb_mut(side).purge_all_cache();
            self.counters.of(side).purged += gone;
            self.settle(side);
        }
    }

    /// `ptr`: registers of this side that overlap the range go, and what overlaps it in this side's cache
    /// (SDM vol. 3, ptr).
    pub fn ptr(&mut self, side: Side, va: u64, size: Itir) -> Result<(), Refused> {
        let range = self.purgeable(va, size)?;
        let tlb = self.tlb_mut(side);
        let gone = tlb.purge_registers(&range) + tlb.purge_cache(&range);
        self.counters.of(side).purged += gone;
        self.settle(side);
        Ok(())
    }

    fn purgeable(&self, va: u64, size: Itir) -> Result<Range, Refused> {
        if !self.implements(va) {
            return Err(Refused::Address);
        }
        let size = PageSize::of_field(size.ps()).ok_or(Refused::MachineCheck)?;
        Ok(Range::around(self.region_of(va).rid, va, size))
    }

    fn purge_caches(&mut self, range: &Range) {
        for side in [Side::Instruction, Side::Data] {
            let gone = self.tlb_mut(side).purge_cache(range);
            self.counters.of(side).purged += gone;
            if gone != 0 {
                self.settle(side);
            }
        }
    }
}
