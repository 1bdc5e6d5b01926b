// SPDX-License-Identifier: MIT
//! Stores of general registers (SDM vol. 3, M4, M5).

use itanium_mmu::fields::Attribute;
use itanium_mmu::mmu::Access;

use super::load::Step;
use super::{Handler, Name, Op};
use crate::bus::Bus;
use crate::cpu::{Cpu, ar};
use crate::interruption::{Done, W, unsupported};
use crate::psr;

pub(super) fn of((mnemonic, operands): Name) -> Option<Handler> {
    Some(match (mnemonic, operands) {
        ("st{size}{st}{sthint}", _) => |c, b, o| c.store(b, o, None),
        ("st{size}{st}{sthintu}", _) => |c, b, o| c.store(b, o, Some((o.imm as u64, false))),
        ("st8.spill{sthint}", _) => |c, b, o| c.store_spilled(b, o, None),
        ("st8.spill{sthintu}", _) => |c, b, o| c.store_spilled(b, o, Some((o.imm as u64, false))),
        ("st16{sthint}" | "st16.rel{sthint}", _) => Cpu::store_16,
        _ => return None,
    })
}

impl Cpu {
    fn store(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        self.can_step(op, step, None)?;
        let size = 1 << op.bits(31, 30);
        let value = self.value(op.r2, W)?;
        let place = self.aligned(bus, op, Access::Write, size, W)?;
        self.store_place(bus, place, size, value, self.has(psr::BE))?;
        self.step(op, step);
        Ok(())
    }

    fn store_spilled(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        self.can_step(op, step, None)?;
        let (value, nat) = self.gr(op.r2);
        let place = self.aligned(bus, op, Access::Write, 8, W)?;
        self.store_place(bus, place, 8, value, self.has(psr::BE))?;
        let at = self.gr(op.r3).0 >> 3 & 63;
        self.ar[ar::UNAT] = self.ar[ar::UNAT] & !(1 << at) | u64::from(nat) << at;
        self.step(op, step);
        Ok(())
    }

    fn store_16(&mut self, bus: &mut dyn Bus, op: &Op) -> Done {
        let value = self.value(op.r2, W)?;
        let place = self.aligned(bus, op, Access::Write, 16, W)?;
        if place.1 != Attribute::WriteBack {
            return Err(unsupported(W, self.gr(op.r3).0));
        }
        let big = self.has(psr::BE);
        let second = self.ar[ar::CSD];
        let (low, high) = if big { (second, value) } else { (value, second) };
        self.store_place(bus, place, 8, low, big)?;
        self.store_place(bus, (place.0 + 8, place.1), 8, high, big)
    }
}
