// SPDX-License-Identifier: MIT
//! Several small integers in a register, at random, against a model of arrays: the formulas of the instruction reference,
//! on numbers wide enough that nothing is lost before the result is cut or clamped.

mod common;

use common::{Machine, START};

/// Lanes of a word, the lowest first.
fn lanes(word: u64, bits: u32, signed: bool) -> Vec<i128> {
    let of = |at: u32| i128::from(word >> at) & ((1 << bits) - 1);
    let sign = |lane: i128| if signed && lane >> (bits - 1) != 0 { lane - (1 << bits) } else { lane };
    (0..64).step_by(bits as usize).map(|at| sign(of(at))).collect()
}

fn joined(of: &[i128], bits: u32) -> u64 {
    of.iter().enumerate().map(|(at, lane)| ((lane & ((1 << bits) - 1)) as u64) << (bits * at as u32)).sum()
}

fn clamp(value: i128, bits: u32, signed: bool) -> i128 {
    let (least, most) = if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    value.clamp(least, most)
}

/// How lanes become a result: width, whether each source has signs, and what of two lanes.
struct Rule {
    text: String,
    bits: u32,
    signs: (bool, bool),
    of: Box<dyn Fn(i128, i128) -> i128>,
}

fn rule(text: &str, bits: u32, signs: (bool, bool), of: impl Fn(i128, i128) -> i128 + 'static) -> Rule {
    Rule { text: text.to_owned(), bits, signs, of: Box::new(of) }
}

fn rules() -> Vec<Rule> {
    let mut all = vec![];
    let (no, yes) = ((false, false), (true, true));
    for bits in [8, 16, 32] {
        let n = bits / 8;
        all.push(rule(&format!("padd{n} r10=r8,r9"), bits, no, |a, b| a + b));
        all.push(rule(&format!("psub{n} r10=r8,r9"), bits, no, |a, b| a - b));
        all.push(rule(&format!("pcmp{n}.eq r10=r8,r9"), bits, no, |a, b| -i128::from(a == b)));
        all.push(rule(&format!("pcmp{n}.gt r10=r8,r9"), bits, yes, |a, b| -i128::from(a > b)));
    }
    for bits in [8, 16] {
        let n = bits / 8;
        all.push(rule(&format!("padd{n}.sss r10=r8,r9"), bits, yes, move |a, b| clamp(a + b, bits, true)));
        all.push(rule(&format!("padd{n}.uuu r10=r8,r9"), bits, no, move |a, b| clamp(a + b, bits, false)));
        all.push(rule(&format!("padd{n}.uus r10=r8,r9"), bits, (false, true), move |a, b| clamp(a + b, bits, false)));
        all.push(rule(&format!("psub{n}.sss r10=r8,r9"), bits, yes, move |a, b| clamp(a - b, bits, true)));
        all.push(rule(&format!("psub{n}.uuu r10=r8,r9"), bits, no, move |a, b| clamp(a - b, bits, false)));
        all.push(rule(&format!("psub{n}.uus r10=r8,r9"), bits, (false, true), move |a, b| clamp(a - b, bits, false)));
        // The average is rounded to an odd number, or away from zero.
        all.push(rule(&format!("pavg{n} r10=r8,r9"), bits, no, |a, b| (a + b) / 2 | (a + b) % 2));
        all.push(rule(&format!("pavg{n}.raz r10=r8,r9"), bits, no, |a, b| (a + b + 1) / 2));
        all.push(rule(&format!("pavgsub{n} r10=r8,r9"), bits, no, |a, b| {
            (a - b).div_euclid(2) | (a - b).rem_euclid(2)
        }));
    }
    all.push(rule("pmin1.u r10=r8,r9", 8, no, i128::min));
    all.push(rule("pmax1.u r10=r8,r9", 8, no, i128::max));
    all.push(rule("pmin2 r10=r8,r9", 16, yes, i128::min));
    all.push(rule("pmax2 r10=r8,r9", 16, yes, i128::max));
    for count in 1..4 {
        let left = move |a: i128, b: i128| match a << count {
            far if clamp(far, 16, true) != far => clamp(far, 16, true),
            far => clamp(far + b, 16, true),
        };
        all.push(rule(&format!("pshladd2 r10=r8,{count},r9"), 16, yes, left));
        let right = move |a: i128, b: i128| clamp(a.div_euclid(1 << count) + b, 16, true);
        all.push(rule(&format!("pshradd2 r10=r8,{count},r9"), 16, yes, right));
    }
    for count in [0, 7, 15, 16] {
        all.push(rule(&format!("pmpyshr2 r10=r8,r9,{count}"), 16, yes, move |a, b| (a * b).div_euclid(1 << count)));
        all.push(rule(&format!("pmpyshr2.u r10=r8,r9,{count}"), 16, no, move |a, b| a * b >> count));
    }
    all
}

