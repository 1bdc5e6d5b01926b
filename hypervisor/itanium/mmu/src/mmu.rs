// SPDX-License-Identifier: MIT
//! The MMU as a whole: its registers and what holds translations. Accesses are in [`crate::translate`], insertions in
//! [`crate::insert`], purges in [`crate::purge`]: all of them methods of [`Mmu`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use crate::first::Ticket;
pub use crate::insert::Refused;
pub use crate::purge::Broadcast;
pub use crate::translate::{Access, Hit, Psr};

use crate::config::Config;
use crate::counters::Counters;
use crate::fields::{KeyRegister, PageSize, Pta, Region, region};
use crate::first::First;
use crate::tlb::{Side, Tlb};

/// What the walker reads.
pub trait Memory {
    /// The eight bytes at a physical address that is a multiple of eight, in the byte order that DCR.be says; none
    /// where there is no memory.
    fn read(&mut self, physical: u64) -> Option<u64>;
}

/// An MMU. All of it is a value: a snapshot is a copy, or what serde makes of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mmu {
    pub(crate) config: Config,
    pub(crate) regions: [Region; 8],
    pub(crate) pta: Pta,
    pub(crate) keys: Vec<KeyRegister>,
    pub(crate) instruction: Tlb,
    pub(crate) data: Tlb,
    pub(crate) first_instruction: First,
    pub(crate) first_data: First,
    pub(crate) counters: Counters,
    pub(crate) lines: BTreeSet<u64>,
    pub(crate) generation: u64,
}

impl Mmu {
    /// One that holds nothing: all regions have 4 KiB pages and identifier 0, no walker, no valid key.
    pub fn new(config: Config) -> Self {
        let nothing = Region { walker: false, size: PageSize::of_field(12).expect("4 KiB is a size"), rid: 0 };
        Self {
            regions: [nothing; 8],
            pta: Pta::of_word(15 << 2).expect("the smallest table is one"),
            keys: vec![KeyRegister::default(); config.keys],
            instruction: Tlb::new(&config, 0),
            data: Tlb::new(&config, 1),
            first_instruction: First::new(config.first_entries),
            first_data: First::new(config.first_entries),
            counters: Counters::default(),
            lines: BTreeSet::new(),
            generation: 0,
            config,
        }
    }

    /// Whether it is one that operations leave. What serde has read from a file may be any.
    pub fn is_sound(&self) -> bool {
        let config = &self.config;
        let sized = (1..=1 << 16).contains(&config.cache_entries)
            && (50..=60).contains(&config.virtual_msb)
            && (32..=50).contains(&config.physical_bits)
            && config.line_bytes != 0;
        let regions = self.regions.iter().all(|region| Region::of_word(region.word()) == Some(*region));
        let registers = Pta::of_word(self.pta.word()).is_some()
            && self.keys.len() == config.keys
            && self.keys.iter().all(|key| KeyRegister::of_word(key.word()).is_some());
        let sides = [(&self.instruction, &self.first_instruction), (&self.data, &self.first_data)];
        let holds = |(second, first): (&Tlb, &First)| second.is_sound(config) && first.is_sound(config, second);
        sized && regions && registers && sides.into_iter().all(holds)
    }

    /// What processor it is of.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// A region register.
    pub const fn region(&self, number: usize) -> Region {
        self.regions[number]
    }

    /// Writes a region register. Translations stay: they are tagged with the identifier.
    pub fn set_region(&mut self, number: usize, word: u64) -> Result<(), Refused> {
        self.regions[number] = Region::of_word(word).ok_or(Refused::RegisterField)?;
        self.generation += 1;
        Ok(())
    }

    /// The page table address register.
    pub const fn pta(&self) -> Pta {
        self.pta
    }

    /// Writes the page table address register.
    pub fn set_pta(&mut self, word: u64) -> Result<(), Refused> {
        self.pta = Pta::of_word(word).ok_or(Refused::RegisterField)?;
        self.generation += 1;
        Ok(())
    }

    /// A protection key register; none where there is no such.
    pub fn key(&self, number: usize) -> Option<KeyRegister> {
        self.keys.get(number).copied()
    }

    /// Writes a protection key register. Another that is valid with the same key ceases to be (SDM vol. 3, mov to
    /// indirect register).
    pub fn set_key(&mut self, number: usize, word: u64) -> Result<(), Refused> {
        let key = KeyRegister::of_word(word).ok_or(Refused::RegisterField)?;
        if number >= self.keys.len() {
            return Err(Refused::RegisterField);
        }
        if key.valid() {
            for other in self.keys.iter_mut().filter(|other| other.key() == key.key()) {
                *other = other.invalidated();
            }
        }
        self.keys[number] = key;
        self.generation += 1;
        Ok(())
    }

    /// What a side's second level holds.
    pub const fn tlb(&self, side: Side) -> &Tlb {
        match side {
            Side::Instruction => &self.instruction,
            Side::Data => &self.data,
        }
    }

    pub(crate) const fn tlb_mut(&mut self, side: Side) -> &mut Tlb {
        match side {
            Side::Instruction => &mut self.instruction,
            Side::Data => &mut self.data,
        }
    }

    /// Changes whenever registers do that answers depend on. An answer that a processor remembers is right as long as
    /// this stays, and [`Self::again`] knows its ticket.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether what was found with this ticket is still in the first level, and so would be found again. It is counted,
    /// and noted as a use, as if it had been looked for: remembering changes no count.
    #[inline]
    pub fn again(&mut self, side: Side, ticket: Ticket) -> bool {
        let (first, counters) = match side {
            Side::Instruction => (&mut self.first_instruction, &mut self.counters.instruction),
            Side::Data => (&mut self.first_data, &mut self.counters.data),
        };
        let there = first.again(ticket);
        counters.lookups += u64::from(there);
        there
    }

    /// Translations have left a side's second level.
    pub(crate) fn settle(&mut self, side: Side) {
        match side {
            Side::Instruction => self.first_instruction.settle(&self.instruction),
            Side::Data => self.first_data.settle(&self.data),
        }
    }

    /// What has been counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many distinct cache lines the walker has read.
    pub fn lines_touched(&self) -> usize {
        self.lines.len()
    }

    /// Begins to count anew.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.lines.clear();
    }

    /// The region register of an address.
    pub(crate) const fn region_of(&self, va: u64) -> Region {
        self.regions[region(va)]
    }

    /// Whether the processor implements an address: the bits between the highest one that it has and the region's
    /// number repeat that (SDM vol. 2, 4.3.2).
    pub const fn implements(&self, va: u64) -> bool {
        let beyond = 60 - self.config.virtual_msb;
        let signed = (va << 3) as i64 >> 3;
        signed << (3 + beyond) >> (3 + beyond) == signed
    }
}
