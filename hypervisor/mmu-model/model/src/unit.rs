// SPDX-License-Identifier: MIT
//! The hardware that walks: caches of page-table lines, of partial walks, and of a host's translations.

use crate::address::{Machine, PageSize};
use crate::assoc::{Assoc, Geometry, Replacement};
use crate::cache::Hierarchy;
use crate::counters::Bank;
use crate::cpu::{ArraySpec, CacheSpec, Cpu, PartialSpec};
use crate::memory::Memory;
use crate::tlb::tag;
use crate::walk::{Dimension, HostLeaf, Partial, Place, Steps};

/// What a walk uses besides memory.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) partial: Vec<PartialCache>,
    pub(crate) host_partial: Vec<PartialCache>,
    pub(crate) nested: Assoc<HostLeaf>,
    pub(crate) caches: Hierarchy,
    /// By [`crate::cache::Served`].
    latency: [u64; 4],
}

/// A paging-structure cache.
#[derive(Clone, Debug)]
pub(crate) struct PartialCache {
    levels: Vec<u8>,
    pub(crate) assoc: Assoc<Partial>,
}

impl Parts {
    /// All of it empty, as this processor has it.
    pub(crate) fn new(cpu: &Cpu) -> Self {
        let cache = |c: &Option<CacheSpec>| c.as_ref().map_or((0, 0), |c| (c.kib * 1024, c.ways));
        let none = Geometry { entries: 0, ways: 1, replacement: Replacement::Lru };
        Self {
            partial: cpu.partial.iter().map(PartialCache::new).collect(),
            host_partial: cpu.host_partial.iter().map(PartialCache::new).collect(),
            nested: Assoc::new(cpu.nested_tlb.as_ref().map_or(none, ArraySpec::geometry)),
            caches: Hierarchy::new([cache(&cpu.cache.l1), cache(&cpu.cache.l2), cache(&cpu.cache.l3)]),
            latency: [cpu.cost.l1_cycles, cpu.cost.l2_cycles, cpu.cost.l3_cycles, cpu.cost.memory_cycles],
        }
    }
}

impl PartialCache {
    fn new(spec: &PartialSpec) -> Self {
        let mut levels = spec.levels.clone();
        levels.sort_unstable();
        Self { levels, assoc: Assoc::new(spec.geometry()) }
    }
}

/// The hardware as one walk sees it.
pub(crate) struct Unit<'a, M> {
    pub(crate) memory: &'a mut M,
    pub(crate) parts: &'a mut Parts,
    pub(crate) bank: &'a mut Bank,
    pub(crate) tag: u64,
    /// Spent so far.
    pub(crate) cycles: u64,
}

/// Key of a partial walk: the address's bits down to this level, and the level.
const fn partial_key(address: u64, level: u8) -> (u64, u64) {
    let prefix = address << 7 >> 7 >> (3 + 9 * level as u32);
    (prefix, prefix << 3 | level as u64)
}

impl<M> Unit<'_, M> {
    /// Tables and tag for a dimension's partial walks: those of the host's tables belong to no process.
    fn partial(&mut self, dimension: Dimension) -> (&mut Vec<PartialCache>, u64) {
        match dimension {
            Dimension::Host => (&mut self.parts.host_partial, self.tag & !tag::PCID),
            _ => (&mut self.parts.partial, self.tag),
        }
    }
}

impl<M: Memory> Steps for Unit<'_, M> {
    type Error = M::Error;

    fn read(&mut self, place: Place, at: Machine) -> Result<u64, M::Error> {
        let served = self.parts.caches.access(at);
        let cycles = self.parts.latency[served as usize];
        self.cycles += cycles;
        self.bank.host_walk_cycles += if place.dimension == Dimension::Host { cycles } else { 0 };
        self.bank.refs[place.dimension as usize][usize::from(place.level) - 1] += 1;
        self.bank.served[served as usize] += 1;
        self.memory.read(at)
    }

    fn set_bits(&mut self, at: Machine, bits: u64) -> Result<(), M::Error> {
        self.memory.set_bits(at, bits)
    }

    fn spend(&mut self, cycles: u64) {
        self.cycles += cycles;
    }

    fn recall(&mut self, dimension: Dimension, address: u64, top: u8) -> Option<(u8, Partial)> {
        let (caches, tag) = self.partial(dimension);
        let mut deepest: Option<(u8, Partial)> = None;
        // All levels are looked up at once; the deepest hit wins, and every hit counts as a use.
        for cache in caches {
            for level in cache.levels.iter().copied().filter(|l| *l <= top) {
                let (set, key) = partial_key(address, level);
                let Some(at) = cache.assoc.find(set, key, tag) else { continue };
                cache.assoc.touch(at);
                if deepest.is_none_or(|(l, _)| level < l) {
                    deepest = Some((level, cache.assoc.slot(at).value));
                }
            }
        }
        if let Some((level, _)) = deepest {
            let hits = match dimension {
                Dimension::Host => &mut self.bank.host_partial_hits,
                _ => &mut self.bank.partial_hits,
            };
            hits[usize::from(level) - 1] += 1;
        }
        deepest
    }

    fn keep(&mut self, place: Place, address: u64, partial: Partial) {
        let (caches, tag) = self.partial(place.dimension);
        for cache in caches.iter_mut().filter(|c| c.levels.contains(&place.level)) {
            let (set, key) = partial_key(address, place.level);
            cache.assoc.insert(set, key, tag, u64::MAX, partial);
        }
    }

    fn recall_nested(&mut self, address: u64) -> Option<HostLeaf> {
        let tag = self.tag & !tag::PCID;
        let nested = &mut self.parts.nested;
        let found = PageSize::ALL.into_iter().find_map(|size| {
            let page = address >> size.shift();
            nested.find(page, page << 2 | size as u64, tag)
        });
        let Some(at) = found else {
            self.bank.nested_misses += 1;
            return None;
        };
        nested.touch(at);
        self.bank.nested_hits += 1;
        Some(self.parts.nested.slot(at).value)
    }

    fn keep_nested(&mut self, address: u64, leaf: HostLeaf) {
        let page = address >> leaf.size.shift();
        let tag = self.tag & !tag::PCID;
        self.parts.nested.insert(page, page << 2 | leaf.size as u64, tag, u64::MAX, leaf);
    }
}
