// SPDX-License-Identifier: MIT
//! Breaks, checks of speculation, fences (SDM vol. 3, I19, I20, M20 to M28, B9, F15, F16, X1).

use itanium_mmu::mmu::Access;

use super::{Handler, Name, Op};
use crate::alat::Target;
use crate::cpu::{Cpu, Float};
use crate::interruption::{BREAK, Done, NA, R, with_immediate};

pub(super) fn of((mnemonic, operands): Name) -> Option<Handler> {
    Some(match (mnemonic, operands) {
        ("break.m" | "break.i" | "break.f" | "break.x", _) => |_, _, o| Err(with_immediate(BREAK, o.imm as u64)),
        // The handler always sees 0 (SDM vol. 3, break).
        ("break.b", _) => |_, _, _| Err(with_immediate(BREAK, 0)),
        ("chk.s.m" | "chk.s.i", _) => |c, _, o| {
            let (_, nat) = c.gr(o.r2);
            c.check(o, !nat)
        },
        ("chk.s", _) => |c, _, o| {
            c.enabled(&[o.r2])?;
            c.check(o, !c.fr(o.r2).is_natval())
        },
        ("chk.a.nc", "r1,target20b") => |c, _, o| c.check_advanced(o, c.advanced(o.r1), false),
        ("chk.a.clr", "r1,target20b") => |c, _, o| c.check_advanced(o, c.advanced(o.r1), true),
        ("chk.a.nc", _) => |c, _, o| c.check_advanced(o, Target::Float(c.float_place(o.r1)), false),
        ("chk.a.clr", _) => |c, _, o| c.check_advanced(o, Target::Float(c.float_place(o.r1)), true),
        ("invala", _) => |c, _, _| {
            c.alat.clear();
            Ok(())
        },
        ("invala.e", "r1") => |c, _, o| {
            c.alat.remove(c.advanced(o.r1));
            Ok(())
        },
        ("invala.e", _) => |c, _, o| {
            c.alat.remove(Target::Float(c.float_place(o.r1)));
            Ok(())
        },
        // One processor, whose accesses are done in order, and whose state is serialized always.
        ("fwb" | "mf" | "mf.a" | "srlz.d" | "srlz.i" | "sync.i", _) => Cpu::nothing,
        ("fc" | "fc.i", _) => |c, b, o| {
            let isr = NA | R | 1;
            let address = c.value(o.r3, isr)?;
            c.translate(b, Access::Flush, address, isr)?;
            Ok(())
        },
        _ => return None,
    })
}

impl Float {
    /// What stands for a value that a speculative load deferred (SDM vol. 1, 5.1.2, table 5-2).
    pub const NATVAL: Self = Self { negative: false, exponent: 0x1_fffe, significand: 0 };

    /// Whether it is that.
    pub fn is_natval(self) -> bool {
        self == Self::NATVAL
    }
}

impl Cpu {
    /// Goes to where it is mended, unless all is well.
    fn check(&mut self, op: &Op, well: bool) -> Done {
        if !well {
            self.branch = Some((self.ip.wrapping_add(op.imm as u64), 0));
        }
        Ok(())
    }

    fn check_advanced(&mut self, op: &Op, target: Target, clear: bool) -> Done {
        let well = self.alat.has(target);
        if clear {
            self.alat.remove(target);
        }
        self.check(op, well)
    }
}
