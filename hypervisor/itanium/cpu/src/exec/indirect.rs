// SPDX-License-Identifier: MIT
//! Registers by number in a register, and what reaches the MMU (SDM vol. 3, M38 to M47).

use itanium_mmu::fields::{Itir, Pte, region};
use itanium_mmu::mmu::{Access, Refused};
use itanium_mmu::tlb::Side;

use super::{Handler, Name, Op};
use crate::bus::Bus;
use crate::cpu::{Cpu, cr};
use crate::interruption::{Done, NA, R, Trouble, W, at_address, illegal, of_mmu, privileged, reserved, stuck};
use crate::psr;

pub(super) fn of((mnemonic, operands): Name) -> Option<Handler> {
    Some(match (mnemonic, operands) {
        ("mov", "rr[r3]=r2") => |c, _, o| {
            let (at, value) = c.indirect_pair(o)?;
            c.mmu.set_region(region(at), value).map_err(|refused| Cpu::refused(refused, at))
        },
        ("mov", "pkr[r3]=r2") => |c, _, o| {
            let (at, value) = c.indirect_pair(o)?;
            c.mmu.set_key((at & 0xff) as usize, value).map_err(|refused| Cpu::refused(refused, at))
        },
        ("mov", "dbr[r3]=r2") => |c, _, o| c.set_indirect(o, 0),
        ("mov", "ibr[r3]=r2") => |c, _, o| c.set_indirect(o, 1),
        ("mov", "pmc[r3]=r2") => |c, _, o| c.set_indirect(o, 2),
        ("mov", "pmd[r3]=r2") => |c, _, o| c.set_indirect(o, 3),
        ("mov", "r1=rr[r3]") => |c, _, o| {
            c.target(o.r1)?;
            let at = c.indirect_at(o, 0)?;
            c.constant(o, c.mmu.region(region(at)).word())
        },
        ("mov", "r1=pkr[r3]") => |c, _, o| {
            c.target(o.r1)?;
            let at = c.indirect_at(o, 0)?;
            let key = c.mmu.key((at & 0xff) as usize).ok_or_else(reserved)?;
            c.constant(o, key.word())
        },
        ("mov", "r1=dbr[r3]") => |c, _, o| c.get_indirect(o, 0, 0),
        ("mov", "r1=ibr[r3]") => |c, _, o| c.get_indirect(o, 1, 0),
        ("mov", "r1=pmc[r3]") => |c, _, o| c.get_indirect(o, 2, 0),
        ("mov", "r1=pmd[r3]") => |c, _, o| c.get_indirect(o, 3, 3),
        ("mov", "r1=cpuid[r3]") => |c, _, o| {
            c.target(o.r1)?;
            let at = c.indirect_at(o, 3)?;
            let value = *c.cpuid.get((at & 0xff) as usize).ok_or_else(reserved)?;
            c.constant(o, value)
        },
        ("itc.d", _) => |c, _, o| c.insert(o, Side::Data, None),
        ("itc.i", _) => |c, _, o| c.insert(o, Side::Instruction, None),
        ("itr.d", _) => |c, _, o| c.insert(o, Side::Data, Some(c.value(o.r3, 0)?)),
        ("itr.i", _) => |c, _, o| c.insert(o, Side::Instruction, Some(c.value(o.r3, 0)?)),
        ("ptc.l", _) => |c, _, o| c.purge(o, |c, at, size| c.mmu.ptc_l(at, size)),
        ("ptc.g", _) => |c, _, o| c.purge(o, |c, at, size| c.mmu.ptc_g(at, size, false).map(|_| ())),
        ("ptc.ga", _) => |c, _, o| {
            c.alat.clear();
            c.purge(o, |c, at, size| c.mmu.ptc_g(at, size, true).map(|_| ()))
        },
        ("ptr.d", _) => |c, _, o| c.purge(o, |c, at, size| c.mmu.ptr(Side::Data, at, size)),
        ("ptr.i", _) => |c, _, o| c.purge(o, |c, at, size| c.mmu.ptr(Side::Instruction, at, size)),
        ("ptc.e", _) => |c, _, o| {
            c.must_be_privileged()?;
            c.value(o.r3, 0)?;
            c.mmu.ptc_e();
            Ok(())
        },
        ("thash", _) => |c, _, o| c.hashed(o, |c, at| c.mmu.thash(at)),
        ("ttag", _) => |c, _, o| c.hashed(o, |c, at| c.mmu.ttag(at)),
        ("tpa", _) => Cpu::physical_address,
        ("tak", _) => Cpu::access_key,
        ("probe.r", "r1=r3,r2") => |c, b, o| c.probe(b, o, false, c.value(o.r2, NA | R | 2)?),
        ("probe.w", "r1=r3,r2") => |c, b, o| c.probe(b, o, true, c.value(o.r2, NA | W | 2)?),
        ("probe.r", _) => |c, b, o| c.probe(b, o, false, o.imm as u64),
        ("probe.w", _) => |c, b, o| c.probe(b, o, true, o.imm as u64),
        ("probe.r.fault", _) => |c, b, o| c.probe_fault(b, o, Access::Read, R),
        ("probe.w.fault", _) => |c, b, o| c.probe_fault(b, o, Access::Write, W),
        ("probe.rw.fault", _) => |c, b, o| c.probe_fault(b, o, Access::ReadWrite, R | W),
        _ => return None,
    })
}

