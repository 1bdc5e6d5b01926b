// SPDX-License-Identifier: MIT
//! What an organisation of translations is: the seam between one MMU and many.
//!
//! The MMU ([`crate::mmu::Mmu`]) has TLBs, caches, counters and the region; it finds what it holds. An organisation says
//! who runs and under which tag ([`Organisation::regime`], [`Organisation::tag`]), what is done when the TLB has
//! nothing ([`Organisation::refill`]), and what an event makes it forget ([`Organisation::reach`]). A refill is given a
//! [`Port`]: by it alone memory is read, cycles are spent, and the TLB is looked into or written.

use crate::address::{Machine, Virtual};
use crate::cache::{Caches, Served};
use crate::context::{Kind, Layer};
use crate::counters::Bank;
use crate::invalidate::{Cause, Reach};
use crate::memory::Memory;
use crate::tlb::{Entry, Part, Tlb};
use crate::walk::{Leaf, Stop};

/// What a context comes down to for all lookups until the next.
#[derive(Clone, Copy, Default, Debug)]
pub struct Regime {
    /// Addresses are translated; else they are machine addresses.
    pub translated: bool,
    /// The tag of an address, unless [`Organisation::tag`] says otherwise.
    pub tag: u64,
    /// For each [`Kind`], one bit for each combination of rights that lets it use an entry.
    pub allowed: [u32; Kind::COUNT],
    /// Something to be counted that forgets nothing.
    pub noted: Option<Cause>,
    /// How often everything is forgotten, because tags cannot tell the new context from others.
    pub flushes: u8,
}

/// What a refill has found, for the TLB.
#[derive(Clone, Copy, Debug)]
pub struct Refill<E> {
    /// The translation.
    pub leaf: Leaf,
    /// The entry that it becomes.
    pub entry: E,
    /// The bits of the tag that matter.
    pub mask: u64,
}

/// How translations are kept and how a TLB is refilled from them. x86-64 is one: [`crate::x86::X86`].
pub trait Organisation {
    /// Everything that decides how an access translates, besides the address.
    type Context: Copy;
    /// What makes it forget.
    type Event: Copy;
    /// What the TLB holds.
    type Entry: Entry;
    /// What lies between it and memory.
    type Caches: Caches;
    /// Whether [`Organisation::missed`] is to be told of data and instructions that no cache had.
    const CACHE_MISSES: bool = false;

    /// Whose accesses those of a context are, and a name of the process.
    fn runs(context: &Self::Context) -> (Layer, u64);

    /// A context runs now.
    fn regime(&mut self, context: &Self::Context) -> Regime;

    /// The tag of an address; where tags go by regions of addresses, each has another.
    #[inline]
    fn tag(&self, regime: u64, _address: Virtual) -> u64 {
        regime
    }

    /// The TLB has nothing that serves: find it, by hardware or by software, in as many attempts as it takes.
    fn refill<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Self::Context,
        address: Virtual,
        kind: Kind,
    ) -> Result<Refill<Self::Entry>, Stop<M::Error>>
    where
        Self: Sized;

    /// No cache had what this access wants; where software fills caches, it is told here.
    fn missed<M: Memory>(
        &mut self,
        _port: &mut Port<'_, Self, M>,
        _context: &Self::Context,
        _address: Virtual,
        _kind: Kind,
    ) -> Result<(), Stop<M::Error>>
    where
        Self: Sized,
    {
        Ok(())
    }

    /// What is counted and what goes, where the current regime has this tag; none: nothing happens.
    fn reach(event: Self::Event, regime: u64) -> Option<(Cause, Option<Reach>)>;

    /// Entries that an event leaves behind for ever, though nothing goes: by tag, and the bits of it that matter.
    fn abandons(_event: Self::Event) -> Option<(u64, u64)> {
        None
    }

    /// What it has counted itself is forgotten.
    fn again(&mut self) {}

    /// Forget what is kept outside the TLB; how many entries.
    fn forget(&mut self, _reach: &Reach) -> u64 {
        0
    }
}

/// What a refill is given: the hardware, counted.
#[derive(Debug)]
pub struct Port<'a, O: Organisation + ?Sized, M> {
    /// Memory as the machine has it; to read it here is neither counted nor cached.
    pub memory: &'a mut M,
    /// The caches.
    pub caches: &'a mut O::Caches,
    /// Where to count.
    pub bank: &'a mut Bank,
    /// Which bank that is: an organisation's own counters can follow it.
    pub bank_number: usize,
    /// Which arrays of the TLB serve data, and which fetches, in the first level.
    pub first_level: [&'a [usize]; 2],
    /// All arrays.
    pub tlbs: &'a mut [Tlb<O::Entry>],
    /// Cycles by where a reference is served.
    pub latency: [u64; Served::COUNT],
    /// The tag of the address that is missed.
    pub tag: u64,
    /// Spent so far by this refill.
    pub cycles: u64,
}

impl<O: Organisation, M> Port<'_, O, M> {
    /// A reference to a table in memory, through the caches.
    #[inline]
    pub fn reference(&mut self, at: Machine) -> Served {
        let served = self.caches.table(at);
        self.cycles += self.latency[served as usize];
        self.bank.served[served as usize] += 1;
        served
    }

    /// Cycles spent otherwise than on references.
    #[inline]
    pub fn spend(&mut self, cycles: u64) {
        self.cycles += cycles;
    }

    /// Run instructions of a handler that lie one after the other from `at`, 4 bytes each, in memory that is not
    /// translated: one cycle for each, and what fetching their lines takes. Returns where its lines were found.
    pub fn run(&mut self, at: Machine, instructions: u64) -> [u64; Served::COUNT] {
        let mut found = [0; Served::COUNT];
        self.cycles += instructions;
        let end = at.raw() + 4 * instructions;
        let mut line = at.raw();
        while line < end {
            if let Some(served) = self.caches.fetch(0, Virtual::new(line), Machine::new(line)) {
                found[served as usize] += 1;
                self.cycles += self.latency[served as usize] - self.latency[Served::L1 as usize];
            }
            line = (line | (self.caches.line() - 1)) + 1;
        }
        found
    }

    /// The translation that the first-level TLB for data has for this address, if it has one.
    pub fn translate(&mut self, address: Virtual, tag: u64) -> Option<Part> {
        for &array in self.first_level[0] {
            let Some(place) = self.tlbs[array].find(address, tag) else { continue };
            if let Some(part) = self.tlbs[array].get(place).0.part(address) {
                self.tlbs[array].touch(place);
                return Some(part);
            }
        }
        None
    }

    /// Put an entry into one array, whose own policy says what gives way.
    pub fn insert(&mut self, array: usize, address: Virtual, tag: u64, mask: u64, entry: O::Entry) {
        self.tlbs[array].insert(address, tag, mask, entry);
    }

    /// Forget the address, in every TLB, under the tag of the address that is missed; how many entries.
    pub fn drop_address(&mut self, address: Virtual) -> u64 {
        let tag = self.tag;
        self.tlbs.iter_mut().map(|tlb| tlb.forget_address(address, |slot| slot.serves(tag))).sum()
    }
}
