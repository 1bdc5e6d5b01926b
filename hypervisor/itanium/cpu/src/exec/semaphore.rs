// SPDX-License-Identifier: MIT
//! Exchanges and sums in memory (SDM vol. 3, M16, M17).

use itanium_mmu::fields::Attribute;
use itanium_mmu::mmu::Access;

use super::{Handler, Name, Op};
use crate::bus::Bus;
use crate::cpu::{Cpu, ar};
use crate::interruption::{Done, R, W, unsupported};
use crate::psr;

pub(super) fn of((mnemonic, _): Name) -> Option<Handler> {
    Some(match mnemonic {
        "cmpxchg{size}{sem}{hint}" => |c, b, o| {
            let (new, expected) = (c.replacement(o)?, c.ar[ar::CCV]);
            c.exchange(b, o, 1 << o.bits(31, 30), |old| (old == expected).then_some(new))
        },
        "xchg{size}{hint}" => |c, b, o| {
            let new = c.replacement(o)?;
            c.exchange(b, o, 1 << o.bits(31, 30), |_| Some(new))
        },
        "fetchadd4.acq{hint}" | "fetchadd4.rel{hint}" => {
            |c, b, o| c.exchange(b, o, 4, |old| Some(old.wrapping_add(o.imm as u64)))
        }
        "fetchadd8.acq{hint}" | "fetchadd8.rel{hint}" => {
            |c, b, o| c.exchange(b, o, 8, |old| Some(old.wrapping_add(o.imm as u64)))
        }
        "cmp8xchg16.acq{hint}" | "cmp8xchg16.rel{hint}" => Cpu::exchange_16,
        _ => return None,
    })
}

impl Cpu {
    /// What is to be written. A target that cannot be comes before a NaT.
    fn replacement(&self, op: &Op) -> Done<u64> {
        self.target(op.r1)?;
        self.value(op.r2, R | W)
    }

    fn exchange(&mut self, bus: &mut dyn Bus, op: &Op, size: u32, new: impl Fn(u64) -> Option<u64>) -> Done {
        self.target(op.r1)?;
        let place = self.aligned(bus, op, Access::ReadWrite, size, R | W)?;
        self.cacheable(op, place.1)?;
        let big = self.has(psr::BE);
        let old = self.load_place(bus, place, size, big)?;
        if let Some(new) = new(old) {
            self.store_place(bus, place, size, new, big)?;
        }
        self.alat.remove(self.advanced(op.r1));
        self.set_gr(op.r1, old, false);
        Ok(())
    }

    /// Semaphores are the cache's: other memory does not do them (SDM vol. 2, 4.4.7).
    fn cacheable(&self, op: &Op, attribute: Attribute) -> Done {
        if attribute == Attribute::WriteBack { Ok(()) } else { Err(unsupported(R | W, self.gr(op.r3).0)) }
    }

    /// Compares eight bytes, and writes the sixteen around them.
    fn exchange_16(&mut self, bus: &mut dyn Bus, op: &Op) -> Done {
        let new = self.replacement(op)?;
        let place = self.aligned(bus, op, Access::ReadWrite, 8, R | W)?;
        self.cacheable(op, place.1)?;
        let big = self.has(psr::BE);
        let old = self.load_place(bus, place, 8, big)?;
        if old == self.ar[ar::CCV] {
            let second = self.ar[ar::CSD];
            let (low, high) = if big { (second, new) } else { (new, second) };
            let base = place.0 & !8;
            self.store_place(bus, (base, place.1), 8, low, big)?;
            self.store_place(bus, (base + 8, place.1), 8, high, big)?;
        }
        self.alat.remove(self.advanced(op.r1));
        self.set_gr(op.r1, old, false);
        Ok(())
    }
}
