// SPDX-License-Identifier: MIT
//! Floating-point arithmetic (SDM vol. 1, chapter 5; vol. 3, F1, F4 to F8, F10, F12 to F14). Software's assistance is asked
//! for where the architecture has every processor do so, and nowhere else.

use super::compare::Way;
use super::{Handler, Name, Op};
use crate::bus::Bus;
use crate::cpu::{Cpu, Float, ar};
use crate::interruption::{Done, FLOATING, at, illegal, reserved, software_assistance, trap};
use crate::rounding::{Exact, Rounding, flag};

pub(super) fn of(name: Name) -> Option<Handler> {
    sums(name.0).or_else(|| others(name.0))
}

/// What of f3 times f4 and f2 is negated.
#[derive(Clone, Copy)]
pub(super) struct Signs {
    product: bool,
    addend: bool,
}

pub(super) const PLUS: Signs = Signs { product: false, addend: false };
pub(super) const LESS: Signs = Signs { product: false, addend: true };
pub(super) const NEGATED: Signs = Signs { product: true, addend: false };

fn sums(mnemonic: &str) -> Option<Handler> {
    Some(match mnemonic.strip_suffix("{sf}")? {
        "fma" | "fmpy" | "fadd" | "fnorm" => |c, _, o| c.multiply(o, PLUS, None),
        "fma.s" | "fmpy.s" | "fadd.s" | "fnorm.s" => |c, _, o| c.multiply(o, PLUS, Some((24, 8))),
        "fma.d" | "fmpy.d" | "fadd.d" | "fnorm.d" => |c, _, o| c.multiply(o, PLUS, Some((53, 11))),
        "fms" | "fsub" => |c, _, o| c.multiply(o, LESS, None),
        "fms.s" | "fsub.s" => |c, _, o| c.multiply(o, LESS, Some((24, 8))),
        "fms.d" | "fsub.d" => |c, _, o| c.multiply(o, LESS, Some((53, 11))),
        "fnma" | "fnmpy" => |c, _, o| c.multiply(o, NEGATED, None),
        "fnma.s" | "fnmpy.s" => |c, _, o| c.multiply(o, NEGATED, Some((24, 8))),
        "fnma.d" | "fnmpy.d" => |c, _, o| c.multiply(o, NEGATED, Some((53, 11))),
        _ => return None,
    })
}

fn others(mnemonic: &str) -> Option<Handler> {
    Some(match mnemonic {
        "fcmp.eq{unc}{sf}" => |c, _, o| c.compare_floats(o, true, |order| order == Some(0)),
        "fcmp.lt{unc}{sf}" => |c, _, o| c.compare_floats(o, false, |order| order == Some(-1)),
        "fcmp.le{unc}{sf}" => |c, _, o| c.compare_floats(o, false, |order| order.is_some_and(|order| order <= 0)),
        "fcmp.unord{unc}{sf}" => |c, _, o| c.compare_floats(o, true, |order| order.is_none()),
        "fclass.m{unc}" => |c, _, o| c.classify(o),
        "fmin{sf}" => |c, _, o| c.choose(o, |a, b| ordered(a, b) == Some(-1)),
        "fmax{sf}" => |c, _, o| c.choose(o, |a, b| ordered(b, a) == Some(-1)),
        "famin{sf}" => |c, _, o| c.choose(o, |a, b| ordered(a.absolute(), b.absolute()) == Some(-1)),
        "famax{sf}" => |c, _, o| c.choose(o, |a, b| ordered(b.absolute(), a.absolute()) == Some(-1)),
        "fcvt.fx{sf}" => |c, _, o| c.integer_of(o, true, false),
        "fcvt.fxu{sf}" => |c, _, o| c.integer_of(o, false, false),
        "fcvt.fx.trunc{sf}" => |c, _, o| c.integer_of(o, true, true),
        "fcvt.fxu.trunc{sf}" => |c, _, o| c.integer_of(o, false, true),
        "frcpa{sf}" => |c, _, o| c.reciprocal(o),
        "fsetc{sf}" => Cpu::set_controls,
        "fclrf{sf}" => |c, _, o| {
            c.ar[ar::FPSR] &= !(0x3f << (field(o) + 7));
            Ok(())
        },
        "fchkf{sf}" => |c, _, o| {
            let (flags, first) = (c.flags(field(o)), c.flags(6));
            // What a trap is on for, or what the first field does not say, is to be looked at.
            if flags & !(c.ar[ar::FPSR] & 0x3f) != 0 || flags & !first != 0 {
                c.branch = Some((c.ip.wrapping_add(o.imm as u64), 0));
            }
            Ok(())
        },
        _ => return None,
    })
}

