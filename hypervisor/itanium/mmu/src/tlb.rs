// SPDX-License-Identifier: MIT
//! Translations, and the second-level TLBs that hold them: translation registers, which stay until software purges
//! them, and a translation cache, of which any entry may go.

use serde::{Deserialize, Serialize};

use crate::config::{Config, Replacement};
use crate::fields::{Itir, PageSize, Pte, check, within};
use crate::replace::Replacer;

/// Instructions or data: each has TLBs of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Side {
    /// Instructions.
    Instruction,
    /// Data, and what the walker reads.
    Data,
}

/// A range of addresses of one region identifier. The region's number is no part of it: registers with equal
/// identifiers name the same memory (thesis 3.1; SDM vol. 2, 4.1.1.4 lets a processor see it either way).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Range {
    /// The region identifier.
    pub rid: u32,
    /// Where it begins within the region: at a multiple of its size.
    pub begin: u64,
    /// Its size.
    pub size: PageSize,
}

impl Range {
    /// The range of this size around an address.
    pub const fn around(rid: u32, va: u64, size: PageSize) -> Self {
        Self { rid, begin: within(va) & !size.mask(), size }
    }

    /// Whether it has this address.
    pub const fn has(&self, rid: u32, va: u64) -> bool {
        (within(va) ^ self.begin) & !self.size.mask() == 0 && self.rid == rid
    }

    /// Whether both have an address in common (SDM vol. 2, 4.1.1.4). As both are aligned, the smaller lies in the
    /// larger then.
    pub const fn overlaps(&self, other: &Self) -> bool {
        let mask = self.size.mask() | other.size.mask();
        (self.begin ^ other.begin) & !mask == 0 && self.rid == other.rid
    }
}

/// What a TLB holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Translation {
    /// The addresses it is for.
    pub range: Range,
    /// Where they are, and what is allowed.
    pub pte: Pte,
    /// The protection key.
    pub key: u32,
}

impl Translation {
    /// Where an address of its range is.
    pub const fn physical(&self, va: u64) -> u64 {
        let mask = self.range.size.mask();
        self.pte.frame() & !mask | va & mask
    }
}

/// Where a translation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Place {
    /// In this translation register.
    Register(usize),
    /// In this entry of the cache.
    Cache(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Slot {
    translation: Translation,
    /// When it came: never the same time twice, so that it names the insertion.
    born: u64,
    used: u64,
}

/// A second-level TLB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tlb {
    registers: Vec<Option<Slot>>,
    cache: Vec<Option<Slot>>,
    replacer: Replacer,
    clock: u64,
}

impl Tlb {
    pub(crate) fn new(config: &Config, salt: u64) -> Self {
        let policy = match config.replacement {
            Replacement::Random(seed) => Replacement::Random(seed ^ salt), // one side's draws tell nothing of the other's
            other => other,
        };
        Self {
            registers: vec![None; config.registers],
            cache: vec![None; config.cache_entries],
            replacer: Replacer::new(policy),
            clock: 0,
        }
    }

    /// Whether it is one of such a processor, and each translation one that can be inserted.
    pub(crate) fn is_sound(&self, config: &Config) -> bool {
        let lengths = (self.registers.len(), self.cache.len()) == (config.registers, config.cache_entries);
        let fits = |held: &Translation| {
            let Range { rid, begin, size } = held.range;
            let is_size = PageSize::of_field(size.shift().into()) == Some(size);
            let aligned = is_size && begin & size.mask() == 0 && within(begin) == begin && rid >> 24 == 0;
            aligned && check(held.pte, Itir::new(size, held.key), config.physical_bits).is_ok()
        };
        lengths && self.clock < 1 << 62 && self.all().all(fits)
    }

    /// Whether it has such a place.
    pub(crate) fn has(&self, place: Place) -> bool {
        match place {
            Place::Register(at) => at < self.registers.len(),
            Place::Cache(at) => at < self.cache.len(),
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn slot(&self, place: Place) -> Option<&Slot> {
        match place {
            Place::Register(at) => self.registers[at].as_ref(),
            Place::Cache(at) => self.cache[at].as_ref(),
        }
    }

    /// Where the translation of an address is. There is one at most: insertions see to it.
    pub fn find(&self, rid: u32, va: u64) -> Option<Place> {
        let here = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.translation.range.has(rid, va));
        let register = self.registers.iter().position(here).map(Place::Register);
        register.or_else(|| self.cache.iter().position(here).map(Place::Cache))
    }

    /// What is at a place.
    pub fn get(&self, place: Place) -> Option<&Translation> {
        self.slot(place).map(|slot| &slot.translation)
    }

    /// Which insertion a place has; none where it is empty.
    pub(crate) fn born(&self, place: Place) -> Option<u64> {
        self.slot(place).map(|slot| slot.born)
    }

    /// Notes a use.
    pub(crate) fn touch(&mut self, place: Place) {
        let now = self.tick();
        if let Place::Cache(at) = place {
            if let Some(slot) = &mut self.cache[at] {
                slot.used = now;
            }
        }
    }

    /// Puts a translation into the cache; says where, and whether another had to go.
    pub(crate) fn cache(&mut self, translation: Translation) -> (Place, bool) {
        let now = self.tick();
        let free = self.cache.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            let times = self.cache.iter().flatten().map(|slot| (slot.born, slot.used));
            self.replacer.victim(times, self.cache.len())
        });
        self.cache[at] = Some(Slot { translation, born: now, used: now });
        (Place::Cache(at), free.is_none())
    }

    /// Puts a translation into a register. What was there is gone.
    pub(crate) fn register(&mut self, at: usize, translation: Translation) {
        let now = self.tick();
        self.registers[at] = Some(Slot { translation, born: now, used: now });
    }

    /// Whether a register's translation overlaps.
    pub(crate) fn registers_overlap(&self, range: &Range) -> bool {
        self.registers.iter().flatten().any(|slot| slot.translation.range.overlaps(range))
    }

    /// Removes the cache's entries that overlap; says how many.
    pub(crate) fn purge_cache(&mut self, range: &Range) -> u64 {
        purge(&mut self.cache, |held| held.overlaps(range))
    }

    /// Removes the registers that overlap; says how many.
    pub(crate) fn purge_registers(&mut self, range: &Range) -> u64 {
        purge(&mut self.registers, |held| held.overlaps(range))
    }

    /// Removes all of the cache; says how many.
    pub(crate) fn purge_all_cache(&mut self) -> u64 {
        purge(&mut self.cache, |_| true)
    }

    /// All translations of the registers, and then those of the cache.
    pub fn all(&self) -> impl Iterator<Item = &Translation> {
        self.registers.iter().chain(&self.cache).flatten().map(|slot| &slot.translation)
    }
}

fn purge(slots: &mut [Option<Slot>], goes: impl Fn(&Range) -> bool) -> u64 {
    let mut gone = 0;
    for slot in slots {
        if slot.as_ref().is_some_and(|slot| goes(&slot.translation.range)) {
            *slot = None;
            gone += 1;
        }
    }
    gone
}
