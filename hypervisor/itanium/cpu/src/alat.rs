// SPDX-License-Identifier: MIT
//! The advanced load address table: from where advanced loads have loaded, as long as nothing was stored there.

use serde::{Deserialize, Serialize};

/// What was loaded into. A stacked register is known by how many lie below it on the whole stack, so that a call finds
/// its caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Target {
    /// One of the first 32.
    Static(u8),
    /// A stacked one.
    Stacked(i64),
    /// A floating-point register.
    Float(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Entry {
    target: Target,
    physical: u64,
    size: u32,
}

/// The table: 32 entries, of which the oldest goes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Alat(Vec<Entry>);

impl Alat {
    const ENTRIES: usize = 32;

    /// Whether it is one that loads leave. What serde has read from a file may be any.
    pub(crate) fn is_sound(&self) -> bool {
        let ends = |entry: &Entry| entry.physical.checked_add(entry.size.into()).is_some();
        self.0.len() <= Self::ENTRIES && self.0.iter().all(ends)
    }

    /// Remembers an advanced load.
    pub fn put(&mut self, target: Target, physical: u64, size: u32) {
        self.remove(target);
        if self.0.len() == Self::ENTRIES {
            self.0.remove(0);
        }
        self.0.push(Entry { target, physical, size });
    }

    /// Whether what was loaded is still right.
    pub fn has(&self, target: Target) -> bool {
        self.0.iter().any(|entry| entry.target == target)
    }

    /// Forgets a register's.
    pub fn remove(&mut self, target: Target) {
        self.0.retain(|entry| entry.target != target);
    }

    /// Something was stored.
    pub fn stored(&mut self, physical: u64, size: u32) {
        if !self.0.is_empty() {
            let apart = |entry: &Entry| {
                entry.physical + u64::from(entry.size) <= physical || physical + u64::from(size) <= entry.physical
            };
            self.0.retain(apart);
        }
    }

    /// A frame has ended: registers from here on are nobody's.
    pub fn returned(&mut self, end: i64) {
        if !self.0.is_empty() {
            self.0.retain(|entry| !matches!(entry.target, Target::Stacked(depth) if depth >= end));
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
