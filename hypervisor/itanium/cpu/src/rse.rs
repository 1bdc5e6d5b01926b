// SPDX-License-Identifier: MIT
//! The register stack engine (SDM vol. 2, chapter 6). It stores and loads only what it must, and keeps nothing that is in
//! memory already (choices that the architecture leaves to the processor: there is no clean partition). So the registers
//! below the frame are all dirty, from BSPSTORE to BSP; where BSPSTORE is above BSP, the frame is incomplete.

use itanium_mmu::mmu::Access;
use serde::{Deserialize, Serialize};

use crate::bus::Bus;
use crate::cpu::{Cpu, ar};
use crate::general::{Frame, STACKED};
use crate::interruption::{self, Done, IR, R, RS, W, illegal};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rse {
    /// Where the first register of the frame would be stored.
    pub bsp: u64,
    /// Where the next dirty register will be stored.
    pub bspstore: u64,
    /// Dirty registers; less than none are registers of the frame that have not been loaded.
    pub dirty: i64,
    /// It is to load them before anything is executed.
    pub loading: bool,
    /// How many registers lie below the frame on the whole stack, as far as this processor has seen.
    pub depth: i64,
}

impl Rse {
    /// Whether it is one that instructions leave, beside a frame of so many registers; one that would be stored or loaded
    /// for as good as ever is none.
    pub(crate) fn is_sound(&self, sof: u8) -> bool {
        const FAR: i64 = 1 << 16;
        let words = self.bsp.wrapping_sub(self.bspstore) as i64 / 8;
        let range = -FAR..=STACKED as i64 - i64::from(sof);
        range.contains(&self.dirty) && words.abs() <= FAR && (-1 << 60..1 << 60).contains(&self.depth)
    }
}

/// Which of a collection's 64 words an address is; the last has the NaTs of the others.
const fn slot(address: u64) -> u64 {
    address >> 3 & 63
}

/// So many registers further: collections of NaTs lie between them.
pub(crate) const fn further(address: u64, registers: i64) -> u64 {
    let delta = slot(address) as i64 + registers - if registers < 0 { 62 } else { 0 };
    address.wrapping_add((8 * (registers + delta / 63)) as u64)
}

impl Cpu {
    /// Mandatory stores, for a frame of so many registers to fit.
    pub(crate) fn make_room(&mut self, bus: &mut dyn Bus, sof: u8) -> Done {
        while self.rse.dirty + i64::from(sof) > STACKED as i64 {
            self.spill(bus)?;
        }
        Ok(())
    }

    /// Stores all that is dirty.
    pub(crate) fn flush_stack(&mut self, bus: &mut dyn Bus) -> Done {
        while self.rse.bspstore < self.rse.bsp {
            self.spill(bus)?;
        }
        Ok(())
    }

    /// Loads what the frame lacks.
    pub(crate) fn complete_frame(&mut self, bus: &mut dyn Bus) -> Done {
        while self.rse.dirty < 0 {
            self.fill(bus, IR)?;
        }
        self.rse.loading = false;
        Ok(())
    }

    fn spill(&mut self, bus: &mut dyn Bus) -> Done {
        let at = self.rse.bspstore;
        let physical = self.stack_address(bus, Access::StackWrite, at, W | RS)?;
        if slot(at) == 63 {
            self.store_physical(bus, physical, 8, self.ar[ar::RNAT], self.stack_big_endian())?;
        } else {
            let (value, nat) = self.general.get(self.general.stacked(-self.rse.dirty));
            self.store_physical(bus, physical, 8, value, self.stack_big_endian())?;
            let rnat = &mut self.ar[ar::RNAT];
            *rnat = *rnat & !(1 << slot(at)) | u64::from(nat) << slot(at);
            self.rse.dirty -= 1;
        }
        self.rse.bspstore += 8;
        Ok(())
    }

    fn fill(&mut self, bus: &mut dyn Bus, isr: u64) -> Done {
        let at = self.rse.bspstore.wrapping_sub(8);
        let physical = self.stack_address(bus, Access::StackRead, at, R | RS | isr)?;
        let word = self.load_physical(bus, physical, 8, self.stack_big_endian())?;
        if slot(at) == 63 {
            self.ar[ar::RNAT] = word;
        } else {
            let place = self.general.stacked(-self.rse.dirty - 1);
            self.general.set(place, word, self.ar[ar::RNAT] >> slot(at) & 1 != 0);
            self.rse.dirty += 1;
        }
        self.rse.bspstore = at;
        Ok(())
    }

