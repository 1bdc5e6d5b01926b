// SPDX-License-Identifier: MIT
//! The register stack: random calls, returns, frames and writes, against a model that keeps the whole stack and never
//! stores anything; and what is in memory after a flush.

mod common;

use common::{BEGIN, DT, IT, Machine, RT, STACK, START};
use itanium_decode::program::alone;

/// As in the MMU's tests: a generator of numbers that needs no crate.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

#[derive(Clone, Copy)]
struct Frame {
    base: usize,
    sof: usize,
    sol: usize,
}

/// All registers of the stack by how many lie below them; none where nobody has written one yet.
struct Naive {
    stack: Vec<Option<(u64, bool)>>,
    frame: Frame,
    callers: Vec<Frame>,
}

impl Naive {
    fn word(&self) -> u64 {
        (self.frame.sof | self.frame.sol << 7) as u64
    }
}

/// Where a register lies in memory, counted from a backing store that begins at a collection's begin.
fn address(index: usize) -> u64 {
    STACK + 8 * (index + index / 63) as u64
}

struct Tried {
    machine: Machine,
    model: Naive,
    random: Random,
    at: u64,
}

impl Tried {
    fn new(seed: u64) -> Self {
        let mut machine = Machine::new(BEGIN);
        machine.bundles(6);
        let frame = Frame { base: 0, sof: 96, sol: 0 };
        let mut stack = vec![Some((0, false)); 96];
        stack.resize(4096, None);
        Self { machine, model: Naive { stack, frame, callers: vec![] }, random: Random(seed), at: START + 6 * 16 }
    }

    /// The same, whose stack is translated, by pages of 4 KiB 1 MiB above where they are in memory.
    fn translated(seed: u64, handler: &str) -> Self {
        let mut tried = Self::new(seed);
        let machine = &mut tried.machine;
        machine.pin_and_insert(handler);
        machine.cpu.set_backing_store(STACK + 0x10_0000);
        machine.cpu.set_psr(machine.cpu.psr() | DT | IT | RT);
        tried
    }

    /// Executes one instruction more.
    fn one(&mut self, text: &str) {
        let at = self.at;
        let bundle = alone(&text.replace("@next", &format!("{:#x}", at + 16)), at);
        self.machine.ram.0[at as usize..at as usize + 16].copy_from_slice(&bundle.0.to_le_bytes());
        self.machine.bundles(1);
        // What was missed meanwhile is inserted, and the instruction done then.
        while self.machine.vector().is_some() || self.machine.cpu.place().0 == at {
            self.machine.bundles(1);
        }
        self.at = at + 16;
        assert_eq!(self.machine.cpu.place(), (self.at, 0), "{text}: {}", self.machine.cpu.state());
    }

    /// Where the program's memory ends, back to its begin.
    fn wrap(&mut self) {
        if self.at > START + 0x8000 {
            let jump = alone(&format!("br.few {START:#x}"), self.at);
            let at = self.at as usize;
            self.machine.ram.0[at..at + 16].copy_from_slice(&jump.0.to_le_bytes());
            self.machine.bundles(1);
            self.at = START;
        }
    }

    fn write(&mut self) {
        let frame = self.model.frame;
        if frame.sof == 0 {
            return;
        }
        let number = self.random.below(frame.sof as u64) as usize;
        let value = self.random.below(1 << 40);
        let nat = self.random.below(4) == 0;
        self.one(&format!("movl r{}={value:#x}", 32 + number));
        if nat {
            // The NaT of a word that was spilled.
            self.one("movl r2=0x40000");
            self.one("movl r3=0x1");
            self.one("mov.m ar.unat=r3");
            self.one(&format!("ld8.fill r{}=[r2]", 32 + number));
        }
        self.model.stack[frame.base + number] = Some((if nat { 0 } else { value }, nat));
    }

    fn alloc(&mut self) {
        let sof = self.random.below(97) as usize;
        let sol = self.random.below(sof as u64 + 1) as usize;
        self.one(&format!("alloc r2=ar.pfs,{sof},{sol},0"));
        let frame = &mut self.model.frame;
        let (from, to) = (frame.base + sof.min(frame.sof), frame.base + 96 + frame.sof);
        (frame.sof, frame.sol) = (sof, sol);
        self.model.stack[from..to].fill(None);
    }

    fn call(&mut self) {
        if self.model.frame.base > 2000 {
            return;
        }
        self.one("br.call.sptk.few b0=@next");
        let caller = self.model.frame;
        self.model.callers.push(caller);
        self.model.frame = Frame { base: caller.base + caller.sol, sof: caller.sof - caller.sol, sol: 0 };
    }

    fn ret(&mut self) {
        let Some(caller) = self.model.callers.pop() else { return };
        let callee = self.model.frame;
        let end = callee.base + callee.sof;
        self.model.frame = caller;
        let word = self.model.word();
        self.one(&format!("movl r2={word:#x}"));
        self.one("mov.i ar.pfs=r2");
        self.one(&format!("movl r2={:#x}", self.at + 48));
        self.one("mov b0=r2");
        self.one("br.ret.sptk.few b0");
        // What the callee did not keep of the caller's last registers is lost.
        let to = (caller.base + caller.sof).max(end);
        self.model.stack[end.min(to)..to].fill(None);
        self.model.stack[caller.base + caller.sof..to].fill(None);
    }

