// SPDX-License-Identifier: MIT
//! Parallel forms, on two numbers of single precision in a significand (SDM vol. 3, fpma and so on), and the reciprocal of
//! a square root. Each half is computed as the form without `p` would compute it in single precision.

use super::float::{
    LESS, NEGATED, PLUS, Signs, compared, easy_quotient, field, multiplied, ordered, reciprocal, root_needs_software,
    trapped,
};
use super::{Handler, Name, Op};
use crate::cpu::{Cpu, Float};
use crate::interruption::{Done, software_assistance};
use crate::rounding::{Exact, Rounding, flag};

pub(super) fn of((mnemonic, _): Name) -> Option<Handler> {
    Some(match mnemonic {
        "fpma{sf}" | "fpmpy{sf}" => |c, _, o| c.multiply_pairs(o, PLUS),
        "fpms{sf}" => |c, _, o| c.multiply_pairs(o, LESS),
        "fpnma{sf}" | "fpnmpy{sf}" => |c, _, o| c.multiply_pairs(o, NEGATED),
        "fpmin{sf}" => |c, _, o| c.choose_of_pairs(o, |a, b| ordered(a, b) == Some(-1)),
        "fpmax{sf}" => |c, _, o| c.choose_of_pairs(o, |a, b| ordered(b, a) == Some(-1)),
        "fpamin{sf}" => |c, _, o| c.choose_of_pairs(o, |a, b| ordered(a.absolute(), b.absolute()) == Some(-1)),
        "fpamax{sf}" => |c, _, o| c.choose_of_pairs(o, |a, b| ordered(b.absolute(), a.absolute()) == Some(-1)),
        "fpcmp.eq{sf}" => |c, _, o| c.compare_pairs(o, true, |order| order == Some(0)),
        "fpcmp.lt{sf}" => |c, _, o| c.compare_pairs(o, false, |order| order == Some(-1)),
        "fpcmp.le{sf}" => |c, _, o| c.compare_pairs(o, false, |order| order.is_some_and(|order| order <= 0)),
        "fpcmp.unord{sf}" => |c, _, o| c.compare_pairs(o, true, |order| order.is_none()),
        "fpcmp.neq{sf}" => |c, _, o| c.compare_pairs(o, true, |order| order != Some(0)),
        "fpcmp.nlt{sf}" => |c, _, o| c.compare_pairs(o, false, |order| order != Some(-1)),
        "fpcmp.nle{sf}" => |c, _, o| c.compare_pairs(o, false, |order| order.is_none_or(|order| order > 0)),
        "fpcmp.ord{sf}" => |c, _, o| c.compare_pairs(o, true, |order| order.is_some()),
        "fpcvt.fx{sf}" => |c, _, o| c.integers_of(o, true, false),
        "fpcvt.fxu{sf}" => |c, _, o| c.integers_of(o, false, false),
        "fpcvt.fx.trunc{sf}" => |c, _, o| c.integers_of(o, true, true),
        "fpcvt.fxu.trunc{sf}" => |c, _, o| c.integers_of(o, false, true),
        "fpack" => |c, _, o| c.of_floats(o, [o.r2, o.r3], |values| joined(values.map(Float::to_single))),
        "fprcpa{sf}" => |c, _, o| c.reciprocals(o),
        "frsqrta{sf}" => |c, _, o| c.root(o),
        "fprsqrta{sf}" => |c, _, o| c.roots(o),
        _ => return None,
    })
}

/// Bits of a significand, and of an exponent.
const SINGLE: (u32, u32) = (24, 8);

/// Single precision: infinity's bits, the exponent of the largest numbers, and the smallest normal exponent and 23 more. Of
/// numbers no larger than that, the steps of a division or of a root lose bits.
const INFINITE: u32 = 0x7f80_0000;
const LARGEST: i64 = 127;
const NEARLY_TOO_SMALL: i64 = 1 - LARGEST + 23;

/// The exponent of a number that is not 0, as if it were normal.
fn power(value: Float) -> i64 {
    value.normalized().0 - 0xffff
}

/// The upper half, and the lower one.
fn halves(value: Float) -> [Float; 2] {
    [value.significand >> 32, value.significand].map(|half| Float::of_single(half as u32))
}

fn joined([upper, lower]: [u32; 2]) -> Float {
    Float::of_integer(u64::from(upper) << 32 | u64::from(lower))
}

/// What a half gives: its bits, its flags, and whether a program is to go on from it.
type Half = (u32, u64, bool);

/// About the reciprocal of a square root, or the root where that needs no computing, with its flags (SDM vol. 3, frsqrta).
fn root(b: Float) -> (Float, u64, bool) {
    if b.is_unsupported() {
        return (Float::INDEFINITE, flag::V, false);
    }
    if b.is_nan() {
        return (b.quieted(), if b.is_signaling() { flag::V } else { 0 }, false);
    }
    if b.is_zero() || b.is_infinite() && !b.negative {
        return (b, 0, false);
    }
    if b.negative {
        return (Float::INDEFINITE, flag::V, false);
    }
    let (exponent, significand) = b.normalized();
    // Of an odd power of two the number is taken twice as large; the bias is odd.
    let (odd, index) = (exponent & 1 == 0, significand >> 56 & 0x7f);
    let middle = (257 + 2 * index) << u32::from(odd);
    // The nearest value of 11 bits to the reciprocal root of the interval's middle (see frcpa).
    let value = (2048.0 * 16.0 / f64::from(middle as u32).sqrt()).round() as u64;
    let exponent = 0xffff - 1 - ((exponent - 0xffff) >> 1);
    let found = Float { negative: false, exponent: exponent as u32, significand: value << 53 };
    (found, if b.is_unnormal() { flag::D } else { 0 }, true)
}

