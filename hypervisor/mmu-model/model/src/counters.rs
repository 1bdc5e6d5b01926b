// SPDX-License-Identifier: MIT
//! What is counted, and under which names it leaves the model.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use crate::address::PageSize;
use crate::cache::Served;
use crate::context::{Kind, Layer};
use crate::invalidate::Cause;
use crate::walk::Dimension;

/// Deepest level of a table.
pub const TOP: usize = 5;

type BySize = [u64; PageSize::COUNT];

macro_rules! bank {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// One layer's counters. Indices are the discriminants of [`Kind`], [`Dimension`], [`Served`] and
        /// [`Cause`], and [`PageSize::index`].
        #[derive(Clone, PartialEq, Eq, Default, Debug)]
        pub struct Bank {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Bank {
            /// Add another layer's.
            pub fn add(&mut self, other: &Self) {
                $(self.$name.add(&other.$name);)*
            }
        }
    };
}

trait Add {
    fn add(&mut self, other: &Self);
}

impl Add for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }
}

impl<T: Add, const N: usize> Add for [T; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(a, b)| a.add(b));
    }
}

bank! {
    /// Accesses with paging off, by kind.
    untranslated: [u64; Kind::COUNT],
    /// Hits in each TLB level by kind and size of the entry.
    hits: [[BySize; Kind::COUNT]; 2],
    /// Accesses that found nothing in any level and were translated by a walk, by kind and effective size.
    fills: [BySize; Kind::COUNT],
    /// Accesses that were not translated, by kind: page faults.
    faults: [u64; Kind::COUNT],
    /// The same by reason.
    fault_reasons: [u64; 4],
    /// Of the walks, those that came of a TLB entry which would have to be changed first: rights, or a dirty bit.
    rewalks: u64,
    /// Walks completed in one dimension, by size.
    fills_flat: BySize,
    /// Walks completed in two dimensions, by the guest's size, then the host's.
    fills_nested: [BySize; PageSize::COUNT],
    /// References by dimension and level (index level - 1).
    refs: [[u64; TOP]; Dimension::COUNT],
    /// References by where they were served.
    served: [u64; Served::COUNT],
    /// Cycles of walks, by kind of access.
    walk_cycles: [u64; Kind::COUNT],
    /// Of these, in the host's dimension.
    host_walk_cycles: u64,
    /// Walks that began below the top, by the level of the entry remembered: a flat or guest table's.
    partial_hits: [u64; TOP],
    /// The same in the host's dimension.
    host_partial_hits: [u64; TOP],
    /// Translations of guest-physical addresses found in the nested TLB.
    nested_hits: u64,
    /// And not found: walks of the host's tables.
    nested_misses: u64,
    /// Walks that ended where there is no memory to read a table from: accesses that nothing was found for.
    unreadable: u64,
    /// Invalidations, by cause, whether there was something to forget or not.
    flushes: [u64; Cause::COUNT],
    /// Of those that flush, how many found nothing to forget: no TLB entry, partial walk or guest-physical translation.
    flushes_empty: u64,
    /// TLB entries they forgot.
    flushed_entries: u64,
    /// TLB entries of ASIDs that a guest runs under no more.
    abandoned_entries: u64,
    /// Data accesses by where they were served; all 0 unless data is sent through the caches.
    data_served: [u64; Served::COUNT],
    /// Fetches by where they were served; all 0 unless fetches are sent through the caches.
    fetches_served: [u64; Served::COUNT],
}

impl Bank {
    /// Accesses of one kind.
    pub fn accesses(&self, kind: Kind) -> u64 {
        let k = kind as usize;
        self.untranslated[k] + sum(&self.hits[0][k]) + sum(&self.hits[1][k]) + sum(&self.fills[k]) + self.faults[k]
    }

    /// Accesses of one kind that missed in every level.
    pub fn misses(&self, kind: Kind) -> u64 {
        sum(&self.fills[kind as usize]) + self.faults[kind as usize]
    }

    /// Cycles of all walks.
    pub fn all_walk_cycles(&self) -> u64 {
        self.walk_cycles.iter().sum()
    }

    /// Of the nested fills with a huge page on at least one side, the share with one on both.
    pub fn well_aligned_share(&self) -> Option<f64> {
        let (mut both, mut any) = (0, 0);
        for guest in 0..PageSize::COUNT {
            for host in 0..PageSize::COUNT {
                let n = self.fills_nested[guest][host];
                both += if guest > 0 && host > 0 { n } else { 0 };
                any += if guest > 0 || host > 0 { n } else { 0 };
            }
        }
        (any > 0).then(|| both as f64 / any as f64)
    }

    /// Nested fills with a guest's page larger than the host's.
    pub fn splintered(&self) -> u64 {
        let cells = PageSize::ALL.into_iter().flat_map(|g| PageSize::ALL.map(|h| (g, h)));
        cells.filter(|(g, h)| g > h).map(|(g, h)| self.fills_nested[g.index()][h.index()]).sum()
    }

    /// Flushes that forgot something, or left a guest without what was known of it.
    pub fn effective_flushes(&self) -> u64 {
        let all: u64 = Cause::ALL.into_iter().filter(|c| c.flushes()).map(|c| self.flushes[c as usize]).sum();
        all - self.flushes_empty
    }

