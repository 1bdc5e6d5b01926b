// SPDX-License-Identifier: MIT
//! The memory that tables lie in: real words at real addresses, so that a refill reads what an update has written, and a
//! cache sees which lines.

use std::cell::RefCell;

use mmu_model::address::Machine;

/// Where tables begin: above all memory that a trace's machine has.
const BASE: u64 = 1 << 44;

/// Words, given out in blocks. A block lies at a multiple of its alignment; freed blocks are given out again, the last
/// first.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    words: Vec<u32>,
    free: Vec<(u64, u64, Vec<Machine>)>,
    /// Bytes in use.
    used: u64,
    /// What is read and written since [`Arena::listen`]: addresses and bytes.
    log: Option<RefCell<Vec<(Machine, u64)>>>,
}

impl Arena {
    /// A block of zeros. Bytes and alignment are multiples of 4, the alignment a power of two.
    pub fn take(&mut self, bytes: u64, align: u64) -> Machine {
        let at = self.find(bytes, align);
        self.note(at, bytes);
        at
    }

    fn find(&mut self, bytes: u64, align: u64) -> Machine {
        self.used += bytes;
        if let Some((_, _, list)) = self.free.iter_mut().find(|(b, a, _)| (*b, *a) == (bytes, align)) {
            if let Some(at) = list.pop() {
                self.clear(at, bytes);
                return at;
            }
        }
        let begin = (self.words.len() as u64 * 4).next_multiple_of(align);
        self.words.resize(((begin + bytes) / 4) as usize, 0);
        Machine::new(BASE + begin)
    }

    /// The block is used no more.
    pub fn give_back(&mut self, at: Machine, bytes: u64, align: u64) {
        self.used -= bytes;
        if let Some((_, _, list)) = self.free.iter_mut().find(|(b, a, _)| (*b, *a) == (bytes, align)) {
            list.push(at);
        } else {
            self.free.push((bytes, align, vec![at]));
        }
    }

    fn clear(&mut self, at: Machine, bytes: u64) {
        let first = Self::index(at);
        self.words[first..first + (bytes / 4) as usize].fill(0);
    }

    const fn index(at: Machine) -> usize {
        ((at.raw() - BASE) / 4) as usize
    }

    /// From now on, note what is read and written.
    pub fn listen(&mut self) {
        self.log = Some(RefCell::default());
    }

    /// What was read and written since [`Arena::listen`], in order: addresses and bytes.
    pub fn heard(&mut self) -> Vec<(Machine, u64)> {
        self.log.take().map(RefCell::into_inner).unwrap_or_default()
    }

    #[inline]
    fn note(&self, at: Machine, bytes: u64) {
        if let Some(log) = &self.log {
            log.borrow_mut().push((at, bytes));
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The four bytes at this address.
    #[inline]
    pub fn get32(&self, at: Machine) -> u32 {
        self.note(at, 4);
        self.words[Self::index(at)]
    }

    /// Write four bytes.
    #[inline]
    pub fn put32(&mut self, at: Machine, value: u32) {
        self.note(at, 4);
        self.words[Self::index(at)] = value;
    }

    /// The eight bytes at this address.
    #[inline]
    pub fn get64(&self, at: Machine) -> u64 {
        self.note(at, 8);
        let i = Self::index(at);
        u64::from(self.words[i]) | u64::from(self.words[i + 1]) << 32
    }

    /// Write eight bytes.
    #[inline]
    pub fn put64(&mut self, at: Machine, value: u64) {
        self.note(at, 8);
        let i = Self::index(at);
        self.words[i] = value as u32;
        self.words[i + 1] = (value >> 32) as u32;
    }
}

/// A pointer as 32 bits hold it: bytes from the beginning of all tables, plus one; 0 points nowhere.
pub const fn short(at: Machine) -> u32 {
    (at.raw() - BASE + 1) as u32
}

/// What a 32-bit pointer points at.
pub const fn long(pointer: u32) -> Option<Machine> {
    if pointer == 0 { None } else { Some(Machine::new(BASE + pointer as u64 - 1)) }
}
