// SPDX-License-Identifier: MIT
//! The processor's state.

use std::ops::Range;

use itanium_mmu::config::Config;
use itanium_mmu::fields::Pte;
use itanium_mmu::mmu::Mmu;
use serde::{Deserialize, Serialize};

use crate::alat::{Alat, Target};
use crate::general::{Frame, General};
use crate::interruption::{Done, disabled, illegal, nat};
use crate::interrupts::Interrupts;
use crate::memory::Remembered;
use crate::psr;
use crate::rse::Rse;
use crate::run::Decoded;

/// Application registers by number (SDM vol. 1, 3.1.8).
pub(crate) mod ar {
    pub const RSC: usize = 16;
    pub const BSP: usize = 17;
    pub const BSPSTORE: usize = 18;
    pub const RNAT: usize = 19;
    pub const CSD: usize = 25;
    pub const CCV: usize = 32;
    pub const UNAT: usize = 36;
    pub const FPSR: usize = 40;
    pub const ITC: usize = 44;
    pub const PFS: usize = 64;
    pub const LC: usize = 65;
    pub const EC: usize = 66;
}

/// Control registers by number (SDM vol. 2, 3.3.4).
pub(crate) mod cr {
    pub const DCR: usize = 0;
    pub const ITM: usize = 1;
    pub const IVA: usize = 2;
    pub const PTA: usize = 8;
    pub const IPSR: usize = 16;
    pub const ISR: usize = 17;
    pub const IIP: usize = 19;
    pub const IFA: usize = 20;
    pub const ITIR: usize = 21;
    pub const IIPA: usize = 22;
    pub const IFS: usize = 23;
    pub const IIM: usize = 24;
    pub const IHA: usize = 25;
    pub const LID: usize = 64;
    pub const IVR: usize = 65;
    pub const TPR: usize = 66;
    pub const EOI: usize = 67;
    pub const IRR: usize = 68;
    pub const ITV: usize = 72;
    pub const PMV: usize = 73;
    pub const CMCV: usize = 74;
    pub const LRR0: usize = 80;
    pub const LRR1: usize = 81;
}

/// A floating-point register: sign, biased exponent of 17 bits, significand of 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Float {
    /// It is negative.
    pub negative: bool,
    /// The biased exponent.
    pub exponent: u32,
    /// The significand, its integer bit included.
    pub significand: u64,
}

/// Branches that a report names: a power of two.
pub(crate) const TRAIL: usize = 16;

/// Breakpoints of data and of instructions, performance monitors' controls and counts: how many there are.
const INDIRECT: [usize; 4] = [16, 16, 32, 32];

/// A processor. A snapshot is what serde makes of it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Cpu {
    /// Its memory management unit.
    pub mmu: Mmu,
    /// How many instructions were executed: the time.
    pub instructions: u64,
    /// Of these, those while interruptions were not collected (PSR.ic 0): the handlers of misses, and the first and last
    /// instructions of other handlers.
    pub uncollected: u64,
    pub(crate) general: General,
    pub(crate) frame: Frame,
    pub(crate) floats: Vec<Float>,
    pub(crate) predicates: u64,
    pub(crate) branches: [u64; 8],
    pub(crate) ip: u64,
    pub(crate) slot: u8,
    /// All but the field `ri`, which is `slot`.
    pub(crate) psr: u64,
    pub(crate) ar: Vec<u64>,
    pub(crate) cr: Vec<u64>,
    pub(crate) rse: Rse,
    pub(crate) alat: Alat,
    pub(crate) interrupts: Interrupts,
    /// Breakpoints and performance monitors: kept, and without effect.
    pub(crate) indirect: [Vec<u64>; 4],
    pub(crate) cpuid: [u64; 5],
    /// The bundle that was executed last while interruptions were collected, for IIPA.
    pub(crate) last: u64,
    /// Interruptions since an instruction completed.
    pub(crate) unfinished: u32,
    /// Where the last branches that were taken came from and went to: a ring, and the place of the next.
    pub(crate) trail: [(u64, u64); TRAIL],
    pub(crate) next_branch: usize,
    /// What the page that instructions come from says; nothing in physical mode.
    pub(crate) code_page: Pte,
    /// Physical addresses of code whose breaks are calls of the firmware's.
    pub(crate) firmware: Range<u64>,
    #[serde(skip)]
    pub(crate) branch: Option<(u64, u8)>,
    #[serde(skip)]
    pub(crate) remembered: Remembered,
    #[serde(skip)]
    pub(crate) decoded: Decoded,
}

impl Cpu {
    /// One that begins at an address in physical mode, all registers 0.
    pub fn new(config: Config, ip: u64) -> Self {
        let mut floats = vec![Float::default(); 128];
        floats[1] = Float { negative: false, exponent: 0xffff, significand: 1 << 63 };
        let mut cpu = Self {
            mmu: Mmu::new(config),
            instructions: 0,
            uncollected: 0,
            general: General::new(),
            frame: Frame::default(),
            floats,
            predicates: 1,
            branches: [0; 8],
            ip,
            slot: 0,
            psr: psr::BN,
            ar: vec![0; 128],
            cr: vec![0; 128],
            rse: Rse::default(),
            alat: Alat::default(),
            interrupts: Interrupts::default(),
            indirect: INDIRECT.map(|length| vec![0; length]),
            // "GenuineIntel"; an Itanium 2 with brl and 16-byte atomic operations (SDM vol. 1, 3.1.11, from memory).
            cpuid: [0x4965_6e69_756e_6547, 0x6c65_746e, 0, 0x1f01_0504, 5],
            last: 0,
            unfinished: 0,
            trail: [(0, 0); TRAIL],
            next_branch: 0,
            code_page: Pte(0),
            firmware: 0..0,
            branch: None,
            remembered: Remembered::default(),
            decoded: Decoded::default(),
        };
        cpu.ar[ar::FPSR] = 0x0009_804c_0270_033f;
        cpu.frame.sof = 96;
        cpu
    }

