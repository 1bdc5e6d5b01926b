// SPDX-License-Identifier: MIT
//! Floating-point registers as far as nothing is rounded: loads, stores, moves, merges, logic, integer products, classes
//! (SDM vol. 3, M6 to M12, M18, M19, F2 to F5, F9, F11).

use itanium_mmu::mmu::Access;

use super::load::{Found, How, Step};
use super::{Handler, Name, Op};
use crate::alat::Target;
use crate::bus::Bus;
use crate::cpu::{Cpu, Float};
use crate::interruption::{Done, R, W, illegal, nat};
use crate::psr;

pub(super) fn of(name: Name) -> Option<Handler> {
    memory(name).or_else(|| transfers(name)).or_else(|| moves(name)).or_else(|| integers(name.0))
}

fn memory((mnemonic, operands): Name) -> Option<Handler> {
    Some(match (mnemonic, operands) {
        ("ldf{fsize}{fld}{ldhint}" | "ldf{fsize}{fld}{hint}", "f1=[r3]") => |c, b, o| c.load_float(b, o, None),
        ("ldf{fsize}{fld}{hint}", "f1=[r3],r2") => |c, b, o| c.load_float(b, o, Some(c.gr(o.r2))),
        ("ldf{fsize}{fld}{hint}", _) => |c, b, o| c.load_float(b, o, Some((o.imm as u64, false))),
        ("ldf.fill{ldhint}" | "ldf.fill{hint}", "f1=[r3]") => |c, b, o| c.fill_float(b, o, None),
        ("ldf.fill{hint}", "f1=[r3],r2") => |c, b, o| c.fill_float(b, o, Some(c.gr(o.r2))),
        ("ldf.fill{hint}", _) => |c, b, o| c.fill_float(b, o, Some((o.imm as u64, false))),
        ("ldfp{fpsize}{fld}{hint}", "f1,f2=[r3]") => |c, b, o| c.load_pair(b, o, None),
        ("ldfps{fld}{hint}", _) => |c, b, o| c.load_pair(b, o, Some((8, false))),
        ("ldfp{fpsize}{fld}{hint}", _) => |c, b, o| c.load_pair(b, o, Some((16, false))),
        ("stf{fsize}{sthint}", _) => |c, b, o| c.store_float(b, o, None),
        ("stf{fsize}{sthintu}", _) => |c, b, o| c.store_float(b, o, Some((o.imm as u64, false))),
        ("stf.spill{sthint}", _) => |c, b, o| c.spill_float(b, o, None),
        ("stf.spill{sthintu}", _) => |c, b, o| c.spill_float(b, o, Some((o.imm as u64, false))),
        _ => return None,
    })
}

fn transfers((mnemonic, _): Name) -> Option<Handler> {
    Some(match mnemonic {
        "setf.sig" => |c, _, o| c.set_float(o, Float::of_integer),
        "setf.exp" => |c, _, o| {
            c.set_float(o, |value| Float {
                negative: value >> 17 & 1 != 0,
                exponent: (value & 0x1_ffff) as u32,
                significand: 1 << 63,
            })
        },
        "setf.s" => |c, _, o| c.set_float(o, |value| Float::of_single(value as u32)),
        "setf.d" => |c, _, o| c.set_float(o, Float::of_double),
        "getf.sig" => |c, _, o| c.get_float(o, |value| value.significand),
        "getf.exp" => |c, _, o| c.get_float(o, |value| u64::from(value.negative) << 17 | u64::from(value.exponent)),
        "getf.s" => |c, _, o| c.get_float(o, |value| u64::from(value.to_single())),
        "getf.d" => |c, _, o| c.get_float(o, Float::to_double),
        _ => return None,
    })
}

