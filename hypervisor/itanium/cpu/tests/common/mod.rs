// SPDX-License-Identifier: MIT
//! What the tests share: memory, and programs from text.
#![allow(dead_code)] // each test file is a program of its own and uses a part

use itanium_cpu::{Bus, Cpu, Stuck};
use itanium_decode::program;
use itanium_mmu::config::Config;
use itanium_mmu::fields::{Attribute, Itir, Pte};
use itanium_mmu::tlb::Side;

/// Where programs begin.
pub const START: u64 = 0x10000;
/// Where the table of interruption vectors is.
pub const TABLE: u64 = 0x20000;
/// Memory that programs may use.
pub const DATA: u64 = 0x40000;
/// Where the backing store begins.
pub const STACK: u64 = 0x80000;
const SIZE: u64 = 0x10_0000;

/// Memory from 0 on.
#[derive(Clone)]
pub struct Ram(pub Vec<u8>);

impl Ram {
    fn at(&mut self, physical: u64, size: u32) -> Option<&mut [u8]> {
        self.0.get_mut(physical as usize..physical.checked_add(u64::from(size))? as usize)
    }

    pub fn word(&mut self, physical: u64) -> u64 {
        self.load(physical, 8, Attribute::WriteBack).expect("memory")
    }
}

impl Bus for Ram {
    fn load(&mut self, physical: u64, size: u32, _: Attribute) -> Option<u64> {
        assert_eq!(physical % u64::from(size), 0, "{physical:#x}");
        let mut word = [0; 8];
        word[..size as usize].copy_from_slice(self.at(physical, size)?);
        Some(u64::from_le_bytes(word))
    }

    fn store(&mut self, physical: u64, size: u32, value: u64, _: Attribute) -> Option<()> {
        assert_eq!(physical % u64::from(size), 0, "{physical:#x}");
        self.at(physical, size)?.copy_from_slice(&value.to_le_bytes()[..size as usize]);
        Some(())
    }
}

/// A processor and its memory.
#[derive(Clone)]
pub struct Machine {
    pub cpu: Cpu,
    pub ram: Ram,
}

impl Machine {
    /// In physical mode, with a stack, at the first of these lines. Vectors hold a jump to themselves.
    pub fn new(text: &str) -> Self {
        let mut machine = Self { cpu: Cpu::new(Config::default(), START), ram: Ram(vec![0; SIZE as usize]) };
        machine.put(START, text);
        for vector in (0..0x8000).step_by(0x100) {
            machine.put(TABLE + vector, "here:\nbr.few @here");
        }
        machine
    }

    /// Lines at an address.
    pub fn put(&mut self, address: u64, text: &str) {
        for (index, bundle) in program(address, text).into_iter().enumerate() {
            let at = address as usize + 16 * index;
            self.ram.0[at..at + 16].copy_from_slice(&bundle.0.to_le_bytes());
        }
    }

    /// Runs so many instructions.
    pub fn run(&mut self, count: u64) -> Result<(), Stuck> {
        let until = self.cpu.instructions + count;
        self.cpu.run(&mut self.ram, until).map(drop)
    }

    /// Runs bundles of one instruction each: so many.
    pub fn bundles(&mut self, count: u64) {
        for _ in 0..count {
            self.run(1).unwrap_or_else(|stuck| panic!("{stuck}"));
        }
    }

    /// Runs until it is at a bundle that jumps to itself.
    pub fn finish(&mut self) -> &mut Self {
        for _ in 0..1_000_000 {
            let before = self.cpu.place().0;
            self.run(1).unwrap_or_else(|stuck| panic!("{stuck}"));
            if self.cpu.place() == (before, 0) {
                return self;
            }
        }
        panic!("it does not end: {:#x?}", self.cpu.place());
    }

    /// Which vector it has ended in.
    pub fn vector(&self) -> Option<u64> {
        let (at, _) = self.cpu.place();
        at.checked_sub(TABLE).filter(|&vector| vector < 0x8000)
    }

    pub fn r(&self, register: u8) -> u64 {
        let (value, nat) = self.cpu.gr(register);
        assert!(!nat, "r{register} is a NaT");
        value
    }

    pub fn nat(&self, register: u8) -> bool {
        self.cpu.gr(register).1
    }

    /// The first MiB is where it is, for both sides, by a register.
    pub fn pin(&mut self) {
        for side in [Side::Instruction, Side::Data] {
            self.cpu.mmu.itr(side, 0, Pte(GOOD), Itir(20 << 2), 0).expect("a good insertion");
        }
    }

    /// The same, and a handler inserts what is missed of the next MiB: pages of 4 KiB, each where its address without
    /// the bit of 1 MiB is. It begins with these instructions, and writes to r17 and r18.
    pub fn pin_and_insert(&mut self, begin: &str) {
        self.pin();
        let insert = format!("movl r17={GOOD:#x}\nor r17=r17,r18\nitc.d r17\nrfi");
        self.put(TABLE + 0x1000, &format!("{begin}mov r18=cr.ifa\nmovl r17=0xff000\nand r18=r18,r17\n{insert}"));
    }

    /// A translation of 16 KiB for both sides.
    pub fn map(&mut self, virtual_: u64, physical: u64, flags: u64) {
        for side in [Side::Instruction, Side::Data] {
            self.cpu.mmu.itc(side, Pte(physical | flags), Itir(14 << 2), virtual_).expect("a good insertion");
        }
    }
}

/// Of PSR: data, instructions and the register stack are translated.
pub const DT: u64 = 1 << 17;
pub const IT: u64 = 1 << 36;
pub const RT: u64 = 1 << 27;

/// A page that all may read, write and run, of level 3.
pub const GOOD: u64 = 1 | 1 << 5 | 1 << 6 | 3 << 7 | 3 << 9;

/// What all programs begin with: the table of vectors, a backing store, interruptions collected, bank 1.
pub const BEGIN: &str = "
movl r2=0x20000
mov cr.iva=r2
mov.m ar.rsc=0
movl r2=0x80000
mov.m ar.bspstore=r2
ssm 0x2000
";

/// A program after [`BEGIN`], until it jumps to itself.
pub fn ran(text: &str) -> Machine {
    let mut machine = Machine::new(&format!("{BEGIN}\n{text}\nend:\nbr.few @end"));
    machine.finish();
    machine
}

/// The same, that must not end in a vector.
pub fn good(text: &str) -> Machine {
    let machine = ran(text);
    assert_eq!(machine.vector(), None, "{}", machine.cpu.state());
    machine
}
