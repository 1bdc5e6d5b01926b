// SPDX-License-Identifier: MIT
//! Integers: sums, logic, extensions, moves of constants (SDM vol. 3, A1 to A5, I5 to I9, I29, X2).

use super::{Handler, Name, Op};
use crate::bus::Bus;
use crate::cpu::Cpu;
use crate::interruption::{Done, MARKS, Trouble};

pub(super) fn of(name: Name) -> Option<Handler> {
    Some(match name {
        ("add", "r1=r2,r3") => |c, _, o| c.two(o, u64::wrapping_add),
        ("add", "r1=r2,r3,1") => |c, _, o| c.two(o, |a, b| a.wrapping_add(b).wrapping_add(1)),
        ("sub", "r1=r2,r3") => |c, _, o| c.two(o, u64::wrapping_sub),
        ("sub", "r1=r2,r3,1") => |c, _, o| c.two(o, |a, b| a.wrapping_sub(b).wrapping_sub(1)),
        ("addp4", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| pointer(a.wrapping_add(b), b)),
        ("and", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| a & b),
        ("andcm", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| a & !b),
        ("or", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| a | b),
        ("xor", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| a ^ b),
        ("shladd", _) => |c, _, o| c.two(o, |a, b| (a << o.imm).wrapping_add(b)),
        ("shladdp4", _) => |c, _, o| c.two(o, |a, b| pointer((a << o.imm).wrapping_add(b), b)),
        ("sub", "r1=imm8,r3") => |c, _, o| c.one(o, o.r3, |b| (o.imm as u64).wrapping_sub(b)),
        ("and", "r1=imm8,r3") => |c, _, o| c.one(o, o.r3, |b| o.imm as u64 & b),
        ("andcm", "r1=imm8,r3") => |c, _, o| c.one(o, o.r3, |b| o.imm as u64 & !b),
        ("or", "r1=imm8,r3") => |c, _, o| c.one(o, o.r3, |b| o.imm as u64 | b),
        ("xor", "r1=imm8,r3") => |c, _, o| c.one(o, o.r3, |b| o.imm as u64 ^ b),
        ("mov", "r1=r3") => |c, _, o| c.one(o, o.r3, |b| b),
        ("adds", _) => |c, _, o| c.one(o, o.r3, |b| b.wrapping_add(o.imm as u64)),
        ("addp4", "r1=imm14,r3") => |c, _, o| c.one(o, o.r3, |b| pointer(b.wrapping_add(o.imm as u64), b)),
        ("addl", _) => |c, _, o| c.one(o, o.r3 & 3, |b| b.wrapping_add(o.imm as u64)),
        ("mov", "r1=imm22") | ("movl", _) => |c, _, o| c.constant(o, o.imm as u64),
        ("zxt1", _) => |c, _, o| c.one(o, o.r3, |b| b & 0xff),
        ("zxt2", _) => |c, _, o| c.one(o, o.r3, |b| b & 0xffff),
        ("zxt4", _) => |c, _, o| c.one(o, o.r3, |b| b & 0xffff_ffff),
        ("sxt1", _) => |c, _, o| c.one(o, o.r3, |b| b as i8 as u64),
        ("sxt2", _) => |c, _, o| c.one(o, o.r3, |b| b as i16 as u64),
        ("sxt4", _) => |c, _, o| c.one(o, o.r3, |b| b as i32 as u64),
        ("popcnt", _) => |c, _, o| c.one(o, o.r3, |b| u64::from(b.count_ones())),
        ("clz", _) => |c, _, o| c.one(o, o.r3, |b| u64::from(b.leading_zeros())),
        ("mpy4", _) => |c, _, o| c.two(o, |a, b| (a & 0xffff_ffff) * (b & 0xffff_ffff)),
        ("mpyshl4", _) => |c, _, o| c.two(o, |a, b| ((a >> 32) * (b & 0xffff_ffff)) << 32),
        ("hint.m", _) => Cpu::hint,
        (name, _) if name.starts_with("nop.") || name.starts_with("hint.") => Cpu::nothing,
        _ => return None,
    })
}

/// An address of 32 bits: bits 31:30 of the second source choose the region (SDM vol. 3, addp4).
const fn pointer(sum: u64, base: u64) -> u64 {
    sum & 0xffff_ffff | (base >> 30 & 3) << 61
}

impl Cpu {
    /// Does nothing, but that a program may mark its place by it.
    fn hint(&mut self, _: &mut dyn Bus, op: &Op) -> Done {
        let number = op.imm as u64;
        if MARKS.contains(&number) { Err(Trouble::Mark(number)) } else { Ok(()) }
    }

    /// r1 of r2 and r3.
    #[inline]
    pub(super) fn two(&mut self, op: &Op, f: impl Fn(u64, u64) -> u64) -> Done {
        self.target(op.r1)?;
        let ((a, a_nat), (b, b_nat)) = (self.gr(op.r2), self.gr(op.r3));
        self.set_gr(op.r1, f(a, b), a_nat | b_nat);
        Ok(())
    }

    /// r1 of one register.
    #[inline]
    pub(super) fn one(&mut self, op: &Op, from: u8, f: impl Fn(u64) -> u64) -> Done {
        self.target(op.r1)?;
        let (value, nat) = self.gr(from);
        self.set_gr(op.r1, f(value), nat);
        Ok(())
    }

    pub(super) fn constant(&mut self, op: &Op, value: u64) -> Done {
        self.target(op.r1)?;
        self.set_gr(op.r1, value, false);
        Ok(())
    }
}
