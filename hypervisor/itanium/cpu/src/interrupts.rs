// SPDX-License-Identifier: MIT
//! External interrupts and the interval timer (SDM vol. 2, 5.8).

use serde::{Deserialize, Serialize};

use crate::cpu::{Cpu, ar, cr};
use crate::interruption::{Done, Interruption};
use crate::psr;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Interrupts {
    /// Requested: IRR.
    requested: [u64; 4],
    /// Taken, and not yet ended.
    in_service: [u64; 4],
    /// When, in instructions, the timer's match comes.
    pub timer: u64,
    /// One may be taken.
    pending: bool,
}

impl Default for Interrupts {
    fn default() -> Self {
        Self { requested: [0; 4], in_service: [0; 4], timer: u64::MAX, pending: false }
    }
}

const SPURIOUS: u64 = 15;
const NMI: u64 = 2;
const EXTERNAL: u64 = 0;

/// NMI comes first, then ExtINT, then from 255 down to 16 (SDM vol. 2, 5.8.1, table 5-8).
fn highest(vectors: &[u64; 4]) -> Option<u64> {
    let has = |vector: u64| vectors[vector as usize / 64] >> (vector % 64) & 1 != 0;
    [NMI, EXTERNAL].into_iter().chain((16..256).rev()).find(|&vector| has(vector))
}

const fn rank(vector: u64) -> u64 {
    match vector {
        NMI => 257,
        EXTERNAL => 256,
        vector => vector,
    }
}

impl Cpu {
    /// An interrupt is requested: by a device, another processor, or the timer.
    pub fn request(&mut self, vector: u8) {
        self.interrupts.requested[usize::from(vector) / 64] |= 1 << (vector % 64);
        self.look_for_interrupts();
    }

    /// What may be taken: higher than what is in service, and not masked by TPR.
    fn next_interrupt(&self) -> Option<u64> {
        let vector = highest(&self.interrupts.requested)?;
        let tpr = self.cr[cr::TPR];
        let masked = vector != NMI && (tpr >> 16 & 1 != 0 || vector != EXTERNAL && vector >> 4 <= tpr >> 4 & 15);
        let lower = highest(&self.interrupts.in_service).is_some_and(|serving| rank(serving) >= rank(vector));
        (!masked && !lower).then_some(vector)
    }

    pub(crate) fn look_for_interrupts(&mut self) {
        self.interrupts.pending = self.next_interrupt().is_some();
    }

    /// Between bundles: the timer, and interrupts that wait.
    pub(crate) fn attend(&mut self) -> Done {
        if self.instructions >= self.interrupts.timer {
            self.interrupts.timer = u64::MAX;
            let itv = self.cr[cr::ITV];
            if itv >> 16 & 1 == 0 {
                self.request(itv as u8);
            }
        }
        if self.interrupts.pending && self.has(psr::I) {
            return Err(Interruption { vector: 0x3000, ..Interruption::default() }.into());
        }
        Ok(())
    }

    /// ITM or ITC was written: the match comes when they are equal.
    pub(crate) fn set_timer(&mut self) {
        let left = self.cr[cr::ITM].wrapping_sub(self.itc());
        self.interrupts.timer = self.instructions.saturating_add(left);
    }

    /// Reading IVR takes the interrupt.
    pub(crate) fn take_interrupt(&mut self) -> u64 {
        let Some(vector) = self.next_interrupt() else { return SPURIOUS };
        let (word, bit) = (vector as usize / 64, 1 << (vector % 64));
        self.interrupts.requested[word] &= !bit;
        self.interrupts.in_service[word] |= bit;
        self.look_for_interrupts();
        vector
    }

    /// Writing EOI ends it.
    pub(crate) fn end_interrupt(&mut self) {
        if let Some(vector) = highest(&self.interrupts.in_service) {
            self.interrupts.in_service[vector as usize / 64] &= !(1 << (vector % 64));
        }
        self.look_for_interrupts();
    }

    pub(crate) fn requested(&self, word: usize) -> u64 {
        self.interrupts.requested[word]
    }

    /// Time goes on to the timer's match, with nothing executed: by how much; none where there is no match to come.
    pub fn skip_to_timer(&mut self) -> Option<u64> {
        if self.interrupts.timer == u64::MAX || self.cr[cr::ITV] >> 16 & 1 != 0 {
            return None;
        }
        let left = self.interrupts.timer.saturating_sub(self.instructions);
        self.ar[ar::ITC] = self.ar[ar::ITC].wrapping_add(left);
        self.interrupts.timer = self.instructions;
        Some(left)
    }

    /// Whether an interrupt waits that would be taken if they were on.
    pub fn waits(&self) -> bool {
        self.interrupts.pending
    }
}