/// Where an instruction's status field begins in FPSR.
pub(super) const fn field(op: &Op) -> u32 {
    6 + 13 * op.bits(35, 34) as u32
}

const QUIET: u64 = 1 << 62;
/// Of a register's exponent.
const BIAS: i64 = 0xffff;

impl Float {
    /// What an invalid operation gives.
    pub(super) const INDEFINITE: Self = Self { negative: true, exponent: 0x1_ffff, significand: 3 << 62 };

    /// A NaN.
    pub fn is_nan(self) -> bool {
        self.exponent == 0x1_ffff && self.significand > 1 << 63
    }

    pub(super) fn is_signaling(self) -> bool {
        self.is_nan() && self.significand & QUIET == 0
    }

    /// An infinity.
    pub fn is_infinite(self) -> bool {
        self.exponent == 0x1_ffff && self.significand == 1 << 63
    }

    /// Encodings that no operation takes (SDM vol. 1, 5.1.2, table 5-2).
    pub(super) fn is_unsupported(self) -> bool {
        self.exponent == 0x1_ffff && self.significand >> 63 == 0
    }

    pub(super) fn is_zero(self) -> bool {
        self.significand == 0 && self.exponent != 0x1_ffff && !self.is_natval()
    }

    pub(super) fn is_unnormal(self) -> bool {
        self.significand != 0 && self.significand >> 63 == 0 && self.exponent != 0x1_ffff
    }

    pub(super) fn quieted(self) -> Self {
        Self { significand: self.significand | QUIET, ..self }
    }

    pub(super) fn absolute(self) -> Self {
        Self { negative: false, ..self }
    }

    fn negated_if(self, condition: bool) -> Self {
        Self { negative: self.negative != condition, ..self }
    }

    /// The same number with its leading bit in its place.
    pub(super) fn normalized(self) -> (i64, u64) {
        let exponent = if self.exponent == 0 { 0xc001 } else { i64::from(self.exponent) };
        let shift = self.significand.leading_zeros();
        (exponent - i64::from(shift), self.significand << shift)
    }
}

/// -1, 0 or 1; none where they have no order.
pub(super) fn ordered(a: Float, b: Float) -> Option<i8> {
    if [a, b].iter().any(|value| value.is_nan() || value.is_unsupported()) {
        return None;
    }
    if a.is_zero() && b.is_zero() {
        return Some(0);
    }
    let key = |value: Float| {
        let size = if value.is_zero() { (i64::MIN, 0) } else { value.normalized() };
        (size, value.negative)
    };
    let ((size_a, negative_a), (size_b, negative_b)) = (key(a), key(b));
    let order = match (negative_a, negative_b) {
        (false, true) => 1,
        (true, false) => -1,
        (false, false) => size_a.cmp(&size_b) as i8,
        (true, true) => size_b.cmp(&size_a) as i8,
    };
    Some(order)
}

/// Flags of a comparison. One that is quiet takes a NaN that is, too, for no error.
pub(super) fn compared(a: Float, b: Float, quiet: bool) -> u64 {
    let unordered = ordered(a, b).is_none();
    let signals = [a, b].iter().any(|value| value.is_signaling() || value.is_unsupported());
    if signals || unordered && !quiet {
        flag::V
    } else if !unordered && [a, b].iter().any(|value| value.is_unnormal()) {
        flag::D
    } else {
        0
    }
}

impl Cpu {
    fn flags(&self, field: u32) -> u64 {
        self.ar[ar::FPSR] >> (field + 7) & 0x3f
    }

    pub(super) fn controls(&self, field: u32) -> u64 {
        self.ar[ar::FPSR] >> field & 0x7f
    }