fn moves((mnemonic, operands): Name) -> Option<Handler> {
    if (mnemonic, operands) == ("mov", "f1=f3") {
        return Some(|c, _, o| c.of_one(o, o.r3, |b| b));
    }
    Some(match mnemonic {
        "fabs" => |c, _, o| c.of_one(o, o.r3, |b| Float { negative: false, ..b }),
        "fnegabs" => |c, _, o| c.of_one(o, o.r3, |b| Float { negative: true, ..b }),
        "fneg" => |c, _, o| c.of_one(o, o.r3, |b| Float { negative: !b.negative, ..b }),
        "fmerge.s" => |c, _, o| c.of_two(o, |a, b| Float { negative: a.negative, ..b }),
        "fmerge.ns" => |c, _, o| c.of_two(o, |a, b| Float { negative: !a.negative, ..b }),
        "fmerge.se" => |c, _, o| c.of_two(o, |a, b| Float { significand: b.significand, ..a }),
        "fand" => |c, _, o| c.of_bits(o, |a, b| a & b),
        "fandcm" => |c, _, o| c.of_bits(o, |a, b| a & !b),
        "for" => |c, _, o| c.of_bits(o, |a, b| a | b),
        "fxor" => |c, _, o| c.of_bits(o, |a, b| a ^ b),
        "fmix.lr" => |c, _, o| c.of_bits(o, |a, b| a >> 32 << 32 | b & LOW),
        "fmix.r" => |c, _, o| c.of_bits(o, |a, b| a << 32 | b & LOW),
        "fmix.l" => |c, _, o| c.of_bits(o, |a, b| a >> 32 << 32 | b >> 32),
        "fsxt.r" => |c, _, o| c.of_bits(o, |a, b| u64::from(a >> 31 & 1 != 0) * (LOW << 32) | b & LOW),
        "fsxt.l" => |c, _, o| c.of_bits(o, |a, b| u64::from(a >> 63 != 0) * (LOW << 32) | b >> 32),
        "fswap" => |c, _, o| c.of_bits(o, |a, b| b << 32 | a >> 32),
        "fswap.nl" => |c, _, o| c.of_bits(o, |a, b| (b << 32 | a >> 32) ^ 1 << 63),
        "fswap.nr" => |c, _, o| c.of_bits(o, |a, b| (b << 32 | a >> 32) ^ 1 << 31),
        "fpabs" => |c, _, o| c.of_bits(o, |_, b| b & !SIGNS),
        "fpnegabs" => |c, _, o| c.of_bits(o, |_, b| b | SIGNS),
        "fpneg" => |c, _, o| c.of_bits(o, |_, b| b ^ SIGNS),
        "fpmerge.s" => |c, _, o| c.of_bits(o, |a, b| a & SIGNS | b & !SIGNS),
        "fpmerge.ns" => |c, _, o| c.of_bits(o, |a, b| !a & SIGNS | b & !SIGNS),
        "fpmerge.se" => |c, _, o| c.of_bits(o, |a, b| a & EXPONENTS | b & !EXPONENTS),
        _ => return None,
    })
}

fn integers(mnemonic: &str) -> Option<Handler> {
    Some(match mnemonic {
        "xma.l" | "xmpy.l" => |c, _, o| c.product(o, |a, b, add| a.wrapping_mul(b).wrapping_add(add)),
        "xma.hu" | "xmpy.hu" => {
            |c, _, o| c.product(o, |a, b, add| ((u128::from(a) * u128::from(b) + u128::from(add)) >> 64) as u64)
        }
        "xma.h" | "xmpy.h" => |c, _, o| {
            // What is added has no sign (SDM vol. 3, xma).
            c.product(o, |a, b, add| ((i128::from(a as i64) * i128::from(b as i64) + i128::from(add)) >> 64) as u64)
        },
        "fcvt.xf" => |c, _, o| c.of_one(o, o.r2, |a| Float::of_signed(a.significand as i64)),
        "fselect" => |c, _, o| c.product(o, |a, b, mask| a & mask | b & !mask),
        _ => return None,
    })
}

