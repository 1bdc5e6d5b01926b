// SPDX-License-Identifier: MIT
//! Integer, multimedia, compare and test instructions, one by one, against what the manual says of each.

mod common;

use common::{good, ran};

/// What an instruction makes r10 of r4 and r5.
fn made(text: &str, r4: u64, r5: u64) -> u64 {
    good(&format!("movl r4={r4:#x}\nmovl r5={r5:#x}\n{text}")).r(10)
}

#[test]
fn integers() {
    let cases: &[(&str, u64, u64, u64)] = &[
        ("add r10=r4,r5", 7, 8, 15),
        ("add r10=r4,r5,1", 7, 8, 16),
        ("sub r10=r4,r5", 7, 8, u64::MAX),
        ("sub r10=r4,r5,1", 7, 8, u64::MAX - 1),
        ("and r10=r4,r5", 12, 10, 8),
        ("andcm r10=r4,r5", 12, 10, 4),
        ("or r10=r4,r5", 12, 10, 14),
        ("xor r10=r4,r5", 12, 10, 6),
        ("shladd r10=r4,3,r5", 5, 2, 42),
        ("addp4 r10=r4,r5", 0xffff_ffff, 0x8000_0001, 2 << 61 | 0x8000_0000),
        ("shladdp4 r10=r4,1,r5", 0x8000_0000, 0x4000_0004, 1 << 61 | 0x4000_0004),
        ("sub r10=-1,r5", 0, 3, -4_i64 as u64),
        ("andcm r10=-1,r5", 0, 3, !3),
        ("adds r10=-8192,r5", 0, 3, -8189_i64 as u64),
        ("addp4 r10=-1,r5", 0, 0xc000_0000, 3 << 61 | 0xbfff_ffff),
        ("addl r10=-2097152,r1", 0, 0, -0x20_0000_i64 as u64),
        ("sxt1 r10=r5", 0, 0x80, 0x80_u8 as i8 as u64),
        ("sxt2 r10=r5", 0, 0x8000, -0x8000_i64 as u64),
        ("sxt4 r10=r5", 0, 0x1_8000_0000, -0x8000_0000_i64 as u64),
        ("zxt1 r10=r5", 0, u64::MAX, 0xff),
        ("zxt4 r10=r5", 0, u64::MAX, 0xffff_ffff),
        ("popcnt r10=r5", 0, 0xf0f0, 8),
        ("clz r10=r5", 0, 1, 63),
        ("mpy4 r10=r4,r5", 0x1_ffff_ffff, 0xffff_ffff, 0xffff_fffe_0000_0001),
        ("mpyshl4 r10=r4,r5", 3 << 32 | 9, 5, 15 << 32),
    ];
    for &(text, r4, r5, want) in cases {
        assert_eq!(made(text, r4, r5), want, "{text}");
    }
}

#[test]
fn shifts_and_fields() {
    let cases: &[(&str, u64, u64, u64)] = &[
        ("shl r10=r4,r5", 3, 4, 48),
        ("shl r10=r4,r5", 3, 64, 0),
        ("shr.u r10=r4,r5", 1 << 63, 63, 1),
        ("shr r10=r4,r5", 1 << 63, 1 << 40, u64::MAX),
        ("shr.u r10=r4,r5", 1 << 63, 1 << 40, 0),
        ("shrp r10=r4,r5,8", 0xab, 0x100, 0xab << 56 | 1),
        ("shr r10=r5,4", 0, 1 << 63, 0xf8 << 56),
        ("shl r10=r4,60", 0xff, 0, 0xf << 60),
        ("extr.u r10=r5,8,4", 0, 0xabc, 0xa),
        ("extr r10=r5,8,4", 0, 0xabc, 0xa | !0xf),
        ("extr r10=r5,60,8", 0, 0x9 << 60, 0x9 | !0xf),
        ("extr.u r10=r5,60,8", 0, 0x9 << 60, 0x9),
        ("dep.z r10=r4,4,8", 0xfff, 0, 0xff0),
        ("dep.z r10=-1,60,8", 0, 0, 0xf << 60),
        ("dep r10=r4,r5,4,8", 0xfab, u64::MAX, !0xff0 | 0xab0),
        ("dep r10=-1,r5,4,8", 0, 0, 0xff0),
        ("dep r10=0,r5,60,8", 0, u64::MAX, u64::MAX >> 4),
    ];
    for &(text, r4, r5, want) in cases {
        assert_eq!(made(text, r4, r5), want, "{text}");
    }
}