    /// How a status field says that results of an instruction are rounded (SDM vol. 1, 5.1.3, tables 5-5 and 5-6).
    pub(super) fn rounding(&self, field: u32, fixed: Option<(u32, u32)>) -> Rounding {
        let controls = self.controls(field);
        let widest = controls >> 1 & 1 != 0;
        let precision = fixed.map_or([24, 24, 53, 64][(controls >> 2 & 3) as usize], |(precision, _)| precision);
        let range = if widest { 17 } else { fixed.map_or(15, |(_, range)| range) };
        Rounding { precision, range, mode: controls >> 4 & 3, flush: controls & 1 != 0, traps: self.traps(field) }
    }

    /// How a status field says that numbers become integers; some conversions have a mode of their own.
    pub(super) fn rounding_to_integer(&self, field: u32, truncate: bool) -> Rounding {
        let mode = if truncate { 3 } else { self.controls(field) >> 4 & 3 };
        Rounding { precision: 64, range: 17, mode, flush: false, traps: 0 }
    }

    /// Flags of the faults and traps that are on.
    fn traps(&self, field: u32) -> u64 {
        if self.controls(field) >> 6 & 1 != 0 { 0 } else { !self.ar[ar::FPSR] & 0x3f }
    }

    fn raise(&mut self, field: u32, flags: u64) -> Done<u64> {
        self.raise_each(field, [flags, 0])
    }

    /// Sets flags, of a number alone or the upper half, and of the lower one. Those that are on raise a fault, and nothing
    /// is written, or a trap, whose code is given, for [`trapped`] once the result is written. A code names the first fault
    /// of each half that there is: v, z, d; and all traps, with the inexact one where a result is that and another trap is
    /// on (another implementation; SDM vol. 2, chapter 8, from memory).
    pub(super) fn raise_each(&mut self, field: u32, flags: [u64; 2]) -> Done<u64> {
        let traps = self.traps(field);
        let (mut faults, mut code) = (0, 0);
        for (half, flags) in flags.into_iter().enumerate() {
            let on = flags & traps;
            let first = [flag::V, flag::Z, flag::D].into_iter().find(|fault| on & fault != 0);
            faults |= first.unwrap_or(0) << (4 * half);
            if on & (flag::O | flag::U | flag::I) != 0 {
                let inexact = flags & flag::I;
                let named = on & (flag::O | flag::U) | inexact | flags & flag::AWAY;
                code |= named >> 3 << (11 - 4 * half);
            }
        }
        if faults != 0 {
            return Err(at(FLOATING, faults));
        }
        self.ar[ar::FPSR] |= ((flags[0] | flags[1]) & 0x3f) << (field + 7);
        Ok(code)
    }

    fn reserved_precision(&self, field: u32) -> Done {
        if self.controls(field) >> 2 & 3 == 1 { Err(reserved()) } else { Ok(()) }
    }

