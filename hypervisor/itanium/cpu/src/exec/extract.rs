// SPDX-License-Identifier: MIT
//! Shifts, and fields that are taken out or put in (SDM vol. 3, I5, I7, I10 to I15).

use super::{Handler, Name};

pub(super) fn of(name: Name) -> Option<Handler> {
    Some(match name {
        ("shl", "r1=r2,r3") => |c, _, o| c.two(o, |a, b| if b > 63 { 0 } else { a << b }),
        ("shr.u", "r1=r3,r2") => |c, _, o| c.two(o, |a, b| if a > 63 { 0 } else { b >> a }),
        ("shr", "r1=r3,r2") => |c, _, o| c.two(o, |a, b| ((b as i64) >> a.min(63)) as u64),
        ("shrp", _) => |c, _, o| c.two(o, |a, b| ((u128::from(a) << 64 | u128::from(b)) >> o.imm) as u64),
        ("shr.u", _) => |c, _, o| c.one(o, o.r3, |b| b >> o.imm),
        ("shr", _) => |c, _, o| c.one(o, o.r3, |b| ((b as i64) >> o.imm) as u64),
        ("shl", _) => |c, _, o| c.one(o, o.r2, |a| a << o.imm),
        ("extr.u", _) => |c, _, o| c.one(o, o.r3, |b| b >> o.imm & ones(o.more[0])),
        ("extr", _) => |c, _, o| c.one(o, o.r3, |b| extracted(b, o.imm as u32, u32::from(o.more[0]))),
        ("dep.z", "r1=r2,cpos6c,len6d") => |c, _, o| c.one(o, o.r2, |a| (a & ones(o.more[0])) << o.imm),
        ("dep.z", _) => |c, _, o| c.constant(o, (o.imm as u64 & ones(o.more[1])) << o.more[0]),
        ("dep", "r1=r2,r3,cpos6d,len4d") => |c, _, o| {
            c.two(o, |a, b| {
                let mask = ones(o.more[0]) << o.imm;
                b & !mask | a << o.imm & mask
            })
        },
        ("dep", _) => |c, _, o| {
            c.one(o, o.r3, |b| {
                let mask = ones(o.more[1]) << o.more[0];
                b & !mask | o.imm as u64 & mask
            })
        },
        _ => return None,
    })
}

const fn ones(length: u8) -> u64 {
    u64::MAX >> (64 - length)
}

/// A field with its sign; one that would reach beyond the register ends there (SDM vol. 3, extr).
fn extracted(value: u64, position: u32, length: u32) -> u64 {
    let length = length.min(64 - position);
    ((value << (64 - length - position)) as i64 >> (64 - length)) as u64
}
