// SPDX-License-Identifier: MIT
//! Advanced loads and what checks them; control speculation is among the interruptions.

mod common;

use common::good;

/// Stores 1 at r5, loads it in advance into r10, does what the text says, and checks the load: r11 is 1 where it was
/// still right, r12 what the register then has.
fn advanced(load: &str, between: &str, check: &str) -> (u64, u64) {
    let machine = good(&format!(
        "
        movl r5=0x40000
        movl r6=0x40004
        movl r7=0x40008
        mov r4=1
        mov r8=2
        mov r11=1
        st8 [r5]=r4
        {load} r10=[r5]
        {between}
        {check} r10,@mend
        br.few @out
        mend:
        mov r11=0
        ld8 r10=[r5]
        out:
        mov r12=r10"
    ));
    (machine.r(11), machine.r(12))
}

#[test]
fn a_store_to_what_was_loaded_in_advance_is_seen() {
    for check in ["chk.a.nc", "chk.a.clr"] {
        assert_eq!(advanced("ld8.a", "nop.m 0x0", check), (1, 1));
        assert_eq!(advanced("ld8.a", "st8 [r7]=r8", check), (1, 1), "beside it");
        assert_eq!(advanced("ld8.a", "st8 [r5]=r8", check), (0, 2));
        assert_eq!(advanced("ld8.a", "st1 [r6]=r8", check), (0, 2 << 32 | 1), "a byte of it");
        assert_eq!(advanced("ld8.a", "xchg4 r9=[r6],r8", check), (0, 2 << 32 | 1));
        assert_eq!(advanced("ld8.a", "invala", check).0, 0);
        assert_eq!(advanced("ld8.a", "invala.e r10", check).0, 0);
        assert_eq!(advanced("ld8.a", "invala.e r9", check).0, 1);
        assert_eq!(advanced("ld8", "nop.m 0x0", check).0, 0, "it was not advanced");
        assert_eq!(advanced("ld8.sa", "nop.m 0x0", check), (1, 1));
        assert_eq!(advanced("ld8.a", "ld8 r10=[r5]", check).0, 0, "another load of the register");
    }
}

#[test]
fn a_check_may_keep_the_entry_or_clear_it() {
    let twice = |first: &str| advanced("ld8.a", &format!("{first} r10,@mend"), "chk.a.nc").0;
    assert_eq!((twice("chk.a.nc"), twice("chk.a.clr")), (1, 0));
}

#[test]
fn a_checked_load_loads_only_what_was_lost() {
    let of = |between: &str, check: &str| {
        let machine = good(&format!(
            "
            movl r5=0x40000
            movl r7=0x40000
            mov r4=1
            mov r8=2
            st8 [r5]=r4
            ld8.a r10=[r5]
            {between}
            {check} r10=[r5],8
            chk.a.nc r10,@lost
            mov r11=1
            lost:
            mov r12=r5"
        ));
        assert_eq!(machine.r(12), 0x4_0008, "the base register steps in any case");
        (machine.r(10), machine.r(11))
    };
    assert_eq!(of("nop.m 0x0", "ld8.c.clr"), (1, 0));
    assert_eq!(of("nop.m 0x0", "ld8.c.nc"), (1, 1));
    assert_eq!(of("st8 [r7]=r8", "ld8.c.clr"), (2, 0));
    assert_eq!(of("st8 [r7]=r8", "ld8.c.nc"), (2, 1), "it is advanced again");
    assert_eq!(of("st8 [r7]=r8", "ld8.c.clr.acq"), (2, 0));
    // The register is not loaded where the entry is there: what was put into it stays.
    assert_eq!(of("mov r10=77", "ld8.c.nc"), (77, 1));
}

#[test]
fn the_table_is_of_the_caller_too_and_of_no_one_who_has_returned() {
    let machine = good(
        "
        alloc r2=ar.pfs,8,4,0
        movl r5=0x40000
        ld8.a r33=[r5]
        br.call.sptk.few b0=@callee
        chk.a.nc r33,@lost
        mov r10=1
        lost:
        br.call.sptk.few b0=@other
        br.few @out
        callee:
        alloc r6=ar.pfs,8,8,0
        ld8.a r37=[r5]
        mov.i ar.pfs=r6
        br.ret.sptk.few b0
        other:
        alloc r6=ar.pfs,8,8,0
        chk.a.nc r37,@none
        mov r11=1
        none:
        mov.i ar.pfs=r6
        br.ret.sptk.few b0
        out:",
    );
    assert_eq!((machine.r(10), machine.r(11)), (1, 0));
}

#[test]
fn the_oldest_of_too_many_advanced_loads_is_lost() {
    let loads = (32..65).map(|register| format!("ld8.a r{register}=[r5]\n")).collect::<Vec<_>>().concat();
    let machine =
        good(&format!("movl r5=0x40000\n{loads}chk.a.nc r33,@lost\nmov r10=1\nchk.a.nc r32,@lost\nmov r11=1\nlost:"));
    assert_eq!((machine.r(10), machine.r(11)), (1, 0));
}
