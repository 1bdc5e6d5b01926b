// SPDX-License-Identifier: MIT
//! Processors as data: `cpus/*.toml`.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;

use crate::address::PageSize;
use crate::assoc::{Geometry, Replacement};
use crate::cache::{LINE, Shape};

/// One processor core's translation and caches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// In full.
    pub name: String,
    /// Whose `perf` event names apply.
    pub events: Events,
    /// What no document says and the model takes for granted.
    #[serde(default)]
    pub assumptions: Vec<String>,
    /// Entries carry an ASID or VPID; else every world switch empties all.
    pub asid_tags: Stated,
    /// Entries are tagged with the nested table as well (Intel's EPTRTA). AMD's are not: a hypervisor that changes
    /// the nested root gives a new ASID or flushes.
    pub nested_root_tags: Stated,
    /// A 1 GiB page enters the second-level TLB in 2 MiB pieces; a piece found there puts the whole page into the first.
    pub second_level_splits_1g: Stated,
    /// Before a page fault is reported, tables are walked again without what was remembered of them.
    pub confirms_faults: Stated,
    /// The TLBs.
    #[serde(default)]
    pub tlb: Vec<TlbSpec>,
    /// Paging-structure caches of the one-dimensional or the guest's table.
    #[serde(default)]
    pub partial: Vec<PartialSpec>,
    /// The same of the host's table.
    #[serde(default)]
    pub host_partial: Vec<PartialSpec>,
    /// Guest-physical to machine.
    pub nested_tlb: Option<ArraySpec>,
    /// L1, L2, L3 by name.
    #[serde(default)]
    pub cache: Caches,
    /// Cycles.
    pub cost: Cost,
}

/// Something that holds or does not.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// Whether it does.
    pub holds: bool,
    /// Which document says so.
    pub source: String,
}

/// A family of `perf` event names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Events {
    /// Intel, 3rd generation Core.
    Ivybridge,
    /// Intel, Ice Lake and later.
    Icelake,
    /// AMD, Zen and later.
    Zen,
}

/// Which accesses look into a TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Loads and stores.
    Data,
    /// Fetches.
    Instruction,
    /// All.
    Both,
}

impl Side {
    /// Whether two TLBs could both be looked into by one access.
    fn meets(self, other: Self) -> bool {
        self == other || self == Self::Both || other == Self::Both
    }
}

/// One TLB array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbSpec {
    /// Short; a sweep names it.
    pub name: String,
    /// 1 or 2.
    pub level: u8,
    /// Who looks into it.
    pub side: Side,
    /// "4k", "2m", "1g"
    pub pages: Vec<String>,
    /// 0: absent.
    pub entries: u32,
    /// Entries a set; as many as entries: fully associative.
    pub ways: u32,
    /// Who gives way.
    pub replacement: Replacement,
    /// Which document says so.
    pub source: String,
}

/// A paging-structure cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartialSpec {
    /// Short.
    pub name: String,
    /// Levels whose entries it keeps: 2 (PDE) to 5 (PML5E).
    pub levels: Vec<u8>,
    /// 0: absent.
    pub entries: u32,
    /// Entries a set.
    pub ways: u32,
    /// Who gives way.
    pub replacement: Replacement,
    /// Which document says so.
    pub source: String,
}

/// A plain array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// 0: absent.
    pub entries: u32,
    /// Entries a set.
    pub ways: u32,
    /// Who gives way.
    pub replacement: Replacement,
    /// Which document says so.
    pub source: String,
}

/// The cache hierarchy; a missing level is absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caches {
    /// First level.
    pub l1: Option<CacheSpec>,
    /// Second level.
    pub l2: Option<CacheSpec>,
    /// Third level.
    pub l3: Option<CacheSpec>,
}

/// One cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Size.
    pub kib: u64,
    /// Lines a set.
    pub ways: u32,
    /// Slices that lines are spread over by a hash of their address; if not given, the set is the address's low bits.
    pub slices: Option<SlicesSpec>,
    /// Which document says so.
    pub source: String,
}

/// How a cache's slices are chosen.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlicesSpec {
    /// For each bit of the slice's number, lowest first: the bits of the machine address that it is the parity of.
    pub parity_of: Vec<u64>,
    /// Which document says so.
    pub source: String,
}

/// Cycles, for walk cycles and the estimate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// A reference of the walker served by L1.
    pub l1_cycles: u64,
    /// By L2.
    pub l2_cycles: u64,
    /// By L3.
    pub l3_cycles: u64,
    /// By memory.
    pub memory_cycles: u64,
    /// A look into the second-level TLB, more than a hit in the first.
    pub second_level_tlb_cycles: u64,
    /// One instruction without any stall; for the estimate.
    pub instruction_cycles: f64,
    /// The part of a data access's latency beyond L1 and the first-level TLB that is not hidden; for the estimate.
    pub exposed_share: f64,
    /// The part of a page walk's cycles that is not hidden, at least and at most; for the estimate.
    pub exposed_walk_share: [f64; 2],
    /// One VM exit and entry, the handler's own instructions aside; for the estimate.
    pub exit_cycles: u64,
    /// Where the figures come from.
    pub source: String,
}

