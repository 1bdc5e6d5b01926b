// SPDX-License-Identifier: MIT
//! Exact numbers, and how they become registers' (SDM vol. 1, chapter 5).

use crate::cpu::Float;

/// What a number may raise, as the status fields have it (SDM vol. 1, 5.1.4, table 5-4): invalid, denormal operand,
/// zero divide, overflow, underflow, inexact.
pub(crate) mod flag {
    pub const V: u64 = 1;
    pub const D: u64 = 2;
    pub const Z: u64 = 4;
    pub const O: u64 = 8;
    pub const U: u64 = 16;
    pub const I: u64 = 32;
    /// Not in the status fields: what is delivered is larger than the exact number, but for its sign.
    pub const AWAY: u64 = 64;
}

/// Sign, and magnitude times a power of two. The magnitude's lowest bit is set also where bits below it were lost, so
/// far below the others that nothing else is decided by them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    pub negative: bool,
    pub magnitude: Wide,
    pub exponent: i64,
}

/// 256 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    const fn of(low: u128) -> Self {
        Self { high: 0, low }
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.high == 0 && self.low == 0
    }

    const fn bits(self) -> u32 {
        256 - if self.high == 0 { 128 + self.low.leading_zeros() } else { self.high.leading_zeros() }
    }

    const fn left(self, by: u32) -> Self {
        match by {
            0 => self,
            1..128 => Self { high: self.high << by | self.low >> (128 - by), low: self.low << by },
            _ => Self { high: self.low << (by - 128), low: 0 },
        }
    }

    /// Shifts right; bits that are lost leave a mark in the lowest.
    fn right(self, by: u64) -> Self {
        let (kept, lost) = match by {
            0 => return self,
            1..128 => {
                let by = by as u32;
                let kept = Self { high: self.high >> by, low: self.low >> by | self.high << (128 - by) };
                (kept, self.low << (128 - by) != 0)
            }
            128 => (Self::of(self.high), self.low != 0),
            129..256 => {
                let by = by as u32 - 128;
                (Self::of(self.high >> by), self.low != 0 || self.high << (128 - by) != 0)
            }
            _ => (Self::default(), !self.is_zero()),
        };
        Self { low: kept.low | u128::from(lost), ..kept }
    }

    const fn plus(self, other: Self) -> Self {
        let (low, carry) = self.low.overflowing_add(other.low);
        Self { high: self.high.wrapping_add(other.high).wrapping_add(carry as u128), low }
    }

    const fn minus(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Self { high: self.high.wrapping_sub(other.high).wrapping_sub(borrow as u128), low }
    }
}

/// Bits that a sum is aligned to: a carry has room above them.
const ALIGNED: u32 = 254;

impl Exact {
    /// Of a finite register. An exponent of 0 is the double-extended format's smallest.
    pub(crate) fn of(value: Float) -> Self {
        let exponent = if value.exponent == 0 { 0xc001 } else { i64::from(value.exponent) };
        Self {
            negative: value.negative,
            magnitude: Wide::of(value.significand.into()),
            exponent: exponent - 0xffff - 63,
        }
    }

    /// The product of two registers.
    pub(crate) fn product(a: Float, b: Float) -> Self {
        let (left, right) = (Self::of(a), Self::of(b));
        Self {
            negative: a.negative != b.negative,
            magnitude: Wide::of(u128::from(a.significand) * u128::from(b.significand)),
            exponent: left.exponent + right.exponent,
        }
    }

    /// Of the leading bit.
    fn top(&self) -> i64 {
        self.exponent + i64::from(self.magnitude.bits())
    }

    /// The sum. One that is 0 of numbers that are not has the sign that rounding gives it.
    pub(crate) fn plus(self, other: Self, down: bool) -> Self {
        if self.magnitude.is_zero() && other.magnitude.is_zero() {
            let negative = if self.negative == other.negative { self.negative } else { down };
            return Self { negative, ..self };
        }
        if self.magnitude.is_zero() || other.magnitude.is_zero() {
            return if self.magnitude.is_zero() { other } else { self };
        }
        let (large, small) = if self.top() >= other.top() { (self, other) } else { (other, self) };
        let up = ALIGNED - large.magnitude.bits();
        let (left, exponent) = (large.magnitude.left(up), large.exponent - i64::from(up));
        let raised = small.magnitude.left(ALIGNED - small.magnitude.bits());
        let right = raised.right((large.top() - small.top()) as u64);
        if large.negative == small.negative {
            return Self { negative: large.negative, magnitude: left.plus(right), exponent };
        }
        let (negative, magnitude) =
            if left >= right { (large.negative, left.minus(right)) } else { (small.negative, right.minus(left)) };
        Self { negative: if magnitude.is_zero() { down } else { negative }, magnitude, exponent }
    }
}

