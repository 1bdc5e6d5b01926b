// SPDX-License-Identifier: MIT
//! The whole machine: a kernel is put into memory, and runs.

use itanium_cpu::{Cpu, Stop, Stuck};
use itanium_mmu::config::Config;
use itanium_mmu::counters::Counters;
use serde::{Deserialize, Serialize};

use crate::board::Board;
use crate::bytes::Bytes;
use crate::elf::Kernel;
use crate::firmware::{self, Called};
use crate::{efi, map, pal, sal};

/// What a machine is started with.
#[derive(Clone)]
pub struct Setup {
    /// Its processor's memory management unit.
    pub config: Config,
    /// Bytes of memory.
    pub memory: u64,
    /// The kernel's file.
    pub kernel: Vec<u8>,
    /// The RAM disk; empty: there is none.
    pub ramdisk: Vec<u8>,
    /// The kernel's command line.
    pub command_line: String,
}

/// Why a machine cannot be started, by what is to blame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The kernel's file.
    Kernel(String),
    /// The RAM disk.
    Ramdisk(String),
    /// Anything else of the [`Setup`].
    Setup(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Kernel(why) => write!(to, "this kernel cannot be started: {why}"),
            Self::Ramdisk(why) => write!(to, "this RAM disk cannot be used: {why}"),
            Self::Setup(why) => to.write_str(why),
        }
    }
}

impl std::error::Error for Refused {}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The kernel asked for a reset: of this kind, with this status.
    Reset(u64, u64),
    /// So many instructions were executed.
    Limit,
}

/// Where the parameters lie in [`map::LOADER`], the memory map and the command line.
const PARAMETERS: u64 = map::LOADER.start;
const MEMORY_MAP: u64 = map::LOADER.start + 0x1000;
const COMMAND_LINE: u64 = map::LOADER.start + 0x2000;
/// How long Linux lets a command line be.
const LONGEST: usize = 2047;
/// How archives of cpio begin that Linux unpacks, and what they are packed with: gzip (two), bzip2, lzma, xz, lzo, lz4,
/// zstd, by the bytes that Linux knows each by.
const ARCHIVES: [&[u8]; 10] =
    [b"070701", b"070702", b"\x1f\x8b", b"\x1f\x9e", b"BZ", b"\x5d\x00", b"\xfd7", b"\x89L", b"\x02!", b"\x28\xb5"];
/// When it is as the machine starts: 2026-01-01.
const EPOCH: u64 = 1_767_225_600;
/// Instructions between two looks at the console.
const STEP: u64 = 1 << 20;

/// What had been counted when a program marked its place, or when a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counted {
    /// Instructions executed.
    pub instructions: u64,
    /// Of these, those while interruptions were not collected.
    pub uncollected: u64,
    /// See [`Machine::idle`].
    pub idle: u64,
    /// Of the MMU.
    pub counters: Counters,
}

/// A machine that runs.
#[derive(Serialize, Deserialize)]
pub struct Machine {
    /// Its processor.
    pub cpu: Cpu,
    /// Its memory and devices.
    pub board: Board,
    /// Instructions that a processor would have executed while this one waited for an interrupt.
    pub idle: u64,
    /// Marks of programs ([`itanium_cpu::interruption::MARKS`]), in their order, each with what had been counted then.
    #[serde(default)]
    pub marks: Vec<(u64, Counted)>,
    kernel: Kernel,
}

impl Machine {
    /// A machine whose next instruction is a kernel's first.
    pub fn boot(setup: &Setup) -> Result<Self, Refused> {
        let memory = setup.memory;
        if !map::MEMORY.contains(&memory) || memory % map::GRANULE != 0 {
            let (least, most, granule) = (map::MEMORY.start() >> 20, map::MEMORY.end() >> 20, map::GRANULE >> 20);
            return Err(Refused::Setup(format!(
                "{memory} bytes of memory: from {least} to {most} MiB it may be, a multiple of {granule} MiB"
            )));
        }
        if setup.command_line.len() > LONGEST || setup.command_line.contains('\0') {
            return Err(Refused::Setup(format!("the command line has more than {LONGEST} bytes, or a zero")));
        }
        let kernel = Kernel::read(&setup.kernel).map_err(Refused::Kernel)?;
        let mut board = Board::new(memory).ok_or_else(|| {
            Refused::Setup(format!("this computer has no {} MiB for the machine's memory", memory >> 20))
        })?;
        firmware::install(&mut board);
        let end = load(&mut board, &kernel)?;
        let ramdisk = place_ramdisk(&mut board, &setup.ramdisk, end)?;
        leave(&mut board, &setup.command_line, ramdisk, setup.ramdisk.len() as u64);
        let mut cpu = Cpu::new(setup.config, kernel.entry);
        cpu.set_firmware(map::CALLS);
        cpu.set_backing_store(map::STACK.start);
        cpu.set_gr(28, PARAMETERS, false);
        Ok(Self { cpu, board, idle: 0, marks: vec![], kernel })
    }