    /// f1 of f3 times f4 and f2. Where f2 is f0 nothing is added, and where f4 is f1 nothing is multiplied.
    fn multiply(&mut self, op: &Op, signs: Signs, fixed: Option<(u32, u32)>) -> Done {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1, op.r2, op.r3, op.r4])?;
        let field = field(op);
        self.reserved_precision(field)?;
        let (a, b, add) = (self.fr(op.r3), self.fr(op.r4), self.fr(op.r2));
        let adds = op.r2 != 0;
        if [a, b, add].iter().any(|value| value.is_natval()) {
            self.set_fr(op.r1, Float::NATVAL);
            return Ok(());
        }
        let rounding = self.rounding(field, fixed);
        let (value, flags) = multiplied(rounding, signs, a, b, adds.then_some(add));
        let traps = self.raise(field, flags)?;
        self.set_fr(op.r1, value);
        trapped(traps)
    }

    fn compare_floats(&mut self, op: &Op, quiet: bool, relation: impl Fn(Option<i8>) -> bool) -> Done {
        let on = op.qp == 0 || self.pr(op.qp);
        let way = if op.bit(12) { Way::Unconditional } else { Way::Normal };
        if !on {
            return self.judge(op, way, None);
        }
        if op.p1 == op.p2 {
            return Err(illegal());
        }
        self.enabled(&[op.r2, op.r3])?;
        let (a, b) = (self.fr(op.r2), self.fr(op.r3));
        if a.is_natval() || b.is_natval() {
            return self.judge(op, way, None);
        }
        self.raise(field(op), compared(a, b, quiet))?;
        self.judge(op, way, Some(relation(ordered(a, b))))
    }

    /// `fclass.m` (SDM vol. 3, fclass, table 2-28).
    fn classify(&mut self, op: &Op) -> Done {
        let on = op.qp == 0 || self.pr(op.qp);
        let way = if op.bit(12) { Way::Unconditional } else { Way::Normal };
        if on {
            // What is wrong with the targets comes first, as in a comparison.
            if op.p1 == op.p2 {
                return Err(illegal());
            }
            self.enabled(&[op.r2])?;
        }
        let (value, wanted) = (self.fr(op.r2), op.imm as u64);
        let has = |bit: u32| wanted >> bit & 1 != 0;
        let kind = if value.is_zero() {
            2
        } else if value.is_infinite() {
            5
        } else if value.is_unnormal() {
            3
        } else {
            4
        };
        let number = !value.is_nan() && !value.is_unsupported();
        let result = if value.is_natval() {
            has(8)
        } else if value.is_nan() {
            if value.is_signaling() { has(6) } else { has(7) }
        } else {
            number && has(kind) && has(u32::from(value.negative))
        };
        // A NaTVal that is not asked for clears both.
        self.judge(op, way, (!value.is_natval() || has(8)).then_some(result))
    }

    /// f2 or f3. A NaN is no reason to choose f2.
    fn choose(&mut self, op: &Op, first: impl Fn(Float, Float) -> bool) -> Done {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1, op.r2, op.r3])?;
        let (a, b) = (self.fr(op.r2), self.fr(op.r3));
        if a.is_natval() || b.is_natval() {
            self.set_fr(op.r1, Float::NATVAL);
            return Ok(());
        }
        self.raise(field(op), compared(a, b, false))?;
        self.set_fr(op.r1, if first(a, b) { a } else { b });
        Ok(())
    }

    fn integer_of(&mut self, op: &Op, signed: bool, truncate: bool) -> Done {
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1, op.r2])?;
        let field = field(op);
        let value = self.fr(op.r2);
        if value.is_natval() {
            self.set_fr(op.r1, Float::NATVAL);
            return Ok(());
        }
        let rounding = self.rounding_to_integer(field, truncate);
        let number = !value.is_nan() && !value.is_infinite() && !value.is_unsupported();
        let found = number.then(|| rounding.to_integer(Exact::of(value), signed)).flatten();
        let denormal = if value.is_unnormal() { flag::D } else { 0 };
        let (integer, flags) = match found {
            Some((integer, flags)) => (integer, denormal | flags),
            None => (1 << 63, flag::V),
        };
        let traps = self.raise(field, flags)?;
        self.set_fr(op.r1, Float::of_integer(integer));
        trapped(traps)
    }

    /// `frcpa`: about 1/f3, for programs that divide; or f2/f3, where that needs no division (SDM vol. 3, frcpa).
    fn reciprocal(&mut self, op: &Op) -> Done {
        if op.qp != 0 && !self.pr(op.qp) {
            self.set_pr(op.p2, false);
            return Ok(());
        }
        Self::float_target(op.r1)?;
        self.enabled(&[op.r1, op.r2, op.r3])?;
        let (a, b) = (self.fr(op.r2), self.fr(op.r3));
        if a.is_natval() || b.is_natval() {
            self.set_fr(op.r1, Float::NATVAL);
            self.set_pr(op.p2, false);
            return Ok(());
        }
        if let Some((value, flags)) = easy_quotient(a, b) {
            self.raise(field(op), flags)?;
            self.set_fr(op.r1, value);
            self.set_pr(op.p2, false);
            return Ok(());
        }
        if quotient_needs_software(a, b) {
            return Err(software_assistance());
        }
        let denormal = if a.is_unnormal() || b.is_unnormal() { flag::D } else { 0 };
        self.raise(field(op), denormal)?;
        self.set_fr(op.r1, reciprocal(b));
        self.set_pr(op.p2, true);
        Ok(())
    }

    fn set_controls(&mut self, _: &mut dyn Bus, op: &Op) -> Done {
        let field = field(op);
        let controls = self.controls(6) & op.imm as u64 | u64::from(op.more[0]);
        if controls >> 2 & 3 == 1 || field == 6 && controls >> 6 & 1 != 0 {
            return Err(reserved());
        }
        self.ar[ar::FPSR] = self.ar[ar::FPSR] & !(0x7f << field) | controls << field;
        Ok(())
    }
}

