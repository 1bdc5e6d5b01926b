// SPDX-License-Identifier: MIT
//! Interruptions: what each tells its handler, which of two comes first, and the way back.

mod common;

use common::{BEGIN, DATA, DT, GOOD, IT, Machine, RT, START, TABLE, good, ran};
use itanium_mmu::fields::{Itir, Pte};
use itanium_mmu::tlb::Side;

const IC: u64 = 1 << 13;
const USER: u64 = 3 << 32;

const W: u64 = 1 << 33;
const R: u64 = 1 << 34;
const NA: u64 = 1 << 35;
const SP: u64 = 1 << 36;
const NI: u64 = 1 << 39;

/// The control registers of interruptions, in a program that ended in a vector.
fn control(machine: &Machine, name: &str) -> u64 {
    let mut after = machine.clone();
    after.put(START, &format!("mov r10=cr.{name}"));
    after.cpu.set_psr(after.cpu.psr() & !IC);
    after.put(machine.cpu.place().0, &format!("br.few {START:#x}"));
    after.bundles(2);
    after.r(10)
}

/// A program that runs translated: the first MiB is mapped to itself, and nothing else is.
fn translated(text: &str, psr: u64) -> Machine {
    let mut machine = Machine::new(&format!("{BEGIN}\n{text}\nend:\nbr.few @end"));
    machine.pin();
    machine.bundles(6);
    machine.cpu.set_psr(machine.cpu.psr() | DT | IT | RT | psr);
    machine.finish();
    machine
}

/// Where the program's line is, after those that all have.
const fn line(number: u64) -> u64 {
    START + 16 * (6 + number)
}

#[test]
fn a_break_tells_its_number_and_where_it_was() {
    let machine = ran("mov r4=1\nmov r5=2\nbreak.i 0x1234\nmov r6=3");
    assert_eq!(machine.vector(), Some(0x2c00));
    assert_eq!(control(&machine, "iim"), 0x1234);
    assert_eq!((control(&machine, "iip"), control(&machine, "iipa")), (line(2), line(2)));
    // The first slot of its bundle was executed; it was in the second.
    assert_eq!((control(&machine, "isr"), control(&machine, "ipsr")), (1 << 41, 1 << 44 | 1 << 41 | IC));
    assert_eq!((machine.r(5), machine.r(6), machine.cpu.psr()), (2, 0, 0));
}

#[test]
fn a_break_of_the_branch_unit_has_no_number() {
    let machine = ran("break.b 0x1234");
    assert_eq!((machine.vector(), control(&machine, "iim")), (Some(0x2c00), 0));
}

#[test]
fn the_handler_has_a_bank_of_its_own_and_goes_back() {
    let mut machine = Machine::new(&format!(
        "{BEGIN}\nmov r16=5\nmov r4=6\nbreak.m 0x1\nadds r4=1,r4\nmov r10=r16\nend:\nbr.few @end"
    ));
    machine.put(
        TABLE + 0x2c00,
        "
        mov r16=7
        adds r4=10,r4
        mov r17=cr.iip
        adds r17=16,r17
        mov cr.iip=r17
        rfi",
    );
    machine.finish();
    assert_eq!((machine.r(4), machine.r(10), machine.vector()), (17, 5, None));
}

#[test]
fn instructions_without_collection_are_those_of_handlers() {
    let mut machine = Machine::new(&format!("{BEGIN}\nmov r4=6\nbreak.m 0x1\nmov r5=7\nend:\nbr.few @end"));
    machine.put(
        TABLE + 0x2c00,
        "mov r17=cr.iip\nadds r17=16,r17\nmov cr.iip=r17\nssm 0x2000\nmov r8=1\nrsm 0x2000\nrfi",
    );
    machine.bundles(6);
    assert_eq!(machine.cpu.uncollected, machine.cpu.instructions - 3, "of the bundle of ssm, all are collected");
    let (before, all) = (machine.cpu.uncollected, machine.cpu.instructions);
    machine.bundles(1);
    assert_eq!((machine.cpu.uncollected, machine.cpu.instructions), (before, all + 3), "the program's own are not");
    machine.finish();
    assert_eq!((machine.r(5), machine.r(8)), (7, 1));
    assert_eq!(machine.cpu.uncollected - before, 3 * 3 + 3 + 2, "three bundles, rsm's, and what is before rfi");
}

