// SPDX-License-Identifier: MIT
//! Parallel forms against this computer's single precision, half by half; reciprocal square roots.

#![allow(clippy::float_cmp)] // what is compared is exact

mod common;

use common::{BEGIN, DATA, Machine, good, ran};

/// Pairs of halves: numbers near others, near the ends of the range, and none.
fn pairs(seed: u64) -> Vec<[u64; 3]> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    let mut half = || {
        let (bits, kind) = (next() & 0xffff_ffff, next() % 8);
        match kind {
            0 => bits,
            1 => bits & 0x807f_ffff,
            2 => [0, 1 << 31, 0x3f80_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001][(bits % 6) as usize],
            3 => bits & 0x807f_0000 | 0x3f80_0000,
            _ => bits & 0x807f_ffff | (0x70 + bits % 0x20) << 23,
        }
    };
    (0..3000).map(|_| [(); 3].map(|()| half() << 32 | half())).collect()
}

/// Runs an instruction on f6, f7 and f8; gives the significand of f9.
fn each(text: &str, groups: &[[u64; 3]]) -> Vec<u64> {
    let mut machine = Machine::new(&format!(
        "{BEGIN}\nmovl r5={DATA:#x}\nmovl r6={:#x}\nmov.i ar.lc=r6\nagain:
        ldf8 f6=[r5],8\nldf8 f7=[r5],8\nldf8 f8=[r5],8\n{text}\nstf8 [r5]=f9,8\nbr.cloop.sptk.few @again\nend:\nbr.few @end",
        groups.len() - 1
    ));
    for (at, word) in groups.iter().flat_map(|[a, b, c]| [*a, *b, *c, 0]).enumerate() {
        let at = DATA as usize + 8 * at;
        machine.ram.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    machine.finish();
    assert_eq!(machine.vector(), None, "{}", machine.cpu.state());
    (0..groups.len()).map(|at| machine.ram.word(DATA + 32 * at as u64 + 24)).collect()
}

/// Each half is what a function gives; any NaN is as good as another.
fn are(text: &str, of: impl Fn(f32, f32, f32) -> u32) {
    let groups = pairs(text.len() as u64);
    for (words, got) in groups.iter().zip(each(text, &groups)) {
        for shift in [0, 32] {
            let [a, b, c] = words.map(|word| f32::from_bits((word >> shift) as u32));
            let (want, got) = (of(a, b, c), (got >> shift) as u32);
            let nans = f32::from_bits(want).is_nan() && f32::from_bits(got).is_nan();
            assert!(got == want || nans, "{text} {a:e} {b:e} {c:e}: {got:x} {want:x}");
        }
    }
}

#[test]
fn sums_and_products() {
    are("fpma.s0 f9=f6,f7,f8", |a, b, c| a.mul_add(b, c).to_bits());
    are("fpms.s0 f9=f6,f7,f8", |a, b, c| a.mul_add(b, -c).to_bits());
    are("fpnma.s0 f9=f6,f7,f8", |a, b, c| (-a).mul_add(b, c).to_bits());
    are("fpmpy.s0 f9=f6,f7", |a, b, _| (a * b).to_bits());
    are("fpnmpy.s0 f9=f6,f7", |a, b, _| (-(a * b)).to_bits());
}

#[test]
fn comparisons_and_choices() {
    let mask = |holds: bool| if holds { u32::MAX } else { 0 };
    for (relation, holds) in [
        ("eq", (|a, b| a == b) as fn(f32, f32) -> bool),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("unord", |a, b| a.is_nan() || b.is_nan()),
        ("neq", |a, b| a != b),
        ("nlt", |a, b| a.is_nan() || b.is_nan() || a >= b),
        ("nle", |a, b| a.is_nan() || b.is_nan() || a > b),
        ("ord", |a, b| !a.is_nan() && !b.is_nan()),
    ] {
        are(&format!("fpcmp.{relation}.s0 f9=f6,f7"), |a, b, _| mask(holds(a, b)));
    }
    are("fpmin.s0 f9=f6,f7", |a, b, _| if a < b { a } else { b }.to_bits());
    are("fpmax.s0 f9=f6,f7", |a, b, _| if b < a { a } else { b }.to_bits());
    are("fpamin.s0 f9=f6,f7", |a, b, _| if a.abs() < b.abs() { a } else { b }.to_bits());
    are("fpamax.s0 f9=f6,f7", |a, b, _| if b.abs() < a.abs() { a } else { b }.to_bits());
}

#[test]
fn integers() {
    let signed =
        |value: f32| if (-2_147_483_648.0..2_147_483_648.0).contains(&value) { value as i32 as u32 } else { 1 << 31 };
    let unsigned = |value: f32| if value > -1.0 && value < 4_294_967_296.0 { value as u32 } else { 1 << 31 };
    are("fpcvt.fx.trunc.s0 f9=f6", |a, _, _| signed(a));
    are("fpcvt.fxu.trunc.s0 f9=f6", |a, _, _| unsigned(a));
    are("fpcvt.fx.s0 f9=f6", |a, _, _| signed(a.round_ties_even()));
    are("fpcvt.fxu.s0 f9=f6", |a, _, _| if (-0.5..0.0).contains(&a) { 0 } else { unsigned(a.round_ties_even()) });
}

#[test]
fn halves_are_packed() {
    let machine = good("movl r4=0x4010000000000000\nsetf.d f6=r4\nfpack f9=f6,f1\ngetf.sig r10=f9");
    assert_eq!(machine.r(10), u64::from(4.0_f32.to_bits()) << 32 | u64::from(1.0_f32.to_bits()));
}

#[test]
fn reciprocals_are_near_and_the_predicate_says_whether_to_go_on() {
    let groups = pairs(77);
    for (words, got) in groups.iter().zip(each("fprcpa.s0 f9,p6=f6,f7", &groups)) {
        for shift in [0, 32] {
            let [a, b, _] = words.map(|word| f32::from_bits((word >> shift) as u32));
            let got = f32::from_bits((got >> shift) as u32);
            if a.is_normal() && b.is_normal() && b.abs() < 2.0_f32.powi(125) {
                assert!((got * b - 1.0).abs() < 1.0 / 256.0, "1 / {b:e}: {got:e}");
            } else if !a.is_normal() && a == 0.0 && b.is_normal() {
                assert_eq!(got, a / b);
            }
        }
    }
}

/// Two single-precision words as a register's significand.
fn word([upper, lower]: [f32; 2]) -> u64 {
    u64::from(upper.to_bits()) << 32 | u64::from(lower.to_bits())
}

/// The lower half of what an approximation of halves gives, whose upper one goes on, and its predicate.
fn approximated(dividend: f32, divisor: f32, instruction: &str) -> (f32, bool) {
    let [dividend, divisor] = [dividend, divisor].map(|lower| word([1.0, lower]));
    let text = format!(
        "movl r4={dividend:#x}\nmovl r5={divisor:#x}\nsetf.sig f6=r4\nsetf.sig f7=r5\ncmp.eq p6,p0=r0,r0\n{instruction}\n\
         getf.sig r10=f9"
    );
    let machine = good(&text);
    (f32::from_bits(machine.r(10) as u32), machine.cpu.pr(6))
}

#[test]
fn a_reciprocal_goes_on_where_each_step_of_a_division_can() {
    let power = |exponent: i32| 2.0_f32.powi(exponent);
    for (a, b, on) in [
        (1.0, 3.0, true),
        (0.0, 3.0, false),
        (1.0, f32::INFINITY, false),
        (1.0, power(124), true),
        (1.0, power(-126), true),
        (power(-102), 1.0, true),
        (power(-103) * 1.5, 1.0, false),
        (power(63), power(-63), true),
        (power(64), power(-63), false),
        (power(-62), power(62), true),
        (power(-63), power(62), false),
    ] {
        assert_eq!(approximated(a, b, "fprcpa.s0 f9,p6=f6,f7").1, on, "{a:e} / {b:e}");
    }
    // Of a divisor that is no normal number, and of one whose reciprocal is none: no approximation at all.
    assert_eq!(approximated(1.0, -power(-127), "fprcpa.s0 f9,p6=f6,f7"), (f32::NEG_INFINITY, false));
    let (none, on) = approximated(1.0, -power(125), "fprcpa.s0 f9,p6=f6,f7");
    assert!(none == 0.0 && none.is_sign_negative() && !on);
}

#[test]
fn a_reciprocal_root_of_halves_goes_on_where_each_step_can() {
    let root = |value: f32| approximated(1.0, value, "fprsqrta.s0 f9,p6=f7");
    for value in [1.0, 2.0, 3.0, 1e38, 2.0_f32.powi(-102)] {
        let (got, on) = root(value);
        assert!(on && (got * value.sqrt() - 1.0).abs() < 1.0 / 256.0, "{value:e}: {got:e}");
    }
    assert!(!root(2.0_f32.powi(-103)).1 && !root(1e-40).1);
    assert_eq!(root(0.0), (f32::INFINITY, false));
    assert_eq!(root(-0.0), (f32::NEG_INFINITY, false));
    assert_eq!(root(f32::INFINITY), (0.0, false));
    assert!(root(-1.0).0.is_nan());
}

#[test]
fn a_root_is_exact_by_the_usual_steps() {
    // Markstein's: an approximation, three steps, and a last one that is rounded.
    let steps = "movl r4=0x3fe0000000000000
        setf.d f10=r4
        frsqrta.s0 f9,p6=f6
        (p6) fmpy.s1 f11=f10,f6
        (p6) fmpy.s1 f12=f9,f9
        (p6) fnma.s1 f12=f12,f11,f10
        (p6) fma.s1 f9=f12,f9,f9
        (p6) fmpy.s1 f12=f9,f9
        (p6) fnma.s1 f12=f12,f11,f10
        (p6) fma.s1 f9=f12,f9,f9
        (p6) fmpy.s1 f12=f9,f9
        (p6) fnma.s1 f12=f12,f11,f10
        (p6) fma.s1 f9=f12,f9,f9
        (p6) fmpy.s1 f13=f6,f9
        (p6) fmpy.s1 f14=f9,f10
        (p6) fnma.s1 f12=f13,f13,f6
        (p6) fma.d.s0 f9=f12,f14,f13
        getf.d r10=f9";
    for value in
        [2.0_f64, 3.0, 4.0, 1e300, 1e-300, 0.5, 7.25, 1.0, 123_456.789, f64::MIN_POSITIVE, 0.0, f64::INFINITY]
    {
        let machine = good(&format!("movl r5={:#x}\nsetf.d f6=r5\n{steps}", value.to_bits()));
        assert_eq!(f64::from_bits(machine.r(10)), value.sqrt(), "{value:e}");
    }
    let machine = good("fneg f6=f1\ncmp.eq p6,p0=r0,r0\nfrsqrta.s0 f9,p6=f6\nmov.m r10=ar.fpsr");
    assert!(!machine.cpu.pr(6) && machine.cpu.fr(9).is_nan() && machine.r(10) >> 13 & 1 == 1);
}

#[test]
fn a_half_that_faults_is_named() {
    // Invalid: infinity less infinity, in the upper half; with the first trap on.
    let text = "movl r4=0x9804c0270033e\nmov.m ar.fpsr=r4\nmovl r4=0x7f80000000000000\nsetf.sig f6=r4\nfpack f7=f1,f1\nfpms.s0 f9=f6,f7,f6";
    let mut machine = ran(text);
    assert_eq!(machine.vector(), Some(0x5c00));
    machine.put(machine.cpu.place().0, "mov r20=cr.isr\nhere:\nbr.few @here");
    machine.finish();
    assert_eq!(machine.r(20) & 0xff, 1);
}

#[test]
fn a_half_that_traps_is_named_and_both_are_written() {
    // Overflow traps, and then inexact ones, too. Of 2^254 the lower bits of the exponent are left, and its topmost one, as
    // of a number that is stored: 2^126. A third squared is rounded.
    let (huge, third) = (0x7f00_0000_u64, 0x3eaa_aaab_u64);
    for (upper, lower, traps, isr) in [
        (huge, 0x3f80_0000, 0x37, 1 << 11),
        (0x3f80_0000, huge, 0x37, 1 << 7),
        (huge, third, 0x37, 1 << 11),
        (huge, third, 0x17, 1 << 11 | 1 << 9),
        (third, huge, 0x17, 1 << 13 | 1 << 7),
    ] {
        let (word, fpsr) = (upper << 32 | lower, 0x9_804c_0270_0300_u64 | traps);
        let text = format!(
            "movl r4={fpsr:#x}\nmov.m ar.fpsr=r4\nmovl r4={word:#x}\nsetf.sig f6=r4\nfpmpy.s0 f9=f6,f6\nmov r11=1"
        );
        let mut machine = ran(&text);
        assert_eq!((machine.vector(), machine.r(11)), (Some(0x5d00), 0), "{upper:x} {lower:x}");
        machine.put(machine.cpu.place().0, "mov r20=cr.isr\ngetf.sig r21=f9\nhere:\nbr.few @here");
        machine.finish();
        assert_eq!(machine.r(20) & 0xffff & !(1 << 14 | 1 << 10), isr | 1, "{upper:x} {lower:x}");
        let squared = |half: u64| {
            let value = f32::from_bits(half as u32);
            if half == huge { 0x7e80_0000 } else { u64::from((value * value).to_bits()) }
        };
        assert_eq!(machine.r(21), squared(upper) << 32 | squared(lower), "{upper:x} {lower:x}");
    }
}
