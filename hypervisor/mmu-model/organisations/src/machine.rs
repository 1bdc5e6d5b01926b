// SPDX-License-Identifier: MIT
//! Machines as data: `machines/*.toml`, and the processors of [`mmu_model::cpu`] with another refill.

use std::fmt;

use mmu_model::address::PageSize;
use mmu_model::assoc::{Geometry, Replacement};
use mmu_model::cache::Served;
use mmu_model::cpu::{Cpu, Side};
use mmu_model::mmu::Parts;
use mmu_model::tlb::Tlb;
use serde::Deserialize;

use crate::caches::{By, Hierarchy, Policy, Shape, Use};
use crate::entry::Duo;

/// A processor whose TLB software can refill.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// In full.
    pub name: String,
    /// An entry of the TLB holds an even page and the odd one behind it.
    pub pairs: bool,
    /// Cycles that each entry of a handler costs, besides its instructions.
    pub interrupt_cycles: u64,
    /// What no document says and the model takes for granted.
    #[serde(default)]
    pub assumptions: Vec<String>,
    /// The TLBs.
    pub tlb: Vec<Array>,
    /// The caches, from the processor outwards.
    #[serde(default)]
    pub cache: Vec<Shape>,
    /// Cycles.
    pub cost: Cost,
}

/// One array of a TLB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Short.
    pub name: String,
    /// 1 or 2.
    pub level: u8,
    /// Who looks into it.
    pub side: Side,
    /// Sizes of pages, such as "4k".
    pub pages: Vec<String>,
    /// In all.
    pub entries: u32,
    /// A set.
    pub ways: u32,
    /// Who gives way.
    pub replacement: Replacement,
    /// Of them, those kept for pages of tables, which a handler puts there, by organisations that have such.
    #[serde(default)]
    pub reserved: u32,
    /// Which document says so.
    pub source: String,
}

/// What a reference costs, by where it is served.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// By the first cache; an instruction's own cycle has it in it.
    pub l1_cycles: u64,
    /// By the second.
    #[serde(default)]
    pub l2_cycles: Option<u64>,
    /// By the third.
    #[serde(default)]
    pub l3_cycles: Option<u64>,
    /// By memory.
    pub memory_cycles: u64,
    /// Where the figures come from.
    pub source: String,
}

/// What is wrong with a machine file.
#[derive(Debug)]
pub struct MachineError {
    /// The file or built-in name.
    pub file: String,
    /// What is wrong, where in it, and what to do.
    pub problem: String,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine file {}: {}", self.file, self.problem)
    }
}

impl std::error::Error for MachineError {}

/// Machines that come with the model: name and text.
pub const BUILT_IN: [(&str, &str); 2] = [
    ("r4700", include_str!("../machines/r4700.toml")),
    ("jacob-mudge", include_str!("../machines/jacob-mudge.toml")),
];

impl Machine {
    /// The built-in machine of this name.
    pub fn built_in(name: &str) -> Option<Result<Self, MachineError>> {
        BUILT_IN.iter().find(|(n, _)| *n == name).map(|(n, text)| Self::parse(n, text))
    }