#[test]
fn a_handler_covers_the_frame_and_rfi_gives_it_back() {
    let mut machine = Machine::new(&format!(
        "{BEGIN}
        alloc r2=ar.pfs,40,20,0
        mov r32=11
        mov r71=12
        break.m 0x1
        mov r10=r32
        mov r11=r71
        end:
        br.few @end"
    ));
    machine.put(
        TABLE + 0x2c00,
        "
        cover
        alloc r16=ar.pfs,90,0,0
        mov r32=1
        mov r121=2
        flushrs
        mov r17=cr.iip
        adds r17=16,r17
        mov cr.iip=r17
        rfi",
    );
    machine.finish();
    assert_eq!((machine.r(10), machine.r(11), machine.vector()), (11, 12, None));
}

#[test]
fn general_exceptions_say_which_they_are() {
    let cases = [
        ("mov r0=r4", 0, 0x00),
        ("alloc r2=ar.pfs,4,4,0\nmov r36=r4", 0, 0x00),
        ("mov.m ar.bsp=r4", 0, 0x00),
        ("mov.i ar.ccv=r4", 0, 0x00),
        ("mov r10=cr.iip", 0, 0x00),
        ("itc.d r4", 0, 0x00),
        ("ld8 r4=[r4],8", 0, 0x00),
        ("mov r10=cr.ivr", USER, 0x10),
        ("rfi", USER, 0x10),
        ("ssm 0x4000", USER, 0x10),
        ("ptc.e r4", USER, 0x10),
        ("mov rr[r4]=r4", USER, 0x10),
        ("mov.m ar.k3=r4", USER, 0x20),
        ("mov.m ar.itc=r4", USER, 0x20),
        ("ssm 0x1", 0, 0x30),
        ("sum 0x2000", USER, 0x30),
        ("movl r4=0x100\nmov.m ar.fpsr=r4", 0, 0x30),
        ("movl r5=0x100000000\nmov rr[r4]=r5", 0, 0x30),
        ("mov r5=99\nmov r10=pmd[r5]", 0, 0x30),
    ];
    for (text, psr, code) in cases {
        let machine = translated(text, psr);
        assert_eq!(machine.vector(), Some(0x5400), "{text}: {}", machine.cpu.state());
        assert_eq!(control(&machine, "isr") & 0xff, code, "{text}");
    }
    // A template that there is not, and a slot without an instruction.
    for slots in [6_u64, 1 << 45 | 1] {
        let mut machine = Machine::new(BEGIN);
        machine.ram.0[line(0) as usize..line(0) as usize + 8].copy_from_slice(&slots.to_le_bytes());
        machine.finish();
        assert_eq!(machine.vector(), Some(0x5400));
    }
}

/// Makes r4 a NaT.
const NAT: &str = "movl r3=0x40000\nmov r4=1\nmov.m ar.unat=r4\nld8.fill r4=[r3]\n";

#[test]
fn a_nat_is_consumed_by_what_needs_a_value() {
    for (text, isr) in [
        ("ld8 r10=[r4]", R),
        ("st8 [r3]=r4", W),
        ("st8 [r4]=r3", W),
        ("xchg8 r10=[r3],r4", R | W),
        ("mov b6=r4", 0),
        ("mov pr=r4,0xfffffffffffffffe", 0),
        ("mov.m ar.k0=r4", 0),
        ("mov cr.tpr=r4", 0),
        ("fc r4", NA | R | 1),
        ("probe.r r10=r4,0", NA | R | 2),
        ("tpa r10=r4", NA),
        ("tak r10=r4", NA | 3),
        ("lfetch.fault [r4]", NA | R | 4),
        ("probe.w.fault r4,0", NA | W | 5),
    ] {
        let machine = ran(&format!("{NAT}{text}"));
        assert_eq!(machine.vector(), Some(0x5600), "{text}");
        assert_eq!(control(&machine, "isr") & !(3 << 41), isr | 0x10, "{text}");
    }
}

