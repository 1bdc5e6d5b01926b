// SPDX-License-Identifier: MIT
//! Which entry of a full translation cache goes.

use serde::{Deserialize, Serialize};

use crate::config::Replacement;

/// A policy and what it has to remember beside the entries' own times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Replacer {
    policy: Replacement,
    state: u64,
}

impl Replacer {
    pub(crate) fn new(policy: Replacement) -> Self {
        let state = if let Replacement::Random(seed) = policy { seed } else { 0 };
        Self { policy, state }
    }

    /// The place of the victim, of entries that are all in use; each has the times of its insertion and of its last
    /// use, which are different for each.
    pub(crate) fn victim(&mut self, times: impl Iterator<Item = (u64, u64)>, count: usize) -> usize {
        let oldest = |by: fn((u64, u64)) -> u64| times.map(by).enumerate().min_by_key(|&(_, time)| time);
        match self.policy {
            Replacement::Lru => oldest(|(_, used)| used),
            Replacement::Fifo => oldest(|(born, _)| born),
            Replacement::Random(_) => return self.draw(count),
        }
        .expect("a full cache has entries")
        .0
    }

    /// Steele, Lea and Flood's splitmix64: any seed will do.
    fn draw(&mut self, count: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.state;
        drawn = (drawn ^ drawn >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ drawn >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((drawn ^ drawn >> 31) % count as u64) as usize
    }
}
