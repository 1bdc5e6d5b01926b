// SPDX-License-Identifier: MIT
//! General registers: 32 static ones, of which 16 have two banks, and 96 that are stacked, in a ring; each with its NaT.

use serde::{Deserialize, Serialize};

/// How many registers are stacked: what the architecture asks for, and all that a frame can have.
pub const STACKED: usize = 96;

/// The current frame marker (SDM vol. 1, 3.1.7): sizes and rename bases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Frame {
    /// Registers.
    pub sof: u8,
    /// Of these, local ones.
    pub sol: u8,
    /// Of these, those that rotate, a multiple of 8.
    pub sor: u8,
    /// By how much general registers are rotated.
    pub rrb_gr: u8,
    /// By how much floating-point registers are.
    pub rrb_fr: u8,
    /// By how much predicates are.
    pub rrb_pr: u8,
}

impl Frame {
    /// As PFS and IFS have it.
    pub fn word(self) -> u64 {
        let (sof, sol, sor) = (u64::from(self.sof), u64::from(self.sol), u64::from(self.sor >> 3));
        let (gr, fr, pr) = (u64::from(self.rrb_gr), u64::from(self.rrb_fr), u64::from(self.rrb_pr));
        sof | sol << 7 | sor << 14 | gr << 18 | fr << 25 | pr << 32
    }

    /// Of bits 37:0; none where the sizes are no frame's.
    pub fn of_word(word: u64) -> Option<Self> {
        let field = |low: u32, width: u32| (word >> low & ((1 << width) - 1)) as u8;
        let frame = Self {
            sof: field(0, 7),
            sol: field(7, 7),
            sor: field(14, 4) << 3,
            rrb_gr: field(18, 7),
            rrb_fr: field(25, 7),
            rrb_pr: field(32, 6),
        };
        let fits = usize::from(frame.sof) <= STACKED && frame.sol <= frame.sof && frame.sor <= frame.sof;
        let turned = frame.rrb_gr <= frame.sor.saturating_sub(1) && frame.rrb_fr < 96 && frame.rrb_pr < 48;
        (fits && turned).then_some(frame)
    }
}

/// The registers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct General {
    values: Vec<u64>,
    nats: u128,
    /// Registers 16 to 31 of the bank that is not in use.
    banked: [u64; 16],
    banked_nats: u128,
    /// Where the current frame begins in the ring.
    pub(crate) bottom: usize,
}

const BANK: u128 = 0xffff << 16;

impl General {
    pub(crate) fn new() -> Self {
        Self { values: vec![0; 32 + STACKED], nats: 0, banked: [0; 16], banked_nats: 0, bottom: 0 }
    }

    /// Whether it is one that instructions leave. What serde has read from a file may be any.
    pub(crate) fn is_sound(&self) -> bool {
        self.values.len() == 32 + STACKED && self.bottom < STACKED
    }

    /// Where a register is: its place among all.
    pub(crate) fn place(&self, frame: Frame, register: u8) -> usize {
        if register < 32 {
            return usize::from(register);
        }
        32 + (self.bottom + usize::from(renamed(frame, register))) % STACKED
    }

    /// A place's value and NaT.
    pub(crate) fn get(&self, place: usize) -> (u64, bool) {
        (self.values[place], self.nats >> place & 1 != 0)
    }

    pub(crate) fn set(&mut self, place: usize, value: u64, nat: bool) {
        self.values[place] = value;
        self.nats = self.nats & !(1 << place) | u128::from(nat) << place;
    }

    /// A place of the ring, from the current frame's first on; before it where it is negative.
    pub(crate) const fn stacked(&self, from_bottom: i64) -> usize {
        32 + (self.bottom as i64 + from_bottom).rem_euclid(STACKED as i64) as usize
    }

    /// Moves the frame's begin.
    pub(crate) const fn shift(&mut self, by: i64) {
        self.bottom = (self.bottom as i64 + by).rem_euclid(STACKED as i64) as usize;
    }

    pub(crate) fn switch_banks(&mut self) {
        self.values[16..32].swap_with_slice(&mut self.banked);
        let nats = self.nats & BANK;
        self.nats = self.nats & !BANK | self.banked_nats;
        self.banked_nats = nats;
    }
}

/// A stacked register's number in its frame, rotation included.
pub(crate) const fn renamed(frame: Frame, register: u8) -> u8 {
    let number = register - 32;
    if number >= frame.sor {
        return number;
    }
    let turned = number + frame.rrb_gr;
    if turned >= frame.sor { turned - frame.sor } else { turned }
}