#[test]
fn a_nat_goes_through_what_only_computes() {
    for text in
        ["add r10=r4,r3", "shl r10=r4,r3", "adds r10=1,r4", "dep r10=r3,r4,0,4", "padd2 r10=r3,r4", "thash r10=r4"]
    {
        assert!(good(&format!("{NAT}{text}")).nat(10), "{text}");
    }
    let machine =
        good(&format!("{NAT}mov r10=1\nst8.spill [r3]=r4\nmov.m r11=ar.unat\ncmp.eq p6,p7=r4,r4\ntnat.z p9,p8=r4"));
    assert_eq!(machine.r(11), 1);
    assert!(!machine.cpu.pr(6) && !machine.cpu.pr(7) && machine.cpu.pr(8) && !machine.cpu.pr(9));
}

#[test]
fn what_is_wrong_with_an_access_comes_in_order() {
    // A NaT before a miss, a miss before what is not aligned.
    let machine = translated(&format!("{NAT}movl r5=0x100001\nst4 [r5]=r4"), 0);
    assert_eq!(machine.vector(), Some(0x5600));
    let machine = translated("movl r5=0x100001\nst4 [r5]=r5", 0);
    assert_eq!((machine.vector(), control(&machine, "isr"), control(&machine, "ifa")), (Some(0x1000), W, 0x10_0001));
    assert_eq!(control(&machine, "itir"), 12 << 2);
    let machine = translated("movl r5=0x40001\nld4 r6=[r5]", 0);
    assert_eq!((machine.vector(), control(&machine, "isr"), control(&machine, "ifa")), (Some(0x5a00), R, 0x4_0001));
    // A register that cannot be written before all of them.
    assert_eq!(translated("movl r5=0x100001\nld4 r0=[r5]", 0).vector(), Some(0x5400));
    let machine = translated("movl r5=0x100000\nfetchadd8.acq r6=[r5],1", 0);
    assert_eq!((machine.vector(), control(&machine, "isr")), (Some(0x1000), R | W));
    // An address that there is not.
    let machine = translated("movl r5=0xfffffffffffffff8\nld8 r6=[r5]", 0);
    assert_eq!(machine.vector(), Some(0x1000), "all 61 bits are implemented");
}

#[test]
fn instructions_are_fetched_through_their_own_side() {
    let machine = translated("br.few 0x100000", 0);
    assert_eq!((machine.vector(), control(&machine, "isr")), (Some(0x0c00), 1 << 32));
    assert_eq!((control(&machine, "iip"), control(&machine, "ifa")), (0x10_0000, 0x10_0000));
    // The last one that was executed.
    assert_eq!(control(&machine, "iipa"), line(0));
}

#[test]
fn a_miss_while_interruptions_are_not_collected_is_nested() {
    let mut machine =
        Machine::new(&format!("{BEGIN}\nmovl r5=0x100000\nmovl r6=0x108000\nld8 r10=[r5]\nend:\nbr.few @end"));
    machine.pin();
    machine.put(TABLE + 0x1000, "ld8 r11=[r6]");
    machine.bundles(6);
    machine.cpu.set_psr(machine.cpu.psr() | DT | IT);
    machine.finish();
    assert_eq!(machine.vector(), Some(0x1400));
    // All is as the first one left it.
    assert_eq!((control(&machine, "ifa"), control(&machine, "isr")), (0x10_0000, R));
    machine.put(TABLE + 0x1000, "break.m 0x7");
    let mut again = machine.clone();
    again.put(TABLE + 0x1400, &format!("br.few {:#x}", TABLE + 0x1000));
    again.finish();
    assert_eq!((again.vector(), control(&again, "isr")), (Some(0x2c00), NI));
    assert_eq!(control(&again, "iim"), 0, "it is not collected");
}