const LOW: u64 = 0xffff_ffff;
const SIGNS: u64 = 1 << 63 | 1 << 31;
const EXPONENTS: u64 = 0xff80_0000_ff80_0000;
/// The exponent of an integer: its lowest bit is worth 1.
const INTEGER: u32 = 0x1_003e;

impl Float {
    /// An integer as it is in a register: not normalized.
    pub const fn of_integer(value: u64) -> Self {
        Self { negative: false, exponent: INTEGER, significand: value }
    }

    /// A number (SDM vol. 3, fcvt.xf).
    pub fn of_signed(value: i64) -> Self {
        let (negative, size) = (value < 0, value.unsigned_abs());
        let shift = size.leading_zeros();
        match size {
            0 => Self::default(),
            size => Self { negative, exponent: INTEGER - shift, significand: size << shift },
        }
    }

    /// Of a memory format: so many bits of exponent, and of fraction (SDM vol. 1, 5.1.3 and table 5-2).
    const fn of_format(word: u64, exponent_bits: u32, fraction_bits: u32) -> Self {
        let most = (1 << exponent_bits) - 1;
        let negative = word >> (exponent_bits + fraction_bits) & 1 != 0;
        let exponent = (word >> fraction_bits) as u32 & most;
        let fraction = (word & ((1 << fraction_bits) - 1)) << (63 - fraction_bits);
        let bias = 0xffff - (most >> 1);
        if exponent == 0 && fraction == 0 {
            Self { negative, exponent: 0, significand: 0 }
        } else if exponent == 0 {
            Self { negative, exponent: bias + 1, significand: fraction }
        } else if exponent == most {
            Self { negative, exponent: 0x1_ffff, significand: 1 << 63 | fraction }
        } else {
            Self { negative, exponent: exponent + bias, significand: 1 << 63 | fraction }
        }
    }

    /// To a memory format; what does not fit is cut off (SDM vol. 1, 5.3.3, from memory).
    const fn to_format(self, exponent_bits: u32, fraction_bits: u32) -> u64 {
        let top = (self.exponent >> 16 & 1) as u64;
        let low = self.exponent as u64 & ((1 << (exponent_bits - 1)) - 1);
        let exponent = if self.significand >> 63 != 0 { top << (exponent_bits - 1) | low } else { 0 };
        let fraction = self.significand << 1 >> (64 - fraction_bits);
        (self.negative as u64) << (exponent_bits + fraction_bits) | exponent << fraction_bits | fraction
    }

    /// Of single precision.
    pub const fn of_single(word: u32) -> Self {
        Self::of_format(word as u64, 8, 23)
    }

    /// Of double precision.
    pub const fn of_double(word: u64) -> Self {
        Self::of_format(word, 11, 52)
    }

    /// As single precision has it.
    pub const fn to_single(self) -> u32 {
        self.to_format(8, 23) as u32
    }

    /// As double precision has it.
    pub const fn to_double(self) -> u64 {
        self.to_format(11, 52)
    }

    /// Of double-extended precision: significand, and sign with exponent.
    pub const fn of_extended(significand: u64, top: u16) -> Self {
        let (negative, exponent) = (top >> 15 != 0, top as u32 & 0x7fff);
        let exponent = match exponent {
            0 if significand == 0 => 0,
            0 => 0xc001,
            0x7fff => 0x1_ffff,
            exponent => exponent + 0xc000,
        };
        Self { negative, exponent, significand }
    }

    /// As double-extended precision has it.
    pub const fn to_extended(self) -> (u64, u16) {
        let exponent = (self.exponent >> 16 << 14 | self.exponent & 0x3fff) as u16;
        let exponent = if self.significand >> 63 != 0 { exponent } else { 0 };
        (self.significand, (self.negative as u16) << 15 | exponent)
    }
}

/// Of the formats that bits 31:30 name: bytes, and what an address must be a multiple of.
const SIZES: [(u32, u32); 4] = [(10, 16), (8, 8), (4, 4), (8, 8)];

