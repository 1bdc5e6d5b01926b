// SPDX-License-Identifier: MIT
//! What is counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::Kind;
use crate::tlb::Side;
use crate::walker::Abort;

/// Of instructions or of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OfSide {
    /// Addresses that had to be translated.
    pub lookups: u64,
    /// Of these, not found in the first level; all, where there is none.
    pub first_misses: u64,
    /// Of these, not found in the second level either.
    pub second_misses: u64,
    /// Translations that the walker put into the cache.
    pub walker_insertions: u64,
    /// Translations that software put into the cache.
    pub cache_insertions: u64,
    /// Translations that software put into a register.
    pub register_insertions: u64,
    /// Translations in the cache that had to go for another.
    pub overwritten: u64,
    /// Translations that a purge, or an insertion that overlapped, removed.
    pub purged: u64,
}

/// All that is counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Of instructions.
    pub instruction: OfSide,
    /// Of data.
    pub data: OfSide,
    /// Walks that began.
    pub walks: u64,
    /// Walks that missed the table's own page.
    pub walks_missed: u64,
    /// Walks that ended with nothing inserted, by their reason.
    pub aborts: BTreeMap<Abort, u64>,
    /// Faults, by their kind.
    pub faults: BTreeMap<Kind, u64>,
}

impl Counters {
    pub(crate) const fn of(&mut self, side: Side) -> &mut OfSide {
        match side {
            Side::Instruction => &mut self.instruction,
            Side::Data => &mut self.data,
        }
    }

    /// How many faults of a kind there were.
    pub fn faults_of(&self, kind: Kind) -> u64 {
        self.faults.get(&kind).copied().unwrap_or(0)
    }

    /// How many walks ended for this reason.
    pub fn aborts_for(&self, reason: Abort) -> u64 {
        self.aborts.get(&reason).copied().unwrap_or(0)
    }
}
