// SPDX-License-Identifier: MIT
//! One processor's MMU, generic over its organisation; `mmu/processor.rs` makes one of x86-64.

mod processor;
mod stale;

use crate::address::{Machine, PageSize, Virtual};
use crate::cache::{Caches, Served};
use crate::context::{Kind, Layer};
use crate::counters::{Bank, Counters};
use crate::invalidate::{Cause, Reach};
use crate::memory::Memory;
use crate::organisation::{Organisation, Port, Refill, Regime};
use crate::shortcut::{Again, Last, Recent, Recents};
use crate::tlb::{Entry, Part, Tlb};
use crate::walk::{Fault, Stop};
use crate::x86::X86;
pub use stale::{Looked, Said, Stale};

/// The bank for what lies outside the region.
const OUTSIDE: usize = Layer::COUNT;

/// What an MMU is made of, besides its organisation.
#[derive(Clone, Debug)]
pub struct Parts<E, C> {
    /// The arrays of the TLB.
    pub tlbs: Vec<Tlb<E>>,
    /// Per side (data, instruction) and level, which of them serve; an entry goes into the first that takes it.
    pub lookup: [[Vec<usize>; 2]; 2],
    /// The caches.
    pub caches: C,
    /// Cycles by where a reference is served.
    pub latency: [u64; Served::COUNT],
    /// A 1 GiB page enters the second level in 2 MiB pieces.
    pub splits_1g: bool,
}

/// TLBs, caches and counters of one processor, and the organisation that refills them.
///
/// Tell it who runs ([`Mmu::set_context`]), every access ([`Mmu::access`]) and every event that invalidates
/// ([`Mmu::invalidate`]), in the order in which they happen.
#[derive(Clone, Debug)]
pub struct Mmu<O: Organisation = X86> {
    parts: Parts<O::Entry, O::Caches>,
    organisation: O,
    recents: [Recents; 2],
    last: Last,
    regime: Regime,
    context: O::Context,
    bank: usize,
    again: Again,
    counters: Counters,
    in_region: bool,
    /// The process the region belongs to.
    space: Option<u64>,
    data_through_caches: bool,
    /// Data and instructions have a first-level array in common.
    shared: bool,
}

impl<O: Organisation> Mmu<O> {
    /// A processor of these parts, with everything empty and the region closed, where this context runs.
    pub fn of(organisation: O, parts: Parts<O::Entry, O::Caches>, context: O::Context) -> Self {
        let shared = parts.lookup[0][0].iter().any(|array| parts.lookup[1][0].contains(array));
        let mut mmu = Self {
            parts,
            organisation,
            recents: Default::default(),
            last: Last::default(),
            regime: Regime::default(),
            context,
            bank: OUTSIDE,
            again: Again::default(),
            counters: Counters::default(),
            in_region: false,
            space: None,
            data_through_caches: true,
            shared,
        };
        mmu.set_context(&context);
        mmu
    }

    /// The organisation, for what it has counted itself.
    pub fn organisation(&self) -> &O {
        &self.organisation
    }

    /// Begin anew: nothing counted, the region closed, the TLBs empty; only caches and tables are as they were.
    pub fn again(&mut self) {
        for tlb in &mut self.parts.tlbs {
            tlb.forget(|_| true);
        }
        self.organisation.forget(&Reach::ALL);
        self.organisation.again();
        self.forget_shortcuts();
        (self.in_region, self.space) = (false, None);
        self.choose_bank();
        self.counters = Counters::default();
    }

    /// Whether data accesses go through the cache hierarchy too, so that page-table lines compete with data for room;
    /// they do unless told otherwise.
    pub fn set_data_through_caches(&mut self, on: bool) {
        self.data_through_caches = on;
        self.last = Last::default();
    }