impl Cpu {
    /// Each half of f1, of those of some registers. A NaTVal is the result of any operation with it; none then.
    fn of_halves<const N: usize>(
        &mut self,
        op: &Op,
        from: [u8; N],
        f: impl Fn([Float; N]) -> Half,
    ) -> Done<Option<bool>> {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1])?;
        self.enabled(&from)?;
        let values = from.map(|register| self.fr(register));
        if values.iter().any(|value| value.is_natval()) {
            self.set_fr(op.r1, Float::NATVAL);
            return Ok(None);
        }
        let [upper, lower] = [0, 1].map(|half| f(values.map(|value| halves(value)[half])));
        let traps = self.raise_each(field(op), [upper.1, lower.1])?;
        self.set_fr(op.r1, joined([upper.0, lower.0]));
        trapped(traps)?;
        Ok(Some(upper.2 && lower.2))
    }

    fn multiply_pairs(&mut self, op: &Op, signs: Signs) -> Done {
        let rounding = Rounding { range: SINGLE.1, ..self.rounding(field(op), Some(SINGLE)) };
        let adds = op.r2 != 0;
        self.of_halves(op, [op.r3, op.r4, op.r2], |[a, b, add]| {
            let (value, flags) = multiplied(rounding, signs, a, b, adds.then_some(add));
            (value.to_single(), flags, true)
        })?;
        Ok(())
    }

    fn choose_of_pairs(&mut self, op: &Op, first: impl Fn(Float, Float) -> bool) -> Done {
        self.of_halves(op, [op.r2, op.r3], |[a, b]| {
            (if first(a, b) { a } else { b }.to_single(), compared(a, b, false), true)
        })?;
        Ok(())
    }

    /// All ones where it holds.
    fn compare_pairs(&mut self, op: &Op, quiet: bool, relation: impl Fn(Option<i8>) -> bool) -> Done {
        self.of_halves(op, [op.r2, op.r3], |[a, b]| {
            (if relation(ordered(a, b)) { u32::MAX } else { 0 }, compared(a, b, quiet), true)
        })?;
        Ok(())
    }

    fn integers_of(&mut self, op: &Op, signed: bool, truncate: bool) -> Done {
        let rounding = self.rounding_to_integer(field(op), truncate);
        self.of_halves(op, [op.r2], |[value]| {
            let number = !value.is_nan() && !value.is_infinite();
            let found = number.then(|| rounding.to_integer(Exact::of(value), signed)).flatten();
            let fits = |integer: u64| {
                if signed { i32::try_from(integer as i64).is_ok() } else { u32::try_from(integer).is_ok() }
            };
            let denormal = if value.is_unnormal() { flag::D } else { 0 };
            match found.filter(|&(integer, _)| fits(integer)) {
                Some((integer, flags)) => (integer as u32, denormal | flags, true),
                None => (1 << 31, flag::V, true),
            }
        })?;
        Ok(())
    }

    /// The predicate says whether a program is to go on; it is cleared where this one is not on.
    fn approximate(&mut self, op: &Op, f: impl FnOnce(&mut Self) -> Done<Option<bool>>) -> Done {
        let on = op.qp == 0 || self.pr(op.qp);
        let goes_on = on && f(self)? == Some(true);
        self.set_pr(op.p2, goes_on);
        Ok(())
    }

    /// `fprcpa`. The predicate is cleared, too, where a step of a division in single precision would leave its range.
    fn reciprocals(&mut self, op: &Op) -> Done {
        self.approximate(op, |cpu| {
            cpu.of_halves(op, [op.r2, op.r3], |[a, b]| {
                if let Some((value, flags)) = easy_quotient(a, b) {
                    return (value.to_single(), flags, false);
                }
                let denormal = if a.is_unnormal() || b.is_unnormal() { flag::D } else { 0 };
                let sign = u32::from(b.negative) << 31;
                let [dividend, divisor] = [a, b].map(power);
                if b.is_unnormal() {
                    return (sign | INFINITE, denormal, false);
                }
                if divisor >= LARGEST - 2 {
                    return (sign, denormal, false);
                }
                let quotient = (1 - LARGEST + 2..LARGEST).contains(&(dividend - divisor));
                (reciprocal(b).to_single(), denormal, quotient && dividend > NEARLY_TOO_SMALL)
            })
        })
    }

    fn root(&mut self, op: &Op) -> Done {
        self.approximate(op, |cpu| {
            Self::float_target(op.r1)?;
            cpu.enabled(&[op.r1, op.r3])?;
            let value = cpu.fr(op.r3);
            if value.is_natval() {
                cpu.set_fr(op.r1, Float::NATVAL);
                return Ok(None);
            }
            let (found, flags, goes_on) = root(value);
            if goes_on && root_needs_software(value) {
                return Err(software_assistance());
            }
            cpu.raise_each(field(op), [flags, 0])?;
            cpu.set_fr(op.r1, found);
            Ok(Some(goes_on))
        })
    }

    /// `fprsqrta`. Of 0 and infinity it gives the reciprocal of the root, where `frsqrta` gives the root.
    fn roots(&mut self, op: &Op) -> Done {
        self.approximate(op, |cpu| {
            cpu.of_halves(op, [op.r3], |[value]| {
                if value.is_zero() {
                    return (u32::from(value.negative) << 31 | INFINITE, 0, false);
                }
                if value.is_infinite() && !value.negative {
                    return (0, 0, false);
                }
                let (found, flags, goes_on) = root(value);
                (found.to_single(), flags, goes_on && power(value) > NEARLY_TOO_SMALL)
            })
        })
    }
}
