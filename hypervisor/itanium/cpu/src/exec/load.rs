// SPDX-License-Identifier: MIT
//! Loads of general registers, plain, speculative, advanced and checked; lfetch (SDM vol. 3, M1 to M3, M13 to M15).

use itanium_mmu::fields::Attribute;
use itanium_mmu::mmu::Access;

use super::{Handler, Name, Op};
use crate::alat::Target;
use crate::bus::Bus;
use crate::cpu::{Cpu, ar};
use crate::interruption::{Done, NA, R, SP, illegal, nat, unaligned, unsupported};
use crate::memory::Place;
use crate::psr;

pub(super) fn of((mnemonic, operands): Name) -> Option<Handler> {
    Some(match (mnemonic, operands) {
        ("ld{size}{ld}{ldhint}" | "ld{size}{ld}{hint}", "r1=[r3]") => |c, b, o| c.load(b, o, None),
        ("ld{size}{ld}{hint}", "r1=[r3],r2") => |c, b, o| c.load(b, o, Some(c.gr(o.r2))),
        ("ld{size}{ld}{hint}", _) => |c, b, o| c.load(b, o, Some((o.imm as u64, false))),
        ("ld8.fill{ldhint}", _) => |c, b, o| c.load_filled(b, o, None),
        ("ld8.fill{hint}", "r1=[r3],r2") => |c, b, o| c.load_filled(b, o, Some(c.gr(o.r2))),
        ("ld8.fill{hint}", _) => |c, b, o| c.load_filled(b, o, Some((o.imm as u64, false))),
        ("ld16{ldhint}" | "ld16.acq{ldhint}", _) => Cpu::load_16,
        ("lfetch{fetch}{lfhint}", "[r3]") => |c, b, o| c.prefetch(b, o, None),
        ("lfetch{fetch}{lfhint}", "[r3],r2") => |c, b, o| c.prefetch(b, o, Some(c.gr(o.r2))),
        ("lfetch{fetch}{lfhint}", _) => |c, b, o| c.prefetch(b, o, Some((o.imm as u64, false))),
        _ => return None,
    })
}

/// What kind of load a slot's bits 35:32 name.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub speculative: bool,
    pub advanced: bool,
    pub check: bool,
    pub clear: bool,
}

impl How {
    pub(super) const fn of(op: &Op) -> Self {
        let kind = op.bits(35, 32);
        Self {
            speculative: matches!(kind, 1 | 3),
            advanced: matches!(kind, 2 | 3),
            check: matches!(kind, 8..=10),
            clear: matches!(kind, 8 | 10),
        }
    }

    const fn isr(self) -> u64 {
        if self.speculative { R | SP } else { R }
    }
}

/// What is added to the base register: a value and its NaT.
pub(super) type Step = Option<(u64, bool)>;

/// What a load found.
pub(super) enum Found {
    /// Memory.
    Place(Place),
    /// A fault that is deferred.
    Deferred,
    /// Memory that an advanced load leaves alone.
    Nothing,
    /// What was loaded in advance is still right.
    Kept,
}

impl Cpu {
    /// Where a load that may be speculative or advanced finds its data.
    pub(super) fn find(&mut self, bus: &mut dyn Bus, op: &Op, to: &[Target], size: u32, window: u32) -> Done<Found> {
        let how = How::of(op);
        let (address, address_nat) = self.gr(op.r3);
        if address_nat && how.speculative {
            return Ok(Found::Deferred);
        }
        if address_nat {
            return Err(nat(how.isr()));
        }
        if how.check && to.iter().all(|&to| self.alat.has(to)) {
            if how.clear {
                for &to in to {
                    self.alat.remove(to);
                }
            }
            return Ok(Found::Kept);
        }
        for &to in to {
            self.alat.remove(to);
        }
        let place = if how.speculative {
            self.speculate(bus, address, how.isr())?
        } else {
            Some(self.translate(bus, Access::Read, address, how.isr())?)
        };
        let aligned = address & u64::from(window - 1) == 0;
        let Some(place) = place.filter(|_| aligned || !how.speculative) else { return Ok(Found::Deferred) };
        if !aligned {
            return Err(unaligned(how.isr(), address));
        }
        let speculable = place.1 == Attribute::WriteBack;
        match (speculable, how.speculative, how.advanced) {
            (false, true, _) => return Ok(Found::Deferred),
            (false, false, true) => return Ok(Found::Nothing),
            _ => {}
        }
        if how.advanced || how.check && !how.clear {
            for &to in to {
                self.alat.put(to, place.0 & !(1 << 63), size);
            }
        }
        Ok(Found::Place(place))
    }

