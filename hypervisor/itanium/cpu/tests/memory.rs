// SPDX-License-Identifier: MIT
//! Loads, stores and semaphores, with what each makes of its registers; floating-point registers as far as they are
//! only moved.

mod common;

use common::{DATA, good, ran};

const WORD: u64 = 0x8182_8384_8586_8788;

/// What r10 is after a text, with r5 at memory that holds [`WORD`], r4 a number and r6 what r5 was.
fn made(text: &str) -> (u64, u64, u64) {
    let mut machine =
        good(&format!("movl r5=0x40000\nmovl r4={WORD:#x}\nst8 [r5]=r4\nmovl r4=0x1122334455667788\n{text}"));
    (machine.r(10), machine.r(5).wrapping_sub(DATA), machine.ram.word(DATA))
}

#[test]
fn loads_extend_with_zeros_and_step() {
    assert_eq!(made("ld1 r10=[r5]"), (0x88, 0, WORD));
    assert_eq!(made("ld2 r10=[r5],2"), (0x8788, 2, WORD));
    assert_eq!(made("ld4 r10=[r5],-256"), (0x8586_8788, 0_u64.wrapping_sub(256), WORD));
    assert_eq!(made("mov r7=16\nld8.acq r10=[r5],r7"), (WORD, 16, WORD));
    assert_eq!(made("adds r5=4,r5\nld4.bias r10=[r5]"), (0x8182_8384, 4, WORD));
    assert_eq!(made("ld16 r10,ar.csd=[r5]\nmov.m r10=ar.csd").0, 0);
    assert_eq!(made("lfetch.nta [r5],64").1, 64);
}

#[test]
fn stores_write_so_many_bytes() {
    assert_eq!(made("st1 [r5]=r4").2, 0x8182_8384_8586_8788);
    assert_eq!(made("st2 [r5]=r4,8"), (0, 8, 0x8182_8384_8586_7788));
    assert_eq!(made("st4.rel [r5]=r4").2, 0x8182_8384_5566_7788);
    assert_eq!(made("st8 [r5]=r4").2, 0x1122_3344_5566_7788);
    assert_eq!(made("mov.m ar.csd=r4\nst16 [r5]=r5,ar.csd\nadds r6=8,r5\nld8 r10=[r6]").0, 0x1122_3344_5566_7788);
}

#[test]
fn bytes_are_in_the_order_that_psr_says() {
    assert_eq!(made("sum 0x2\nld4 r10=[r5]\nst2 [r5]=r4\nrum 0x2"), (0x8887_8685, 0, 0x8182_8384_8586_8877));
    assert_eq!(made("sum 0x2\nld8 r10=[r5]\nrum 0x2").0, WORD.swap_bytes());
}

#[test]
fn semaphores_give_what_was_there() {
    assert_eq!(made("xchg4 r10=[r5],r4"), (0x8586_8788, 0, 0x8182_8384_5566_7788));
    assert_eq!(made("fetchadd8.rel r10=[r5],-16"), (WORD, 0, WORD - 16));
    assert_eq!(made("fetchadd4.acq r10=[r5],8"), (0x8586_8788, 0, WORD + 8));
    assert_eq!(made("mov.m ar.ccv=r4\ncmpxchg8.acq r10=[r5],r4,ar.ccv"), (WORD, 0, WORD));
    assert_eq!(
        made("movl r6=0x88\nmov.m ar.ccv=r6\ncmpxchg1.rel r10=[r5],r0,ar.ccv"),
        (0x88, 0, 0x8182_8384_8586_8700)
    );
    assert_eq!(
        made("ld8 r6=[r5]\nmov.m ar.ccv=r6\nmov.m ar.csd=r4\ncmp8xchg16.acq r10=[r5],r0,ar.csd,ar.ccv"),
        (WORD, 0, 0)
    );
    // Memory that is not cached does none of them: in physical mode, bit 63 says so.
    assert_eq!(ran("movl r5=0x8000000000040000\nfetchadd8.acq r10=[r5],1").vector(), Some(0x5b00));
    assert_eq!(good("movl r5=0x8000000000040000\nst8 [r5]=r5\nld8 r10=[r5]").r(10), 1 << 63 | DATA);
}

#[test]
fn a_spill_and_a_fill_keep_the_nat() {
    let machine = good(
        "
        movl r5=0x40010
        mov r4=4
        mov.m ar.unat=r4
        ld8.fill r10=[r5],8
        ld8.fill r11=[r5],8
        mov.m ar.unat=r0
        st8.spill [r5]=r10,8
        mov.m r12=ar.unat",
    );
    assert!(machine.nat(10) && !machine.nat(11));
    assert_eq!(machine.r(12), 1 << 4);
}