#[test]
fn a_handler_inserts_what_was_missed() {
    let mut machine = Machine::new(&format!(
        "{BEGIN}\nmovl r5=0x104000\nmovl r6=0x1234\nst8 [r5]=r6\nld8 r10=[r5]\nmov r11=1\nend:\nbr.few @end"
    ));
    machine.pin();
    let pte = GOOD | DATA;
    machine.put(TABLE + 0x1000, &format!("mov r18=56\nmov cr.itir=r18\nmovl r17={pte:#x}\nitc.d r17\nrfi"));
    machine.bundles(6);
    machine.cpu.set_psr(machine.cpu.psr() | DT | IT);
    machine.finish();
    assert_eq!((machine.r(10), machine.r(11), machine.ram.word(DATA)), (0x1234, 1, 0x1234));
    assert_eq!(machine.cpu.mmu.counters().data.cache_insertions, 1);
}

#[test]
fn a_spill_that_misses_says_that_the_stack_did_it() {
    let text = "movl r5=0x100000\nmov.m ar.bspstore=r5\nalloc r2=ar.pfs,96,96,0\nbr.call.sptk.few b0=@on\non:\nalloc r2=ar.pfs,8,0,0";
    let machine = translated(text, 0);
    assert_eq!((machine.vector(), control(&machine, "ifa")), (Some(0x1000), 0x10_0000));
    assert_eq!(control(&machine, "isr"), W | 1 << 37);
    assert_eq!(control(&machine, "iip"), line(4));
}

#[test]
fn a_return_whose_loads_miss_has_returned() {
    let text = "alloc r2=ar.pfs,8,8,0\nbr.call.sptk.few b0=@on\nmov r11=1\non:\nflushrs\nmovl r5=0x100040\nmov.m ar.bspstore=r5\nbr.ret.sptk.few b0";
    let machine = translated(text, 0);
    assert_eq!((machine.vector(), control(&machine, "ifa")), (Some(0x1000), 0x10_0038));
    // The stack read, and the frame is incomplete.
    assert_eq!(control(&machine, "isr"), R | 1 << 37 | 1 << 38);
    assert_eq!(control(&machine, "iip"), line(2));
}

#[test]
fn a_return_whose_loads_missed_goes_on_loading() {
    // Two pages of the stack, with a collection at the end of the first: the loads miss twice. A handler that inserts
    // a translation needs no frame, and most do not cover the one that they find. The callee takes all registers that
    // there are, and writes to those that were the caller's.
    for handler in ["", "cover\n"] {
        let mut machine = Machine::new(&format!(
            "{BEGIN}
            movl r5=0x100f80
            mov.m ar.bspstore=r5
            alloc r2=ar.pfs,40,40,0
            mov r32=11
            mov r46=12
            mov r47=13
            mov r71=14
            br.call.sptk.few b0=@callee
            mov r10=r32
            mov r11=r46
            mov r12=r47
            mov r13=r71
            br.few @end
            callee:
            alloc r32=ar.pfs,1,1,0
            flushrs
            alloc r32=ar.pfs,96,1,0
            mov r88=1
            mov r102=2
            mov r103=3
            mov r127=4
            ptc.e r0
            mov.i ar.pfs=r32
            br.ret.sptk.few b0
            end:
            br.few @end"
        ));
        machine.pin_and_insert(&format!("{handler}adds r9=1,r9\n"));
        machine.bundles(6);
        machine.cpu.set_psr(machine.cpu.psr() | DT | IT | RT);
        machine.finish();
        assert_eq!(machine.vector(), None, "{}", machine.cpu.state());
        assert_eq!([10, 11, 12, 13].map(|register| machine.r(register)), [11, 12, 13, 14], "{handler}");
        assert_eq!(machine.r(9), 4, "two pages were missed when they were stored to, and when they were loaded");
    }
}

#[test]
fn a_speculative_load_defers_or_faults() {
    let miss = "movl r5=0x100000\nld8.s r10=[r5]\nchk.s.m r10,@mend\nmov r11=1\nmend:\nmov r12=1";
    // Code of a page that does not say that it recovers: the miss is a fault.
    let machine = translated(miss, 0);
    assert_eq!((machine.vector(), control(&machine, "isr")), (Some(0x1000), R | SP));
    let deferring = format!("movl r6=0x100\nmov cr.dcr=r6\n{miss}");
    let mut machine = Machine::new(&format!("{BEGIN}\n{deferring}\nend:\nbr.few @end"));
    for side in [Side::Instruction, Side::Data] {
        machine.cpu.mmu.itr(side, 0, Pte(GOOD | 1 << 52), Itir(20 << 2), 0).expect("a good insertion");
    }
    machine.bundles(6);
    machine.cpu.set_psr(machine.cpu.psr() | DT | IT);
    machine.finish();
    assert!(machine.nat(10), "{}", machine.cpu.state());
    assert_eq!((machine.vector(), machine.r(11), machine.r(12)), (None, 0, 1));
}

