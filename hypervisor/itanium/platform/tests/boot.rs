// SPDX-License-Identifier: MIT
//! Small kernels, made here, on the machine: what they are started with, firmware, devices, interrupts, and how runs end.

use itanium_decode::program;
use itanium_mmu::config::Config;
use itanium_platform::bytes::Bytes;
use itanium_platform::{End, Machine, Refused, Setup, map};
use serde_json::{Value, json};

const KERNEL: u64 = 0x400_0000;
const TABLE: u64 = KERNEL + 0x1_0000;

/// An ELF file of one segment.
fn elf(machine: u16, at: u64, code: &[u8]) -> Vec<u8> {
    let head = Bytes::default().bytes(b"\x7fELF\x02\x01\x01").until(16).u16(2).u16(machine).u32(1).u64(KERNEL);
    let head = head.u64(64).u64(0).u32(0).u16(64).u16(56).u16(1).u16(64).u16(0).u16(0);
    let segment = Bytes::default().u32(1).u32(7).u64(120).u64(at).u64(at);
    head.bytes(&segment.0).u64(code.len() as u64).u64(code.len() as u64).u64(16).bytes(code).0
}

/// A kernel of these lines, with others that an external interrupt comes to.
fn kernel(text: &str, interrupt: &str) -> Vec<u8> {
    let bytes =
        |at, text: &str| program(at, text).into_iter().flat_map(|bundle| bundle.0.to_le_bytes()).collect::<Vec<u8>>();
    let begin = format!("movl r2={TABLE:#x}\nmov cr.iva=r2\nmov.m ar.rsc=0\nssm 0x2000\n");
    let code = bytes(KERNEL, &format!("{begin}{text}\nend:\nbr.few @end"));
    let all = Bytes(code).until((TABLE - KERNEL) as usize + 0x3000).bytes(&bytes(TABLE + 0x3000, interrupt));
    elf(50, KERNEL, &all.0)
}

fn setup(kernel: Vec<u8>) -> Setup {
    Setup { config: Config::default(), memory: 128 << 20, kernel, ramdisk: vec![], command_line: "quiet".into() }
}

fn run(machine: &mut Machine) -> (Result<End, String>, String) {
    let mut console = vec![];
    let ended = machine.run(10_000, &mut |bytes| console.extend_from_slice(bytes));
    (ended.map_err(|stuck| stuck.0), String::from_utf8(console).expect("text"))
}

fn boot(kernel: Vec<u8>) -> Machine {
    Machine::boot(&setup(kernel)).expect("it starts")
}

/// Stores this byte to the serial port's register.
fn out(register: u64, value: u64) -> String {
    format!("movl r20={:#x}\nmov r21={value}\nst1 [r20]=r21\n", 1 << 63 | map::UART + register)
}

/// Calls what a function descriptor in the runtime services' table at this place names.
fn service(number: u64) -> String {
    let descriptor = map::DATA.start + 0x400 + 16 * number;
    format!("movl r20={descriptor:#x}\nld8 r20=[r20]\nmov b6=r20\nbr.call.sptk.few b0=b6\n")
}

#[test]
fn what_is_written_to_the_serial_port_is_the_console() {
    let mut machine = boot(kernel(&(out(0, 72) + &out(0, 105)), ""));
    let (ended, console) = run(&mut machine);
    assert_eq!((ended, &console[..]), (Ok(End::Limit), "Hi"));
    assert_eq!(machine.cpu.gr(28), (map::LOADER.start, false));
}

#[test]
fn the_parameters_lead_to_command_line_and_ram_disk() {
    let ramdisk = Bytes::default().bytes(b"07070100").until(90).bytes(b"TRAILER!!!").0;
    let mut machine = Machine::boot(&Setup { ramdisk, ..setup(kernel("", "")) }).expect("it starts");
    let mut word = |at| u64::from_le_bytes(machine.board.piece(at, 8).expect("memory").try_into().expect("8 bytes"));
    let [line, systab, disk, length] = [0, 8, 64, 72].map(|field| word(map::LOADER.start + field));
    assert_eq!(word(systab), 0x5453_5953_2049_4249);
    assert_eq!((word(disk), length), (u64::from_le_bytes(*b"07070100"), 100));
    assert_eq!(machine.board.piece(line, 6).expect("memory"), b"quiet\0");
}

#[test]
fn pal_answers_by_both_conventions() {
    let text = format!(
        "movl r4={:#x}
        mov b7=r4
        mov r28=19
        mov r5=ip
        adds r5=64,r5
        mov b0=r5
        br.few b7
        mov r14=r9
        alloc r6=ar.pfs,4,0,0
        mov r28=257
        br.call.sptk.many b0=b7
        mov r11=r8",
        map::PAL_CODE.start
    );
    let mut machine = boot(kernel(&text, ""));
    assert_eq!(run(&mut machine).0, Ok(End::Limit));
    assert_eq!((machine.cpu.gr(14).0, machine.cpu.gr(11).0), (96, u64::MAX), "stacked registers; not implemented");
}

