// SPDX-License-Identifier: MIT
//! What refills have cost: the events that both sources count, under names that results carry.

use std::ops::{Index, IndexMut};

use mmu_model::cache::Served;
use mmu_model::context::{Kind, Layer};
use mmu_model::counters::Bank;
use mmu_model::mmu::Mmu;
use mmu_model::organisation::Organisation;
use mmu_model::walk::Dimension;
use serde_json::{Map, Value, json};

use crate::table::{Level, Shape};

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
    /// Lines of tables that hardware read, by dimension: where tables are walked by hardware, these are its references.
    pub references: [u64; Dimension::COUNT],
    /// The most of them that one refill took.
    pub most: u64,
    /// Guest-physical addresses that the nested TLB translated, and those that it had not.
    pub nested: [u64; 2],
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
        sum(&mut self.references, &other.references);
        self.most = self.most.max(other.most);
        sum(&mut self.nested, &other.nested);
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
        for dimension in Dimension::ALL {
            put(format!("references_{}", dimension.name()), self.references[dimension as usize]);
        }
        put("references_most".into(), self.most);
        put("nested_tlb_hits".into(), self.nested[0]);
        put("nested_tlb_misses".into(), self.nested[1]);
        for served in Served::ALL {
            put(format!("handler_fetches_{}", served.name()), self.fetches[served as usize]);
        }
        put("refill_cycles".into(), self.cycles);
        put("table_updates".into(), self.updates);
        put("mismatches".into(), self.mismatches);
        out
    }
}

/// Tallies by bank of counters, the last being what lies outside the region.
#[derive(Clone, Default, Debug)]
pub struct Tallies([Tally; Layer::COUNT + 1]);

impl Tallies {
    /// What has been counted inside the region, of all layers.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.0[..Layer::COUNT].iter().for_each(|tally| total.add(tally));
        total
    }

    /// The same of one layer.
    pub fn of(&self, layer: Layer) -> &Tally {
        &self.0[layer as usize]
    }

    /// Refills that found another page than the trace's tables have, inside the region or not.
    pub fn mismatches(&self) -> u64 {
        self.0.iter().map(|tally| tally.mismatches).sum()
    }
}

impl Index<usize> for Tallies {
    type Output = Tally;

    fn index(&self, bank: usize) -> &Tally {
        &self.0[bank]
    }
}

impl IndexMut<usize> for Tallies {
    fn index_mut(&mut self, bank: usize) -> &mut Tally {
        &mut self.0[bank]
    }
}

/// What an organisation has counted itself.
pub trait Counted: Organisation {
    /// What its refills have cost.
    fn tallies(&self) -> &Tallies;

    /// Its tables' sizes and counts.
    fn shape(&self) -> Shape;
}

/// Counters of a replay as one JSON object: the MMU's own, and those of its refills.
pub fn to_json<O: Counted>(mmu: &Mmu<O>) -> Value {
    let (counters, tallies) = (mmu.counters(), mmu.organisation().tallies());
    let mut layers: Map<String, Value> = Layer::ALL
        .into_iter()
        .map(|layer| (layer.name().to_owned(), named(counters.layer(layer), tallies.of(layer))))
        .collect();
    layers.insert("total".to_owned(), named(&counters.total(), &tallies.total()));
    json!({
        "kind": "modelled",
        "instructions": counters.instructions,
        "layers": layers,
        "table": mmu.organisation().shape(),
    })
}

fn named(bank: &Bank, tally: &Tally) -> Value {
    let mut out = tally.to_json();
    let mut put = |name: String, n: u64| _ = out.insert(name, n.into());
    for kind in Kind::ALL {
        put(kind.name().into(), bank.accesses(kind));
        put(format!("tlb_misses_{}", kind.name()), bank.misses(kind));
    }
    put("faults".into(), bank.faults.iter().sum());
    for served in Served::ALL {
        put(format!("data_refs_{}", served.name()), bank.data_served[served as usize]);
        put(format!("fetch_refs_{}", served.name()), bank.fetches_served[served as usize]);
    }
    Value::Object(out)
}