/// How a result is rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rounding {
    /// Bits of the significand.
    pub precision: u32,
    /// Bits of the exponent.
    pub range: u32,
    /// To nearest, down, up, to zero.
    pub mode: u64,
    /// What is too small becomes 0.
    pub flush: bool,
    /// Flags of the traps that are on. Of overflow and underflow, what is delivered is rounded as if exponents had no end.
    pub traps: u64,
}

impl Rounding {
    const fn largest(self) -> i64 {
        (1 << (self.range - 1)) - 1
    }

    const fn smallest(self) -> i64 {
        1 - self.largest()
    }

    /// Rounds to a multiple of 2^`unit`: how many, and the flags of a number that is none.
    fn to_multiple(self, exact: Exact, unit: i64) -> (u128, u64) {
        // Two bits more, the lower of which says that something follows.
        let by = unit - 2 - exact.exponent;
        let scaled = if by < 0 { exact.magnitude.left((-by) as u32) } else { exact.magnitude.right(by as u64) };
        let (kept, rest) = (scaled.low >> 2, scaled.low & 3);
        let up = match self.mode {
            0 => rest > 2 || rest == 2 && kept & 1 != 0,
            1 => exact.negative && rest != 0,
            2 => !exact.negative && rest != 0,
            _ => false,
        };
        (kept + u128::from(up), if rest != 0 { flag::I } else { 0 } | if up { flag::AWAY } else { 0 })
    }

    /// A register of an exact number, and flags.
    pub(crate) fn round(self, exact: Exact) -> (Float, u64) {
        let negative = exact.negative;
        if exact.magnitude.is_zero() {
            return (Float { negative, ..Float::default() }, 0);
        }
        let precision = i64::from(self.precision);
        let (rounded, flags) = self.to_multiple(exact, exact.top() - precision);
        let carried = rounded >> self.precision != 0;
        let exponent = exact.top() - 1 + i64::from(carried);
        let significand = (rounded as u64).wrapping_shl(64 - self.precision);
        let significand = if carried { 1 << 63 } else { significand };
        // Of an exponent that registers have not, the lower bits.
        let value = Float { negative, exponent: (exponent + 0xffff) as u32 & 0x1_ffff, significand };
        if exponent < self.smallest() {
            return if self.traps & flag::U != 0 { (value, flags | flag::U) } else { self.small(exact) };
        }
        if exponent > self.largest() {
            return if self.traps & flag::O != 0 { (value, flags | flag::O) } else { self.overflowed(negative) };
        }
        (value, flags)
    }

    /// What is below the smallest normal number, after rounding: not normalized, or 0.
    fn small(self, exact: Exact) -> (Float, u64) {
        let negative = exact.negative;
        if self.flush {
            return (Float { negative, ..Float::default() }, flag::U | flag::I);
        }
        let (rounded, flags) = self.to_multiple(exact, self.smallest() - i64::from(self.precision) + 1);
        let significand = (rounded as u64).wrapping_shl(64 - self.precision);
        let exponent = if significand == 0 { 0 } else { (self.smallest() + 0xffff) as u32 };
        (Float { negative, exponent, significand }, flags | if flags & flag::I != 0 { flag::U } else { 0 })
    }

    const fn overflowed(self, negative: bool) -> (Float, u64) {
        let away = match self.mode {
            0 => true,
            1 => negative,
            2 => !negative,
            _ => false,
        };
        if away {
            let endless = Float { negative, exponent: 0x1_ffff, significand: 1 << 63 };
            return (endless, flag::O | flag::I | flag::AWAY);
        }
        let significand = u64::MAX << (64 - self.precision);
        (Float { negative, exponent: (self.largest() + 0xffff) as u32, significand }, flag::O | flag::I)
    }

    /// An integer of 64 bits, and flags; none where it has more.
    pub(crate) fn to_integer(self, exact: Exact, signed: bool) -> Option<(u64, u64)> {
        if !exact.magnitude.is_zero() && exact.top() > 66 {
            return None;
        }
        let (size, flags) = self.to_multiple(exact, 0);
        let value = match (exact.negative, signed) {
            (false, true) if size < 1 << 63 => size as u64,
            (true, true) if size <= 1 << 63 => (size as u64).wrapping_neg(),
            (false, false) if size < 1 << 64 => size as u64,
            (true, false) if size == 0 => 0,
            _ => return None,
        };
        Some((value, flags))
    }
}
