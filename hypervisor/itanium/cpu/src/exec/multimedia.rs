// SPDX-License-Identifier: MIT
//! Several small integers in a register (SDM vol. 3, A9, A10, I1 to I8, I29).

use super::{Handler, Name, Op};
use crate::cpu::Cpu;
use crate::interruption::{Done, illegal};

pub(super) fn of(name: Name) -> Option<Handler> {
    sums(name.0).or_else(|| products(name)).or_else(|| rearranged(name.0)).or_else(|| shifts(name))
}

fn sums(mnemonic: &str) -> Option<Handler> {
    Some(match mnemonic {
        "padd1{padd}" => |c, _, o| c.two(o, |a, b| saturated(o, 8, a, b, |a, b| a + b)),
        "padd2{padd}" => |c, _, o| c.two(o, |a, b| saturated(o, 16, a, b, |a, b| a + b)),
        "padd4" => |c, _, o| c.two(o, |a, b| lanes(32, a, b, u64::wrapping_add)),
        "psub1{padd}" => |c, _, o| c.two(o, |a, b| saturated(o, 8, a, b, |a, b| a - b)),
        "psub2{padd}" => |c, _, o| c.two(o, |a, b| saturated(o, 16, a, b, |a, b| a - b)),
        "psub4" => |c, _, o| c.two(o, |a, b| lanes(32, a, b, u64::wrapping_sub)),
        "pavg1" => |c, _, o| c.two(o, |a, b| lanes(8, a, b, |a, b| halved(a + b))),
        "pavg2" => |c, _, o| c.two(o, |a, b| lanes(16, a, b, |a, b| halved(a + b))),
        "pavg1.raz" => |c, _, o| c.two(o, |a, b| lanes(8, a, b, |a, b| (a + b + 1) >> 1)),
        "pavg2.raz" => |c, _, o| c.two(o, |a, b| lanes(16, a, b, |a, b| (a + b + 1) >> 1)),
        "pavgsub1" => |c, _, o| c.two(o, |a, b| lanes(8, a, b, |a, b| halved(a.wrapping_sub(b)))),
        "pavgsub2" => |c, _, o| c.two(o, |a, b| lanes(16, a, b, |a, b| halved(a.wrapping_sub(b)))),
        "pcmp1.eq" => |c, _, o| c.two(o, |a, b| lanes(8, a, b, |a, b| all_if(a == b))),
        "pcmp2.eq" => |c, _, o| c.two(o, |a, b| lanes(16, a, b, |a, b| all_if(a == b))),
        "pcmp4.eq" => |c, _, o| c.two(o, |a, b| lanes(32, a, b, |a, b| all_if(a == b))),
        "pcmp1.gt" => |c, _, o| c.two(o, |a, b| signed(8, a, b, |a, b| -i64::from(a > b))),
        "pcmp2.gt" => |c, _, o| c.two(o, |a, b| signed(16, a, b, |a, b| -i64::from(a > b))),
        "pcmp4.gt" => |c, _, o| c.two(o, |a, b| signed(32, a, b, |a, b| -i64::from(a > b))),
        "pmin1.u" => |c, _, o| c.two(o, |a, b| lanes(8, a, b, u64::min)),
        "pmax1.u" => |c, _, o| c.two(o, |a, b| lanes(8, a, b, u64::max)),
        "pmin2" => |c, _, o| c.two(o, |a, b| signed(16, a, b, i64::min)),
        "pmax2" => |c, _, o| c.two(o, |a, b| signed(16, a, b, i64::max)),
        "psad1" => |c, _, o| c.two(o, |a, b| (0..8).map(|at| u64::from(byte(a, at).abs_diff(byte(b, at)))).sum()),
        _ => return None,
    })
}

fn products((mnemonic, _): Name) -> Option<Handler> {
    Some(match mnemonic {
        "pshladd2" => |c, _, o| {
            c.two(o, |a, b| {
                signed(16, a, b, |a, b| {
                    if clamped(a << o.imm, 16) == a << o.imm {
                        clamped((a << o.imm) + b, 16)
                    } else {
                        clamped(a << o.imm, 16)
                    }
                })
            })
        },
        "pshradd2" => |c, _, o| c.two(o, |a, b| signed(16, a, b, |a, b| clamped((a >> o.imm) + b, 16))),
        "pmpyshr2" => |c, _, o| c.two(o, |a, b| signed(16, a, b, |a, b| (a * b) >> o.imm)),
        "pmpyshr2.u" => |c, _, o| c.two(o, |a, b| lanes(16, a, b, |a, b| (a * b) >> o.imm)),
        "pmpy2.r" => |c, _, o| c.two(o, multiplied),
        "pmpy2.l" => |c, _, o| c.two(o, |a, b| multiplied(a >> 16, b >> 16)),
        _ => return None,
    })
}