#[test]
fn several_integers_in_one_register() {
    let (a, b) = (0x80ff_7f01_0010_fe02, 0x8001_7f02_00f0_0301);
    let cases: &[(&str, u64)] = &[
        ("padd1 r10=r4,r5", 0x0000_fe03_0000_0103),
        ("padd1.sss r10=r4,r5", 0x8000_7f03_0000_0103),
        ("padd1.uuu r10=r4,r5", 0xffff_fe03_00ff_ff03),
        ("padd1.uus r10=r4,r5", 0x00ff_fe03_0000_ff03),
        ("psub1.uuu r10=r4,r5", 0x00fe_0000_0000_fb01),
        ("padd2 r10=r4,r5", 0x0100_fe03_0100_0103),
        ("padd4 r10=r4,r5", 0x0100_fe03_0101_0103),
        ("pavg1 r10=r4,r5", 0x8080_7f01_0080_8101),
        ("pavg1.raz r10=r4,r5", 0x8080_7f02_0080_8102),
        ("pavgsub1 r10=r4,r5", 0x007f_00ff_0090_7d01),
        ("pcmp1.eq r10=r4,r5", 0xff00_ff00_ff00_0000),
        ("pcmp1.gt r10=r4,r5", 0x0000_0000_00ff_00ff),
        ("pcmp2.gt r10=r4,r5", 0xffff_0000_0000_0000),
        ("pmin1.u r10=r4,r5", 0x8001_7f01_0010_0301),
        ("pmax2 r10=r4,r5", 0x80ff_7f02_00f0_0301),
        ("psad1 r10=r4,r5", 0xfe + 1 + 0xe0 + 0xfb + 1),
        ("mix1.r r10=r4,r5", 0xff01_0102_10f0_0201),
        ("mix1.l r10=r4,r5", 0x8080_7f7f_0000_fe03),
        ("mix4.l r10=r4,r5", 0x80ff_7f01_8001_7f02),
        ("unpack1.l r10=r4,r5", 0x0000_10f0_fe03_0201),
        ("unpack2.h r10=r4,r5", 0x80ff_8001_7f01_7f02),
        ("pack2.sss r10=r4,r5", 0x807f_7f7f_807f_1080),
        ("pack2.uss r10=r4,r5", 0x00ff_f0ff_00ff_1000),
        ("pack4.sss r10=r4,r5", 0x8000_7fff_8000_7fff),
        ("mux1 r10=r4,@rev", 0x02fe_1000_017f_ff80),
        ("mux1 r10=r4,@brcst", 0x0202_0202_0202_0202),
        ("mux1 r10=r4,@mix", 0x8000_7ffe_ff10_0102),
        ("mux1 r10=r4,@shuf", 0x8000_ff10_7ffe_0102),
        ("mux1 r10=r4,@alt", 0x807f_00fe_ff01_1002),
        ("mux2 r10=r4,0x1b", 0xfe02_0010_7f01_80ff),
        ("pshl2 r10=r4,4", 0x0ff0_f010_0100_e020),
        ("pshr2 r10=r4,4", 0xf80f_07f0_0001_ffe0),
        ("pshr4.u r10=r4,4", 0x080f_f7f0_0001_0fe0),
        ("pshladd2 r10=r4,1,r5", 0x8000_7fff_0110_ff05),
        ("pshradd2 r10=r4,1,r5", 0x8000_7fff_00f8_0202),
        ("czx1.r r10=r4", 3),
        ("czx1.l r10=r4", 4),
        ("czx2.l r10=r4", 4),
    ];
    for &(text, want) in cases {
        assert_eq!(format!("{:016x}", made(text, a, b)), format!("{want:016x}"), "{text}");
    }
    let (a, b) = (0xffff_0003_8000_0100, 0x0002_0005_8000_0100);
    for (text, want) in [
        ("pmpyshr2 r10=r4,r5,0", 0xfffe_000f_0000_0000_u64),
        ("pmpyshr2 r10=r4,r5,16", 0xffff_0000_4000_0001),
        ("pmpyshr2.u r10=r4,r5,16", 0x0001_0000_4000_0001),
        ("pmpy2.r r10=r4,r5", 0x0000_000f_0001_0000),
        ("pmpy2.l r10=r4,r5", 0xffff_fffe_4000_0000),
    ] {
        assert_eq!(format!("{:016x}", made(text, a, b)), format!("{want:016x}"), "{text}");
    }
}

