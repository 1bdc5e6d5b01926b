// SPDX-License-Identifier: MIT
//! An organisation of [`mmu_model`] made of any table: the table is kept as the trace's own x86-64 tables say, and each
//! refill from it is checked against them.
//!
//! On a miss an uncounted walk over the trace's tables says what is true. Where the table says otherwise it is brought up
//! to date, which is the operating system's work and counted apart. Then the TLB is refilled from it, counted.

use std::collections::HashMap;

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::cache::{Caches, Served};
use mmu_model::context::{Kind, Layer};
use mmu_model::counters::Bank;
use mmu_model::invalidate::{Cause, Reach};
use mmu_model::memory::Memory;
use mmu_model::mmu::Mmu;
use mmu_model::organisation::{Organisation, Port, Refill, Regime};
use mmu_model::tag;
use mmu_model::walk::{Leaf, Rights, Stop};
use mmu_model::x86::steps::{Plain, Walker};
use mmu_model::x86::{Context, Control, Event, Tables};
use serde_json::{Map, Value, json};

use crate::caches::{By, Hierarchy};
use crate::entry::Duo;
use crate::machine::Machine as Processor;
use crate::table::{InArray, Level, Page, Shape, Space, Store, Table, Visit};
use crate::tally::Tally;

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
    table: Box<dyn Table>,
    store: Store,
    /// Sizes that both table and machine have, the largest first.
    sizes: Vec<PageSize>,
    pairs: bool,
    /// There is a TLB.
    translates: bool,
    /// The array for pages of tables, and whether the TLB's own entries share it.
    table_array: usize,
    interrupt_cycles: u64,
    /// Numbers of address spaces: by ASID, and by the table's root for what is not shared.
    spaces: HashMap<(u16, Option<u64>), Space>,
    /// Who runs: its own part, and the one shared with others of its ASID.
    running: [Space; 2],
    /// By bank, the last being what lies outside the region.
    tallies: [Tally; Layer::COUNT + 1],
}

impl std::fmt::Debug for Software {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Software").field("spaces", &self.spaces.len()).finish_non_exhaustive()
    }
}

/// An MMU whose TLB is refilled from this table.
pub fn mmu(table: Box<dyn Table>, machine: &Processor, options: Options) -> Result<Mmu<Software>, String> {
    let pages = machine.pages();
    let mut sizes: Vec<_> = table.sizes().iter().copied().filter(|size| pages.contains(size)).collect();
    sizes.retain(|size| options.superpages || *size == PageSize::K4);
    sizes.reverse();
    if sizes.last() != Some(&PageSize::K4) && !table.sizes().is_empty() {
        let names: Vec<_> = pages.iter().map(|size| size.name()).collect();
        return Err(format!(
            "pages of 4k, as traces have them, are not among those of machine and table ({})",
            names.join(", ")
        ));
    }
    if table.without_tlb() && machine.cache.iter().any(|shape| shape.tag != By::Virtual) {
        return Err(
            "without a TLB all caches must have virtual tags, and this machine's have not; take jacob-mudge".into()
        );
    }
    let parts = machine.parts(table.protects());
    let software = Software {
        store: Store::default(),
        sizes,
        pairs: machine.pairs,
        translates: !table.without_tlb(),
        table_array: *parts.lookup[0][0].last().expect("checked when read"),
        interrupt_cycles: machine.interrupt_cycles,
        spaces: HashMap::new(),
        running: [0; 2],
        tallies: Default::default(),
        table,
    };
    let nobody = Context {
        layer: Layer::GuestKernel,
        space: 0,
        user: false,
        control: Control::default(),
        asid: 0,
        pcid: 0,
        tables: Tables::Off,
    };
    Ok(Mmu::of(software, parts, nobody))
}

impl Software {
    /// What has been counted inside the region, and with everything before and after it.
    pub fn tally(&self) -> Tally {
        let mut total = Tally::default();
        self.tallies[..Layer::COUNT].iter().for_each(|tally| total.add(tally));
        total
    }

    /// The same of one layer.
    pub fn tally_of(&self, layer: Layer) -> &Tally {
        &self.tallies[layer as usize]
    }