/// What is wrong with a CPU file.
#[derive(Debug)]
pub struct CpuError {
    /// The file or built-in name.
    pub file: String,
    /// What is wrong, where in it, and what to do.
    pub problem: String,
}

impl fmt::Display for CpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU file {}: {}", self.file, self.problem)
    }
}

impl std::error::Error for CpuError {}

/// Processors that come with the model: name and text.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("i7-3770", include_str!("../../cpus/i7-3770.toml")),
    ("icelake-sp", include_str!("../../cpus/icelake-sp.toml")),
    ("zen2", include_str!("../../cpus/zen2.toml")),
    ("zen5", include_str!("../../cpus/zen5.toml")),
];

impl Cpu {
    /// The built-in processor of this name.
    pub fn built_in(name: &str) -> Option<Result<Self, CpuError>> {
        BUILT_IN.iter().find(|(n, _)| *n == name).map(|(n, text)| Self::parse(n, text))
    }

    /// Read a CPU file's text; `file` is for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, CpuError> {
        let failed = |problem: String| CpuError { file: file.to_owned(), problem };
        let cpu: Self = toml::from_str(text).map_err(|e| failed(e.to_string().trim_end().to_owned()))?;
        cpu.check().map_err(failed)?;
        Ok(cpu)
    }

    /// No TLB, no cache of any kind: every access walks, every reference is made.
    pub fn bare() -> Self {
        let stated = |holds| Stated { holds, source: "made up".into() };
        Self {
            name: "bare".into(),
            events: Events::Zen,
            assumptions: vec![],
            asid_tags: stated(true),
            nested_root_tags: stated(false),
            second_level_splits_1g: stated(false),
            confirms_faults: stated(false),
            tlb: vec![],
            partial: vec![],
            host_partial: vec![],
            nested_tlb: None,
            cache: Caches::default(),
            cost: Cost {
                l1_cycles: 1,
                l2_cycles: 1,
                l3_cycles: 1,
                memory_cycles: 1,
                second_level_tlb_cycles: 0,
                instruction_cycles: 1.0,
                exposed_share: 0.0,
                exposed_walk_share: [1.0; 2],
                exit_cycles: 0,
                source: "every reference costs one cycle".into(),
            },
        }
    }

    /// Give an array another number of entries, with the same ways (or fully associative, if it was).
    pub fn resize(&mut self, array: &str, entries: u32) -> Result<(), CpuError> {
        let failed = |problem| CpuError { file: self.name.clone(), problem };
        let names = self.tlb.iter().map(|t| t.name.clone()).collect::<Vec<_>>().join(", ");
        let Some(spec) = self.tlb.iter_mut().find(|t| t.name == array) else {
            return Err(failed(format!("no TLB is named \"{array}\"; there are {names}")));
        };
        if spec.ways == spec.entries {
            spec.ways = entries;
        }
        spec.entries = entries;
        self.check().map_err(|problem| CpuError { file: self.name.clone(), problem })
    }

    fn check(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        for t in &self.tlb {
            let what = format!("tlb \"{}\"", t.name);
            if !names.insert(&t.name) {
                return Err(format!("{what}: two have this name; rename one"));
            }
            if !(1..=2).contains(&t.level) {
                return Err(format!("{what}: level is {}, expected 1 or 2", t.level));
            }
            check_array(&what, t.entries, t.ways, t.replacement, &t.source)?;
            let sizes = t.sizes().map_err(|got| format!("{what}: pages has \"{got}\", expected 4k, 2m or 1g"))?;
            if sizes.is_empty() {
                return Err(format!("{what}: pages is empty; name the sizes it holds"));
            }
        }
        self.check_overlap()?;
        for (kind, list) in [("partial", &self.partial), ("host_partial", &self.host_partial)] {
            let mut levels = HashSet::new();
            for p in list {
                let what = format!("{kind} \"{}\"", p.name);
                check_array(&what, p.entries, p.ways, p.replacement, &p.source)?;
                for level in &p.levels {
                    if !(2..=5).contains(level) {
                        return Err(format!("{what}: levels has {level}, expected 2 (PDE) to 5 (PML5E)"));
                    }
                    if !levels.insert(*level) {
                        return Err(format!("{what}: level {level} is kept twice; keep it in one"));
                    }
                }
            }
        }
        if let Some(n) = &self.nested_tlb {
            check_array("nested_tlb", n.entries, n.ways, n.replacement, &n.source)?;
        }
        let caches = [("l1", &self.cache.l1), ("l2", &self.cache.l2), ("l3", &self.cache.l3)];
        for (name, cache) in caches.into_iter().filter_map(|(n, c)| c.as_ref().map(|c| (n, c))) {
            cache.check(name)?;
        }
        for (name, stated) in [
            ("asid_tags", &self.asid_tags),
            ("nested_root_tags", &self.nested_root_tags),
            ("second_level_splits_1g", &self.second_level_splits_1g),
            ("confirms_faults", &self.confirms_faults),
        ] {
            check_source(name, &stated.source)?;
        }
        self.cost.check()
    }

    /// No access may find one page size in two arrays of one level.
    fn check_overlap(&self) -> Result<(), String> {
        for (i, a) in self.tlb.iter().enumerate() {
            for b in &self.tlb[..i] {
                let shared = a.pages.iter().find(|p| b.pages.contains(p));
                if let (true, true, Some(size)) = (a.level == b.level, a.side.meets(b.side), shared) {
                    return Err(format!(
                        "tlb \"{}\" and \"{}\" both hold {size} pages at level {} for one side; name the size in one",
                        b.name, a.name, a.level
                    ));
                }
            }
        }
        Ok(())
    }
}