    fn stack_big_endian(&self) -> bool {
        self.rsc() >> 4 & 1 != 0
    }

    pub(crate) fn rsc(&self) -> u64 {
        self.ar[ar::RSC]
    }

    fn stack_address(&mut self, bus: &mut dyn Bus, access: Access, at: u64, isr: u64) -> Done<u64> {
        let hit = self.translate(bus, access, at, isr)?;
        if at & 7 != 0 {
            return Err(interruption::unaligned(isr, at));
        }
        Ok(hit.0)
    }

    /// The frame moves up by so many registers, which become dirty.
    pub(crate) fn push_frame(&mut self, registers: u8) {
        let registers = i64::from(registers);
        self.general.shift(registers);
        self.rse.dirty += registers;
        self.rse.depth += registers;
        self.rse.bsp = further(self.rse.bsp, registers);
    }

    /// The frame moves down by so many registers, which may have to be loaded.
    pub(crate) fn pop_frame(&mut self, registers: u8) {
        let registers = i64::from(registers);
        self.general.shift(-registers);
        self.rse.dirty -= registers;
        self.rse.depth -= registers;
        self.rse.bsp = further(self.rse.bsp, -registers);
        self.rse.loading = self.rse.dirty < 0;
    }

    /// The frame of a word of PFS or IFS becomes the current one, after [`Self::pop_frame`]; an empty one, where it is no
    /// frame, or would not fit beside what is dirty (SDM vol. 3, br.ret, from memory).
    pub(crate) fn restore_frame(&mut self, word: u64) {
        let fits = |frame: &Frame| self.rse.dirty + i64::from(frame.sof) <= STACKED as i64;
        self.frame = Frame::of_word(word).filter(fits).unwrap_or_default();
        self.alat.returned(self.rse.depth + i64::from(self.frame.sof));
    }

    /// `cover`: the frame is dirty, and the next one empty.
    pub(crate) fn cover(&mut self) {
        self.push_frame(self.frame.sof);
        self.frame = Frame::default();
    }

    /// `alloc`, but for its target (SDM vol. 3, alloc).
    pub(crate) fn resize_frame(&mut self, bus: &mut dyn Bus, sizes: [u8; 3]) -> Done {
        let [sof, sol, sor] = sizes;
        let rotated = self.frame.rrb_gr | self.frame.rrb_fr | self.frame.rrb_pr != 0;
        if usize::from(sof) > STACKED || sol > sof || sor > sof {
            return Err(illegal());
        }
        if sor != self.frame.sor && rotated {
            return Err(interruption::reserved());
        }
        self.make_room(bus, sof)?;
        self.frame = Frame { sof, sol, sor, ..self.frame };
        Ok(())
    }

    /// `loadrs` (SDM vol. 3, loadrs).
    pub(crate) fn load_stack(&mut self, bus: &mut dyn Bus) -> Done {
        let bytes = self.rsc() >> 16 & 0x3ff8;
        let from = self.rse.bsp.wrapping_sub(bytes);
        // Of these words some may be collections.
        let collections = (from..self.rse.bsp).step_by(8).filter(|&at| slot(at) == 63).count();
        let registers = (bytes / 8) as i64 - collections as i64;
        if self.rsc() & 3 != 0 || self.frame.sof != 0 && bytes != 0 || registers > STACKED as i64 {
            return Err(illegal());
        }
        while self.rse.bspstore > from {
            self.fill(bus, 0)?;
        }
        self.rse.bspstore = from;
        self.rse.dirty = registers;
        Ok(())
    }

    /// Writes BSPSTORE: what is dirty stays so, and will be stored there.
    pub(crate) fn set_bspstore(&mut self, address: u64) {
        self.rse.bspstore = address & !7;
        self.rse.bsp = further(self.rse.bspstore, self.rse.dirty);
    }

    /// Registers that are stored or loaded by nobody yet: for tests and reports.
    pub fn dirty(&self) -> i64 {
        self.rse.dirty
    }
}