    /// Runs until so many instructions have been executed, or the machine ends. What it writes to its console is told as
    /// it comes.
    pub fn run(&mut self, until: u64, told: &mut dyn FnMut(&[u8])) -> Result<End, Stuck> {
        loop {
            let step = until.min(self.cpu.instructions + STEP);
            let stop = self.cpu.run(&mut self.board, step);
            if !self.board.uart.sent.is_empty() {
                told(&std::mem::take(&mut self.board.uart.sent));
            }
            match stop.map_err(|stuck| self.named(&stuck))? {
                Stop::Called(immediate) => {
                    if let Some(end) = self.answer(immediate)? {
                        return Ok(end);
                    }
                }
                Stop::Marked(number) => self.marks.push((number, self.counted())),
                Stop::Reached if self.cpu.instructions >= until => return Ok(End::Limit),
                Stop::Reached => {}
            }
        }
    }

    /// What has been counted until now.
    pub fn counted(&self) -> Counted {
        let Cpu { instructions, uncollected, ref mmu, .. } = self.cpu;
        Counted { instructions, uncollected, idle: self.idle, counters: mmu.counters().clone() }
    }

    /// What of a machine that was read from a file is none that could have been written, if anything is.
    pub(crate) fn unsound(&self) -> Option<&'static str> {
        let parts = [
            ("processor", self.cpu.is_sound()),
            ("MMU", self.cpu.mmu.is_sound()),
            ("board", self.board.is_sound()),
            ("time", self.idle < 1 << 62),
        ];
        parts.into_iter().find(|(_, sound)| !sound).map(|(part, _)| part)
    }

    /// Time: beats of the interval timer since the machine started.
    fn time(&self) -> u64 {
        self.cpu.instructions + self.idle
    }

    fn answer(&mut self, immediate: u64) -> Result<Option<End>, Stuck> {
        let stacked = [32, 33, 34].map(|register| self.cpu.gr(register).0);
        match firmware::called(immediate) {
            Some(Called::Pal) => self.answer_pal(stacked)?,
            Some(Called::Sal) => self.results(sal::call(stacked[0], stacked[1])),
            Some(Called::Efi(efi::Service::Reset)) => return Ok(Some(End::Reset(stacked[0], stacked[1]))),
            Some(Called::Efi(service)) => {
                let hz = sal::BASE_HZ * pal::TIMER_RATIO;
                let (seconds, rest) = (EPOCH + self.time() / hz, self.time() % hz);
                let nanoseconds = u128::from(rest) * 1_000_000_000 / u128::from(hz);
                efi::call(&mut self.cpu, &mut self.board, service, seconds, nanoseconds as u32);
            }
            None => return Err(self.stuck(&format!("the firmware's code has a break {immediate:#x} of nobody's"))),
        }
        Ok(None)
    }

    fn answer_pal(&mut self, stacked: [u64; 3]) -> Result<(), Stuck> {
        let (function, _) = self.cpu.gr(28);
        // Of the stacked convention the first argument is the number again.
        let arguments =
            if function & 256 != 0 { [stacked[1], stacked[2], 0] } else { [29, 30, 31].map(|at| self.cpu.gr(at).0) };
        if function == pal::HALT_LIGHT {
            if !self.cpu.waits() {
                let Some(skipped) = self.cpu.skip_to_timer() else {
                    return Err(self.stuck("it waits for an interrupt, and none will come"));
                };
                self.idle += skipped;
            }
            self.results([0; 4]);
        } else {
            self.results(pal::call(self.cpu.mmu.config(), function, arguments));
        }
        Ok(())
    }

    fn results(&mut self, results: [u64; 4]) {
        for (register, value) in (8..).zip(results) {
            self.cpu.set_gr(register, value, false);
        }
    }

    /// Something that is wrong, as the processor would say it: where it is, what is there, registers, the last branches.
    pub fn stuck(&mut self, what: &str) -> Stuck {
        let said = self.cpu.tell(&mut self.board, what);
        self.named(&said)
    }

    /// A report with the kernel's names beside addresses of its code.
    fn named(&self, stuck: &Stuck) -> Stuck {
        let lines = stuck.0.lines().map(|line| {
            let words = line.split([' ', '.', ',']).filter_map(|word| word.strip_prefix("0x"));
            let addresses = words.filter_map(|word| u64::from_str_radix(word, 16).ok());
            let names: Vec<String> = addresses.filter_map(|address| self.kernel.name(address)).collect();
            if names.is_empty() { line.to_owned() } else { format!("{line}    <{}>", names.join(", ")) }
        });
        Stuck(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Puts a kernel's segments into memory; where they end.
fn load(board: &mut Board, kernel: &Kernel) -> Result<u64, Refused> {
    let memory = board.memory();
    let mut last = 0;
    for (at, bytes, length) in &kernel.segments {
        let end = at.checked_add(*length).filter(|&end| *at >= map::FREE && end <= memory).ok_or_else(|| {
            Refused::Kernel(format!(
                "{length} bytes of it belong at {at:#x}, where no memory of {} MiB is free",
                memory >> 20
            ))
        })?;
        board.put(*at, bytes);
        last = last.max(end);
    }
    Ok(last)
}

/// The name of the last entry of an archive of cpio (init/initramfs.c).
const LAST: &[u8] = b"TRAILER!!!";

/// Whether this begins as what Linux unpacks (init/initramfs.c, lib/decompress.c), zeros before it included.
fn is_archive(ramdisk: &[u8]) -> bool {
    let zeros = ramdisk.iter().take_while(|&&byte| byte == 0).count();
    ARCHIVES.iter().any(|magic| ramdisk[zeros..].starts_with(magic))
}

/// Puts a RAM disk behind the kernel, at a granule's begin.
fn place_ramdisk(board: &mut Board, ramdisk: &[u8], end: u64) -> Result<u64, Refused> {
    if !ramdisk.is_empty() && !is_archive(ramdisk) {
        let begin: Vec<String> = ramdisk.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        return Err(Refused::Ramdisk(format!(
            "it begins with the bytes {}, and neither as an archive of cpio (070701 or 070702) nor as one that gzip, \
             bzip2, lzma, xz, lzo, lz4 or zstd has packed",
            begin.join(" ")
        )));
    }
    let at = end.next_multiple_of(map::GRANULE);
    if at + ramdisk.len() as u64 > board.memory() {
        return Err(Refused::Ramdisk(format!(
            "it has {} MiB, and of {} MiB of memory {} MiB are left behind the kernel",
            ramdisk.len().div_ceil(1 << 20),
            board.memory() >> 20,
            (board.memory().saturating_sub(at)) >> 20
        )));
    }
    if ramdisk.starts_with(b"0707") && !ramdisk.windows(LAST.len()).any(|bytes| bytes == LAST) {
        return Err(Refused::Ramdisk("it is cut off: its last entry, TRAILER!!!, is missing".into()));
    }
    board.put(at, ramdisk);
    Ok(at)
}

/// What a boot loader leaves: Linux's parameters (arch/ia64/include/uapi/asm/setup.h), the memory map, the command line.
fn leave(board: &mut Board, command_line: &str, ramdisk: u64, length: u64) {
    let memory_map = efi::memory_map(board.memory());
    let words = [COMMAND_LINE, map::DATA.start, MEMORY_MAP, memory_map.len() as u64, efi::DESCRIPTOR];
    let words = words.into_iter().fold(Bytes::default(), Bytes::u64).u32(1);
    // A console of 80 by 25, its cursor at the begin.
    let words = words.u16(80).u16(25).u16(0).u16(0).until(64);
    let ramdisk = if length == 0 { 0 } else { ramdisk };
    board.put(PARAMETERS, &words.u64(ramdisk).u64(length).0);
    board.put(MEMORY_MAP, &memory_map);
    board.put(COMMAND_LINE, &[command_line.as_bytes(), b"\0"].concat());
}