    /// What has been counted so far.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters.clone();
        self.again.tell(&mut counters.banks[self.bank]);
        counters
    }

    /// Instructions and VM entries that the caller has counted inside the region, to add to what it told before.
    pub fn tally(&mut self, instructions: u64, exits: u64) {
        self.counters.instructions += instructions;
        self.counters.exits += exits;
    }

    /// Begin or end counting. User code of the process that runs at the beginning is told apart from other users'.
    pub fn set_region(&mut self, on: bool) {
        if on && !self.in_region {
            let (layer, space) = O::runs(&self.context);
            self.space = [Layer::GuestUser, Layer::GuestKernel].contains(&layer).then_some(space);
        }
        self.in_region = on;
        self.choose_bank();
    }

    /// The process that the region belongs to, if one is known.
    pub fn region_space(&self) -> Option<u64> {
        self.space
    }

    /// A region begins or ends on another virtual processor, for the process named there.
    pub fn join_region(&mut self, on: bool, space: Option<u64>) {
        self.space = if on { space } else { self.space };
        self.in_region = on;
        self.choose_bank();
    }

    fn choose_bank(&mut self) {
        std::mem::take(&mut self.again).tell(&mut self.counters.banks[self.bank]);
        let (layer, runs) = O::runs(&self.context);
        let other = self.space.is_some_and(|space| space != runs);
        self.bank = match layer {
            _ if !self.in_region => OUTSIDE,
            Layer::GuestUser if other => Layer::GuestOther as usize,
            layer => layer as usize,
        };
    }

    #[inline]
    fn bank(&mut self) -> &mut Bank {
        &mut self.counters.banks[self.bank]
    }

    /// Who runs now.
    pub fn context(&self) -> &O::Context {
        &self.context
    }

    /// Say who runs now. This invalidates nothing by itself, except where tags cannot tell contexts apart.
    pub fn set_context(&mut self, context: &O::Context) {
        self.context = *context;
        self.last = Last::default();
        self.choose_bank();
        self.regime = self.organisation.regime(context);
        if let Some(cause) = self.regime.noted {
            self.note(cause);
        }
        for _ in 0..self.regime.flushes {
            self.flush(Cause::WorldSwitch, &Reach::ALL);
        }
    }

    /// Forget what the event asks for.
    pub fn invalidate(&mut self, event: O::Event) {
        self.last = Last::default();
        match O::reach(event, self.regime.tag) {
            Some((cause, Some(reach))) => self.flush(cause, &reach),
            Some((cause, None)) => self.note(cause),
            None => {}
        }
        if let Some((tag, bits)) = O::abandons(event) {
            self.count_abandoned(tag, bits);
        }
    }

    fn flush(&mut self, cause: Cause, reach: &Reach) {
        let mut gone = 0;
        for tlb in &mut self.parts.tlbs {
            gone += match reach.address {
                Some(address) => tlb.forget_address(address, |slot| reach.takes(slot.tag, slot.mask)),
                None => tlb.forget(|slot| reach.takes(slot.tag, slot.mask)),
            };
        }
        let partial = self.organisation.forget(reach);
        self.note(cause);
        let bank = self.bank();
        bank.flushes_empty += u64::from(gone + partial == 0);
        bank.flushed_entries += gone;
    }

    fn count_abandoned(&mut self, tag: u64, bits: u64) {
        let gone = |tlb: &Tlb<O::Entry>| tlb.count(|slot| (slot.tag ^ tag) & bits == 0);
        let abandoned: u64 = self.parts.tlbs.iter().map(gone).sum();
        let bank = self.bank();
        bank.flushes_empty += u64::from(abandoned == 0);
        bank.abandoned_entries += abandoned;
    }

    fn note(&mut self, cause: Cause) {
        self.bank().flushes[cause as usize] += 1;
    }

    /// One access: the machine address that the MMU finds, or why it finds none.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call more for each access is a tenth of the time
    pub fn access<M: Memory>(
        &mut self,
        memory: &mut M,
        address: Virtual,
        kind: Kind,
    ) -> Result<Machine, Stop<M::Error>> {
        match self.access_again(address, kind) {
            Some(machine) => Ok(machine),
            None => self.access_slowly(memory, address, kind),
        }
    }

    /// One access, if its page is where it was found before: nearly every one is. None: nothing has happened yet.
    #[inline(always)]
    #[allow(clippy::inline_always)] // as of access
    fn access_again(&mut self, address: Virtual, kind: Kind) -> Option<Machine> {
        let line = address.raw() / O::Caches::GRANULE;
        if kind != Kind::Fetch && self.last.line == line && self.last.allowed >> kind as usize & 1 == 1 {
            self.again.count(kind, self.last.size);
            return Some(self.last.less.plus(address.raw()));
        }
        let side = usize::from(kind == Kind::Fetch);
        let tag = self.organisation.tag(self.regime.tag, address);
        for large in [false, true] {
            let Some(recent) = self.recents[side].find(address, large, tag) else { continue };
            if self.regime.allowed[kind as usize] >> recent.rights & 1 == 0 {
                continue;
            }
            if !self.parts.tlbs[usize::from(recent.array)].touch_if(recent.place as usize, recent.birth) {
                continue;
            }
            let (size, less) = (recent.size, recent.less);
            let machine = less.plus(address.raw());
            if kind == Kind::Fetch && O::Caches::FETCHES {
                return Some(self.hit(0, kind, size, address, machine));
            }
            if kind == Kind::Fetch {
                self.again.count(kind, size);
                if self.shared {
                    self.last = Last::default();
                }
                return Some(machine);
            }
            if !self.data_through_caches || !self.parts.caches.keeps_data() {
                return Some(self.hit(0, kind, size, address, machine));
            }
            let may = |kind: Kind| (self.regime.allowed[kind as usize] >> recent.rights & 1) << kind as u32;
            let allowed = (may(Kind::Load) | may(Kind::Store)) as u8;
            self.last = Last { line, less, size, allowed };
            if self.parts.caches.is_last_used(tag, address, machine) {
                self.again.count(kind, size);
                return Some(machine);
            }
            return Some(self.hit(0, kind, size, address, machine));
        }
        None
    }

    #[inline(never)]
    fn hit(&mut self, level: usize, kind: Kind, size: PageSize, address: Virtual, machine: Machine) -> Machine {
        self.bank().hits[level][kind as usize][size.index()] += 1;
        self.data(kind, address, machine)
    }

    /// The address, having been sent through the caches if it is data's.
    #[inline]
    fn data(&mut self, kind: Kind, address: Virtual, machine: Machine) -> Machine {
        self.through_caches(kind, address, machine);
        machine
    }

    /// Where the access was served, if it goes through the caches.
    #[inline]
    fn through_caches(&mut self, kind: Kind, address: Virtual, machine: Machine) -> Option<Served> {
        if !self.data_through_caches || kind == Kind::Fetch && !O::Caches::FETCHES {
            return None;
        }
        let tag = self.organisation.tag(self.regime.tag, address);
        if kind == Kind::Fetch {
            let served = self.parts.caches.fetch(tag, address, machine)?;
            self.bank().fetches_served[served as usize] += 1;
            return Some(served);
        }
        let served = self.parts.caches.data(tag, address, machine);
        self.bank().data_served[served as usize] += 1;
        Some(served)
    }

    /// Everything but a hit at the place where the page was found last.
    #[inline(never)]
    fn access_slowly<M: Memory>(
        &mut self,
        memory: &mut M,
        address: Virtual,
        kind: Kind,
    ) -> Result<Machine, Stop<M::Error>> {
        self.last = Last::default();
        if !self.regime.translated {
            self.bank().untranslated[kind as usize] += 1;
            let served = self.through_caches(kind, address, Machine::new(address.raw()));
            if O::CACHE_MISSES && served == Some(Served::Memory) {
                let (organisation, mut port, context) = self.port(memory, address);
                organisation.missed(&mut port, context, address, kind)?;
            }
            return Ok(Machine::new(address.raw()));
        }
        let side = usize::from(kind == Kind::Fetch);
        let tag = self.organisation.tag(self.regime.tag, address);
        let mut denied = false;
        for level in 0..2 {
            for i in 0..self.parts.lookup[side][level].len() {
                let array = self.parts.lookup[side][level][i];
                let tlb = &mut self.parts.tlbs[array];
                let Some(place) = tlb.find(address, tag) else { continue };
                let (entry, mask) = tlb.get(place);
                let Some(part) = entry.part(address) else { continue };
                if self.regime.allowed[kind as usize] >> part.rights.index() & 1 == 0 {
                    denied = true;
                    continue;
                }
                tlb.touch(place);
                if level == 0 {
                    self.remember(side, address, array, place);
                } else {
                    self.fill_level(0, side, address, mask, entry.nearer());
                }
                let machine = part.machine.plus(address.raw() & part.size.offset_mask());
                return Ok(self.hit(level, kind, part.size, address, machine));
            }
        }
        if denied {
            // The processor may not use the entry for this; it walks anew, and the old entry goes (SDM vol. 3,
            // 4.10.4.1 on page faults; a first store through a clean entry sets the dirty bit by such a walk).
            self.parts.tlbs.iter_mut().for_each(|tlb| _ = tlb.forget_address(address, |slot| slot.serves(tag)));
            self.bank().rewalks += 1;
        }
        let Refill { leaf, entry, mask } = self.refill(memory, address, kind)?;
        self.fill_level(1, side, address, mask, entry);
        self.fill_level(0, side, address, mask, entry);
        Ok(self.data(kind, address, leaf.machine.plus(address.raw() & leaf.size.offset_mask())))
    }

    /// The organisation, with what it is given for an address.
    #[inline]
    fn port<'a, M>(&'a mut self, memory: &'a mut M, address: Virtual) -> (&'a mut O, Port<'a, O, M>, &'a O::Context) {
        let tag = self.organisation.tag(self.regime.tag, address);
        let Self { parts, organisation, context, counters, .. } = self;
        let port = Port {
            memory,
            caches: &mut parts.caches,
            bank: &mut counters.banks[self.bank],
            bank_number: self.bank,
            first_level: parts.lookup.each_ref().map(|levels| &levels[0][..]),
            tlbs: &mut parts.tlbs,
            latency: parts.latency,
            tag,
            cycles: 0,
        };
        (organisation, port, context)
    }

    fn refill<M: Memory>(
        &mut self,
        memory: &mut M,
        address: Virtual,
        kind: Kind,
    ) -> Result<Refill<O::Entry>, Stop<M::Error>> {
        let (organisation, mut port, context) = self.port(memory, address);
        let outcome = organisation.refill(&mut port, context, address, kind);
        let bank = self.bank();
        match &outcome {
            Ok(Refill { leaf, .. }) => {
                bank.fills[kind as usize][leaf.size.index()] += 1;
                match leaf.host {
                    Some(host) => bank.fills_nested[leaf.guest.index()][host.index()] += 1,
                    None => bank.fills_flat[leaf.size.index()] += 1,
                }
            }
            Err(Stop::Fault(Fault { reason, .. })) => {
                bank.faults[kind as usize] += 1;
                bank.fault_reasons[*reason as usize] += 1;
            }
            Err(_) => bank.unreadable += 1,
        }
        outcome
    }

    /// Put an entry into the array of this level that takes it, if there is one.
    #[inline]
    fn fill_level(&mut self, level: usize, side: usize, address: Virtual, mask: u64, entry: O::Entry) {
        let tag = self.organisation.tag(self.regime.tag, address);
        for i in 0..self.parts.lookup[side][level].len() {
            let array = self.parts.lookup[side][level][i];
            let Some(entry) = self.fitting(level, side, array, address, entry) else { continue };
            let place = self.parts.tlbs[array].insert(address, tag, mask, entry);
            if let (0, Some(place)) = (level, place) {
                self.remember(side, address, array, place);
            }
            return;
        }
    }

    /// The entry as this array would hold it. A first level that has no room for the size takes the piece that it
    /// has room for; a second level does so with 1 GiB pages, on processors that split them.
    #[inline]
    fn fitting(
        &self,
        level: usize,
        side: usize,
        array: usize,
        address: Virtual,
        entry: O::Entry,
    ) -> Option<O::Entry> {
        let held = |size| self.parts.lookup[side][level].iter().any(|&a| self.parts.tlbs[a].holds(size));
        let mut size = entry.size();
        while !held(size) {
            let smaller = match size {
                PageSize::G1 if level == 0 || self.parts.splits_1g => PageSize::M2,
                PageSize::M2 if level == 0 => PageSize::K4,
                _ => return None,
            };
            size = smaller;
        }
        self.parts.tlbs[array].holds(size).then(|| entry.piece(address, size))
    }

    /// Forget what spares looking things up. It changes no result, which is what a test needs it for.
    pub fn forget_shortcuts(&mut self) {
        self.last = Last::default();
        self.recents = Default::default();
    }

    /// Note where the page of this address is, in a first-level array.
    #[inline]
    fn remember(&mut self, side: usize, address: Virtual, array: usize, place: usize) {
        let tlb = &self.parts.tlbs[array];
        let Some(Part { machine, rights, size }) = tlb.get(place).0.part(address) else { return };
        let recent = Recent {
            tag: self.organisation.tag(self.regime.tag, address),
            less: Machine::new(machine.raw().wrapping_sub(address.raw() & !size.offset_mask())),
            birth: tlb.birth(place),
            place: place as u32,
            array: array as u8,
            rights: rights.index(),
            size,
        };
        self.recents[side].note(address, recent);
    }

    /// How many entries each TLB holds, by name; for tests and curiosity.
    pub fn occupancy(&self) -> Vec<(&str, usize)> {
        self.parts.tlbs.iter().map(|t| (t.name.as_str(), t.len())).collect()
    }
}