/// Floating-Point Exception trap with this code, after an instruction that has written its result; none where that is 0.
pub(super) fn trapped(code: u64) -> Done {
    if code == 0 { Ok(()) } else { Err(trap(code)) }
}

/// A result and flags.
pub(super) fn multiplied(rounding: Rounding, signs: Signs, a: Float, b: Float, add: Option<Float>) -> (Float, u64) {
    let invalid = (Float::INDEFINITE, flag::V);
    let addend = add.unwrap_or_default();
    if [a, b, addend].iter().any(|value| value.is_unsupported()) {
        return invalid;
    }
    // Which NaN goes on: f4's, f2's, f3's (SDM vol. 3, fma, from memory).
    if let Some(nan) = [b, addend, a].into_iter().find(|value| value.is_nan()) {
        let signals = [a, b, addend].iter().any(|value| value.is_signaling());
        return (nan.quieted(), if signals { flag::V } else { 0 });
    }
    let endless = a.is_infinite() || b.is_infinite();
    let negative = (a.negative != b.negative) != signs.product;
    let addend = addend.negated_if(signs.addend);
    if endless && (a.is_zero() || b.is_zero()) || endless && addend.is_infinite() && addend.negative != negative {
        return invalid;
    }
    if endless {
        return (Float { negative, exponent: 0x1_ffff, significand: 1 << 63 }, 0);
    }
    let denormal = if [a, b, addend].iter().any(|value| value.is_unnormal()) { flag::D } else { 0 };
    if addend.is_infinite() {
        return (addend, denormal);
    }
    let product = Exact { negative, ..Exact::product(a, b) };
    let exact = if add.is_some() { product.plus(Exact::of(addend), rounding.mode == 1) } else { product };
    let (value, flags) = rounding.round(exact);
    (value, flags | denormal)
}

/// Below these, a register's smallest normal exponent and 63 more, the steps of a division or of a root lose bits.
const NEARLY_TOO_SMALL: i64 = 64;

/// Whether a quotient, of numbers that are not 0, is one that programs cannot compute from an approximation: a number of
/// the steps between would have an exponent that registers have not (another implementation).
fn quotient_needs_software(a: Float, b: Float) -> bool {
    let ((a, _), (b, _)) = (a.normalized(), b.normalized());
    let (divisor, quotient) = ((1..2 * BIAS - 2).contains(&b), (3 - BIAS..BIAS).contains(&(a - b)));
    !divisor || !quotient || a <= NEARLY_TOO_SMALL
}

/// The same of the root of a number that is not 0.
pub(super) fn root_needs_software(b: Float) -> bool {
    b.normalized().0 <= NEARLY_TOO_SMALL
}

/// About the reciprocal of a number that needs no software.
pub(super) fn reciprocal(b: Float) -> Float {
    let (exponent, significand) = b.normalized();
    let exponent = 0x1_ffff - 2 - exponent;
    let index = significand >> 55 & 0xff;
    let fraction = ((1 << 21) / (512 + 2 * index + 1)).div_ceil(2) - 1024;
    let significand = 1 << 63 | fraction << 53;
    Float { negative: b.negative, exponent: exponent as u32, significand }
}

/// The quotient, where one of two numbers is 0, infinite, or none.
pub(super) fn easy_quotient(a: Float, b: Float) -> Option<(Float, u64)> {
    let negative = a.negative != b.negative;
    let invalid = Some((Float::INDEFINITE, flag::V));
    if a.is_unsupported() || b.is_unsupported() {
        return invalid;
    }
    if let Some(nan) = [a, b].into_iter().find(|value| value.is_nan()) {
        let signals = a.is_signaling() || b.is_signaling();
        return Some((nan.quieted(), if signals { flag::V } else { 0 }));
    }
    let infinity = Float { negative, exponent: 0x1_ffff, significand: 1 << 63 };
    let zero = Float { negative, ..Float::default() };
    match (a.is_zero(), a.is_infinite(), b.is_zero(), b.is_infinite()) {
        (true, _, true, _) | (_, true, _, true) => invalid,
        (_, true, _, _) => Some((infinity, 0)),
        (_, _, true, _) => Some((infinity, flag::Z)),
        (true, _, _, _) | (_, _, _, true) => Some((zero, 0)),
        _ => None,
    }
}
