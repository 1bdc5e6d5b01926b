// SPDX-License-Identifier: MIT
//! The processor as a whole: what it does not execute yet, what stops a run, the same run twice, snapshots.

mod common;

use common::{BEGIN, Machine, START, TABLE};
use itanium_mmu::config::Config;
use itanium_mmu::mmu::Mmu;

/// A program that computes for ever.
fn at_work() -> Machine {
    let mut machine = Machine::new(&format!(
        "{BEGIN}
        alloc r2=ar.pfs,16,8,8
        movl r5=0x40000
        movl r7=0x3fff8
        again:
        adds r10=7,r10
        mov.i ar.lc=20
        inner:
        and r6=r7,r10
        add r6=r5,r6
        xor r32=r10,r33
        st8 [r6]=r32
        ld8.a r11=[r6]
        br.call.sptk.few b0=@callee
        br.cloop.sptk.few @inner
        break.m 0x1
        br.few @again
        callee:
        alloc r40=ar.pfs,12,10,0
        add r12=r12,r40
        mov.i ar.pfs=r40
        br.ret.sptk.few b0"
    ));
    machine.put(TABLE + 0x2c00, "mov r17=cr.iip\nadds r17=16,r17\nmov cr.iip=r17\nadds r13=1,r13\nrfi");
    machine
}

fn state(machine: &Machine) -> (u64, String, Vec<u8>) {
    (machine.cpu.instructions, machine.cpu.state(), machine.ram.0.clone())
}

#[test]
fn a_run_is_the_same_twice_and_in_pieces() {
    let (mut whole, mut pieces) = (at_work(), at_work());
    whole.run(200_000).expect("no end");
    while pieces.cpu.instructions < whole.cpu.instructions {
        pieces.run(1).expect("no end");
    }
    assert!(state(&whole) == state(&pieces));
    assert!(whole.r(13) > 100, "{}", whole.cpu.state());
}

#[test]
fn a_snapshot_goes_on_as_the_original() {
    let mut machine = at_work();
    machine.run(5_000).expect("no end");
    let text = serde_json::to_string(&machine.cpu).expect("a processor can be written");
    let mut restored = machine.clone();
    restored.cpu = serde_json::from_str(&text).expect("what was written can be read");
    machine.run(5_000).expect("no end");
    restored.run(5_000).expect("no end");
    assert!(state(&machine) == state(&restored));
    assert_eq!(serde_json::to_string(&machine.cpu).unwrap(), serde_json::to_string(&restored.cpu).unwrap());
}

/// Data of eight pages, in an order that a small TLB holds some of; a handler puts in what is missed.
fn with_misses(config: Config) -> Machine {
    let mut machine = Machine::new(&format!(
        "{BEGIN}
        movl r5=0x60000
        movl r6=0x7000
        movl r9=0x3ff8
        ssm 0x20000
        again:
        adds r7=1,r7
        shladd r8=r7,3,r8
        dep r10=r8,r0,9,6
        and r11=r6,r10
        and r12=r9,r8
        add r13=r5,r11
        ld8 r14=[r13]
        add r14=r14,r7
        add r15=r5,r12
        st8 [r13]=r14
        st8 [r15]=r7
        br.few @again"
    ));
    machine.cpu.mmu = Mmu::new(config);
    machine.put(
        TABLE + 0x1000,
        "mov r16=cr.ifa
        movl r17=0x661
        shr.u r16=r16,12
        shl r16=r16,12
        or r16=r16,r17
        itc.d r16
        rfi",
    );
    machine
}

#[test]
fn what_is_remembered_of_addresses_changes_no_count() {
    for first_entries in [0, 2, 32] {
        let begin = || with_misses(Config { first_entries, cache_entries: 4, ..Config::default() });
        let (mut whole, mut forgetful) = (begin(), begin());
        whole.run(8_000).expect("no end");
        while forgetful.cpu.instructions < whole.cpu.instructions {
            // A processor that is read from text remembers nothing.
            let text = serde_json::to_string(&forgetful.cpu).expect("a processor can be written");
            forgetful.cpu = serde_json::from_str(&text).expect("what was written can be read");
            forgetful.run(1).expect("no end");
        }
        assert!(state(&whole) == state(&forgetful));
        let counted = whole.cpu.mmu.counters();
        assert!(counted == forgetful.cpu.mmu.counters(), "{counted:?}");
        assert!(counted.data.overwritten > 20 && counted.data.lookups > 500, "{counted:?}");
        let hits = counted.data.first_misses < counted.data.lookups;
        assert_eq!(hits, first_entries > 0, "{counted:?}");
    }
}

#[test]
fn code_that_is_written_anew_is_what_is_executed() {
    let mut machine = at_work();
    machine.run(5_000).expect("no end");
    let at = machine.cpu.place().0;
    machine.put(at, "here:\nbr.few @here");
    machine.finish();
    assert_eq!(machine.cpu.place(), (at, 0));
}

#[test]
fn a_run_that_cannot_go_on_says_why_and_where() {
    let stopped = |text: &str| {
        let mut machine = Machine::new(&format!("{BEGIN}\n{text}"));
        let report = (0..100).find_map(|_| machine.run(1).err()).expect("it stops").0;
        assert!(report.contains("instructions, at 0x") && report.contains("  branch "), "{report}");
        report
    };
    let jump = stopped("movl r4=0x12345670\nmov b6=r4\nbr.few b6");
    assert!(jump.starts_with("a wild jump: no memory at physical 0x12345670"), "{jump}");
    let load = stopped("br.few @on\non:\nmovl r4=0x12345678\nld8 r5=[r4]");
    assert!(load.starts_with("load of 8 bytes at physical 0x12345678, where nothing answers"), "{load}");
    assert!(load.contains("ld8 r5=[r4]") && load.contains("r4 0x12345678"), "{load}");
    // A table of vectors that is not mapped.
    let hung = stopped(
        "br.few @on\non:\nmovl r4=0x1000000000\nmov r5=1\nbreak.m 0x1".replace("mov r5=1", "mov cr.iva=r4").as_str(),
    );
    assert!(hung.contains("a wild jump"), "{hung}");
}

#[test]
fn interruptions_without_end_are_a_report() {
    let mut machine = Machine::new(BEGIN);
    machine.bundles(6);
    machine.put(START + 6 * 16, "break.m 0x1");
    machine.put(TABLE + 0x2c00, "break.m 0x2");
    let report = (0..100).find_map(|_| machine.run(1).err()).expect("it stops").0;
    assert!(report.starts_with("64 interruptions and no instruction between them, vector 0x2c00"), "{report}");
}

#[test]
fn every_row_is_executed_or_refused() {
    assert_eq!(itanium_cpu::missing(), Vec::<&str>::new());
    let fault = |text: &str| common::ran(text).vector();
    assert_eq!(fault("br.ia.sptk.few b6"), Some(0x5400));
    assert_eq!(fault("ssm 0x400000\nbr.ia.sptk.few b6"), Some(0x5400));
    assert_eq!(fault("vmsw.0"), Some(0x5400));
}