fn rearranged(mnemonic: &str) -> Option<Handler> {
    Some(match mnemonic {
        "mix1.r" => |c, _, o| c.two(o, |a, b| mixed(8, a, b)),
        "mix2.r" => |c, _, o| c.two(o, |a, b| mixed(16, a, b)),
        "mix4.r" => |c, _, o| c.two(o, |a, b| mixed(32, a, b)),
        "mix1.l" => |c, _, o| c.two(o, |a, b| mixed(8, a >> 8, b >> 8)),
        "mix2.l" => |c, _, o| c.two(o, |a, b| mixed(16, a >> 16, b >> 16)),
        "mix4.l" => |c, _, o| c.two(o, |a, b| mixed(32, a >> 32, b >> 32)),
        "unpack1.h" => |c, _, o| c.two(o, |a, b| interleaved(8, a >> 32, b >> 32)),
        "unpack2.h" => |c, _, o| c.two(o, |a, b| interleaved(16, a >> 32, b >> 32)),
        "unpack4.h" => |c, _, o| c.two(o, |a, b| interleaved(32, a >> 32, b >> 32)),
        "unpack1.l" => |c, _, o| c.two(o, |a, b| interleaved(8, a, b)),
        "unpack2.l" => |c, _, o| c.two(o, |a, b| interleaved(16, a, b)),
        "unpack4.l" => |c, _, o| c.two(o, |a, b| interleaved(32, a, b)),
        "pack2.uss" => |c, _, o| c.two(o, |a, b| packed(16, a, b, |value| value.clamp(0, 255))),
        "pack2.sss" => |c, _, o| c.two(o, |a, b| packed(16, a, b, |value| clamped(value, 8))),
        "pack4.sss" => |c, _, o| c.two(o, |a, b| packed(32, a, b, |value| clamped(value, 16))),
        "mux1" => Cpu::mux1,
        "mux2" => |c, _, o| {
            let pick = |a: u64, to: u32| (a >> (16 * (o.imm >> (2 * to) & 3)) & 0xffff) << (16 * to);
            c.one(o, o.r2, |a| (0..4).map(|to| pick(a, to)).sum())
        },
        "czx1.l" => |c, _, o| c.one(o, o.r3, |b| (0..8).find(|&at| byte(b, 7 - at) == 0).unwrap_or(8).into()),
        "czx1.r" => |c, _, o| c.one(o, o.r3, |b| (0..8).find(|&at| byte(b, at) == 0).unwrap_or(8).into()),
        "czx2.l" => |c, _, o| c.one(o, o.r3, |b| (0..4).find(|&at| (b >> (48 - 16 * at)) as u16 == 0).unwrap_or(4)),
        "czx2.r" => |c, _, o| c.one(o, o.r3, |b| (0..4).find(|&at| (b >> (16 * at)) as u16 == 0).unwrap_or(4)),
        _ => return None,
    })
}

fn shifts(name: Name) -> Option<Handler> {
    Some(match name {
        ("pshl2", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| shifted_left(16, a, b)),
        ("pshl4", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| shifted_left(32, a, b)),
        ("pshl2", _) => |c, _, o| c.one(o, o.r2, |a| shifted_left(16, a, o.imm as u64)),
        ("pshl4", _) => |c, _, o| c.one(o, o.r2, |a| shifted_left(32, a, o.imm as u64)),
        ("pshr2", "r1=r3,r2") => |c, _, o| c.two(o, |a, b| shifted_right(16, b, a)),
        ("pshr4", "r1=r3,r2") => |c, _, o| c.two(o, |a, b| shifted_right(32, b, a)),
        ("pshr2", _) => |c, _, o| c.one(o, o.r3, |b| shifted_right(16, b, o.imm as u64)),
        ("pshr4", _) => |c, _, o| c.one(o, o.r3, |b| shifted_right(32, b, o.imm as u64)),
        ("pshr2.u", "r1=r3,r2") => |c, _, o| c.two(o, |a, b| shifted_down(16, b, a)),
        ("pshr4.u", "r1=r3,r2") => |c, _, o| c.two(o, |a, b| shifted_down(32, b, a)),
        ("pshr2.u", _) => |c, _, o| c.one(o, o.r3, |b| shifted_down(16, b, o.imm as u64)),
        ("pshr4.u", _) => |c, _, o| c.one(o, o.r3, |b| shifted_down(32, b, o.imm as u64)),
        _ => return None,
    })
}

