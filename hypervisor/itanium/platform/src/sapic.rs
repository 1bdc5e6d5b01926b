// SPDX-License-Identifier: MIT
//! The interrupt controller of devices, an I/O SAPIC: each input has an entry that says which interrupt it is.

use serde::{Deserialize, Serialize};

/// How many inputs it has.
pub const PINS: usize = 24;

/// An input that is a level has sent its interrupt, and nobody has said that it is over.
const SENT: u32 = 1 << 14;
const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Entry {
    low: u32,
    high: u32,
    asserted: bool,
}

/// The controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sapic {
    entries: Vec<Entry>,
    selected: u32,
    /// Interrupts that the processor has not taken.
    vectors: Vec<u8>,
}

impl Default for Sapic {
    fn default() -> Self {
        let entry = Entry { low: MASKED, high: 0, asserted: false };
        Self { entries: vec![entry; PINS], selected: 0, vectors: vec![] }
    }
}

impl Sapic {
    /// Whether it has its inputs. What serde has read from a file may be any.
    pub(crate) fn is_sound(&self) -> bool {
        self.entries.len() == PINS
    }

    /// An interrupt that it has for the processor.
    pub fn take(&mut self) -> Option<u8> {
        (!self.vectors.is_empty()).then(|| self.vectors.remove(0))
    }

    /// An interrupt that is no input's: what is stored to the processor interrupt block.
    pub fn send(&mut self, vector: u8) {
        self.vectors.push(vector);
    }

    /// An input is as it is.
    pub fn set(&mut self, pin: u32, asserted: bool) {
        let entry = &mut self.entries[pin as usize];
        let risen = asserted && !entry.asserted;
        entry.asserted = asserted;
        if entry.low & LEVEL != 0 {
            self.offer(pin as usize);
        } else if risen && entry.low & MASKED == 0 {
            let vector = entry.low as u8;
            self.send(vector);
        }
    }

    /// A level that is asserted is sent, once.
    fn offer(&mut self, pin: usize) {
        let entry = &mut self.entries[pin];
        if entry.asserted && entry.low & (LEVEL | MASKED | SENT) == LEVEL {
            entry.low |= SENT;
            let vector = entry.low as u8;
            self.send(vector);
        }
    }

    /// Reads a register.
    pub fn read(&self, register: u64) -> u32 {
        let entry = |from: u32| self.entries.get((self.selected - from) as usize / 2);
        match (register, self.selected) {
            (0, selected) => selected,
            (0x10, 1) => 0x21 | (PINS as u32 - 1) << 16,
            (0x10, selected @ 0x10..) => {
                entry(0x10).map_or(0, |entry| if selected & 1 == 0 { entry.low } else { entry.high })
            }
            _ => 0,
        }
    }

    /// Writes a register.
    pub fn write(&mut self, register: u64, value: u32) {
        match (register, self.selected) {
            (0, _) => self.selected = value & 0xff,
            (0x10, selected @ 0x10..) => {
                let pin = (selected - 0x10) as usize / 2;
                let Some(entry) = self.entries.get_mut(pin) else { return };
                if selected & 1 == 0 {
                    entry.low = value & !SENT & 0x1_ffff | entry.low & SENT;
                    self.offer(pin);
                } else {
                    entry.high = value;
                }
            }
            (0x40, _) => {
                for pin in 0..PINS {
                    if self.entries[pin].low as u8 == value as u8 {
                        self.entries[pin].low &= !SENT;
                        self.offer(pin);
                    }
                }
            }
            _ => {}
        }
    }
}