    fn flush(&mut self) {
        self.one("flushrs");
        for index in 0..self.model.frame.base {
            let Some((value, nat)) = self.model.stack[index] else { continue };
            assert_eq!(self.machine.ram.word(address(index)), value, "{index}");
            let collection = address(index) | 0x1f8;
            if collection < address(self.model.frame.base) {
                let nats = self.machine.ram.word(collection);
                assert_eq!(nats >> (address(index) >> 3 & 63) & 1 != 0, nat, "the NaT of {index}");
            }
        }
        assert_eq!(self.machine.cpu.dirty(), 0);
    }

    /// So many calls, returns, frames, writes and flushes; `before` each of them something else may happen.
    fn go(&mut self, steps: u64, before: fn(&mut Self)) {
        for _ in 0..steps {
            self.wrap();
            before(self);
            match self.random.below(16) {
                0..2 => self.alloc(),
                2..6 => self.call(),
                6..9 => self.ret(),
                9 => self.flush(),
                _ => self.write(),
            }
            // A return that has to load does so before the next instruction.
            self.one("nop.m 0x0");
            self.check();
        }
    }

    fn check(&self) {
        let Frame { base, sof, .. } = self.model.frame;
        for number in 0..sof {
            if let Some(want) = self.model.stack[base + number] {
                assert_eq!(self.machine.cpu.gr(32 + number as u8), want, "r{} at {base}", 32 + number);
            }
        }
    }
}

#[test]
fn registers_are_what_a_model_without_memory_says() {
    for seed in 1..=12 {
        Tried::new(seed * 0x9e37_79b9_7f4a_7c15).go(1500, |_| ());
    }
}

#[test]
fn so_they_are_while_pages_of_the_stack_are_missed() {
    for seed in 1..=6 {
        for handler in ["", "cover\n"] {
            let mut tried = Tried::translated(seed * 0x9e37_79b9_7f4a_7c15, handler);
            tried.go(1500, |tried| tried.machine.cpu.mmu.ptc_e());
            let missed = tried.machine.cpu.mmu.counters().data.cache_insertions;
            assert!(missed > 50, "{missed}");
        }
    }
}

#[test]
fn a_frame_of_a_called_one_begins_with_what_it_was_given() {
    let machine = common::good(
        "
        alloc r2=ar.pfs,5,3,0
        mov r32=1
        mov r35=7
        mov r36=8
        br.call.sptk.few b0=@callee
        mov r10=r32
        mov r11=r35
        br.few @out
        callee:
        alloc r33=ar.pfs,4,4,0
        add r12=r32,r33
        mov r32=9
        mov.i ar.pfs=r33
        br.ret.sptk.few b0
        out:",
    );
    assert_eq!((machine.r(10), machine.r(11)), (1, 9));
    // PFS: the caller's frame, in level 0 and with no epilogue count.
    assert_eq!(machine.r(12), 7 + (5 | 3 << 7));
    assert_eq!(machine.cpu.dirty(), 0);
}

#[test]
fn loadrs_loads_what_it_is_told_and_forgets_the_rest() {
    let text = |bytes: u64| {
        format!(
            "
            alloc r2=ar.pfs,80,80,0
            mov r110=5
            mov r111=6
            br.call.sptk.few b0=@callee
            callee:
            flushrs
            movl r2={:#x}
            mov.m ar.rsc=r2
            movl r3=0x80270
            mov r4=77
            st8 [r3]=r4
            loadrs
            mov.m r5=ar.bspstore
            mov.m r6=ar.bsp",
            bytes << 16
        )
    };
    // 80 registers have a collection between them: 81 words.
    let machine = common::good(&text(16));
    assert_eq!((machine.r(5), machine.r(6)), (common::STACK + 8 * 79, common::STACK + 8 * 81));
    assert_eq!(machine.cpu.dirty(), 2);
    assert_eq!(common::good(&text(0)).cpu.dirty(), 0);
    assert_eq!(common::good(&text(8 * 81)).cpu.dirty(), 80);
    // More than there are registers.
    assert_eq!(common::ran(&text(8 * 99)).vector(), Some(0x5400));
}

#[test]
fn frames_that_are_none_are_illegal() {
    for text in ["alloc r2=ar.pfs,97,0,0", "alloc r2=ar.pfs,4,5,0", "alloc r2=ar.pfs,4,0,8", "alloc r36=ar.pfs,4,0,0"]
    {
        assert_eq!(common::ran(text).vector(), Some(0x5400), "{text}");
    }
    // Rotation, and another number of registers that rotate.
    let rotated = "alloc r2=ar.pfs,16,0,16\nmov.i ar.ec=1\nbr.ctop.sptk.few @on\non:\nalloc r2=ar.pfs,16,0,8";
    let machine = common::ran(rotated);
    assert_eq!((machine.vector(), machine.r(2)), (Some(0x5400), 0), "{}", machine.cpu.state());
}