    fn load(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        self.target(op.r1)?;
        self.can_step(op, step, Some(op.r1))?;
        let size = 1 << op.bits(31, 30);
        let to = self.advanced(op.r1);
        match self.find(bus, op, &[to], size, size)? {
            Found::Place(place) => {
                let value = self.load_place(bus, place, size, self.has(psr::BE))?;
                self.set_gr(op.r1, value, false);
            }
            Found::Deferred => self.set_gr(op.r1, 0, true),
            Found::Nothing => self.set_gr(op.r1, 0, false),
            Found::Kept => {}
        }
        self.step(op, step);
        Ok(())
    }

    /// Illegal Operation fault where the base register cannot be written, or is the target too.
    pub(super) fn can_step(&self, op: &Op, step: Step, target: Option<u8>) -> Done {
        match step {
            None => Ok(()),
            Some(_) if target == Some(op.r3) => Err(illegal()),
            Some(_) => self.target(op.r3),
        }
    }

    pub(super) fn step(&mut self, op: &Op, step: Step) {
        if let Some((by, by_nat)) = step {
            let (base, nat) = self.gr(op.r3);
            self.set_gr(op.r3, base.wrapping_add(by), nat | by_nat);
        }
    }

    /// A place of so many bytes at the address in r3.
    pub(super) fn aligned(&mut self, bus: &mut dyn Bus, op: &Op, access: Access, size: u32, isr: u64) -> Done<Place> {
        let address = self.value(op.r3, isr)?;
        let place = self.translate(bus, access, address, isr)?;
        if address & u64::from(size - 1) == 0 { Ok(place) } else { Err(unaligned(isr, address)) }
    }

    fn load_filled(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        self.target(op.r1)?;
        self.can_step(op, step, Some(op.r1))?;
        let place = self.aligned(bus, op, Access::Read, 8, R)?;
        let value = self.load_place(bus, place, 8, self.has(psr::BE))?;
        let (address, _) = self.gr(op.r3);
        self.alat.remove(self.advanced(op.r1));
        self.set_gr(op.r1, value, self.ar[ar::UNAT] >> (address >> 3 & 63) & 1 != 0);
        self.step(op, step);
        Ok(())
    }

    fn load_16(&mut self, bus: &mut dyn Bus, op: &Op) -> Done {
        self.target(op.r1)?;
        let place = self.aligned(bus, op, Access::Read, 16, R)?;
        if place.1 != Attribute::WriteBack {
            return Err(unsupported(R, self.gr(op.r3).0));
        }
        let big = self.has(psr::BE);
        let low = self.load_place(bus, place, 8, big)?;
        let high = self.load_place(bus, (place.0 + 8, place.1), 8, big)?;
        self.alat.remove(self.advanced(op.r1));
        let (first, second) = if big { (high, low) } else { (low, high) };
        self.set_gr(op.r1, first, false);
        self.ar[ar::CSD] = second;
        Ok(())
    }

    /// Only `lfetch.fault` does more than step: the machine has no caches to be filled. Where the handler of its fault has
    /// set PSR.ed, it only steps, too (SDM vol. 2, 3.3.2): Linux does so for memory that its identity mapping has no entry of.
    fn prefetch(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        self.can_step(op, step, None)?;
        if op.bit(31) && !self.has(psr::ED) {
            let isr = R | NA | 4;
            let address = self.value(op.r3, isr)?;
            self.translate(bus, Access::Read, address, isr)?;
        }
        self.step(op, step);
        Ok(())
    }
}