#[test]
fn floating_point_registers_keep_what_memory_has() {
    for (load, store, value) in [
        ("ldfs f6=[r5]", "stfs [r5]=f6", 0x3f80_0001_u64),
        ("ldfs f6=[r5]", "stfs [r5]=f6", 0x8000_0001),
        ("ldfs f6=[r5]", "stfs [r5]=f6", 0x7f80_0000),
        ("ldfs f6=[r5]", "stfs [r5]=f6", 0xffc0_0001),
        ("ldfd f6=[r5]", "stfd [r5]=f6", 0x3ff0_0000_0000_0001),
        ("ldfd f6=[r5]", "stfd [r5]=f6", 0x8000_0000_0000_0001),
        ("ldfd f6=[r5]", "stfd [r5]=f6", 0x7ff8_0000_0000_0001),
        ("ldf8 f6=[r5]", "stf8 [r5]=f6", WORD),
        ("ldfd f7=[r5]\nmov f6=f7", "stf.spill [r5]=f6\nldf.fill f8=[r5]\nstfd [r5]=f8", 0x4009_21fb_5444_2d18),
        ("ldfd f7=[r5]\nfneg f6=f7\nfabs f6=f6", "stfd [r5]=f6", 0x4009_21fb_5444_2d18),
    ] {
        let mut machine =
            good(&format!("movl r5=0x40000\nmovl r4={value:#x}\nst8 [r5]=r4\n{load}\nst8 [r5]=r0\n{store}"));
        assert_eq!(machine.ram.word(DATA), value, "{load} {store} {value:#x}");
    }
}

#[test]
fn registers_of_both_kinds_exchange_values() {
    let of = |text: &str| good(&format!("movl r4=0x4009000000000000\nmovl r5=0x1ffff\n{text}")).r(10);
    assert_eq!(of("setf.sig f6=r4\ngetf.exp r10=f6"), 0x1003e);
    assert_eq!(of("setf.d f6=r4\ngetf.sig r10=f6"), 0xc800 << 48);
    assert_eq!(of("setf.d f6=r4\ngetf.exp r10=f6"), 0x1_0000);
    assert_eq!(of("setf.d f6=r4\ngetf.s r10=f6"), 0x4048_0000);
    assert_eq!(of("setf.exp f6=r5\ngetf.exp r10=f6"), 0x1_ffff);
    assert_eq!(of("getf.d r10=f1"), 0x3ff0_0000_0000_0000);
    assert_eq!(of("setf.sig f6=r4\nfcvt.xf f7=f6\ngetf.d r10=f7"), 0x43d0_0240_0000_0000);
    // Integer products, which floating-point registers make.
    let product =
        |text: &str| of(&format!("mov r6=-3\nmov r7=5\nsetf.sig f6=r6\nsetf.sig f7=r7\n{text}\ngetf.sig r10=f8"));
    assert_eq!(product("xma.l f8=f6,f7,f7"), -10_i64 as u64);
    assert_eq!(product("xmpy.h f8=f6,f7"), u64::MAX);
    assert_eq!(product("xmpy.hu f8=f6,f7"), 4);
    // A NaT becomes the value that stands for it, and back.
    let machine = good(
        "movl r3=0x40000\nmov r4=1\nmov.m ar.unat=r4\nld8.fill r4=[r3]\nsetf.d f6=r4\ngetf.sig r10=f6\nchk.s f6,@on\nmov r11=1\non:",
    );
    assert!(machine.nat(10) && machine.r(11) == 0);
}

#[test]
fn floating_point_registers_may_be_disabled() {
    for (text, isr) in [("setf.d f6=r4", 1), ("setf.d f40=r4", 2), ("fmerge.s f40=f6,f7", 3), ("getf.d r10=f1", 0)] {
        let machine = ran(&format!("ssm 0xc0000\n{text}"));
        assert_eq!(machine.vector(), (isr != 0).then_some(0x5500), "{text}");
    }
    assert_eq!(ran("setf.d f1=r4").vector(), Some(0x5400));
    assert_eq!(ran("movl r5=0x40000\nldfps f6,f8=[r5]").vector(), Some(0x5400), "both even");
    assert_eq!(ran("movl r5=0x40000\nldfps f6,f7=[r5]").vector(), None);
    let machine = good("setf.d f40=r4\nmov r10=psr.um");
    assert_eq!(machine.r(10), 1 << 5, "psr.mfh");
}
