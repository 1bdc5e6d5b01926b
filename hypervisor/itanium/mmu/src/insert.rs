// SPDX-License-Identifier: MIT
//! Insertions: `itc` and `itr`. Whether the processor may do them (level 0, PSR.ic clear) is the processor's to see.

use serde::{Deserialize, Serialize};

use crate::fields::{Itir, Pte, Reserved, check};
use crate::mmu::Mmu;
use crate::tlb::{Place, Range, Side, Translation};

/// Why an instruction that changes the MMU was not done. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refused {
    /// Reserved Register/Field fault, vector 0x5400: no such register, or reserved bits or encodings for it.
    RegisterField,
    /// The same, for the words of a translation.
    Words(Reserved),
    /// Unimplemented Data Address fault, vector 0x5400: the address is not implemented.
    Address,
    /// Machine check: it would overlap a translation register (SDM vol. 2, 4.1.1.4, table 4-1, from memory; another
    /// implementation has it for insertions), or names a size that cannot be purged.
    MachineCheck,
}

impl Mmu {
    /// `itc`: puts a translation into the cache; the words are a general register, ITIR and IFA. What it overlaps in
    /// the cache goes. The other side's is left alone, though a processor may purge it (SDM vol. 2, 4.1.1.4; vol. 3,
    /// itc).
    pub fn itc(&mut self, side: Side, pte: Pte, itir: Itir, ifa: u64) -> Result<(), Refused> {
        let translation = self.made(side, pte, itir, ifa)?;
        self.counters.of(side).cache_insertions += 1;
        self.insert_cache(side, translation);
        Ok(())
    }

    /// `itr`: puts a translation into a register. What it overlaps in the cache goes; what was in the register goes
    /// too, though a processor may keep it in its cache (SDM vol. 3, itr). It must not overlap a register, this one
    /// included: software purges that first.
    pub fn itr(&mut self, side: Side, register: usize, pte: Pte, itir: Itir, ifa: u64) -> Result<(), Refused> {
        if register >= self.config.registers {
            return Err(Refused::RegisterField);
        }
        let translation = self.made(side, pte, itir, ifa)?;
        let purged = self.tlb_mut(side).purge_cache(&translation.range);
        self.tlb_mut(side).register(register, translation);
        self.settle(side);
        let counters = self.counters.of(side);
        counters.register_insertions += 1;
        counters.purged += purged;
        Ok(())
    }

    /// The translation that the words are, if it may be inserted.
    fn made(&self, side: Side, pte: Pte, itir: Itir, ifa: u64) -> Result<Translation, Refused> {
        let size = check(pte, itir, self.config.physical_bits).map_err(Refused::Words)?;
        if !self.implements(ifa) {
            return Err(Refused::Address);
        }
        let range = Range::around(self.region_of(ifa).rid, ifa, size);
        if self.tlb(side).registers_overlap(&range) {
            return Err(Refused::MachineCheck);
        }
        Ok(Translation { range, pte, key: itir.key() })
    }

    /// Puts a translation that overlaps no register into the cache.
    pub(crate) fn insert_cache(&mut self, side: Side, translation: Translation) -> Place {
        let purged = self.tlb_mut(side).purge_cache(&translation.range);
        let (place, overwrote) = self.tlb_mut(side).cache(translation);
        if overwrote || purged != 0 {
            self.settle(side);
        }
        let counters = self.counters.of(side);
        counters.purged += purged;
        counters.overwritten += u64::from(overwrote);
        place
    }
}
