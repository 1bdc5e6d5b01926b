// SPDX-License-Identifier: GPL-2.0-or-later
//! The checking mode: every address that the model finds is compared with the one that the emulator used.

use std::fmt::Debug;

use mmu_model::address::{Machine, Virtual};
use mmu_model::walk::Stop;
use mmu_model::x86::Context;
use serde_json::{Value, json};

use crate::follow::NoMemory;
use crate::qemu::{self, MemInfo};

/// Where the model finds a byte.
pub type Found = Result<Machine, Stop<NoMemory>>;

/// What was compared.
#[derive(Default)]
pub struct Check {
    /// Whether it is on.
    pub on: bool,
    accesses: u64,
    fetches: u64,
    mismatches: u64,
    faults: u64,
    /// Accesses of which the emulator does not say where they went.
    unchecked: u64,
}

impl Check {
    /// Nothing compared yet.
    pub fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    /// The counts; none if it is off.
    pub fn to_json(&self) -> Option<Value> {
        let Self { on, accesses, fetches, mismatches, faults, unchecked } = *self;
        on.then(|| {
            json!({
                "accesses": accesses,
                "fetches": fetches,
                "mismatches": mismatches,
                "faults": faults,
                "unchecked": unchecked,
            })
        })
    }

    /// A load or store went there.
    pub fn compare(&mut self, context: &Context, address: Virtual, truth: Option<Machine>, found: &Found) {
        let Some(truth) = truth else {
            self.faults += u64::from(found.is_err());
            self.unchecked += 1;
            return;
        };
        self.accesses += 1;
        self.judge(context, address, found.as_ref().is_ok_and(|machine| *machine == truth), truth, found);
    }

    /// This code was fetched, and that is in memory.
    pub fn compare_code(
        &mut self,
        context: &Context,
        address: Virtual,
        code: Code,
        there: Option<u64>,
        found: &Found,
    ) {
        self.fetches += 1;
        self.judge(context, address, there.is_some_and(|there| code.begins(there)), code, found);
    }

    /// The emulator says that an access used this MMU index: what is read out of its handle must be the same.
    pub fn compare_index(&mut self, info: MemInfo, index: usize) {
        if self.on && qemu::mmu_index(info) != index {
            self.mismatches += 1;
            eprintln!("mmu plugin: access {info:#x} has MMU index {index}; the handle's place for it has changed");
        }
    }

    /// A block runs there: it must be where it was known to.
    pub fn compare_block(&mut self, known: Option<u64>, address: u64) {
        if let Some(known) = known.filter(|known| self.on && *known != address) {
            self.mismatches += 1;
            eprintln!("mmu plugin: a block of code moved from {known:#x} to {address:#x} without a flush");
        }
    }

    fn judge(&mut self, context: &Context, address: Virtual, right: bool, truth: impl Debug, found: &Found) {
        self.faults += u64::from(found.is_err());
        if !right {
            self.mismatches += 1;
            if self.mismatches <= 10 {
                eprintln!("mmu plugin: {address:?}: the emulator has {truth:x?}, the model {found:x?}; {context:x?}");
            }
        }
    }
}

/// The first bytes of code: up to seven, above them how many, and the top bit says
/// that user code runs there.
#[derive(Clone, Copy, Debug)]
pub struct Code(u64);

impl Code {
    /// As many of these bytes as there is room for.
    pub fn new(bytes: &[u8], user: bool) -> Self {
        let bytes = &bytes[..bytes.len().min(7)];
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        all[7] = bytes.len() as u8 | u8::from(user) << 7;
        Self(u64::from_le_bytes(all))
    }

    /// Whether user code runs there.
    pub fn is_users(self) -> bool {
        self.0 >> 63 == 1
    }

    /// Whether eight bytes begin with it.
    fn begins(self, bytes: u64) -> bool {
        let unused = 64 - 8 * (self.0 >> 56 & 7);
        unused == 64 || (self.0 ^ bytes) << unused == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_compared_as_far_as_it_goes() {
        let memory = u64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(Code::new(&[], true).begins(memory));
        assert!(Code::new(&[1], true).begins(memory));
        assert!(Code::new(&[1, 2, 3, 4, 5, 6, 7], true).begins(memory));
        assert!(Code::new(&[1, 2, 3, 4, 5, 6, 7, 99, 99], false).begins(memory), "seven bytes are kept");
        assert!(Code::new(&[1], true).is_users() && !Code::new(&[1, 2, 3, 4, 5, 6, 7], false).is_users());
        assert!(!Code::new(&[2], false).begins(memory));
        assert!(!Code::new(&[1, 2, 3, 4, 5, 6, 9], false).begins(memory));
    }
}
