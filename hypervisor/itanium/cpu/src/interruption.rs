// SPDX-License-Identifier: MIT
//! What ends an instruction early, or follows it (SDM vol. 2, 5.1 and chapter 8; vectors from 5.7, table 5-7).

use itanium_mmu::fault::Fault;

/// What an interruption tells its handler. ISR's `ei` and `ni` are added where it is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interruption {
    /// From the base of the table.
    pub vector: u64,
    /// For ISR.
    pub isr: u64,
    /// For IFA.
    pub ifa: Option<u64>,
    /// For ITIR.
    pub itir: Option<u64>,
    /// For IHA.
    pub iha: Option<u64>,
    /// For IIM.
    pub iim: Option<u64>,
    /// It follows its instruction, which is over.
    pub trap: bool,
    /// It is a Data Nested TLB fault, which leaves all registers alone.
    pub nested: bool,
}

/// The run cannot go on. Why, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck(pub String);

impl std::fmt::Display for Stuck {
    fn fmt(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Stuck {}

/// Why a run ended as it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// So many instructions were executed.
    Reached,
    /// Firmware did a break with this immediate, which is over: the next instruction is the one behind it.
    Called(u64),
    /// A program has marked its place by this number ([`MARKS`]), which is over likewise.
    Marked(u64),
}

/// Immediates of `hint.m` by which a program tells whoever runs the machine where it is. GNU as writes
/// the first of them as 0x10; 0 is a pause.
/// To a processor that does not know a hint it is a `nop`, so a mark takes no privilege and changes nothing.
pub const MARKS: std::ops::RangeInclusive<u64> = 0x40..=0x4f;

/// What ends an instruction early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The program's concern.
    Interruption(Box<Interruption>),
    /// Ours.
    Stuck(Box<Stuck>),
    /// A mark of a program's.
    Mark(u64),
}

/// What executing something gives.
pub type Done<T = ()> = Result<T, Trouble>;

impl From<Interruption> for Trouble {
    fn from(interruption: Interruption) -> Self {
        Self::Interruption(Box::new(interruption))
    }
}

/// ISR: instructions were fetched.
pub const X: u64 = 1 << 32;
/// ISR: data was written.
pub const W: u64 = 1 << 33;
/// ISR: data was read.
pub const R: u64 = 1 << 34;
/// ISR: no data was accessed.
pub const NA: u64 = 1 << 35;
/// ISR: a load was speculative.
pub const SP: u64 = 1 << 36;
/// ISR: the register stack engine did it.
pub const RS: u64 = 1 << 37;
/// ISR: the frame was incomplete.
pub const IR: u64 = 1 << 38;
/// ISR: interruptions were not collected.
pub const NI: u64 = 1 << 39;

/// The run cannot go on, for this reason.
pub fn stuck(why: impl Into<String>) -> Trouble {
    Trouble::Stuck(Box::new(Stuck(why.into())))
}

const GENERAL: u64 = 0x5400;
/// The vector of Floating-Point Exception faults.
pub const FLOATING: u64 = 0x5c00;
/// The vector of Floating-Point Exception traps.
pub const FLOATING_TRAP: u64 = 0x5d00;
/// The vector of breaks.
pub const BREAK: u64 = 0x2c00;

/// One without more to say.
pub fn at(vector: u64, isr: u64) -> Trouble {
    Interruption { vector, isr, ..Interruption::default() }.into()
}

/// One with an address.
pub fn at_address(vector: u64, isr: u64, address: u64) -> Trouble {
    Interruption { vector, isr, ifa: Some(address), ..Interruption::default() }.into()
}

/// Illegal Operation fault.
pub fn illegal() -> Trouble {
    at(GENERAL, 0)
}

/// Privileged Operation fault.
pub fn privileged() -> Trouble {
    at(GENERAL, 0x10)
}

/// Privileged Register fault.
pub fn privileged_register() -> Trouble {
    at(GENERAL, 0x20)
}

/// Reserved Register/Field fault.
pub fn reserved() -> Trouble {
    at(GENERAL, 0x30)
}

/// Register NaT Consumption fault; what was to be done with memory is in `isr`.
pub fn nat(isr: u64) -> Trouble {
    at(0x5600, isr | 0x10)
}

/// Unaligned Data Reference fault.
pub fn unaligned(isr: u64, address: u64) -> Trouble {
    at_address(0x5a00, isr, address)
}

/// Unsupported Data Reference fault.
pub fn unsupported(isr: u64, address: u64) -> Trouble {
    at_address(0x5b00, isr, address)
}

/// Disabled Floating-Point Register fault: of the lower registers, of the upper ones.
pub fn disabled(low: bool, high: bool) -> Trouble {
    at(0x5500, u64::from(low) | u64::from(high) << 1)
}

/// Floating-Point Exception fault, and no exception: software is to do what the instruction would. It comes before those
/// of the program's (another implementation).
pub fn software_assistance() -> Trouble {
    at(FLOATING, 8)
}

/// Floating-Point Exception trap, for [`Cpu::run`](crate::Cpu::run) to add what else follows the instruction. The lowest
/// bit says that it is one (SDM vol. 2, table 8-3, from memory).
pub fn trap(code: u64) -> Trouble {
    Interruption { vector: FLOATING_TRAP, isr: code | 1, trap: true, ..Interruption::default() }.into()
}

/// Speculative Operation fault, or a trap, with an immediate.
pub fn with_immediate(vector: u64, immediate: u64) -> Trouble {
    Interruption { vector, iim: Some(immediate), ..Interruption::default() }.into()
}

/// A fault of the MMU.
pub fn of_mmu(fault: &Fault, isr: u64) -> Trouble {
    use itanium_mmu::fault::Kind;
    let code = match fault.kind {
        Kind::DataNatPage | Kind::InstructionNatPage => 0x20,
        Kind::UnimplementedData => 0x30,
        _ => 0,
    };
    Interruption {
        vector: fault.kind.vector(),
        // The low bits are of an access that is none: which it was.
        isr: isr | code,
        ifa: Some(fault.address),
        itir: Some(fault.itir.0),
        iha: fault.entry,
        nested: fault.kind == Kind::DataNested,
        ..Interruption::default()
    }
    .into()
}