impl Cpu {
    fn read_float(&mut self, bus: &mut dyn Bus, place: crate::memory::Place, format: u64) -> Done<Float> {
        let (big, next) = (self.has(psr::BE), |by| (place.0 + by, place.1));
        Ok(match format {
            0 if big => {
                let top = self.load_place(bus, place, 2, true)?;
                let high = self.load_place(bus, next(2), 2, true)?;
                let middle = self.load_place(bus, next(4), 4, true)?;
                let low = self.load_place(bus, next(8), 2, true)?;
                Float::of_extended(high << 48 | middle << 16 | low, top as u16)
            }
            0 => {
                let significand = self.load_place(bus, place, 8, false)?;
                let top = self.load_place(bus, next(8), 2, false)?;
                Float::of_extended(significand, top as u16)
            }
            1 => Float::of_integer(self.load_place(bus, place, 8, big)?),
            2 => Float::of_single(self.load_place(bus, place, 4, big)? as u32),
            _ => Float::of_double(self.load_place(bus, place, 8, big)?),
        })
    }

    fn load_float(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1])?;
        self.can_step(op, step, None)?;
        let format = op.bits(31, 30);
        let (size, window) = SIZES[format as usize];
        let to = Target::Float(self.float_place(op.r1));
        let found = match self.find(bus, op, &[to], size, window)? {
            Found::Place(place) => Some(self.read_float(bus, place, format)?),
            Found::Deferred => Some(Float::NATVAL),
            Found::Nothing => Some(Float::default()),
            Found::Kept => None,
        };
        if let Some(value) = found {
            self.set_fr(op.r1, value);
        }
        self.step(op, step);
        Ok(())
    }

    /// Two registers, one of an even and one of an odd number, from memory side by side.
    fn load_pair(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        let (first, second) = (self.float_place(op.r1), self.float_place(op.r2));
        Self::float_target(op.r1)?;
        Self::float_target(op.r2)?;
        if first % 2 == second % 2 {
            return Err(illegal());
        }
        self.enabled(&[op.r1, op.r2])?;
        self.can_step(op, step, None)?;
        let format = op.bits(31, 30);
        let (size, _) = SIZES[format as usize];
        let to = [Target::Float(first), Target::Float(second)];
        let how = How::of(op);
        let found = match self.find(bus, op, &to, 2 * size, 2 * size)? {
            Found::Place(place) => {
                let one = self.read_float(bus, place, format)?;
                let other = self.read_float(bus, (place.0 + u64::from(size), place.1), format)?;
                Some((one, other))
            }
            Found::Deferred => Some((Float::NATVAL, Float::NATVAL)),
            Found::Nothing => Some((Float::default(), Float::default())),
            Found::Kept => None,
        };
        debug_assert!(found.is_some() || how.check);
        if let Some((one, other)) = found {
            self.set_fr(op.r1, one);
            self.set_fr(op.r2, other);
        }
        self.step(op, step);
        Ok(())
    }

    fn store_float(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        self.enabled(&[op.r2])?;
        self.can_step(op, step, None)?;
        let value = self.fr(op.r2);
        if value.is_natval() || self.gr(op.r3).1 {
            return Err(nat(W));
        }
        let format = op.bits(31, 30);
        let (_, window) = SIZES[format as usize];
        let place = self.aligned(bus, op, Access::Write, window, W)?;
        let (big, next) = (self.has(psr::BE), |by| (place.0 + by, place.1));
        match format {
            0 => {
                let (significand, top) = value.to_extended();
                let parts = if big {
                    [(0, 2, top.into()), (2, 2, significand >> 48), (4, 4, significand >> 16), (8, 2, significand)]
                } else {
                    [(0, 2, significand), (2, 2, significand >> 16), (4, 4, significand >> 32), (8, 2, top.into())]
                };
                for (by, size, part) in parts {
                    self.store_place(bus, next(by), size, part, big)?;
                }
            }
            1 => self.store_place(bus, place, 8, value.significand, big)?,
            2 => self.store_place(bus, place, 4, value.to_single().into(), big)?,
            _ => self.store_place(bus, place, 8, value.to_double(), big)?,
        }
        self.step(op, step);
        Ok(())
    }

    fn fill_float(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1])?;
        self.can_step(op, step, None)?;
        let place = self.aligned(bus, op, Access::Read, 16, R)?;
        let big = self.has(psr::BE);
        let first = self.load_place(bus, place, 8, big)?;
        let second = self.load_place(bus, (place.0 + 8, place.1), 8, big)?;
        let (significand, top) = if big { (second, first) } else { (first, second) };
        self.alat.remove(Target::Float(self.float_place(op.r1)));
        let (negative, exponent) = (top >> 17 & 1 != 0, (top & 0x1_ffff) as u32);
        self.set_fr(op.r1, Float { negative, exponent, significand });
        self.step(op, step);
        Ok(())
    }

    fn spill_float(&mut self, bus: &mut dyn Bus, op: &Op, step: Step) -> Done {
        self.enabled(&[op.r2])?;
        self.can_step(op, step, None)?;
        let place = self.aligned(bus, op, Access::Write, 16, W)?;
        let (value, big) = (self.fr(op.r2), self.has(psr::BE));
        let top = u64::from(value.negative) << 17 | u64::from(value.exponent);
        let (first, second) = if big { (top, value.significand) } else { (value.significand, top) };
        self.store_place(bus, place, 8, first, big)?;
        self.store_place(bus, (place.0 + 8, place.1), 8, second, big)?;
        self.step(op, step);
        Ok(())
    }

    fn set_float(&mut self, op: &Op, f: impl Fn(u64) -> Float) -> Done {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1])?;
        let (value, nat) = self.gr(op.r2);
        self.alat.remove(Target::Float(self.float_place(op.r1)));
        self.set_fr(op.r1, if nat { Float::NATVAL } else { f(value) });
        Ok(())
    }

    fn get_float(&mut self, op: &Op, f: impl Fn(Float) -> u64) -> Done {
        self.target(op.r1)?;
        self.enabled(&[op.r2])?;
        let value = self.fr(op.r2);
        self.set_gr(op.r1, f(value), value.is_natval());
        Ok(())
    }

    /// f1 of some registers; a NaTVal among them is the result.
    pub(super) fn of_floats<const N: usize>(
        &mut self,
        op: &Op,
        from: [u8; N],
        f: impl Fn([Float; N]) -> Float,
    ) -> Done {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1])?;
        self.enabled(&from)?;
        let values = from.map(|register| self.fr(register));
        let natval = values.iter().any(|value| value.is_natval());
        self.set_fr(op.r1, if natval { Float::NATVAL } else { f(values) });
        Ok(())
    }

    fn of_one(&mut self, op: &Op, from: u8, f: impl Fn(Float) -> Float) -> Done {
        self.of_floats(op, [from], |[value]| f(value))
    }

    fn of_two(&mut self, op: &Op, f: impl Fn(Float, Float) -> Float) -> Done {
        self.of_floats(op, [op.r2, op.r3], |[a, b]| f(a, b))
    }

    fn of_bits(&mut self, op: &Op, f: impl Fn(u64, u64) -> u64) -> Done {
        self.of_two(op, |a, b| Float::of_integer(f(a.significand, b.significand)))
    }

    /// f1 of the significands of f3, f4 and f2.
    fn product(&mut self, op: &Op, f: impl Fn(u64, u64, u64) -> u64) -> Done {
        self.of_floats(op, [op.r3, op.r4, op.r2], |[a, b, add]| {
            Float::of_integer(f(a.significand, b.significand, add.significand))
        })
    }
}