    /// Everything by name, as results carry it.
    pub fn by_name(&self) -> BTreeMap<String, Value> {
        let mut out = Named(BTreeMap::new());
        self.name_tlb(&mut out);
        self.name_walks(&mut out);
        for cause in Cause::ALL {
            out.put(format!("flushes_{}", cause.name()), self.flushes[cause as usize]);
        }
        out.put("tlb_flushes", self.effective_flushes());
        out.put("tlb_flushes_empty", self.flushes_empty);
        out.put("flushed_entries", self.flushed_entries);
        out.put("abandoned_entries", self.abandoned_entries);
        for served in Served::ALL {
            out.put(format!("data_refs_{}", served.name()), self.data_served[served as usize]);
        }
        out.0
    }

    fn name_tlb(&self, out: &mut Named) {
        out.put("accesses", Kind::ALL.iter().map(|k| self.accesses(*k)).sum());
        for kind in Kind::ALL {
            out.put(kind.name(), self.accesses(kind));
            out.put(format!("tlb_misses_{}", kind.name()), self.misses(kind));
        }
        out.put("accesses_untranslated", self.untranslated.iter().sum());
        out.put("tlb_misses", Kind::ALL.iter().map(|k| self.misses(*k)).sum());
        out.put("faults", self.faults.iter().sum());
        for (level, hits) in self.hits.iter().enumerate() {
            for size in PageSize::ALL {
                let n = hits.iter().map(|by_size| by_size[size.index()]).sum();
                out.put(format!("tlb_l{}_hits_{}", level + 1, size.name()), n);
            }
        }
        for size in PageSize::ALL {
            let s = size.index();
            let fills: u64 = self.fills.iter().map(|by_size| by_size[s]).sum();
            let second: u64 = self.hits[1].iter().map(|by_size| by_size[s]).sum();
            out.put(format!("tlb_fills_{}", size.name()), fills);
            out.put(format!("tlb_l1_misses_{}", size.name()), second + fills);
            out.put(format!("tlb_l2_misses_{}", size.name()), fills);
        }
    }

    fn name_walks(&self, out: &mut Named) {
        for guest in PageSize::ALL {
            out.put(format!("fills_flat_{}", guest.name()), self.fills_flat[guest.index()]);
            for host in PageSize::ALL {
                let n = self.fills_nested[guest.index()][host.index()];
                out.put(format!("fills_{}_{}", guest.name(), host.name()), n);
            }
        }
        out.put("walks_completed", self.fills.iter().map(sum).sum());
        out.put("walks_repeated", self.rewalks);
        out.put("walks_unreadable", self.unreadable);
        out.put("splintered_fills", self.splintered());
        let share = self.well_aligned_share().and_then(Number::from_f64);
        out.0.insert("well_aligned_share".into(), share.map_or(Value::Null, Value::Number));
        for dimension in Dimension::ALL {
            for level in 1..=TOP {
                let n = self.refs[dimension as usize][level - 1];
                out.put(format!("walk_refs_{}_level{level}", dimension.name()), n);
            }
        }
        for served in Served::ALL {
            out.put(format!("walk_refs_{}", served.name()), self.served[served as usize]);
        }
        out.put("walk_refs", self.served.iter().sum());
        out.put("walk_cycles", self.all_walk_cycles());
        out.put("walk_cycles_host", self.host_walk_cycles);
        for level in 2..=TOP {
            out.put(format!("partial_walks_level{level}"), self.partial_hits[level - 1]);
            out.put(format!("partial_walks_host_level{level}"), self.host_partial_hits[level - 1]);
        }
        out.put("nested_tlb_hits", self.nested_hits);
        out.put("nested_tlb_misses", self.nested_misses);
    }
}

struct Named(BTreeMap<String, Value>);

impl Named {
    fn put(&mut self, name: impl Into<String>, n: u64) {
        self.0.insert(name.into(), n.into());
    }
}

fn sum(by_size: &BySize) -> u64 {
    by_size.iter().sum()
}

/// All layers' counters, and what the caller said of the region as a whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// By [`Layer`]; the last takes what lies outside the region, and is never shown.
    pub(crate) banks: [Bank; Layer::COUNT + 1],
    /// Instructions begun in the region, if the caller counts them.
    pub instructions: u64,
    /// Entries into a guest (VMRUN), hence exits, in the region, if the caller counts them.
    pub exits: u64,
}

impl Counters {
    /// One layer's.
    pub fn layer(&self, layer: Layer) -> &Bank {
        &self.banks[layer as usize]
    }

    /// The sum of all layers.
    pub fn total(&self) -> Bank {
        let mut total = Bank::default();
        for layer in Layer::ALL {
            total.add(self.layer(layer));
        }
        total
    }

    /// Add another processor's.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.banks.iter_mut().zip(&other.banks) {
            mine.add(theirs);
        }
        self.instructions += other.instructions;
        self.exits += other.exits;
    }

    /// Everything by layer and name.
    pub fn to_json(&self) -> Value {
        let mut layers: BTreeMap<_, _> = Layer::ALL.map(|l| (l.name(), self.layer(l).by_name())).into();
        layers.insert("total", self.total().by_name());
        serde_json::json!({
            "kind": "modelled",
            "instructions": self.instructions,
            "exits": self.exits,
            "layers": layers,
        })
    }
}