#[test]
fn what_a_handler_defers_does_not_fault_again() {
    // Whether r10 is a NaT, and r5 at the end.
    for (text, nat, base) in [
        ("lfetch.fault [r5]", false, 0x10_0000),
        ("lfetch.fault.excl [r5],64", false, 0x10_0040),
        ("ld8.s r10=[r5],8", true, 0x10_0008),
    ] {
        let program = format!("{BEGIN}\nmovl r5=0x100000\n{text}\nadds r11=1,r11\nend:\nbr.few @end");
        let mut machine = Machine::new(&program);
        machine.put(
            TABLE + 0x1000,
            "adds r12=1,r12\nmov r20=cr.ipsr\nmovl r21=0x80000000000\nor r20=r20,r21\nmov cr.ipsr=r20\nrfi",
        );
        machine.pin();
        machine.bundles(6);
        machine.cpu.set_psr(machine.cpu.psr() | DT | IT);
        machine.run(100).unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!((machine.r(11), machine.r(12)), (1, 1), "{text}: {}", machine.cpu.state());
        assert_eq!((machine.nat(10), machine.r(5)), (nat, base), "{text}");
    }
}

#[test]
fn the_timer_interrupts_when_it_is_due() {
    let mut machine = Machine::new(&format!(
        "{BEGIN}
        mov r5=64
        mov cr.itv=r5
        mov.m r6=ar.itc
        adds r6=300,r6
        mov cr.itm=r6
        ssm 0x4000
        wait:
        adds r10=1,r10
        cmp.eq p6,p7=0,r11
        (p06) br.cond.sptk.few @wait
        end:
        br.few @end"
    ));
    machine.put(
        TABLE + 0x3000,
        "mov r16=cr.ivr\nmov r12=r16\nmov.m r13=ar.itc\nmov cr.eoi=r0\nmov r11=1\nmov r14=cr.ivr\nrfi",
    );
    machine.finish();
    assert_eq!((machine.r(12), machine.r(14)), (64, 15), "the vector, and then none");
    let late = machine.r(13) - machine.r(6);
    assert!(late < 24, "{late} instructions");
    assert!(machine.r(10) > 20);
}

#[test]
fn interrupts_wait_for_psr_and_the_priority_register() {
    let mut machine = Machine::new(&format!(
        "{BEGIN}
        mov r5=64
        mov cr.tpr=r5
        ssm 0x4000
        mov r10=1
        mov cr.tpr=r0
        mov r10=2
        end:
        br.few @end"
    ));
    machine.put(TABLE + 0x3000, "mov r16=cr.ivr\nmov r11=r16\nmov r12=r10\nbr.few 0x23100");
    machine.cpu.request(0x41);
    machine.cpu.request(0x32);
    machine.finish();
    // Both are of the class that is masked, or a lower one, until it is not.
    assert_eq!((machine.vector(), machine.r(11), machine.r(12)), (Some(0x3100), 0x41, 1));
}

#[test]
fn epc_promotes_on_a_page_that_does() {
    let promoting = GOOD & !(7 << 9) & !(3 << 7) | 7 << 9;
    // The level that PFS names must not be a more privileged one: a return would go there.
    for (pfs, vector, level) in [(3_u64 << 62, None, 0), (0, Some(0x5400), 0)] {
        let text = format!("movl r2={pfs:#x}\nmov.i ar.pfs=r2\nepc\nmov r10=cr.dcr");
        let mut machine = Machine::new(&format!("{BEGIN}\n{text}\nend:\nbr.few @end"));
        machine.cpu.mmu.itr(Side::Instruction, 0, Pte(promoting), Itir(20 << 2), 0).expect("a good insertion");
        machine.bundles(6);
        machine.cpu.set_psr(machine.cpu.psr() | IT | USER);
        machine.finish();
        assert_eq!((machine.vector(), machine.cpu.psr() >> 32 & 3), (vector, level));
    }
}