    /// Whether it is one that instructions leave. What serde has read from a file may be any.
    pub fn is_sound(&self) -> bool {
        let lengths = [self.floats.len(), self.ar.len(), self.cr.len()] == [128; 3]
            && self.indirect.each_ref().map(Vec::len) == INDIRECT;
        let frame = Frame::of_word(self.frame.word()) == Some(self.frame) && self.rse.is_sound(self.frame.sof);
        let place = self.slot < 3 && self.next_branch < TRAIL && self.psr & !(psr::ALL & !psr::RI) == 0;
        let floats = self.floats.iter().all(|value| value.exponent < 1 << 17);
        let time = self.instructions < 1 << 62 && self.uncollected <= self.instructions;
        lengths && frame && place && floats && time && self.general.is_sound() && self.alat.is_sound()
    }

    /// Where it is: the address of a bundle, and a slot.
    pub const fn place(&self) -> (u64, u8) {
        (self.ip, self.slot)
    }

    /// A break of code at these physical addresses ends a run with [`crate::Stop::Called`], for firmware to be more than
    /// what is in memory.
    pub const fn set_firmware(&mut self, code: Range<u64>) {
        self.firmware = code;
    }

    /// Where registers of the stack are stored next; what is in them already is not.
    pub fn set_backing_store(&mut self, address: u64) {
        self.set_bspstore(address);
    }

    /// The processor status register.
    pub const fn psr(&self) -> u64 {
        self.psr | (self.slot as u64) << 41
    }

    /// Writes the processor status register, but which slot is next.
    pub fn set_psr(&mut self, word: u64) {
        if (self.psr ^ word) & psr::BN != 0 {
            self.general.switch_banks();
        }
        self.psr = word & psr::ALL & !psr::RI;
    }

    pub(crate) const fn has(&self, bits: u64) -> bool {
        self.psr & bits != 0
    }

    pub(crate) const fn level(&self) -> u8 {
        (self.psr >> 32 & 3) as u8
    }

    pub(crate) fn set_level(&mut self, level: u8) {
        self.psr = self.psr & !psr::CPL | u64::from(level) << 32;
    }

    /// A general register and its NaT. One beyond the frame is 0 (choice: the architecture leaves it undefined).
    pub fn gr(&self, register: u8) -> (u64, bool) {
        if register >= 32 && register - 32 >= self.frame.sof {
            return (0, false);
        }
        self.general.get(self.general.place(self.frame, register))
    }

    /// A general register that must not be a NaT.
    pub(crate) fn value(&self, register: u8, isr: u64) -> Done<u64> {
        match self.gr(register) {
            (value, false) => Ok(value),
            _ => Err(nat(isr)),
        }
    }

    /// Writes a general register that is in the frame, and is not r0.
    pub fn set_gr(&mut self, register: u8, value: u64, nat: bool) {
        let place = self.general.place(self.frame, register);
        self.general.set(place, value, nat);
    }

    /// Illegal Operation fault where a register cannot be written.
    pub(crate) fn target(&self, register: u8) -> Done {
        if register == 0 || register >= 32 && register - 32 >= self.frame.sof { Err(illegal()) } else { Ok(()) }
    }

    /// How the table of advanced loads knows a general register.
    pub(crate) fn advanced(&self, register: u8) -> Target {
        if register < 32 {
            return Target::Static(register);
        }
        Target::Stacked(self.rse.depth + i64::from(crate::general::renamed(self.frame, register)))
    }

    fn predicate_place(&self, register: u8) -> u8 {
        if register < 16 { register } else { 16 + (register - 16 + self.frame.rrb_pr) % 48 }
    }

    /// A predicate register.
    pub fn pr(&self, register: u8) -> bool {
        self.predicates >> self.predicate_place(register) & 1 != 0
    }

    pub(crate) fn set_pr(&mut self, register: u8, value: bool) {
        let place = self.predicate_place(register);
        self.predicates = (self.predicates & !(1 << place) | u64::from(value) << place) | 1;
    }

    pub(crate) fn float_place(&self, register: u8) -> u8 {
        if register < 32 { register } else { 32 + (register - 32 + self.frame.rrb_fr) % 96 }
    }

    /// A floating-point register.
    pub fn fr(&self, register: u8) -> Float {
        self.floats[usize::from(self.float_place(register))]
    }

    /// Writes a floating-point register, and remembers that one of its half was written.
    pub fn set_fr(&mut self, register: u8, value: Float) {
        let place = usize::from(self.float_place(register));
        self.floats[place] = value;
        self.psr |= if register < 32 { psr::MFL } else { psr::MFH };
    }

    /// Disabled Floating-Point Register fault where one of these may not be used.
    pub(crate) fn enabled(&self, registers: &[u8]) -> Done {
        let low = self.has(psr::DFL) && registers.iter().any(|&register| (2..32).contains(&register));
        let high = self.has(psr::DFH) && registers.iter().any(|&register| register >= 32);
        if low || high { Err(disabled(low, high)) } else { Ok(()) }
    }

    /// Illegal Operation fault for f0 and f1.
    pub(crate) fn float_target(register: u8) -> Done {
        if register < 2 { Err(illegal()) } else { Ok(()) }
    }

    /// The interval time counter.
    pub(crate) fn itc(&self) -> u64 {
        self.instructions.wrapping_add(self.ar[ar::ITC])
    }

    /// A branch register.
    pub const fn br(&self, register: u8) -> u64 {
        self.branches[register as usize]
    }
}
