// SPDX-License-Identifier: MIT
//! What refills have cost: the events that both sources count, under names that results carry.

use mmu_model::cache::Served;
use serde_json::{Map, Value};

use crate::table::Level;

/// What refills have cost, by layer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Refills that found an entry.
    pub refills: u64,
    /// Of them, those that a cache of entries in memory served.
    pub short_cuts: u64,
    /// Entries of handlers, by [`Level`].
    pub interrupts: [u64; Level::COUNT],
    /// Instructions of handlers.
    pub instructions: [u64; Level::COUNT],
    /// Loads from tables, by where they were served.
    pub loads: [[u64; Served::COUNT]; Level::COUNT],
    /// Lines of handlers fetched, by where they were found.
    pub fetches: [u64; Served::COUNT],
    /// Cycles of interrupts, instructions, and all they waited for.
    pub cycles: u64,
    /// Entries that were changed to bring the table up to date.
    pub updates: u64,
    /// Refills that found another page than the trace's own tables have.
    pub mismatches: u64,
}

impl Tally {
    /// Add another's.
    pub fn add(&mut self, other: &Self) {
        fn sum<const N: usize>(mine: &mut [u64; N], theirs: &[u64; N]) {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
        self.refills += other.refills;
        self.short_cuts += other.short_cuts;
        sum(&mut self.interrupts, &other.interrupts);
        sum(&mut self.instructions, &other.instructions);
        self.loads.iter_mut().zip(&other.loads).for_each(|(a, b)| sum(a, b));
        sum(&mut self.fetches, &other.fetches);
        self.cycles += other.cycles;
        self.updates += other.updates;
        self.mismatches += other.mismatches;
    }

    /// Everything by name.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        let mut put = |name: String, n: u64| _ = out.insert(name, n.into());
        put("refills".into(), self.refills);
        put("refills_short_cut".into(), self.short_cuts);
        for (level, name) in Level::NAMES.into_iter().enumerate() {
            put(format!("interrupts_{name}"), self.interrupts[level]);
            put(format!("handler_instructions_{name}"), self.instructions[level]);
            for served in Served::ALL {
                put(format!("table_loads_{name}_{}", served.name()), self.loads[level][served as usize]);
            }
        }
        for served in Served::ALL {
            put(format!("handler_fetches_{}", served.name()), self.fetches[served as usize]);
        }
        put("refill_cycles".into(), self.cycles);
        put("table_updates".into(), self.updates);
        put("mismatches".into(), self.mismatches);
        out
    }
}