impl CacheSpec {
    fn check(&self, name: &str) -> Result<(), String> {
        let lines = self.kib * 1024 / LINE;
        let ways = self.ways;
        if ways == 0 || lines % u64::from(ways) != 0 {
            return Err(format!(
                "cache.{name}: {lines} lines of {LINE} bytes cannot be shared out to sets of {ways} ways"
            ));
        }
        check_source(&format!("cache.{name}"), &self.source)?;
        let Some(slices) = &self.slices else { return Ok(()) };
        check_source(&format!("cache.{name}.slices"), &slices.source)?;
        let (bits, sets) = (slices.parity_of.len(), lines / u64::from(ways));
        if name != "l3" {
            return Err(format!("cache.{name}.slices: a core's own cache is in one piece; leave them out"));
        }
        if !(1..=8).contains(&bits) || !sets.is_power_of_two() || sets >> bits == 0 {
            return Err(format!(
                "cache.{name}.slices: {bits} bits of a slice's number and {sets} sets, expected 1 to 8 bits and a power \
                 of two of sets, one a slice at least"
            ));
        }
        match slices.parity_of.iter().find(|of| **of < LINE) {
            Some(of) => {
                Err(format!("cache.{name}.slices: parity_of has {of:#x}, which has no bit above a line's bytes"))
            }
            None => Ok(()),
        }
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        let slices = self.slices.as_ref().map_or_else(Vec::new, |slices| slices.parity_of.clone());
        Shape { bytes: self.kib * 1024, ways: self.ways, slices }
    }
}

impl Cost {
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.exposed_share) || !self.instruction_cycles.is_normal() {
            return Err("cost: exposed_share must lie in 0..=1 and instruction_cycles must not be 0".into());
        }
        let [low, high] = self.exposed_walk_share;
        if !(0.0..=1.0).contains(&low) || !(low..=1.0).contains(&high) {
            return Err(format!(
                "cost: exposed_walk_share is [{low}, {high}], expected two of 0..=1, the smaller first"
            ));
        }
        check_source("cost", &self.source)
    }
}

impl TlbSpec {
    /// The sizes it holds, or the first that is none.
    pub fn sizes(&self) -> Result<Vec<PageSize>, String> {
        self.pages
            .iter()
            .map(|p| PageSize::ALL.into_iter().find(|s| s.name() == *p).ok_or_else(|| p.clone()))
            .collect()
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        Geometry { entries: self.entries, ways: self.ways, replacement: self.replacement }
    }
}

impl PartialSpec {
    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        Geometry { entries: self.entries, ways: self.ways, replacement: self.replacement }
    }
}

impl ArraySpec {
    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        Geometry { entries: self.entries, ways: self.ways, replacement: self.replacement }
    }
}

fn check_array(what: &str, entries: u32, ways: u32, policy: Replacement, source: &str) -> Result<(), String> {
    check_source(what, source)?;
    if entries == 0 {
        return Ok(());
    }
    if ways == 0 || entries % ways != 0 {
        return Err(format!("{what}: {ways} ways do not divide {entries} entries"));
    }
    if !(entries / ways).is_power_of_two() {
        return Err(format!("{what}: {} sets ({entries} / {ways}), expected a power of two", entries / ways));
    }
    if policy == Replacement::Plru && !(ways.is_power_of_two() && ways <= 64) {
        return Err(format!("{what}: plru needs 1 to 64 ways, a power of two, and there are {ways}; use lru"));
    }
    if entries > 1 << 24 {
        return Err(format!("{what}: {entries} entries, expected 2^24 at most"));
    }
    Ok(())
}

fn check_source(what: &str, source: &str) -> Result<(), String> {
    if source.trim().is_empty() {
        return Err(format!("{what}: source is empty; say which document has the figures, or \"assumption: …\""));
    }
    Ok(())
}
