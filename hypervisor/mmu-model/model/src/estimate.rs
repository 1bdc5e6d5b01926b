// SPDX-License-Identifier: MIT
//! An estimate of execution time in cycles: counts times stated costs, nothing measured.

use serde_json::{Value, json};

use crate::cache::Served;
use crate::context::Kind;
use crate::counters::Counters;
use crate::cpu::Cpu;

/// Cycles by what they go to. What is not known is none, never zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Instructions without any stall.
    pub instructions: Option<f64>,
    /// Page walks.
    pub walks: f64,
    /// Looks into the second-level TLB, in vain or not: a walk begins when it has nothing. Of them, as of data that L1
    /// has not, a share is exposed; walks are taken to hide behind nothing.
    pub second_level_tlb: f64,
    /// Data accesses that L1 does not serve.
    pub data_stalls: Option<f64>,
    /// Leaving a guest and entering it.
    pub exits: f64,
}

impl Estimate {
    /// From counts and the processor's costs.
    pub fn new(counters: &Counters, cpu: &Cpu) -> Self {
        let (total, cost) = (counters.total(), &cpu.cost);
        let hits: u64 = total.hits[1].iter().flatten().sum();
        let second = hits + Kind::ALL.into_iter().map(|kind| total.misses(kind)).sum::<u64>();
        let latency = [cost.l1_cycles, cost.l2_cycles, cost.l3_cycles, cost.memory_cycles];
        let stall = |served: Served| {
            total.data_served[served as usize] * latency[served as usize].saturating_sub(cost.l1_cycles)
        };
        let data: u64 = Served::ALL.into_iter().map(stall).sum();
        let sent = total.data_served.iter().any(|n| *n > 0);
        Self {
            instructions: (counters.instructions > 0)
                .then_some(counters.instructions as f64 * cost.instruction_cycles),
            walks: total.all_walk_cycles() as f64,
            second_level_tlb: (second * cost.second_level_tlb_cycles) as f64 * cost.exposed_share,
            data_stalls: sent.then_some(data as f64 * cost.exposed_share),
            exits: (counters.exits * cost.exit_cycles) as f64,
        }
    }

    /// All together, if all is known.
    pub fn cycles(&self) -> Option<f64> {
        Some(self.instructions? + self.walks + self.second_level_tlb + self.data_stalls? + self.exits)
    }

    /// By name; `kind` says what it is.
    pub fn to_json(&self) -> Value {
        json!({
            "kind": "estimate",
            "estimated_cycles": self.cycles(),
            "of_instructions": self.instructions,
            "of_walks": self.walks,
            "of_second_level_tlb": self.second_level_tlb,
            "of_data_stalls": self.data_stalls,
            "of_exits": self.exits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_leaves_no_sum() {
        let mut cpu = Cpu::bare();
        (cpu.cost.exit_cycles, cpu.cost.l2_cycles, cpu.cost.exposed_share) = (1000, 11, 0.5);
        let mut counters = Counters { exits: 2, ..Counters::default() };
        counters.banks[0].walk_cycles = [3, 4, 5];
        assert_eq!(Estimate::new(&counters, &cpu).cycles(), None);
        counters.instructions = 100;
        assert_eq!(Estimate::new(&counters, &cpu).cycles(), None);
        counters.banks[0].data_served = [7, 8, 0, 0];
        assert_eq!(Estimate::new(&counters, &cpu).cycles(), Some(100.0 + 12.0 + 40.0 + 2000.0));
        cpu.cost.second_level_tlb_cycles = 7;
        counters.banks[0].hits[0][0][0] = 1000;
        counters.banks[0].hits[1][0][1] = 2;
        counters.banks[0].fills[1][2] = 3;
        counters.banks[0].faults[2] = 4;
        assert!((Estimate::new(&counters, &cpu).second_level_tlb - 31.5).abs() < 1e-9, "what the first has not");
    }
}