#[test]
fn traps_follow_their_instruction() {
    let machine = translated("mov r10=1\nmov r11=2", 1 << 40);
    assert_eq!((machine.vector(), control(&machine, "isr") & 15), (Some(0x6000), 8));
    let machine = translated("br.few @on\nmov r10=1\non:\nmov r11=1", 1 << 26);
    assert_eq!((machine.vector(), control(&machine, "isr")), (Some(0x5f00), 4 | 2 << 41));
    assert_eq!(control(&machine, "iip"), line(2));
}

/// Goes to START + 0x400 by rfi, with these bits of IPSR beside those of a program that collects interruptions.
fn returning(ipsr: u64) -> Machine {
    let ipsr = 1 << 44 | IC | ipsr;
    Machine::new(&format!(
        "{BEGIN}
        movl r10={:#x}
        movl r12={ipsr:#x}
        rsm 0x2000
        mov cr.iip=r10
        mov cr.ipsr=r12
        rfi",
        START + 0x400
    ))
}

#[test]
fn a_step_over_a_long_instruction_ends_at_the_next_bundle() {
    // A long instruction is all that its bundle has left: the next one is not in a third slot.
    for (text, from) in [("movl r9=0x7", 1), ("(p06) brl.cond.sptk.few 0x30000", 1), ("movl r9=0x7", 0)] {
        let mut machine = returning(1 << 40 | from << 41);
        machine.put(START + 0x400, &format!("{text}\nhere:\nbr.few @here"));
        machine.put(TABLE + 0x6000, "mov r8=cr.iip\nmov r11=cr.ipsr\nmov r13=cr.isr\nhere:\nbr.few @here");
        machine.finish();
        assert_eq!(machine.vector(), Some(0x6030), "{text}");
        let next = if from == 1 { (START + 0x410, 0) } else { (START + 0x400, 1) };
        assert_eq!((machine.r(8), machine.r(11) >> 41 & 3), next, "{text}");
        assert_eq!(machine.r(13), from << 41 | 8, "{text}");
    }
}

#[test]
fn to_go_on_in_the_third_slot_of_a_long_bundle_is_illegal() {
    let mut machine = returning(2 << 41);
    machine.put(START + 0x400, "movl r9=0x7\nhere:\nbr.few @here");
    machine.finish();
    assert_eq!((machine.vector(), machine.r(9)), (Some(0x5400), 0), "{}", machine.cpu.state());
    assert_eq!((control(&machine, "iip"), control(&machine, "isr")), (START + 0x400, 2 << 41));
}

#[test]
fn two_targets_that_are_one_come_before_a_disabled_register() {
    // Upper registers are disabled by bit 19.
    for text in ["fclass.m p6,p6=f40,0x1ff", "fclass.m.unc p6,p6=f40,0x1ff", "fcmp.eq.s0 p6,p6=f40,f41"] {
        let machine = ran(&format!("ssm 0x80000\n{text}"));
        assert_eq!(machine.vector(), Some(0x5400), "{text}");
    }
    assert_eq!(ran("ssm 0x80000\nfclass.m p6,p7=f40,0x1ff").vector(), Some(0x5500));
}

#[test]
fn a_target_that_is_none_comes_before_a_nat() {
    // The target is beyond the frame.
    for text in [
        "cmp8xchg16.acq r120=[r3],r4,ar.csd,ar.ccv",
        "xchg8 r120=[r3],r4",
        "cmpxchg8.acq r120=[r3],r4,ar.ccv",
        "xchg8 r0=[r3],r4",
    ] {
        let machine = ran(&format!("{NAT}alloc r2=ar.pfs,8,0,0\n{text}"));
        assert_eq!(machine.vector(), Some(0x5400), "{text}");
    }
    assert_eq!(ran(&format!("{NAT}cmpxchg8.acq r10=[r3],r4,ar.ccv")).vector(), Some(0x5600));
}
