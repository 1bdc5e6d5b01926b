// SPDX-License-Identifier: MIT
//! The hardware that walks: caches of partial walks, and of a host's translations.

use crate::address::{Machine, PageSize, Virtual};
use crate::assoc::{Assoc, Geometry, Replacement};
use crate::cpu::{ArraySpec, Cpu, PartialSpec};
use crate::invalidate::Reach;
use crate::memory::Memory;
use crate::organisation::Port;
use crate::tag;
use crate::walk::{Dimension, Fault, Place};
use crate::x86::X86;
use crate::x86::steps::{HostLeaf, Partial, Steps};

/// What a walk uses besides memory.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    partial: Vec<PartialCache>,
    host_partial: Vec<PartialCache>,
    nested: Assoc<HostLeaf>,
    /// The guest-physical address translated last. Not in [`Fault`]: an access returns that, and would no longer do so in
    /// two registers.
    guest_physical: u64,
}

/// A paging-structure cache.
#[derive(Clone, Debug)]
struct PartialCache {
    levels: Vec<u8>,
    assoc: Assoc<Partial>,
}

impl Parts {
    /// All of it empty, as this processor has it.
    pub(crate) fn new(cpu: &Cpu) -> Self {
        let none = Geometry { entries: 0, ways: 1, replacement: Replacement::Lru };
        Self {
            partial: cpu.partial.iter().map(PartialCache::new).collect(),
            host_partial: cpu.host_partial.iter().map(PartialCache::new).collect(),
            nested: Assoc::new(cpu.nested_tlb.as_ref().map_or(none, ArraySpec::geometry)),
            guest_physical: 0,
        }
    }

    /// Half walks of one dimension or the guest's, under an ASID: an address that they lead to, how far, and what they say.
    pub(crate) fn half_walks(&self, asid: u16) -> impl Iterator<Item = (Virtual, u8, Partial)> {
        let of_asid = move |tag: u64| (tag ^ tag::pack(asid, 0, 0)) & tag::ASID == 0;
        let entries = self.partial.iter().flat_map(|cache| cache.assoc.entries());
        entries.filter(move |(_, slot)| of_asid(slot.tag)).map(|(key, slot)| {
            let (address, level) = address_of_partial(key);
            (address, level, slot.value)
        })
    }

    /// Forget partial walks, and translations of guest-physical addresses if they are meant; returns how many.
    pub(crate) fn forget(&mut self, reach: &Reach) -> u64 {
        let goes = |tag: u64| reach.takes_partial(tag);
        if let (true, Some(address)) = (reach.mapping, reach.address) {
            return forget_partial(&mut self.partial, address.raw(), goes);
        }
        let host = if reach.nested { &mut self.host_partial[..] } else { &mut [] };
        let caches = self.partial.iter_mut().chain(host);
        let mut gone = caches.map(|cache| cache.assoc.retain(|_, slot| !goes(slot.tag))).sum();
        if reach.nested {
            gone += self.nested.retain(|_, slot| !goes(slot.tag));
        }
        gone
    }

    /// Forget what would be used of half walks for the address that faulted, and of the host's translations if the
    /// fault is in the host's tables; returns how many entries.
    pub(crate) fn forget_fault(&mut self, fault: Fault, address: Virtual, tag: u64) -> u64 {
        let mut gone = forget_partial(&mut self.partial, address.raw(), |other| other == tag);
        if fault.dimension == Dimension::Host {
            let tag = tag & !tag::PCID;
            gone += forget_partial(&mut self.host_partial, self.guest_physical, |other| other == tag);
            for size in PageSize::ALL {
                let (set, key) = nested_key(self.guest_physical, size);
                gone += u64::from(self.nested.find(set, key, tag).map(|at| self.nested.remove(at)).is_some());
            }
        }
        gone
    }
}

fn forget_partial(caches: &mut [PartialCache], address: u64, goes: impl Fn(u64) -> bool) -> u64 {
    let mut gone = 0;
    for cache in caches {
        for &level in &cache.levels {
            let (set, key) = partial_key(address, level);
            while let Some(at) = cache.assoc.find_where(set, key, |slot| goes(slot.tag)) {
                cache.assoc.remove(at);
                gone += 1;
            }
        }
    }
    gone
}

impl PartialCache {
    fn new(spec: &PartialSpec) -> Self {
        let mut levels = spec.levels.clone();
        levels.sort_unstable();
        Self { levels, assoc: Assoc::new(spec.geometry()) }
    }
}

/// The hardware as one walk sees it.
pub(crate) struct Unit<'a, 'b, M> {
    pub(crate) port: &'a mut Port<'b, X86, M>,
    pub(crate) parts: &'a mut Parts,
}

/// Key of a partial walk: the address's bits down to this level, and the level.
const fn partial_key(address: u64, level: u8) -> (u64, u64) {
    let prefix = address << 7 >> 7 >> (3 + 9 * level as u32);
    (prefix, prefix << 3 | level as u64)
}

/// The first address that a partial walk with this key leads to, and its level.
const fn address_of_partial(key: u64) -> (Virtual, u8) {
    let level = (key & 7) as u8;
    let address = key >> 3 << (3 + 9 * level as u32);
    (Virtual::new(((address << 7) as i64 >> 7) as u64), level)
}

/// Key of a host's translation: the page's number, and its size.
const fn nested_key(address: u64, size: PageSize) -> (u64, u64) {
    let page = address >> size.shift();
    (page, page << 5 | size.index() as u64)
}

impl<M> Unit<'_, '_, M> {
    /// Tables and tag for a dimension's partial walks: those of the host's tables belong to no process.
    fn partial(&mut self, dimension: Dimension) -> (&mut Vec<PartialCache>, u64) {
        match dimension {
            Dimension::Host => (&mut self.parts.host_partial, self.port.tag & !tag::PCID),
            _ => (&mut self.parts.partial, self.port.tag),
        }
    }
}

impl<M: Memory> Steps for Unit<'_, '_, M> {
    type Error = M::Error;

    fn read(&mut self, place: Place, at: Machine) -> Result<u64, M::Error> {
        let before = self.port.cycles;
        self.port.reference(at);
        let cycles = self.port.cycles - before;
        self.port.bank.host_walk_cycles += if place.dimension == Dimension::Host { cycles } else { 0 };
        self.port.bank.refs[place.dimension as usize][usize::from(place.level) - 1] += 1;
        self.port.memory.read(at)
    }

    fn set_bits(&mut self, at: Machine, bits: u64) -> Result<(), M::Error> {
        self.port.memory.set_bits(at, bits)
    }

    fn spend(&mut self, cycles: u64) {
        self.port.spend(cycles);
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
                Dimension::Host => &mut self.port.bank.host_partial_hits,
                _ => &mut self.port.bank.partial_hits,
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
        let tag = self.port.tag & !tag::PCID;
        self.parts.guest_physical = address;
        let nested = &mut self.parts.nested;
        let found = PageSize::ALL.into_iter().find_map(|size| {
            let (set, key) = nested_key(address, size);
            nested.find(set, key, tag)
        });
        let Some(at) = found else {
            self.port.bank.nested_misses += 1;
            return None;
        };
        nested.touch(at);
        self.port.bank.nested_hits += 1;
        Some(self.parts.nested.slot(at).value)
    }

    fn keep_nested(&mut self, address: u64, leaf: HostLeaf) {
        let (set, key) = nested_key(address, leaf.size);
        self.parts.nested.insert(set, key, self.port.tag & !tag::PCID, u64::MAX, leaf);
    }
}
