// SPDX-License-Identifier: MIT
//! Memory and devices by their physical addresses.

use itanium_cpu::Bus;
use itanium_mmu::fields::Attribute;
use serde::{Deserialize, Serialize};

use crate::map;
use crate::sapic::Sapic;
use crate::uart::Uart;

/// What the processor is plugged into.
#[derive(Clone, Serialize, Deserialize)]
pub struct Board {
    /// Memory, which a snapshot has beside the rest.
    #[serde(skip)]
    ram: Vec<u8>,
    /// The firmware's own.
    firmware: Vec<u8>,
    /// The serial port.
    pub uart: Uart,
    /// The interrupt controller.
    pub sapic: Sapic,
}

/// How much memory firmware has.
const FIRMWARE: usize = (map::FIRMWARE.end - map::FIRMWARE.start) as usize;

/// So many bytes; none where this computer has not so many.
fn zeros(memory: u64) -> Option<Vec<u8>> {
    // Zeros that are asked for as such cost nothing until they are used, but where there are none the program is ended: so
    // it is tried before. The compiler must not take the trial for needless.
    let mut trial: Vec<u8> = vec![];
    trial.try_reserve_exact(memory as usize).ok()?;
    drop(std::hint::black_box(trial));
    Some(vec![0; memory as usize])
}

impl Board {
    /// With so many bytes of memory; none where this computer has not so many.
    pub fn new(memory: u64) -> Option<Self> {
        let (ram, firmware) = (zeros(memory)?, vec![0; FIRMWARE]);
        Some(Self { ram, firmware, uart: Uart::default(), sapic: Sapic::default() })
    }

    /// Whether it is one, but for its memory. What serde has read from a file may be any.
    pub(crate) fn is_sound(&self) -> bool {
        self.firmware.len() == FIRMWARE && self.sapic.is_sound()
    }

    /// How much memory there is.
    pub fn memory(&self) -> u64 {
        self.ram.len() as u64
    }

    /// All memory.
    pub fn all(&self) -> &[u8] {
        &self.ram
    }

    /// Memory of another size, all zeros; nothing where this computer has not so much.
    pub(crate) fn resize(&mut self, memory: u64) -> Option<()> {
        self.ram = zeros(memory)?;
        Some(())
    }

    /// A piece of memory, if it is that; the firmware's too.
    pub fn piece(&mut self, at: u64, length: u64) -> Option<&mut [u8]> {
        let (memory, from) = match at.checked_sub(map::FIRMWARE.start) {
            Some(from) => (&mut self.firmware, from),
            None => (&mut self.ram, at),
        };
        memory.get_mut(from as usize..from.checked_add(length)? as usize)
    }

    /// Puts bytes into memory that is there.
    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        self.piece(at, bytes.len() as u64).expect("memory for it").copy_from_slice(bytes);
    }

    /// Something comes in at the serial port.
    pub fn type_in(&mut self, bytes: &[u8]) {
        self.uart.receive(bytes);
        self.sapic.set(map::UART_PIN, self.uart.asks());
    }

    #[cold]
    fn read_elsewhere(&mut self, at: u64, size: u32) -> Option<u64> {
        if map::FIRMWARE.contains(&at) {
            let mut word = [0; 8];
            word[..size as usize].copy_from_slice(self.piece(at, size.into())?);
            return Some(u64::from_le_bytes(word));
        }
        if map::PORTS.contains(&at) {
            return Some(u64::MAX);
        }
        match at {
            map::UART..map::SAPIC if at < map::UART + 8 => {
                let value = self.uart.read(at - map::UART);
                self.sapic.set(map::UART_PIN, self.uart.asks());
                Some(value.into())
            }
            map::SAPIC.. if map::REGISTERS.contains(&at) => Some(self.sapic.read(at - map::SAPIC).into()),
            _ if map::INTERRUPTS.contains(&at) => Some(0),
            _ => None,
        }
    }

    #[cold]
    fn write_elsewhere(&mut self, at: u64, size: u32, value: u64) -> Option<()> {
        if map::FIRMWARE.contains(&at) {
            self.piece(at, size.into())?.copy_from_slice(&value.to_le_bytes()[..size as usize]);
            return Some(());
        }
        if map::PORTS.contains(&at) {
            return Some(());
        }
        match at {
            map::UART..map::SAPIC if at < map::UART + 8 => {
                self.uart.write(at - map::UART, value as u8);
                self.sapic.set(map::UART_PIN, self.uart.asks());
            }
            map::SAPIC.. if map::REGISTERS.contains(&at) => self.sapic.write(at - map::SAPIC, value as u32),
            // The first half are interrupts of processors, of which there is one (SDM vol. 2, 5.8.4.1); only those that
            // have a vector are sent.
            _ if map::INTERRUPTS.contains(&at) => {
                let first_half = at - map::INTERRUPTS.start < 0x10_0000;
                if first_half && value & 0x700 == 0 {
                    self.sapic.send(value as u8);
                }
            }
            _ => return None,
        }
        Some(())
    }
}

impl Bus for Board {
    #[inline]
    fn load(&mut self, physical: u64, size: u32, _: Attribute) -> Option<u64> {
        let at = physical as usize;
        let Some(from) = self.ram.get(at..) else { return self.read_elsewhere(physical, size) };
        let word = match size {
            1 => u64::from(*from.first()?),
            2 => u64::from(u16::from_le_bytes(*from.first_chunk()?)),
            4 => u64::from(u32::from_le_bytes(*from.first_chunk()?)),
            8 => u64::from_le_bytes(*from.first_chunk()?),
            _ => {
                let mut word = [0; 8];
                word[..size as usize].copy_from_slice(from.get(..size as usize)?);
                u64::from_le_bytes(word)
            }
        };
        Some(word)
    }

    #[inline]
    fn store(&mut self, physical: u64, size: u32, value: u64, _: Attribute) -> Option<()> {
        let at = physical as usize;
        let Some(to) = self.ram.get_mut(at..) else { return self.write_elsewhere(physical, size, value) };
        match size {
            1 => *to.first_mut()? = value as u8,
            2 => *to.first_chunk_mut()? = (value as u16).to_le_bytes(),
            4 => *to.first_chunk_mut()? = (value as u32).to_le_bytes(),
            8 => *to.first_chunk_mut()? = value.to_le_bytes(),
            _ => to.get_mut(..size as usize)?.copy_from_slice(&value.to_le_bytes()[..size as usize]),
        }
        Some(())
    }

    fn interrupt(&mut self) -> Option<u8> {
        self.sapic.take()
    }

    #[inline]
    fn fetch(&mut self, physical: u64) -> Option<u128> {
        let at = physical as usize;
        let from = match self.ram.get(at..) {
            Some(from) => from,
            None => self.firmware.get(at.checked_sub(map::FIRMWARE.start as usize)?..)?,
        };
        from.first_chunk().map(|raw| u128::from_le_bytes(*raw))
    }
}
