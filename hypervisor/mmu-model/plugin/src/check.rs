// SPDX-License-Identifier: GPL-2.0-or-later
//! The checking mode: every address that the model finds is compared with the one that the emulator used.
//!
//! The emulator forgets all translations at each entry of a guest and each exit, a processor with tags does not: where a
//! hypervisor has changed a guest's tables without a flush, the model goes on by what it remembers. That is seen at an
//! access that finds another address so; and before any access, if wanted, by a comparison of all that the model
//! remembers under the ASID with the tables that a guest is entered with.

use std::fmt::Debug;

use mmu_model::address::{Machine, Virtual};
use mmu_model::mmu::Looked;
use mmu_model::walk::Stop;
use mmu_model::x86::Context;
use serde_json::{Value, json};

use crate::follow::NoMemory;
use crate::qemu::{self, MemInfo};

/// Where the model finds a byte.
pub type Found = Result<Machine, Stop<NoMemory>>;

/// What is to be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Checks {
    /// Nothing.
    #[default]
    Nothing,
    /// Addresses, from power-on to power-off.
    Addresses,
    /// In regions only: addresses and, as a guest on tables of one dimension is entered, what is remembered under its
    /// ASID with these tables.
    Entries,
}

/// Mismatches are told up to this number, and counted beyond it.
const TOLD: usize = 10;

/// What was compared.
#[derive(Default)]
pub struct Check {
    what: Checks,
    accesses: u64,
    fetches: u64,
    mismatches: u64,
    faults: u64,
    /// Accesses of which the emulator does not say where they went.
    unchecked: u64,
    /// Entries of guests whose tables were looked at, what was looked at then, and what was not as the tables say.
    guests: u64,
    entries: u64,
    stale: u64,
    told: Vec<String>,
}

impl Check {
    /// Nothing compared yet.
    pub fn new(what: Checks) -> Self {
        Self { what, ..Self::default() }
    }

    /// Whether anything is compared.
    pub fn on(&self) -> bool {
        self.what != Checks::Nothing
    }

    /// Whether something is outside of regions.
    pub fn always(&self) -> bool {
        self.what == Checks::Addresses
    }

    /// Whether what is remembered is.
    pub fn entries(&self) -> bool {
        self.what == Checks::Entries
    }

    /// The counts; none if it is off.
    pub fn to_json(&self) -> Option<Value> {
        self.on().then(|| {
            json!({
                "accesses": self.accesses,
                "fetches": self.fetches,
                "mismatches": self.mismatches,
                "faults": self.faults,
                "unchecked": self.unchecked,
                "guests": self.guests,
                "entries": self.entries,
                "stale": self.stale,
                "told": self.told,
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

    /// A guest is entered in this context, and so much is remembered of it.
    pub fn compare_entries(&mut self, context: &Context, looked: &Looked) {
        self.guests += 1;
        self.entries += looked.entries;
        for stale in &looked.stale {
            self.stale += 1;
            let (held, tables) = (stale.held, stale.tables);
            self.tell(|| {
                format!("{:?}: entered with {held:x?}, where the tables say {tables:x?}; {context:x?}", stale.address)
            });
        }
    }

    /// The emulator says that an access used this MMU index: what is read out of its handle must be the same.
    pub fn compare_index(&mut self, info: MemInfo, index: usize) {
        if self.on() && qemu::mmu_index(info) != index {
            self.mismatches += 1;
            eprintln!("mmu plugin: access {info:#x} has MMU index {index}; the handle's place for it has changed");
        }
    }

    /// A block runs there: it must be where it was known to.
    pub fn compare_block(&mut self, known: Option<u64>, address: u64) {
        if let Some(known) = known.filter(|known| self.on() && *known != address) {
            self.mismatches += 1;
            eprintln!("mmu plugin: a block of code moved from {known:#x} to {address:#x} without a flush");
        }
    }

    fn judge(&mut self, context: &Context, address: Virtual, right: bool, truth: impl Debug, found: &Found) {
        self.faults += u64::from(found.is_err());
        if !right {
            self.mismatches += 1;
            self.tell(|| format!("{address:?}: the emulator has {truth:x?}, the model {found:x?}; {context:x?}"));
        }
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.told.len() < TOLD {
            let what = what();
            eprintln!("mmu plugin: {what}");
            self.told.push(what);
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