    /// Read a machine file's text; `file` is for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, MachineError> {
        let failed = |problem: String| MachineError { file: file.to_owned(), problem };
        let whole = "; hypervisor/mmu-model/organisations/machines/r4700.toml has all that a machine's file needs";
        let machine: Self = toml::from_str(text).map_err(|e| failed(e.to_string().trim_end().to_owned() + whole))?;
        machine.check().map_err(failed)?;
        Ok(machine)
    }

    /// A processor of today with its own TLBs and caches, which another organisation refills. A line serves all its
    /// caches by machine addresses; slices of the last one are left out.
    pub fn of_cpu(cpu: &Cpu) -> Self {
        let caches = [&cpu.cache.l1, &cpu.cache.l2, &cpu.cache.l3];
        let shape = |(level, spec): (usize, &&Option<mmu_model::cpu::CacheSpec>)| {
            let spec = spec.as_ref()?;
            Some(Shape {
                kib: spec.kib,
                ways: spec.ways,
                line: mmu_model::cache::LINE,
                policy: Policy::Lru,
                index: By::Machine,
                tag: By::Machine,
                serves: if level == 0 { Use::Split } else { Use::Common },
                source: spec.source.clone(),
            })
        };
        let arrays = cpu.tlb.iter().filter(|t| t.entries > 0).map(|t| Array {
            name: t.name.clone(),
            level: t.level,
            side: t.side,
            pages: t.pages.clone(),
            entries: t.entries,
            ways: t.ways,
            replacement: t.replacement,
            reserved: 0,
            source: t.source.clone(),
        });
        Self {
            name: cpu.name.clone(),
            pairs: false,
            interrupt_cycles: 0,
            assumptions: cpu.assumptions.clone(),
            tlb: arrays.collect(),
            cache: caches.iter().enumerate().filter_map(shape).collect(),
            cost: Cost {
                l1_cycles: cpu.cost.l1_cycles,
                l2_cycles: Some(cpu.cost.l2_cycles),
                l3_cycles: Some(cpu.cost.l3_cycles),
                memory_cycles: cpu.cost.memory_cycles,
                source: cpu.cost.source.clone(),
            },
        }
    }

    /// Give it another size: of the cache of a level, "l1" and so on, in KiB; of all lines, "line", in bytes; of the TLBs
    /// of the first level, "tlb", in entries.
    pub fn resize(&mut self, what: &str, size: u64) -> Result<(), String> {
        match what {
            "line" => self.cache.iter_mut().for_each(|shape| shape.line = size),
            "tlb" => {
                let entries = u32::try_from(size).map_err(|_| format!("tlb: {size} entries are too many"))?;
                for array in self.tlb.iter_mut().filter(|array| array.level == 1) {
                    // What looks into all of its entries still does.
                    array.ways = if array.ways == array.entries { entries } else { array.ways };
                    array.entries = entries;
                }
            }
            level => {
                let (level, there) = (level[1..].parse::<usize>().unwrap_or(0), self.cache.len());
                let missing = || format!("{} has no cache {level}, expected 1 to {there}", self.name);
                self.cache.get_mut(level.wrapping_sub(1)).ok_or_else(missing)?.kib = size;
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        for (i, array) in self.tlb.iter().enumerate() {
            array.check()?;
            if self.tlb[..i].iter().any(|other| other.name == array.name) {
                return Err(format!("two tlbs are called \"{}\"; name them apart", array.name));
            }
        }
        for side in [Side::Data, Side::Instruction] {
            let serves = |a: &&Array| a.level == 1 && (a.side == side || a.side == Side::Both);
            if !self.tlb.is_empty() && !self.tlb.iter().any(|array| serves(&array)) {
                return Err(format!("no tlb of level 1 serves side {side:?}; name one, or leave out all"));
            }
        }
        if self.cache.len() > 3 {
            return Err(format!("{} caches, expected 3 at most", self.cache.len()));
        }
        for (i, shape) in self.cache.iter().enumerate() {
            shape.check(i + 1)?;
        }
        let named = [self.cost.l2_cycles, self.cost.l3_cycles];
        for (level, cycles) in (2..).zip(named) {
            if cycles.is_none() && self.cache.len() >= level {
                return Err(format!("cost: l{level}_cycles is missing, and there is a cache {level}; state it"));
            }
            if cycles.is_some() && self.cache.len() < level {
                return Err(format!("cost: l{level}_cycles is given, and there is no cache {level}; leave it out"));
            }
        }
        let grow = self.latency();
        if let Some(level) = (1..grow.len()).find(|level| grow[*level] < grow[level - 1]) {
            let (near, far) = (grow[level - 1], grow[level]);
            return Err(format!("cost: {far} cycles stand behind {near}; what is farther must not cost less"));
        }
        sourced("cost", &self.cost.source)
    }

    /// Cycles by where a reference is served.
    pub fn latency(&self) -> [u64; Served::COUNT] {
        let Cost { l1_cycles, l2_cycles, l3_cycles, memory_cycles, .. } = self.cost;
        let of = |cycles: Option<u64>| cycles.unwrap_or(memory_cycles);
        [l1_cycles, of(l2_cycles), of(l3_cycles), memory_cycles]
    }

    /// Sizes of pages that its TLBs hold, from the smallest to the largest.
    pub fn pages(&self) -> Vec<PageSize> {
        let mut sizes: Vec<_> = self.tlb.iter().flat_map(Array::sizes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Its hardware, empty; where reserved slots are used as such (`protects`), they are an array of their own, the last.
    pub fn parts(&self, protects: bool) -> Parts<Duo, Hierarchy> {
        let span = |size: PageSize| if self.pairs { PageSize::of_shift(size.shift() + 1) } else { size };
        let tlb = |array: &Array| {
            let sizes: Vec<_> = array.sizes().into_iter().map(span).collect();
            let entries = array.entries - if protects { array.reserved } else { 0 };
            let ways = array.ways - (array.entries - entries);
            Tlb::new(&array.name, &sizes, Geometry { entries, ways, replacement: array.replacement })
        };
        let reserved = self.tlb.iter().find(|a| protects && a.reserved > 0 && a.side != Side::Instruction);
        let protected = reserved.map(|array| {
            let geometry = Geometry { entries: array.reserved, ways: array.reserved, replacement: array.replacement };
            Tlb::new("protected", &[span(PageSize::K4)], geometry)
        });
        let serving = |side: Side, level: u8| {
            let serves = |a: &Array| a.level == level && (a.side == side || a.side == Side::Both);
            (0..self.tlb.len()).filter(|i| serves(&self.tlb[*i])).collect::<Vec<_>>()
        };
        let mut lookup = [Side::Data, Side::Instruction].map(|side| [1, 2].map(|level| serving(side, level)));
        lookup[0][0].extend(protected.iter().map(|_| self.tlb.len()));
        Parts {
            tlbs: self.tlb.iter().map(tlb).chain(protected).collect(),
            lookup,
            caches: Hierarchy::new(&self.cache),
            latency: self.latency(),
            splits_1g: false,
        }
    }
}

fn sourced(what: &str, source: &str) -> Result<(), String> {
    if source.trim().is_empty() {
        return Err(format!("{what}: source is empty; say which document has the figures, or \"assumption: …\""));
    }
    Ok(())
}

impl Array {
    /// Sizes of its pages.
    fn sizes(&self) -> Vec<PageSize> {
        self.pages.iter().filter_map(|name| PageSize::of_name(name)).collect()
    }

    fn check(&self) -> Result<(), String> {
        let what = format!("tlb \"{}\"", self.name);
        sourced(&what, &self.source)?;
        if !(1..=2).contains(&self.level) {
            return Err(format!("{what}: level is {}, expected 1 or 2", self.level));
        }
        if let Some(wrong) = self.pages.iter().find(|name| PageSize::of_name(name).is_none()) {
            return Err(format!("{what}: pages has \"{wrong}\", expected a power of two such as 4k, 16m or 1g"));
        }
        if self.pages.is_empty() || self.entries == 0 {
            return Err(format!("{what}: it holds nothing; name its pages and entries, or leave it out"));
        }
        if self.reserved > 0 && (self.reserved >= self.entries || self.ways != self.entries) {
            return Err(format!(
                "{what}: {} of {} reserved, expected fewer, and full associativity",
                self.reserved, self.entries
            ));
        }
        if self.replacement == Replacement::Plru && (!self.ways.is_power_of_two() || self.ways > 64) {
            return Err(format!(
                "{what}: plru of {} ways, expected a power of two up to 64; or take lru or random",
                self.ways
            ));
        }
        if self.ways == 0 || self.entries % self.ways != 0 || !(self.entries / self.ways).is_power_of_two() {
            return Err(format!(
                "{what}: {} entries in sets of {}, expected a power of two of sets",
                self.entries, self.ways
            ));
        }
        Ok(())
    }
}

impl Shape {
    fn check(&self, level: usize) -> Result<(), String> {
        let what = format!("cache {level}");
        sourced(&what, &self.source)?;
        if !self.line.is_power_of_two() || !(16..=4096).contains(&self.line) {
            return Err(format!("{what}: a line of {} bytes, expected a power of two from 16", self.line));
        }
        let lines = self.kib * 1024 / self.line;
        let sets = lines / u64::from(self.ways.max(1));
        if !(1..=128).contains(&self.ways) || sets == 0 || lines % sets != 0 || lines / sets != u64::from(self.ways) {
            return Err(format!("{what}: {lines} lines in sets of {}, which they do not fill", self.ways));
        }
        Ok(())
    }
}
