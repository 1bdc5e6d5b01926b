// SPDX-License-Identifier: MIT
//! Branches, loops and rotation: small programs.

mod common;

use common::{good, ran};

#[test]
fn predicates_choose_what_is_done() {
    let machine = good(
        "
        mov r4=5
        cmp.lt p6,p7=4,r4
        (p06) mov r10=1
        (p07) mov r10=2
        (p07) br.cond.sptk.few @wrong
        (p06) br.cond.sptk.few @right
        wrong:
        mov r11=1
        right:",
    );
    assert_eq!((machine.r(10), machine.r(11)), (1, 0));
}

#[test]
fn a_counted_loop() {
    let machine = good("mov.i ar.lc=9\nmov r10=0\nagain:\nadds r10=3,r10\nbr.cloop.sptk.few @again\nmov.i r11=ar.lc");
    assert_eq!((machine.r(10), machine.r(11)), (30, 0));
}

#[test]
fn a_loop_with_rotation_copies_memory() {
    // Three stages: load, add, store. A word is in r32 when it is loaded, in r34 when it is stored.
    let machine = good(
        "
        alloc r2=ar.pfs,8,0,8
        movl r4=0x40000
        movl r5=0x41000
        mov r6=11
        fill:
        st8 [r4]=r6,8
        adds r6=1,r6
        cmp.eq p8,p9=16,r6
        (p09) br.cond.sptk.few @fill
        movl r4=0x40000
        mov.i ar.lc=4
        mov.i ar.ec=3
        mov pr.rot=0x10000
        again:
        (p16) ld8 r32=[r4],8
        (p17) adds r34=100,r33
        (p18) st8 [r5]=r35,8
        br.ctop.sptk.few @again
        mov.i r10=ar.ec",
    );
    let mut ram = machine.ram.clone();
    let got: Vec<u64> = (0..6).map(|at| ram.word(0x41000 + 8 * at)).collect();
    assert_eq!(got, [111, 112, 113, 114, 115, 0]);
    assert_eq!(machine.r(10), 0);
}

#[test]
fn a_while_loop_goes_on_with_its_predicate_and_then_for_its_epilogue() {
    let machine = good(
        "
        mov.i ar.ec=3
        mov r10=0
        mov r12=4
        mov pr.rot=0x10000
        again:
        adds r10=1,r10
        cmp.lt p6,p7=r10,r12
        (p06) br.wtop.sptk.few @again
        mov.i r11=ar.ec",
    );
    // Three times with the predicate, twice for the epilogue count, and once through; predicates have moved each time.
    assert_eq!((machine.r(10), machine.r(11)), (6, 0));
    assert!(machine.cpu.pr(22) && !machine.cpu.pr(16));
}

#[test]
fn loop_branches_elsewhere_than_in_the_last_slot_are_illegal() {
    // A bundle of three branches.
    assert_eq!(ran("16 ! br.cloop.sptk.few 0x10000 | nop.b 0x0 | nop.b 0x0").vector(), Some(0x5400));
}

#[test]
fn calls_through_registers_and_far_ones() {
    let machine = good(
        "
        movl r4=@far
        mov b6=r4
        br.call.sptk.few b0=b6
        mov r11=1
        br.few @out
        far:
        mov r10=5
        mov r12=ip
        mov r13=b0
        brl.call.sptk.few b1=@next
        next:
        mov r14=b1
        br.few b0
        out:",
    );
    assert_eq!((machine.r(10), machine.r(11)), (5, 1));
    assert_eq!(machine.r(14) - machine.r(12), 48);
    assert_eq!(machine.r(12) - machine.r(13), 48);
}

#[test]
fn several_instructions_share_a_bundle() {
    // add, add in the memory slots, shift in the integer one; a branch that is taken skips what follows it.
    let machine = good(
        "mov r4=3\n8 ! add r10=r4,r4 | adds r11=7,r4 | mov r12=ip\n16 ! br.few @out | nop.b 0x0 | break.b 0x0\nout:",
    );
    assert_eq!((machine.r(10), machine.r(11)), (6, 10));
}
