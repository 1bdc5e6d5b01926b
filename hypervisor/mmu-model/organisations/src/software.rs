// SPDX-License-Identifier: MIT
//! An organisation of [`mmu_model`] made of any table: the table is kept as the trace's own x86-64 tables say, and each
//! refill from it is checked against them.
//!
//! On a miss an uncounted walk over the trace's tables says what is true. Where the table says otherwise it is brought up
//! to date, which is the operating system's work and counted apart. Then the TLB is refilled from it, counted.

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::cache::{Caches, Served};
use mmu_model::context::{Kind, Layer};
use mmu_model::invalidate::{Cause, Reach};
use mmu_model::memory::Memory;
use mmu_model::mmu::Mmu;
use mmu_model::organisation::{Organisation, Port, Refill, Regime};
use mmu_model::tag;
use mmu_model::walk::{Leaf, Rights, Stop};
use mmu_model::x86::steps::{Plain, Walker};
use mmu_model::x86::{Context, Event, Tables};

use crate::caches::{By, Hierarchy};
use crate::entry::Duo;
use crate::kept::{Kept, Spaces, page_of};
use crate::machine::Machine as Processor;
use crate::table::{InArray, Level, Page, Shape, Table, Visit};
use crate::tally::{Counted, Tallies, Tally};

/// Where handlers lie, each at a page of its own: in memory that is not translated.
const HANDLERS: u64 = 1 << 45;

/// What a replay is to do with a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Pages larger than the base page are mapped as such, where table and machine can; else in base pages.
    pub superpages: bool,
}

/// A table with all it needs to be an organisation.
pub struct Software {
    kept: Kept,
    pairs: bool,
    /// There is a TLB.
    translates: bool,
    /// The array for pages of tables, and whether the TLB's own entries share it.
    table_array: usize,
    interrupt_cycles: u64,
    spaces: Spaces,
    tallies: Tallies,
}

impl std::fmt::Debug for Software {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Software").field("spaces", &self.spaces.len()).finish_non_exhaustive()
    }
}

/// An MMU whose TLB is refilled from this table.
pub fn mmu(table: Box<dyn Table>, machine: &Processor, options: Options) -> Result<Mmu<Software>, String> {
    if table.without_tlb() && machine.cache.iter().any(|shape| shape.tag != By::Virtual) {
        return Err(
            "without a TLB all caches must have virtual tags, and this machine's have not; take jacob-mudge".into()
        );
    }
    let parts = machine.parts(table.protects());
    let software = Software {
        pairs: machine.pairs,
        translates: !table.without_tlb(),
        table_array: *parts.lookup[0][0].last().expect("checked when read"),
        interrupt_cycles: machine.interrupt_cycles,
        spaces: Spaces::default(),
        tallies: Tallies::default(),
        kept: Kept::new(table, &machine.pages(), machine.pairs, options.superpages)?,
    };
    Ok(Mmu::of(software, parts, Context::nobody()))
}

impl Software {
    /// Make the table say this of the page around an address, if it says otherwise.
    fn update(&mut self, bank: usize, address: u64, size: PageSize, page: Option<Page>) {
        let changed = self.kept.update(self.spaces.at(address), address, size, page);
        self.tallies[bank].updates += u64::from(changed);
    }

    /// Bring what a refill can load up to date: the page, and the other of its pair.
    fn bring_up_to_date<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: u64,
        leaf: &Leaf,
    ) -> Page {
        let size = self.kept.size_for(leaf.size);
        let page = page_of(leaf, address, size, context);
        self.update(port.bank_number, address, size, Some(page));
        if self.pairs {
            let other = address ^ size.bytes();
            // What the other's access rights are, its own access will ask: here it is only read.
            let access = context.access(Kind::Load);
            let walked = context.tables.walk(Virtual::new(other), access, &mut Plain(&mut *port.memory));
            let fits = walked.ok().filter(|leaf| self.kept.size_for(leaf.size) == size);
            self.update(port.bank_number, other, size, fits.map(|leaf| page_of(&leaf, other, size, context)));
        }
        page
    }

    /// Bring the table up to date for a leaf of the trace's, and find the page in it as a refill does, counted.
    fn find<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: Virtual,
        kind: Kind,
        leaf: &Leaf,
    ) -> Result<Refill<Duo>, Stop<M::Error>> {
        if !self.kept.maps(address.raw()) {
            return Err(Stop::Software);
        }
        let page = self.bring_up_to_date(port, context, address.raw(), leaf);
        let space = self.spaces.at(address.raw());
        let Self { kept: Kept { table, store, .. }, tallies, .. } = self;
        let tally = &mut tallies[port.bank_number];
        let mut counter = Counter {
            port,
            tally,
            pairs: self.pairs,
            table_array: self.table_array,
            interrupt_cycles: self.interrupt_cycles,
        };
        let found = table.refill(store, space, address.raw(), &mut counter);
        let pages = found.unwrap_or_default().map(|entry| store.pages.get(entry));
        let half = (address.raw() >> page.size.shift() & 1) as usize;
        tally.cycles += port.cycles;
        port.bank.walk_cycles[kind as usize] += port.cycles;
        if pages[half] != Some(&page) {
            tally.mismatches += 1;
        }
        tally.refills += 1;
        let entry = if self.pairs { Duo::pair(pages, page.size) } else { Duo::single(&page) };
        let mask =
            if self.pairs { pages.into_iter().flatten().fold(0, |mask, page| mask | page.mask) } else { page.mask };
        let leaf = Leaf { machine: page.machine, size: page.size, ..*leaf };
        Ok(Refill { leaf, entry, mask })
    }
}