/// What a compare or test makes p6 and p7, which were these, of r4 and r5.
fn compared(text: &str, r4: u64, r5: u64, before: (bool, bool)) -> (bool, bool) {
    let (first, second) = (u64::from(before.0), u64::from(before.1));
    let machine = good(&format!(
        "movl r4={r4:#x}\nmovl r5={r5:#x}\nmovl r3={:#x}\nmov pr=r3,0xfffffffffffffffe\n{text}",
        first << 6 | second << 7
    ));
    (machine.cpu.pr(6), machine.cpu.pr(7))
}

#[test]
fn compares_write_two_predicates() {
    let minus = -1_i64 as u64;
    for (text, r4, r5, want) in [
        ("cmp.lt p6,p7=r4,r5", minus, 0, true),
        ("cmp.ltu p6,p7=r4,r5", minus, 0, false),
        ("cmp.eq p6,p7=r4,r5", 1 << 32, 0, false),
        ("cmp4.eq p6,p7=r4,r5", 1 << 32, 0, true),
        ("cmp4.lt p6,p7=r4,r5", 0x8000_0000, 0, true),
        ("cmp4.ltu p6,p7=r4,r5", 0x8000_0000, 0, false),
        ("cmp4.ltu p6,p7=r4,r5", 1, 0xf_8000_0000, true),
        ("cmp.lt p6,p7=-3,r5", 0, minus, true),
        ("cmp.ltu p6,p7=5,r5", 0, 4, false),
        ("tbit.z p6,p7=r5,63", 0, 1 << 62, true),
        ("tnat.z p6,p7=r5", 0, 0, true),
        ("tf.z p6,p7=32", 0, 0, true),
    ] {
        assert_eq!(compared(text, r4, r5, (false, false)), (want, !want), "{text}");
        assert_eq!(compared(text, r4, r5, (true, true)), (want, !want), "{text}");
    }
}

#[test]
fn parallel_compares_write_only_some_results() {
    for before in [(false, false), (true, true), (true, false)] {
        for (r4, r5) in [(3, 3), (3, 4)] {
            let equal = r4 == r5;
            let got = |text| compared(text, r4, r5, before);
            assert_eq!(got("cmp.eq.and p6,p7=r4,r5"), if equal { before } else { (false, false) });
            assert_eq!(got("cmp.ne.and p6,p7=r4,r5"), if equal { (false, false) } else { before });
            assert_eq!(got("cmp.eq.or p6,p7=r4,r5"), if equal { (true, true) } else { before });
            assert_eq!(got("cmp.eq.or.andcm p6,p7=r4,r5"), if equal { (true, false) } else { before });
        }
        let got = |text| compared(text, 0, -5_i64 as u64, before);
        assert_eq!(got("cmp.gt.or p6,p7=r0,r5"), (true, true));
        assert_eq!(got("cmp.le.and p6,p7=r0,r5"), (false, false));
    }
}

#[test]
fn an_unconditional_compare_clears_where_its_predicate_is_false() {
    let before = (true, true);
    assert_eq!(compared("(p08) cmp.eq p6,p7=r4,r5", 1, 1, before), before);
    assert_eq!(compared("(p08) cmp.eq.unc p6,p7=r4,r5", 1, 1, before), (false, false));
    assert_eq!(compared("(p06) cmp.eq.unc p6,p7=r4,r5", 1, 1, before), (true, false));
}

#[test]
fn two_targets_that_are_one_are_illegal() {
    assert_eq!(ran("cmp.eq p6,p6=r4,r5").vector(), Some(0x5400));
    assert_eq!(ran("(p08) cmp.eq p6,p6=r4,r5").vector(), None);
    assert_eq!(ran("(p08) cmp.eq.unc p6,p6=r4,r5").vector(), Some(0x5400));
}