/// Lane by lane, without signs.
fn lanes(width: u32, a: u64, b: u64, f: impl Fn(u64, u64) -> u64) -> u64 {
    let mask = u64::MAX >> (64 - width);
    (0..64).step_by(width as usize).fold(0, |all, at| all | (f(a >> at & mask, b >> at & mask) & mask) << at)
}

/// Lane by lane, with signs.
fn signed(width: u32, a: u64, b: u64, f: impl Fn(i64, i64) -> i64) -> u64 {
    lanes(width, a, b, |a, b| f(with_sign(width, a), with_sign(width, b)) as u64)
}

const fn with_sign(width: u32, value: u64) -> i64 {
    (value << (64 - width)) as i64 >> (64 - width)
}

const fn byte(word: u64, at: u8) -> u8 {
    (word >> (8 * at)) as u8
}

const fn all_if(condition: bool) -> u64 {
    if condition { u64::MAX } else { 0 }
}

/// Half of a sum: the bit that is lost is not forgotten (SDM vol. 3, pavg).
const fn halved(sum: u64) -> u64 {
    sum >> 1 | sum & 1
}

fn clamped(value: i64, width: u32) -> i64 {
    let limit = 1 << (width - 1);
    value.clamp(-limit, limit - 1)
}

/// Sums that wrap, or that saturate as bits 28:27 say.
fn saturated(op: &Op, width: u32, a: u64, b: u64, f: impl Fn(i64, i64) -> i64) -> u64 {
    let most = (1 << width) - 1;
    lanes(width, a, b, |a, b| {
        let (plain, sign) = ((a as i64, b as i64), (with_sign(width, a), with_sign(width, b)));
        let result = match op.bits(28, 27) {
            0 => f(plain.0, plain.1),
            1 => clamped(f(sign.0, sign.1), width),
            2 => f(plain.0, plain.1).clamp(0, most),
            _ => f(plain.0, sign.1).clamp(0, most),
        };
        result as u64
    })
}

/// Products of the first and third 16 bits.
const fn multiplied(a: u64, b: u64) -> u64 {
    let low = (a as i16 as i32 * b as i16 as i32) as u32 as u64;
    let high = ((a >> 32) as i16 as i32 * (b >> 32) as i16 as i32) as u32 as u64;
    high << 32 | low
}

/// Each second lane: the second source's, and above it the first's.
fn mixed(width: u32, a: u64, b: u64) -> u64 {
    let mask = u64::MAX >> (64 - width);
    (0..64)
        .step_by(2 * width as usize)
        .fold(0, |all, at| all | (b >> at & mask) << at | (a >> at & mask) << (at + width))
}

/// The lower half's lanes in turns.
fn interleaved(width: u32, a: u64, b: u64) -> u64 {
    let mask = u64::MAX >> (64 - width);
    let one = |at: u32| (b >> at & mask) << (2 * at) | (a >> at & mask) << (2 * at + width);
    (0..32).step_by(width as usize).fold(0, |all, at| all | one(at))
}

/// Lanes of half the width, the first source's lowest.
fn packed(width: u32, a: u64, b: u64, f: impl Fn(i64) -> i64) -> u64 {
    let half = width / 2;
    let mask = u64::MAX >> (64 - half);
    let lane = |word: u64, at: u32| f(with_sign(width, word >> at)) as u64 & mask;
    let of = |word| (0..64).step_by(width as usize).fold(0, |all, at| all | lane(word, at) << (at / 2));
    of(b) << 32 | of(a)
}

fn shifted_left(width: u32, value: u64, count: u64) -> u64 {
    if count >= u64::from(width) { 0 } else { lanes(width, value, 0, |value, _| value << count) }
}

fn shifted_down(width: u32, value: u64, count: u64) -> u64 {
    if count >= u64::from(width) { 0 } else { lanes(width, value, 0, |value, _| value >> count) }
}

fn shifted_right(width: u32, value: u64, count: u64) -> u64 {
    let count = count.min(u64::from(width) - 1);
    signed(width, value, 0, |value, _| value >> count)
}

impl Cpu {
    fn mux1(&mut self, _: &mut dyn crate::Bus, op: &Op) -> Done {
        // From the lowest byte on, which byte of the source goes there (SDM vol. 3, mux).
        let from: [u8; 8] = match op.imm {
            0 => [0; 8],
            8 => [0, 4, 2, 6, 1, 5, 3, 7],
            9 => [0, 4, 1, 5, 2, 6, 3, 7],
            10 => [0, 2, 4, 6, 1, 3, 5, 7],
            11 => [7, 6, 5, 4, 3, 2, 1, 0],
            _ => return Err(illegal()),
        };
        self.one(op, op.r2, |a| u64::from_le_bytes(from.map(|at| byte(a, at))))
    }
}
