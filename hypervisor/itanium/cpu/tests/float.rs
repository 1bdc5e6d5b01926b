// SPDX-License-Identifier: MIT
//! Floating point against exact arithmetic: this computer's own in double and single precision, whose sums and products
//! with one rounding are exact by IEEE 754, and integers of 128 bits for what has 64.

#![allow(clippy::float_cmp, clippy::cast_precision_loss)] // what is compared is exact, and rounding what is tried

mod common;

use common::{BEGIN, DATA, Machine, TABLE, good, ran};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Bits of a double, of which many are near others, near the ends of the range, or none.
    fn double(&mut self) -> u64 {
        let bits = self.next();
        match self.next() % 8 {
            0 => bits,
            1 => bits & 0x800f_ffff_ffff_ffff,
            2 => bits & 0x8000_0000_0000_0000 | 0x7fe0_0000_0000_0000 | bits >> 12,
            3 => {
                [0, 1 << 63, 0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000, 0xfff0_0000_0000_0000][(bits % 5) as usize]
            }
            4 => bits & 0x800f_ffff_0000_0000 | 0x3ff0_0000_0000_0000,
            _ => bits & 0x800f_ffff_ffff_ffff | (0x3c0 + bits % 0x80) << 52,
        }
    }
}

/// Runs a program on each of some groups of words: the loads step r5 over a group, the store writes behind it.
fn each(text: &str, groups: &[[u64; 3]]) -> Vec<u64> {
    let mut machine = Machine::new(&format!(
        "{BEGIN}\nmovl r5={DATA:#x}\nmovl r6={:#x}\nmov.i ar.lc=r6\nagain:\n{text}\nbr.cloop.sptk.few @again\nend:\nbr.few @end",
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

fn groups(seed: u64, mut of: impl FnMut(&mut Random) -> u64) -> Vec<[u64; 3]> {
    let mut random = Random(seed);
    (0..4000).map(|_| [(); 3].map(|()| of(&mut random))).collect()
}

fn same(got: u64, want: f64) -> bool {
    let number = f64::from_bits(got);
    number.is_nan() && want.is_nan() || got == want.to_bits()
}

const LOADS: &str = "ldfd f6=[r5],8\nldfd f7=[r5],8\nldfd f8=[r5],8\n";

#[test]
fn doubles_are_rounded_once() {
    for (text, sign, with) in [
        ("fma.d.s0 f9=f6,f7,f8", 1.0, 1.0),
        ("fms.d.s0 f9=f6,f7,f8", 1.0, -1.0),
        ("fnma.d.s0 f9=f6,f7,f8", -1.0, 1.0),
    ] {
        let groups = groups(0x1234_5678_9abc_def1, Random::double);
        let got = each(&format!("{LOADS}{text}\nstfd [r5]=f9,8"), &groups);
        for (words, got) in groups.iter().zip(got) {
            let [a, b, c] = words.map(f64::from_bits);
            let want = (sign * a).mul_add(b, with * c);
            assert!(same(got, want), "{text} {words:x?}: {got:x} {:x}", want.to_bits());
        }
    }
}

#[test]
fn singles_are_rounded_once() {
    let groups = groups(0x9876_5432_1fed_cba1, |random| random.double() >> 32);
    let text = "ldfs f6=[r5],8\nldfs f7=[r5],8\nldfs f8=[r5],8\nfma.s.s0 f9=f6,f7,f8\nst8 [r5]=r0\nstfs [r5]=f9,8";
    for (words, got) in groups.iter().zip(each(text, &groups)) {
        let [a, b, c] = words.map(|word| f32::from_bits(word as u32));
        let want = a.mul_add(b, c);
        assert!(
            got == u64::from(want.to_bits()) || want.is_nan() && f32::from_bits(got as u32).is_nan(),
            "{words:x?}"
        );
    }
}

#[test]
fn products_and_sums_alone_keep_the_sign_of_zero() {
    for (text, want) in [
        ("fmpy.d.s0 f9=f0,f6", -0.0_f64),
        ("fadd.d.s0 f9=f7,f7", -0.0),
        ("fadd.d.s0 f9=f0,f7", 0.0),
        ("fsub.d.s0 f9=f7,f0", -0.0),
        ("fnmpy.d.s0 f9=f0,f6", 0.0),
    ] {
        let minus = (-1.0_f64).to_bits();
        let machine = good(&format!("movl r4={minus:#x}\nsetf.d f6=r4\nfmerge.s f7=f6,f0\n{text}\ngetf.d r10=f9"));
        assert_eq!(machine.r(10), want.to_bits(), "{text}");
    }
}

/// The double beside another.
fn beside(value: f64, up: bool) -> f64 {
    let away = (value > 0.0) == up;
    f64::from_bits(if away { value.to_bits() + 1 } else { value.to_bits() - 1 })
}

#[test]
fn sums_are_rounded_as_the_status_field_says() {
    for mode in 0..4_u64 {
        let groups = groups(0xfeed_5eed_1234_5671, |random| {
            random.next() & 0x800f_ffff_ffff_ffff | (0x3e0 + random.next() % 64) << 52
        });
        // Precision of 64 bits, and this mode.
        let text = format!("fsetc.s0 0x0,{:#x}\n{LOADS}fadd.d.s0 f9=f6,f7\nstfd [r5]=f9,8", mode << 4 | 0xc);
        for (words, got) in groups.iter().zip(each(&text, &groups)) {
            let [a, b, _] = words.map(f64::from_bits);
            // The nearest, and exactly what is missing (Knuth's TwoSum).
            let near = a + b;
            let part = near - a;
            let missing = (a - (near - part)) + (b - part);
            let want = match mode {
                1 if missing < 0.0 => beside(near, false),
                2 if missing > 0.0 => beside(near, true),
                3 if missing != 0.0 && (missing < 0.0) == (near > 0.0) => beside(near, near < 0.0),
                _ => near,
            };
            assert_eq!(f64::from_bits(got).to_bits(), want.to_bits(), "mode {mode}: {a:e} {b:e}");
        }
    }
}

#[test]
fn registers_have_64_bits() {
    let mut random = Random(0x0123_4567_89ab_cdef);
    for _ in 0..300 {
        let shift = random.next() % 40;
        let [a, b, c] = [(); 3].map(|()| (random.next() as i64) >> shift);
        let machine = good(&format!(
            "movl r4={a:#x}\nmovl r5={b:#x}\nmovl r6={c:#x}\nsetf.sig f6=r4\nsetf.sig f7=r5\nsetf.sig f8=r6
            fcvt.xf f6=f6\nfcvt.xf f7=f7\nfcvt.xf f8=f8
            fma.s0 f9=f6,f7,f8\ngetf.sig r10=f9\ngetf.exp r11=f9"
        ));
        let exact = i128::from(a) * i128::from(b) + i128::from(c);
        let (size, lost) = (exact.unsigned_abs(), 64_u32.saturating_sub(exact.unsigned_abs().leading_zeros()));
        let kept = size >> lost;
        let rest = size - (kept << lost);
        let half = (1_u128 << lost) / 2;
        let up = lost > 0 && (rest > half || rest == half && kept & 1 != 0);
        let rounded = (kept + u128::from(up)) << lost;
        let exponent = if rounded == 0 { 0 } else { 0xffff + 127 - u64::from(rounded.leading_zeros()) };
        let significand = if rounded == 0 { 0 } else { (rounded << rounded.leading_zeros() >> 64) as u64 };
        let sign = u64::from(exact < 0) << 17;
        assert_eq!((machine.r(10), machine.r(11)), (significand, sign | exponent), "{a} {b} {c}");
    }
}

#[test]
fn integers_come_and_go() {
    let groups = groups(0x1111_2222_3333_4445, |random| {
        random.next() & 0x800f_ffff_ffff_ffff | (0x3f0 + random.next() % 80) << 52
    });
    let text = |convert: &str| format!("{LOADS}{convert} f9=f6\nstf8 [r5]=f9,8");
    for (words, got) in groups.iter().zip(each(&text("fcvt.fx.trunc.s0"), &groups)) {
        let value = f64::from_bits(words[0]);
        let want = if value.abs() < 2_f64.powi(63) || value == -2_f64.powi(63) { value as i64 } else { i64::MIN };
        assert_eq!(got as i64, want, "{value}");
    }
    for (words, got) in groups.iter().zip(each(&text("fcvt.fxu.trunc.s0"), &groups)) {
        let value = f64::from_bits(words[0]);
        let fits = value > -1.0 && value < 2_f64.powi(64);
        assert_eq!(got, if fits { value as u64 } else { 1 << 63 }, "{value}");
    }
    for (words, got) in groups.iter().zip(each(&text("fcvt.fx.s0"), &groups)) {
        let value = f64::from_bits(words[0]);
        let want = if value.abs() < 2_f64.powi(63) { value.round_ties_even() as i64 } else { i64::MIN };
        assert_eq!(got as i64, want, "{value}");
    }
    let whole = "ld8 r7=[r5],24\nsetf.sig f6=r7\nfcvt.xf f7=f6\nfnorm.d.s0 f9=f7\nstfd [r5]=f9,8";
    for (words, got) in groups.iter().zip(each(whole, &groups)) {
        assert_eq!(f64::from_bits(got), words[0] as i64 as f64);
    }
}

/// Division as compilers write it (after P. Markstein's algorithms: each step leaves half of the error's exponent).
const DIVISION: &str = "
frcpa.s0 f9,p6=f6,f7
(p06) fnma.s1 f10=f7,f9,f1
(p06) fmpy.s1 f11=f6,f9
(p06) fmpy.s1 f12=f10,f10
(p06) fma.s1 f11=f10,f11,f11
(p06) fma.s1 f9=f10,f9,f9
(p06) fma.s1 f11=f12,f11,f11
(p06) fmpy.s1 f10=f12,f12
(p06) fma.s1 f9=f12,f9,f9
(p06) fma.d.s1 f11=f10,f11,f11
(p06) fma.s1 f9=f10,f9,f9
(p06) fnma.d.s1 f12=f7,f11,f6
(p06) fma.d.s0 f9=f12,f9,f11
stfd [r5]=f9,8";

#[test]
fn a_division_is_exact() {
    let groups = groups(0x5555_6666_7777_8889, Random::double);
    for (words, got) in groups.iter().zip(each(&format!("{LOADS}{DIVISION}"), &groups)) {
        let [a, b, _] = words.map(f64::from_bits);
        assert!(same(got, a / b), "{a:e} / {b:e}: {got:x} {:x}", (a / b).to_bits());
    }
}

#[test]
fn numbers_are_compared() {
    let groups = groups(0x7777_8888_9999_aaab, Random::double);
    for (relation, holds) in [
        ("eq", (|a, b| a == b) as fn(f64, f64) -> bool),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("unord", |a, b| a.is_nan() || b.is_nan()),
    ] {
        let text =
            format!("{LOADS}fcmp.{relation}.s0 p6,p7=f6,f7\nmov r7=5\n(p06) mov r7=1\n(p07) mov r7=0\nst8 [r5]=r7,8");
        for (words, got) in groups.iter().zip(each(&text, &groups)) {
            let [a, b, _] = words.map(f64::from_bits);
            assert_eq!(got, u64::from(holds(a, b)), "{a} {relation} {b}");
        }
    }
    for (choice, of) in [("fmin", f64::min as fn(f64, f64) -> f64), ("fmax", f64::max)] {
        let text = format!("{LOADS}{choice}.s0 f9=f6,f7\nstfd [r5]=f9,8");
        for (words, got) in groups.iter().zip(each(&text, &groups)) {
            let [a, b, _] = words.map(f64::from_bits);
            let want = if a.is_nan() || b.is_nan() || a == b { b } else { of(a, b) };
            assert!(same(got, want), "{choice} {a} {b}");
        }
    }
}

#[test]
fn classes_are_told_apart() {
    for (word, classes) in [
        (0_u64, 1 | 4),
        (1 << 63, 2 | 4),
        (1, 1 | 8),
        (0xbff0_0000_0000_0000, 2 | 0x10),
        (0x7ff0_0000_0000_0000, 1 | 0x20),
        (0x7ff0_0000_0000_0001, 0x40),
        (0xfff8_0000_0000_0001, 0x80),
    ] {
        for bit in [4_u64, 8, 0x10, 0x20, 0x40, 0x80] {
            for sign in [1, 2] {
                let asked = bit | sign;
                let machine = good(&format!("movl r4={word:#x}\nsetf.d f6=r4\nfclass.m p6,p7=f6,{asked:#x}"));
                let want = classes & bit != 0 && (bit > 0x20 || classes & sign != 0);
                assert_eq!((machine.cpu.pr(6), machine.cpu.pr(7)), (want, !want), "{word:x} {asked:#x}");
            }
        }
    }
}

#[test]
fn flags_say_what_happened_and_traps_that_are_on_fault() {
    // Flags of field 0 are bits 18:13 of FPSR: v, d, z, o, u, i.
    for (text, flags) in [
        ("fadd.d.s0 f9=f1,f1", 0),
        ("fma.d.s0 f9=f6,f6,f1", 0x20),
        ("fmpy.d.s0 f9=f7,f7", 0x28),
        ("fmpy.d.s0 f9=f8,f8", 0x30),
        ("fsub.d.s0 f9=f10,f10", 1),
        ("frcpa.s0 f9,p6=f1,f0", 4),
        ("fadd.d.s0 f9=f1,f11", 0x22),
        ("fcvt.fx.s0 f9=f10", 1),
        ("fcmp.lt.s0 p6,p7=f12,f1", 1),
        ("fcmp.eq.s0 p6,p7=f12,f1", 0),
    ] {
        let values = [
            (6, 0x3ff0_0000_0000_0001_u64),
            (7, 0x7fe0_0000_0000_0000),
            (8, 0x0010_0000_0000_0001),
            (10, 0x7ff0_0000_0000_0000),
            (11, 1),
            (12, 0x7ff8_0000_0000_0000),
        ];
        let set = values
            .iter()
            .map(|(to, value)| format!("movl r4={value:#x}\nsetf.d f{to}=r4\n"))
            .collect::<Vec<_>>()
            .concat();
        let machine = good(&format!("{set}{text}\nmov.m r10=ar.fpsr"));
        assert_eq!(machine.r(10) >> 13 & 0x3f, flags, "{text}");
        // The same with the first three traps on.
        let on = ran(&format!("{set}movl r4=0x9804c02700338\nmov.m ar.fpsr=r4\n{text}"));
        assert_eq!(on.vector(), (flags & 7 != 0).then_some(0x5c00), "{text}");
    }
}

/// The flags of field 0, the vector, and ISR's code after a program on f6 and f7, whose exponents (with the sign above) and
/// significands these are.
fn of_registers(values: [(u64, u64); 2], text: &str) -> (u64, Option<u64>, u64) {
    let mut machine = Machine::new(&format!(
        "{BEGIN}\nmovl r5={DATA:#x}\nldf.fill f6=[r5],16\nldf.fill f7=[r5]\n{text}\nmov.m r10=ar.fpsr\nend:\nbr.few @end"
    ));
    for (at, word) in values.into_iter().flat_map(|(exponent, significand)| [significand, exponent]).enumerate() {
        let at = DATA as usize + 8 * at;
        machine.ram.0[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    machine.finish();
    let vector = machine.vector();
    if let Some(vector) = vector {
        machine.put(TABLE + vector, "mov r20=cr.isr\nmov.m r10=ar.fpsr\nhere:\nbr.few @here");
        machine.finish();
    }
    (machine.r(10) >> 13 & 0x3f, vector, machine.r(20) & 0xffff)
}

#[test]
fn what_a_program_cannot_divide_is_softwares() {
    const ONE: u64 = 1 << 63;
    const LARGEST: u64 = 0x1_fffe;
    for (a, b, asks) in [
        // Divisors near the ends of a register's range, by something that leaves the quotient in the middle of it.
        ((LARGEST, ONE), (LARGEST, ONE), true),
        ((LARGEST, ONE), (0x1_fffc, ONE), true),
        ((LARGEST, ONE), (0x1_fffb, u64::MAX), false),
        ((0x41, ONE), (1, ONE), false),
        ((0x41, ONE), (1, ONE >> 1), true),
        ((0x41, ONE), (2, ONE >> 1), false),
        // Quotients near them.
        ((0xffff + 0x8000, ONE), (0x8000, ONE), true),
        ((0xffff + 0x7fff, ONE), (0x8000, ONE), false),
        ((0x8000, ONE), (0xffff + 0x7ffe, ONE), true),
        ((0x8000, ONE), (0xffff + 0x7ffd, ONE), false),
        // Dividends that have no room for what is lost below them.
        ((0x40, ONE), (0x8000, ONE), true),
        ((0x41, ONE >> 1), (0x8000, ONE), true),
        ((0x41, ONE), (0x8000, ONE), false),
        // What needs no division.
        ((0, 0), (LARGEST, ONE), false),
        ((0x1_ffff, ONE), (LARGEST, ONE), false),
    ] {
        let (flags, vector, code) = of_registers([a, b], "frcpa.s0 f9,p6=f6,f7");
        assert_eq!((vector, code), if asks { (Some(0x5c00), 8) } else { (None, 0) }, "{a:x?} / {b:x?}");
        assert!(!asks || flags == 0, "{a:x?} / {b:x?}: {flags:x}");
    }
    // It comes before what the program wants to know of.
    let on = "movl r4=0x9804c02700338\nmov.m ar.fpsr=r4\n";
    let unnormal = (LARGEST, ONE >> 1);
    assert_eq!(of_registers([unnormal, unnormal], &format!("{on}frcpa.s0 f9,p6=f6,f7")), (0, Some(0x5c00), 8));
    let middle = (0xffff, ONE >> 1);
    assert_eq!(of_registers([middle, middle], &format!("{on}frcpa.s0 f9,p6=f6,f7")), (0, Some(0x5c00), 2));
}

#[test]
fn a_root_that_a_program_cannot_take_is_softwares() {
    for (value, asks) in [
        ((0x40, 1 << 63), true),
        ((0x41, 1 << 62), true),
        ((0x41, 1 << 63), false),
        ((0x1_fffe, 1 << 63), false),
        ((0, 0), false),
        ((1 << 17 | 0x40, 1 << 63), false),
    ] {
        let (_, vector, code) = of_registers([value, value], "frsqrta.s0 f9,p6=f6");
        assert_eq!((vector, code), if asks { (Some(0x5c00), 8) } else { (None, 0) }, "{value:x?}");
    }
}

#[test]
fn traps_that_are_on_follow_their_result() {
    const O: u64 = 8;
    const U: u64 = 16;
    const I: u64 = 32;
    let values = [
        (6, 0x3ff0_0000_0000_0001_u64),
        (7, 0x7fe0_0000_0000_0000),
        (8, 0x0010_0000_0000_0001),
        (10, 0x0010_0000_0000_0000),
        (11, 0x4006_0000_0000_0000),
    ];
    let set = values.map(|(to, value)| format!("movl r4={value:#x}\nsetf.d f{to}=r4\n")).concat();
    let (one, last) = (1_u64 << 63, 1_u64 << 11);
    // Which traps are on; those that there are, in ISR, with 64 for a result that is larger than the exact one; flags;
    // exponent and significand.
    for (text, on, code, flags, exponent, significand) in [
        ("fmpy.d.s0 f9=f7,f7", O, O, O, 0xffff + 2046, one),
        ("fmpy.d.s0 f9=f7,f7", O | I, O, O, 0xffff + 2046, one),
        ("fmpy.d.s0 f9=f7,f7", I, I | 64, O | I, 0x1_ffff, one),
        ("fmpy.s.s0 f9=f7,f6", O, O | I, O | I, 0xffff + 1023, one),
        ("fmpy.d.s0 f9=f8,f8", U, U | I, U | I, 0xffff - 2044, one | 2 * last),
        ("fmpy.d.s0 f9=f10,f10", U, U, U, 0xffff - 2044, one),
        ("fmpy.d.s0 f9=f10,f10", I, I, U | I, 0, 0),
        ("fma.d.s0 f9=f6,f6,f1", I, I, I, 0x1_0000, one | last),
        ("fma.d.s0 f9=f6,f6,f6", I, I | 64, I, 0x1_0000, one | 2 * last),
        ("fcvt.fx.s0 f9=f11", I, I | 64, I, 0x1_003e, 3),
        ("fcvt.fx.trunc.s0 f9=f11", I, I, I, 0x1_003e, 2),
        ("fma.d.s0 f9=f6,f6,f1", O | U, 0, I, 0x1_0000, one | last),
    ] {
        let fpsr = 0x9_804c_0270_033f_u64 & !on;
        let text = format!("{set}movl r4={fpsr:#x}\nmov.m ar.fpsr=r4\n{text}\nadds r11=1,r11\n");
        let mut machine = Machine::new(&format!("{BEGIN}\n{text}\nmov.m r10=ar.fpsr\nend:\nbr.few @end"));
        machine.put(TABLE + 0x5d00, "mov r12=cr.isr\nmov r13=cr.ipsr\nrfi");
        machine.finish();
        assert_eq!(machine.vector(), None, "{text}");
        let named = if code == 0 { 0 } else { code >> 3 << 11 | 1 | 1 << 41 };
        assert_eq!((machine.r(12), machine.r(10) >> 13 & 0x3f), (named, flags), "{text}");
        let value = machine.cpu.fr(9);
        assert_eq!((u64::from(value.exponent), value.significand), (exponent, significand), "{text}");
        // It goes on behind the instruction, in the last slot.
        assert_eq!(machine.r(11), 1, "{text}");
        assert!(code == 0 || machine.r(13) >> 41 & 3 == 2, "{text}");
    }
}

#[test]
fn a_trap_comes_with_that_of_a_step() {
    let step = "movl r4=0x9804c0270031f\nmov.m ar.fpsr=r4\nmovl r4=0x3ff0000000000001\nsetf.d f6=r4";
    let mut machine = Machine::new(&format!("{BEGIN}\n{step}\nfma.d.s0 f9=f6,f6,f1\nend:\nbr.few @end"));
    machine.bundles(10);
    machine.cpu.set_psr(machine.cpu.psr() | 1 << 40);
    machine.put(TABLE + 0x5d00, "mov r12=cr.isr\nhere:\nbr.few @here");
    machine.put(TABLE + 0x6000, "mov r9=cr.ipsr\nrfi");
    machine.finish();
    // It was the second step of its bundle.
    assert_eq!((machine.vector(), machine.r(12)), (Some(0x5d10), 1 << 41 | 1 << 13 | 8 | 1));
}