#[test]
fn the_clock_is_stored_and_goes_on() {
    let text = format!("alloc r6=ar.pfs,1,0,0\nmovl r32={:#x}\n{}", KERNEL + 0x8000, service(0));
    let mut machine = boot(kernel(&text, ""));
    assert_eq!(run(&mut machine).0, Ok(End::Limit));
    assert_eq!(machine.cpu.gr(8), (0, false));
    let time = machine.board.piece(KERNEL + 0x8000, 8).expect("memory");
    assert_eq!(time, &[0xea, 7, 1, 1, 0, 0, 0, 0], "the first of January 2026");
}

#[test]
fn a_reset_ends_the_run_with_what_was_asked() {
    let text = format!("alloc r6=ar.pfs,2,0,0\nmov r32=1\nmov r33=5\n{}", service(10));
    assert_eq!(run(&mut boot(kernel(&text, ""))).0, Ok(End::Reset(1, 5)));
}

#[test]
fn a_device_interrupts_where_its_entry_says() {
    // Input 4: vector 0x50, a level. The port asks when it has sent everything.
    let sapic = 1 << 63 | map::SAPIC;
    let text = format!(
        "movl r4={sapic:#x}
        movl r5={:#x}
        mov r6={}
        mov r7={}
        st4 [r4]=r6
        st4 [r5]=r7
        {}
        ssm 0x4000
        wait:
        br.few @wait",
        sapic + 0x10,
        0x10 + 2 * map::UART_PIN,
        1 << 15 | 0x50,
        out(1, 2)
    );
    let handler = format!("mov r16=cr.ivr\n{}mov r8=r16\nhere:\nbr.few @here", out(0, 33));
    let mut machine = boot(kernel(&text, &handler));
    let (ended, console) = run(&mut machine);
    assert_eq!((ended, &console[..]), (Ok(End::Limit), "!"));
    assert_eq!(machine.cpu.gr(8), (0x50, false), "{}", machine.cpu.state());
}

#[test]
fn a_store_to_the_interrupt_block_is_an_interrupt() {
    let text = format!("movl r4={:#x}\nmov r5=99\nst8 [r4]=r5\nssm 0x4000", 1 << 63 | map::INTERRUPTS.start);
    let mut machine = boot(kernel(&text, "mov r16=cr.ivr\nmov r8=r16\nhere:\nbr.few @here"));
    assert_eq!(run(&mut machine).0, Ok(End::Limit));
    assert_eq!(machine.cpu.gr(8), (99, false));
}

/// Waits for an interrupt by PAL.
fn halt() -> String {
    let pal = map::PAL_CODE.start;
    format!("movl r4={pal:#x}\nmov b7=r4\nmov r28=29\nmov r5=ip\nadds r5=64,r5\nmov b0=r5\nbr.few b7\n")
}

#[test]
fn waiting_takes_time_and_no_instructions() {
    let text = format!("movl r4=0x1000000\nmov cr.itm=r4\nmov r5=64\nmov cr.itv=r5\n{}ssm 0x4000", halt());
    let mut machine = boot(kernel(&text, "mov.m r8=ar.itc\nhere:\nbr.few @here"));
    assert_eq!(run(&mut machine).0, Ok(End::Limit));
    assert!((0x100_0000..0x100_0100).contains(&machine.cpu.gr(8).0), "{}", machine.cpu.state());
    assert!(machine.idle > 0xff_0000);
}

#[test]
fn waiting_for_nothing_is_a_report() {
    let (ended, _) = run(&mut boot(kernel(&halt(), "")));
    let report = ended.expect_err("it hangs");
    assert!(report.starts_with("it waits for an interrupt, and none will come after"), "{report}");
    assert!(report.contains("  branch "), "{report}");
}

#[test]
fn a_mark_keeps_what_was_counted_and_changes_nothing() {
    let text = |first: u64, last: u64| {
        format!("mov r8=1\nhint.m {first:#x}\nmov r9=2\nadds r8=5,r8\nhint.m 0x0\nhint.m {last:#x}\nadds r8=7,r8")
    };
    let mut machine = boot(kernel(&text(0x41, 0x42), ""));
    let mut other = boot(kernel(&text(1, 2), ""));
    assert_eq!(run(&mut machine).0, Ok(End::Limit));
    assert_eq!(run(&mut other).0, Ok(End::Limit));
    assert_eq!(machine.cpu.gr(8), (13, false));
    assert_eq!(machine.counted().instructions, other.counted().instructions);
    assert_eq!(machine.cpu.state(), other.cpu.state());
    let [(first, ref before), (last, ref after)] = machine.marks[..] else { panic!("{:?}", machine.marks) };
    assert_eq!((first, last), (0x41, 0x42));
    // The rest of the first mark's bundle, three of three, and of the second's all up to the mark.
    assert_eq!(after.instructions - before.instructions, 2 + 3 * 3 + 1);
    assert!(other.marks.is_empty());
}

#[test]
fn what_cannot_be_started_is_refused() {
    let good = kernel("", "");
    let refused = |setup: Setup| Machine::boot(&setup).err().expect("it is refused");
    let says = |setup: Setup, what: &str| {
        let said = refused(setup).to_string();
        assert!(said.contains(what), "{said}");
    };
    says(setup(vec![]), "this kernel cannot be started: it is empty");
    says(setup(b"bzImage".to_vec()), "no ELF file");
    says(setup(elf(62, KERNEL, &[0; 64])), "another architecture: number 62");
    says(setup(good[..good.len() - 1].to_vec()), "cut off");
    says(setup([&good[..32], &(u64::MAX - 7).to_le_bytes(), &good[40..]].concat()), "no file of its own size");
    says(setup(elf(50, 0x800_0000, &[0; 64])), "none of its segments");
    says(setup(elf(50, map::LOADER.start, &vec![0; KERNEL as usize])), "where no memory");
    let large = Bytes::default().bytes(b"070701").until(64 << 20).0;
    says(Setup { ramdisk: large, ..setup(good.clone()) }, "48 MiB are left");
    says(
        Setup { ramdisk: b"PK\x03\x04, a zip".to_vec(), ..setup(good.clone()) },
        "begins with the bytes 50 4b 03 04",
    );
    says(Setup { ramdisk: b"070707".to_vec(), ..setup(good.clone()) }, "neither as an archive of cpio");
    says(Setup { ramdisk: b"070701 and a half".to_vec(), ..setup(good.clone()) }, "it is cut off");
    says(Setup { ramdisk: vec![0; 4096], ..setup(good.clone()) }, "neither as an archive of cpio");
    says(Setup { memory: 100 << 20, ..setup(good.clone()) }, "from 128 to");
    says(Setup { command_line: "x".repeat(3000), ..setup(good) }, "command line");
    assert_eq!(refused(setup(vec![])), Refused::Kernel("it is empty".into()));
    assert_eq!(Refused::Setup("why".into()).to_string(), "why");
}

#[test]
fn a_ram_disk_is_an_archive_packed_or_not() {
    let packed = [
        &b"\x1f\x8b\x08"[..],
        b"BZh9",
        b"\x5d\x00\x00",
        b"\xfd7zXZ\x00",
        b"\x89LZO",
        b"\x02!L\x18",
        b"\x28\xb5\x2f\xfd",
    ];
    let plain = [&b"070701 TRAILER!!!"[..], b"070702 TRAILER!!!", b"\0\0\0\x00070701"];
    for ramdisk in packed.iter().chain(&plain) {
        let setup = Setup { ramdisk: ramdisk.to_vec(), ..setup(kernel("", "")) };
        assert_eq!(Machine::boot(&setup).err(), None, "{ramdisk:?}");
    }
}

/// A kernel with a name for its first instruction. What of the header, the sections and the symbol is to be another word
/// is at these places.
fn named(changes: &[(usize, u64)]) -> Vec<u8> {
    let code = kernel(&halt(), "");
    let at = code.len().next_multiple_of(8) as u64;
    let tables = Bytes(code).until(at as usize);
    // The symbols' section, with its texts' number, and that of the texts.
    let section = |kind: u32, at: u64, length: u64| {
        Bytes::default().u32(0).u32(kind).u64(0).u64(0).u64(at).u64(length).u32(1).until(64).0
    };
    let tables = tables.bytes(&section(2, at + 128, 24)).bytes(&section(3, at + 152, 8));
    let symbol = tables.u32(1).u8(2).u8(0).u16(1).u64(KERNEL).u64(0);
    let mut file = symbol.bytes(b"\0begin\0\0").0;
    file[40..48].copy_from_slice(&at.to_le_bytes());
    file[60] = 2;
    for (place, word) in changes {
        let place = if *place < 64 { *place } else { at as usize + place - 64 };
        file[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }
    file
}

#[test]
fn a_kernel_whose_names_cannot_be_read_starts_without() {
    let report = |changes: &[(usize, u64)]| run(&mut boot(named(changes))).0.expect_err("it hangs");
    assert!(report(&[]).contains("<begin+0x"), "{}", report(&[]));
    let far = u64::MAX - 7;
    for (place, word) in [
        // The sections; the symbols, and how many bytes they have; which section has their texts; where those are.
        (40, far),
        (64 + 24, far),
        (64 + 32, far),
        (64 + 40, 0xffff_ffff),
        (128 + 24, far),
        // The symbol's text.
        (192, 0x7fff_ffff),
        (192, 0xffff_ffff),
    ] {
        let report = report(&[(place, word)]);
        assert!(report.contains("none will come") && !report.contains("begin"), "{place}: {report}");
    }
}

/// A snapshot whose state has another value at a place.
fn changed(file: &[u8], place: &str, value: &Value) -> Vec<u8> {
    let length = u64::from_le_bytes(file[24..32].try_into().expect("8 bytes")) as usize;
    let (head, rest) = (&file[..24], &file[32 + length..]);
    let mut state: Value = serde_json::from_slice(&file[32..32 + length]).expect("JSON");
    let old = state.pointer_mut(place).unwrap_or_else(|| panic!("{place} is there"));
    assert_ne!(old, value, "{place}");
    *old = value.clone();
    let state = state.to_string().into_bytes();
    Bytes(head.to_vec()).u64(state.len() as u64).bytes(&state).bytes(rest).0
}

#[test]
fn a_snapshot_of_what_no_machine_has_is_refused() {
    let mut file = vec![];
    let mut machine = boot(kernel("", ""));
    machine.run(100, &mut |_| ()).expect("no end");
    machine.save(&mut file).expect("it can be written");
    let good = changed(&file, "/idle", &json!(7));
    assert_eq!(Machine::restore(&mut &good[..]).expect("it can be read").idle, 7);
    for (place, value) in [
        ("/cpu/ar", json!([])),
        ("/cpu/cr", json!([0])),
        ("/cpu/floats", json!([])),
        ("/cpu/floats/5/exponent", json!(1 << 20)),
        ("/cpu/indirect/3", json!([])),
        ("/cpu/general/values", json!([])),
        ("/cpu/general/bottom", json!(96)),
        ("/cpu/frame/sof", json!(97)),
        ("/cpu/frame/sor", json!(7)),
        ("/cpu/frame/rrb_pr", json!(48)),
        ("/cpu/rse/dirty", json!(1_u64 << 40)),
        ("/cpu/rse/bsp", json!(1_u64 << 40)),
        ("/cpu/slot", json!(3)),
        ("/cpu/psr", json!(1_u64 << 60)),
        ("/cpu/next_branch", json!(16)),
        ("/cpu/instructions", json!(u64::MAX)),
        ("/cpu/branches", json!([])),
        ("/cpu/mmu/config/cache_entries", json!(0)),
        ("/cpu/mmu/config/virtual_msb", json!(61)),
        ("/cpu/mmu/config/line_bytes", json!(0)),
        ("/cpu/mmu/regions/5/size", json!(11)),
        ("/cpu/mmu/pta", json!(0)),
        ("/cpu/mmu/keys", json!([])),
        ("/cpu/mmu/data/registers", json!([])),
        ("/cpu/mmu/instruction/cache", json!([])),
        ("/cpu/mmu/first_data/pieces", json!([])),
        ("/cpu/mmu/first_data/pieces/0/filled", json!(1)),
        ("/board/firmware", json!([])),
        ("/board/sapic/entries", json!([])),
        ("/idle", json!(u64::MAX)),
    ] {
        let file = changed(&file, place, &value);
        let said = Machine::restore(&mut &file[..]).err().unwrap_or_else(|| panic!("{place} is refused")).to_string();
        assert!(said.contains("no snapshot of an Itanium machine: "), "{place}: {said}");
    }
}

#[test]
fn a_snapshot_goes_on_as_the_original() {
    let text =
        format!("again:\nadds r8=1,r8\nmovl r4={:#x}\nst8 [r4]=r8\n{}br.few @again", KERNEL + 0x8000, out(0, 46));
    let mut machine = boot(kernel(&text, ""));
    machine.run(1_000, &mut |_| ()).expect("no end");
    let mut file = vec![];
    machine.save(&mut file).expect("it can be written");
    let mut restored = Machine::restore(&mut &file[..]).expect("it can be read");
    assert_eq!(run(&mut machine), run(&mut restored));
    assert_eq!(machine.cpu.state(), restored.cpu.state());
    assert!(machine.board.all() == restored.board.all());
    let mut again = [vec![], vec![]];
    machine.save(&mut again[0]).expect("it can be written");
    restored.save(&mut again[1]).expect("it can be written");
    assert!(again[0] == again[1] && again[0] != file);
    for cut in [0, 10, 40, 5_000, file.len() - 1] {
        assert!(Machine::restore(&mut &file[..cut]).is_err(), "{cut}");
    }
    file[3] = b'x';
    assert!(Machine::restore(&mut &file[..]).err().expect("an error").to_string().contains("no snapshot"));
}
