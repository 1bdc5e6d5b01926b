// SPDX-License-Identifier: MIT
//! An MMU of x86-64, as a processor's file has it.

use super::{Mmu, Parts};
use crate::cache::{Hierarchy, Shape};
use crate::cpu::{CacheSpec, Cpu, Side};
use crate::tlb::Tlb;
use crate::x86::{Context, X86};

impl Mmu {
    /// An x86-64 processor with everything empty, the region closed, and paging off.
    pub fn new(cpu: &Cpu) -> Self {
        let mut specs: Vec<_> = cpu.tlb.iter().filter(|t| t.entries > 0).collect();
        specs.sort_by_key(|t| t.level);
        let serving = |level: u8, side: Side| -> Vec<usize> {
            (0..specs.len())
                .filter(|&i| specs[i].level == level && [side, Side::Both].contains(&specs[i].side))
                .collect()
        };
        let cache = |c: &Option<CacheSpec>| c.as_ref().map_or_else(Shape::default, CacheSpec::shape);
        let parts = Parts {
            tlbs: specs
                .iter()
                .map(|t| Tlb::new(&t.name, &t.sizes().expect("checked when read"), t.geometry()))
                .collect(),
            lookup: [Side::Data, Side::Instruction].map(|side| [1, 2].map(|level| serving(level, side))),
            caches: Hierarchy::new(&[cache(&cpu.cache.l1), cache(&cpu.cache.l2), cache(&cpu.cache.l3)]),
            latency: [cpu.cost.l1_cycles, cpu.cost.l2_cycles, cpu.cost.l3_cycles, cpu.cost.memory_cycles],
            splits_1g: cpu.second_level_splits_1g.holds,
        };
        Self::of(X86::new(cpu), parts, Context::nobody())
    }
}
