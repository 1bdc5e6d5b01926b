// SPDX-License-Identifier: MIT
//! A serial port, a 16550A: what is written is sent at once.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// A serial port.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Uart {
    /// What was sent and nobody has taken.
    pub sent: Vec<u8>,
    received: VecDeque<u8>,
    enabled: u8,
    line: u8,
    modem: u8,
    scratch: u8,
    divisor: [u8; 2],
    fifo: bool,
    /// What was to be sent is, and nobody has been told.
    empty: bool,
}

const RECEIVED: u8 = 1;
const EMPTY: u8 = 2;
const LATCH: u8 = 0x80;
const LOOP: u8 = 0x10;

impl Uart {
    /// Something comes in.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
    }

    /// Whether it asks for an interrupt.
    pub fn asks(&self) -> bool {
        self.cause() != 1
    }

    fn cause(&self) -> u8 {
        if self.enabled & RECEIVED != 0 && !self.received.is_empty() {
            4
        } else if self.enabled & EMPTY != 0 && self.empty {
            2
        } else {
            1
        }
    }

    /// Reads a register.
    pub fn read(&mut self, register: u64) -> u8 {
        match (register, self.line & LATCH != 0) {
            (0 | 1, true) => self.divisor[register as usize],
            (0, false) => self.received.pop_front().unwrap_or(0),
            (1, false) => self.enabled,
            (2, _) => {
                let cause = self.cause();
                if cause == 2 {
                    self.empty = false;
                }
                cause | if self.fifo { 0xc0 } else { 0 }
            }
            (3, _) => self.line,
            (4, _) => self.modem,
            (5, _) => 0x60 | u8::from(!self.received.is_empty()),
            // A peer that is ready, or what the modem's own outputs are where they come back.
            (6, _) if self.modem & LOOP == 0 => 0xb0,
            (6, _) => {
                let out = self.modem;
                (out & 2) << 3 | (out & 1) << 5 | (out & 4) << 4 | (out & 8) << 4
            }
            _ => self.scratch,
        }
    }

    /// Writes a register.
    pub fn write(&mut self, register: u64, value: u8) {
        match (register, self.line & LATCH != 0) {
            (0 | 1, true) => self.divisor[register as usize] = value,
            (0, false) if self.modem & LOOP != 0 => self.received.push_back(value),
            (0, false) => {
                self.sent.push(value);
                self.empty = true;
            }
            (1, false) => {
                self.empty |= value & EMPTY != 0 && self.enabled & EMPTY == 0;
                self.enabled = value & 15;
            }
            (2, _) => {
                self.fifo = value & 1 != 0;
                if value & 2 != 0 {
                    self.received.clear();
                }
            }
            (3, _) => self.line = value,
            (4, _) => self.modem = value & 0x1f,
            (7, _) => self.scratch = value,
            _ => {}
        }
    }
}
