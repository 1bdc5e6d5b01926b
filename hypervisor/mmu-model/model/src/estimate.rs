// SPDX-License-Identifier: MIT
//! An estimate of execution time in cycles: counts times stated costs, nothing measured.
//!
//! How much of a page walk a processor hides behind other work depends on the program and on how far ahead it runs, so
//! the estimate is a band: from the least to the most that the processor's file says is exposed.

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
    /// Page walks: what is exposed of them at least and at most.
    pub walks: [f64; 2],
    /// Looks into the second-level TLB, in vain or not: a walk begins when it has nothing. Of them, as of data that L1
    /// has not, one share is exposed.
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
            walks: cost.exposed_walk_share.map(|share| total.all_walk_cycles() as f64 * share),
            second_level_tlb: (second * cost.second_level_tlb_cycles) as f64 * cost.exposed_share,
            data_stalls: sent.then_some(data as f64 * cost.exposed_share),
            exits: (counters.exits * cost.exit_cycles) as f64,
        }
    }

    /// All together, at least and at most, if all is known.
    pub fn cycles(&self) -> Option<[f64; 2]> {
        let others = self.instructions? + self.second_level_tlb + self.data_stalls? + self.exits;
        Some(self.walks.map(|walks| others + walks))
    }

    /// By name; `kind` says what it is.
    pub fn to_json(&self) -> Value {
        json!({
            "kind": "estimate",
            "estimated_cycles_low": self.cycles().map(|[low, _]| low),
            "estimated_cycles_high": self.cycles().map(|[_, high]| high),
            "of_instructions": self.instructions,
            "of_walks_low": self.walks[0],
            "of_walks_high": self.walks[1],
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
        assert_eq!(Estimate::new(&counters, &cpu).cycles(), Some([2152.0; 2]));
        cpu.cost.exposed_walk_share = [0.25, 0.75];
        let estimate = Estimate::new(&counters, &cpu);
        assert_eq!((estimate.walks, estimate.cycles()), ([3.0, 9.0], Some([2143.0, 2149.0])));
        cpu.cost.second_level_tlb_cycles = 7;
        counters.banks[0].hits[0][0][0] = 1000;
        counters.banks[0].hits[1][0][1] = 2;
        counters.banks[0].fills[1][2] = 3;
        counters.banks[0].faults[2] = 4;
        assert!((Estimate::new(&counters, &cpu).second_level_tlb - 31.5).abs() < 1e-9, "what the first has not");
    }
}