impl Counted for Software {
    fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    fn shape(&self) -> Shape {
        self.kept.shape()
    }
}

impl Organisation for Software {
    type Context = Context;
    type Event = Event;
    type Entry = Duo;
    type Caches = Hierarchy;
    const CACHE_MISSES: bool = true;

    fn runs(context: &Context) -> (Layer, u64) {
        (context.layer, context.space)
    }

    /// The tag names the space: what another task has is not forgotten when tables are switched, but not before it runs
    /// again, since its CR3 is written then. So nothing stale is ever used, and less is forgotten than on x86-64.
    fn regime(&mut self, context: &Context) -> Regime {
        let (tag, flushes) = self.spaces.run(context);
        Regime {
            translated: context.tables != Tables::Off && self.translates,
            tag,
            allowed: context.allowed(),
            noted: None,
            flushes,
        }
    }

    fn refill<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: Virtual,
        kind: Kind,
    ) -> Result<Refill<Duo>, Stop<M::Error>> {
        let walked = context.tables.walk(address, context.access(kind), &mut Plain(&mut *port.memory));
        let leaf = match walked {
            Ok(leaf) => leaf,
            Err(stop) => {
                if let Stop::Fault(_) = stop {
                    port.drop_address(address);
                }
                return Err(stop);
            }
        };
        self.find(port, context, address, kind, &leaf)
    }

    /// A cache that is to be filled by software misses: the same, without a TLB to put it into.
    fn missed<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: Virtual,
        kind: Kind,
    ) -> Result<(), Stop<M::Error>> {
        if context.tables == Tables::Off || self.kept.table.sizes().is_empty() {
            return Ok(());
        }
        match context.tables.walk(address, context.access(kind), &mut Plain(&mut *port.memory)) {
            Ok(leaf) => self.find(port, context, address, kind, &leaf).map(|_| ()),
            Err(Stop::Fault(_)) => {
                port.bank.faults[kind as usize] += 1;
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    fn again(&mut self) {
        self.tallies = Tallies::default();
    }

    fn reach(event: Event, regime: u64) -> Option<(Cause, Option<Reach>)> {
        // Numbers of PCIDs are not those of spaces: of one, all of its ASID's go.
        let event = match event {
            Event::InvpcidAddress { address, .. } => {
                Event::Invlpga { address, asid: ((regime & tag::ASID) >> 32) as u16 }
            }
            Event::InvpcidContext { .. } | Event::InvpcidAll => Event::InvpcidAllAndGlobal,
            other => other,
        };
        event.reach(regime)
    }
}

/// Counts what a refill does.
struct Counter<'a, 'b, M> {
    port: &'a mut Port<'b, Software, M>,
    tally: &'a mut Tally,
    pairs: bool,
    table_array: usize,
    interrupt_cycles: u64,
}

impl<M> Counter<'_, '_, M> {
    /// A load's own cycle is among its handler's instructions.
    fn loaded(&mut self, level: Level, served: Served) {
        self.port.cycles += self.port.latency[served as usize] - self.port.latency[0];
        self.port.bank.served[served as usize] += 1;
        self.tally.loads[level as usize][served as usize] += 1;
    }
}

/// The tag of an array of a table in the TLB and in virtual caches: no space has it.
const fn array_tag(at: InArray) -> u64 {
    1 << 63 | (at.tier as u64) << 56 | at.space as u64
}

impl<M> Visit for Counter<'_, '_, M> {
    fn interrupt(&mut self, level: Level) {
        self.tally.interrupts[level as usize] += 1;
        self.port.cycles += self.interrupt_cycles;
    }

    fn run(&mut self, level: Level, from: u64, instructions: u64) {
        self.tally.instructions[level as usize] += instructions;
        let at = Machine::new(HANDLERS + 4096 * level as u64 + 4 * from);
        let found = self.port.run(at, instructions);
        self.tally.fetches.iter_mut().zip(found).for_each(|(all, n)| *all += n);
    }

    fn spend(&mut self, cycles: u64) {
        self.port.spend(cycles);
    }

    fn load(&mut self, level: Level, at: Machine, bytes: u64) {
        let line = self.port.caches.line();
        let mut next = at.raw();
        while next < at.raw() + bytes {
            let served = self.port.caches.table(Machine::new(next));
            self.loaded(level, served);
            next = (next | (line - 1)) + 1;
        }
    }

    fn translates(&mut self, at: InArray) -> bool {
        self.port.translate(Virtual::new(at.offset), array_tag(at)).is_some()
    }

    fn protect(&mut self, at: InArray, pages: [Option<Machine>; 2]) {
        let page = |machine: Option<Machine>| {
            machine.map(|machine| Page {
                machine,
                size: PageSize::K4,
                rights: Rights::default(),
                mask: u64::MAX,
                leaf: PageSize::K4,
            })
        };
        let pages = pages.map(page);
        let half = (at.offset >> 12 & 1) as usize;
        let entry = if self.pairs {
            Duo::pair([pages[0].as_ref(), pages[1].as_ref()], PageSize::K4)
        } else {
            Duo::single(pages[half].as_ref().expect("the page that is missed is there"))
        };
        self.port.insert(self.table_array, Virtual::new(at.offset), array_tag(at), u64::MAX, entry);
    }

    fn load_virtual(&mut self, level: Level, at: InArray, machine: Machine, bytes: u64) -> bool {
        debug_assert!(bytes <= 8, "an entry lies in one line");
        let served = self.port.caches.data(array_tag(at), Virtual::new(at.offset), machine);
        self.loaded(level, served);
        served != Served::Memory
    }

    fn short_cut(&mut self) {
        self.tally.short_cuts += 1;
    }
}