/// Words in which lanes are often at an end of their range, or next to each other.
fn drawn(state: &mut u64) -> u64 {
    let mut next = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    };
    let edges = [0, 1, 0x7f, 0x80, 0x81, 0xff, 0xfe, 0x40];
    (0..8).map(|at| (if next() % 3 == 0 { next() & 0xff } else { edges[next() as usize % 8] }) << (8 * at)).sum()
}

/// Runs an instruction of r8 and r9 again and again.
fn trial(text: &str, wanted: impl Fn(u64, u64) -> u64) {
    let mut machine = Machine::new(&format!("{text}\nbr.few {START:#x}"));
    let mut state = 7;
    for _ in 0..2000 {
        let (a, b) = (drawn(&mut state), drawn(&mut state));
        machine.cpu.set_gr(8, a, false);
        machine.cpu.set_gr(9, b, false);
        machine.bundles(2);
        assert_eq!(machine.r(10), wanted(a, b), "{text}: {a:#018x}, {b:#018x}");
    }
}

#[test]
fn lane_by_lane_as_the_reference_says() {
    for Rule { text, bits, signs, of } in rules() {
        trial(&text, |a, b| {
            let pairs = lanes(a, bits, signs.0).into_iter().zip(lanes(b, bits, signs.1));
            joined(&pairs.map(|(a, b)| of(a, b)).collect::<Vec<_>>(), bits)
        });
    }
}

#[test]
fn lanes_that_change_places_do_so_for_all_widths() {
    for bits in [8, 16, 32] {
        let n = bits / 8;
        let pick = move |a: u64, b: u64, from: fn(usize, usize) -> usize| {
            let (a, b) = (lanes(a, bits, false), lanes(b, bits, false));
            let count = a.len();
            let of = |at: usize| if at % 2 == 0 { b[from(at / 2, count)] } else { a[from(at / 2, count)] };
            joined(&(0..count).map(of).collect::<Vec<_>>(), bits)
        };
        trial(&format!("mix{n}.r r10=r8,r9"), |a, b| pick(a, b, |at, _| 2 * at));
        trial(&format!("mix{n}.l r10=r8,r9"), |a, b| pick(a, b, |at, _| 2 * at + 1));
        trial(&format!("unpack{n}.l r10=r8,r9"), |a, b| pick(a, b, |at, _| at));
        trial(&format!("unpack{n}.h r10=r8,r9"), |a, b| pick(a, b, |at, count| count / 2 + at));
    }
    for (text, bits, signed) in [("pack2.sss", 16, true), ("pack2.uss", 16, false), ("pack4.sss", 32, true)] {
        trial(&format!("{text} r10=r8,r9"), |a, b| {
            let all = [lanes(a, bits, true), lanes(b, bits, true)].concat();
            joined(&all.iter().map(|&lane| clamp(lane, bits / 2, signed)).collect::<Vec<_>>(), bits / 2)
        });
    }
    for order in (0..256).step_by(7) {
        trial(&format!("mux2 r10=r8,{order:#x}"), |a, _| {
            let from = lanes(a, 16, false);
            joined(&(0..4).map(|to| from[order >> (2 * to) & 3]).collect::<Vec<_>>(), 16)
        });
    }
}

#[test]
fn shifts_of_lanes_by_any_count() {
    for bits in [16, 32] {
        let n = bits / 8;
        let counts = move |b: u64| if b & 1 == 0 { b >> 1 & 63 } else { b };
        for (text, signed) in [("pshr", true), ("pshr", false)] {
            let mut machine =
                Machine::new(&format!("{text}{n}{} r10=r8,r9\nbr.few {START:#x}", if signed { "" } else { ".u" }));
            let mut state = 11;
            for _ in 0..2000 {
                let (a, count) = (drawn(&mut state), counts(drawn(&mut state)));
                machine.cpu.set_gr(8, a, false);
                machine.cpu.set_gr(9, count, false);
                machine.bundles(2);
                let far = count.min(100) as u32;
                let of: Vec<_> = lanes(a, bits, signed).into_iter().map(|lane| lane >> far).collect();
                assert_eq!(machine.r(10), joined(&of, bits), "{a:#x} by {count}");
            }
        }
    }
}