impl Cpu {
    /// The register's number, for code of this level at most.
    fn indirect_at(&self, op: &Op, level: u8) -> Done<u64> {
        if self.level() > level {
            return Err(privileged());
        }
        self.value(op.r3, 0)
    }

    fn indirect_pair(&self, op: &Op) -> Done<(u64, u64)> {
        Ok((self.indirect_at(op, 0)?, self.value(op.r2, 0)?))
    }

    fn get_indirect(&mut self, op: &Op, file: usize, level: u8) -> Done {
        self.target(op.r1)?;
        let at = self.indirect_at(op, level)?;
        let value = *self.indirect[file].get((at & 0xff) as usize).ok_or_else(reserved)?;
        self.constant(op, value)
    }

    fn set_indirect(&mut self, op: &Op, file: usize) -> Done {
        let (at, value) = self.indirect_pair(op)?;
        *self.indirect[file].get_mut((at & 0xff) as usize).ok_or_else(reserved)? = value;
        Ok(())
    }

    /// What the MMU would not do.
    fn refused(refused: Refused, address: u64) -> Trouble {
        match refused {
            Refused::RegisterField | Refused::Words(_) => reserved(),
            Refused::Address => at_address(0x5400, 0x30, address),
            Refused::MachineCheck => stuck(format!("machine check: translations for {address:#x} that overlap")),
        }
    }

    fn insert(&mut self, op: &Op, side: Side, register: Option<u64>) -> Done {
        if self.has(psr::IC) {
            return Err(illegal());
        }
        self.must_be_privileged()?;
        let pte = Pte(self.value(op.r2, 0)?);
        let (itir, ifa) = (Itir(self.cr[cr::ITIR]), self.cr[cr::IFA]);
        match register {
            None => self.mmu.itc(side, pte, itir, ifa),
            Some(number) => self.mmu.itr(side, (number & 0xff) as usize, pte, itir, ifa),
        }
        .map_err(|refused| Self::refused(refused, ifa))
    }

    fn purge(&mut self, op: &Op, purge: impl Fn(&mut Self, u64, Itir) -> Result<(), Refused>) -> Done {
        self.must_be_privileged()?;
        let (at, size) = (self.value(op.r3, 0)?, self.value(op.r2, 0)?);
        purge(self, at, Itir(size)).map_err(|refused| Cpu::refused(refused, at))
    }

    /// Of a NaT, or of an address that there is not, a NaT (SDM vol. 3, thash).
    fn hashed(&mut self, op: &Op, hash: impl Fn(&Self, u64) -> u64) -> Done {
        self.target(op.r1)?;
        let (at, at_nat) = self.gr(op.r3);
        let nat = at_nat || !self.mmu.implements(at);
        let value = if nat { 0 } else { hash(self, at) };
        self.set_gr(op.r1, value, nat);
        Ok(())
    }

    fn physical_address(&mut self, bus: &mut dyn Bus, op: &Op) -> Done {
        self.target(op.r1)?;
        self.must_be_privileged()?;
        let at = self.value(op.r3, NA)?;
        let (state, mut walked) = (self.mode(Access::Read), self.walker(bus));
        let found = self.mmu.tpa(&mut walked, state, at);
        self.constant(op, found.map_err(|fault| of_mmu(&fault, NA))?)
    }

    fn access_key(&mut self, bus: &mut dyn Bus, op: &Op) -> Done {
        self.target(op.r1)?;
        self.must_be_privileged()?;
        let at = self.value(op.r3, NA | 3)?;
        let (state, mut walked) = (self.mode(Access::Read), self.walker(bus));
        let key = self.mmu.tak(&mut walked, state, at);
        self.constant(op, key)
    }

    fn probe(&mut self, bus: &mut dyn Bus, op: &Op, write: bool, level: u64) -> Done {
        self.target(op.r1)?;
        let isr = NA | 2 | if write { W } else { R };
        let at = self.value(op.r3, isr)?;
        let (state, mut walked) = (self.mode(Access::Read), self.walker(bus));
        let found = self.mmu.probe(&mut walked, state, at, (level & 3) as u8, write);
        let may = found.map_err(|fault| of_mmu(&fault, isr))?;
        self.constant(op, u64::from(may))
    }

    /// `probe.fault`: the access as code of this level would do it, but for the doing.
    fn probe_fault(&mut self, bus: &mut dyn Bus, op: &Op, access: Access, isr: u64) -> Done {
        let isr = isr | NA | 5;
        let at = self.value(op.r3, isr)?;
        let (mut state, mut walked) = (self.mode(access), self.walker(bus));
        state.cpl = state.cpl.max((op.imm & 3) as u8);
        self.mmu.translate(&mut walked, state, access, at).map_err(|fault| of_mmu(&fault, isr))?;
        Ok(())
    }
}