    /// Refills that found another page than the trace's tables have, inside the region or not.
    pub fn mismatches(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.mismatches).sum()
    }

    /// The table's sizes and counts.
    pub fn shape(&self) -> Shape {
        let mut shape = self.table.shape(&self.store);
        shape.insert("pages_mapped", self.store.pages.mapped());
        shape
    }

    fn space_of(&mut self, asid: u16, root: Option<u64>) -> Space {
        let next = self.spaces.len() as Space + 1;
        *self.spaces.entry((asid, root)).or_insert(next)
    }

    /// The space that an address belongs to: the upper half is shared by all tables of an ASID.
    fn space_at(&self, address: u64) -> Space {
        self.running[(address >> 63) as usize]
    }

    /// Whether the table maps such addresses at all: of 48 bits those of both halves.
    fn maps(&self, address: u64) -> bool {
        let bits = self.table.bits();
        bits == 64 || address >> bits == 0 || (bits >= 48 && !address >> (bits - 1) == 0)
    }

    /// The largest page that machine and table have, and the trace's leaf is wide enough for.
    fn size_for(&self, leaf: PageSize) -> PageSize {
        let wide = |size: &&PageSize| **size == PageSize::K4 || size.shift() + u32::from(self.pairs) <= leaf.shift();
        *self.sizes.iter().find(wide).expect("the base page is among them")
    }

    /// Make the table say this of the page around an address, if it says otherwise.
    fn update(&mut self, bank: usize, address: u64, size: PageSize, page: Option<Page>) {
        let space = self.space_at(address);
        let begin = address & !size.offset_mask();
        let (entry, found) = self.table.get(&self.store, space, begin);
        if self.store.pages.get(entry).copied() == page && (page.is_none() || found == size) {
            return;
        }
        self.tallies[bank].updates += 1;
        let new = page.map_or(0, |page| self.store.pages.entry(page));
        for gone in self.table.set(&mut self.store, space, begin, size, new) {
            self.store.pages.drop(gone);
        }
        self.table.changed(&mut self.store, space, begin, size);
    }

    /// Bring what a refill can load up to date: the page, and the other of its pair.
    fn bring_up_to_date<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: u64,
        leaf: &Leaf,
    ) -> Page {
        let size = self.size_for(leaf.size);
        let page = page_of(leaf, address, size, context);
        self.update(port.bank_number, address, size, Some(page));
        if self.pairs {
            let other = address ^ size.bytes();
            // What the other's access rights are, its own access will ask: here it is only read.
            let access = context.access(Kind::Load);
            let walked = context.tables.walk(Virtual::new(other), access, &mut Plain(&mut *port.memory));
            let fits = walked.ok().filter(|leaf| self.size_for(leaf.size) == size);
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
        if !self.maps(address.raw()) {
            return Err(Stop::Software);
        }
        let page = self.bring_up_to_date(port, context, address.raw(), leaf);
        let space = self.space_at(address.raw());
        let Self { table, store, tallies, .. } = self;
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

fn page_of(leaf: &Leaf, address: u64, size: PageSize, context: &Context) -> Page {
    let within = address & leaf.size.offset_mask() & !size.offset_mask();
    let mask = if leaf.global && context.control.pge { !tag::PCID } else { u64::MAX };
    Page { machine: leaf.machine.plus(within), size, rights: leaf.rights, mask, leaf: leaf.guest }
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
        let root = match context.tables {
            Tables::Off => None,
            Tables::Flat { root, .. } => Some(root.raw()),
            Tables::Nested { guest, root, .. } => Some(guest.map_or(root.raw() | 1, |(guest, _)| guest.raw() << 1)),
        };
        self.running = [self.space_of(context.asid, root), self.space_of(context.asid, None)];
        let spaces = self.running[0] as u16;
        Regime {
            translated: context.tables != Tables::Off && self.translates,
            tag: tag::pack(context.asid, 0, spaces),
            allowed: context.allowed(),
            noted: None,
            // After 65,535 spaces numbers repeat, and all is forgotten at each switch.
            flushes: u8::from(self.running[0] > u32::from(u16::MAX)),
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
        if context.tables == Tables::Off || self.table.sizes().is_empty() {
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

/// Counters of a replay as one JSON object: the MMU's own, and those of its refills.
pub fn to_json(mmu: &Mmu<Software>) -> Value {
    let (counters, software) = (mmu.counters(), mmu.organisation());
    let layers: Map<String, Value> = Layer::ALL
        .into_iter()
        .map(|layer| (layer.name().to_owned(), (counters.layer(layer), software.tally_of(layer))))
        .chain([("total".to_owned(), (&counters.total(), &software.tally()))].map(|(name, both)| (name, both)))
        .map(|(name, (bank, tally))| (name, named(bank, tally)))
        .collect();
    json!({
        "kind": "modelled",
        "instructions": counters.instructions,
        "layers": layers,
        "table": software.shape(),
    })
}

fn named(bank: &Bank, tally: &Tally) -> Value {
    let mut out = tally.to_json();
    let mut put = |name: String, n: u64| _ = out.insert(name, n.into());
    for kind in Kind::ALL {
        put(kind.name().into(), bank.accesses(kind));
        put(format!("tlb_misses_{}", kind.name()), bank.misses(kind));
    }
    put("faults".into(), bank.faults.iter().sum());
    for served in Served::ALL {
        put(format!("data_refs_{}", served.name()), bank.data_served[served as usize]);
        put(format!("fetch_refs_{}", served.name()), bank.fetches_served[served as usize]);
    }
    Value::Object(out)
}
