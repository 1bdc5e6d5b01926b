// SPDX-License-Identifier: MIT
//! Tables of any organisation walked by hardware, under a hypervisor in two dimensions: a guest's table, whose words lie in
//! memory that is the guest's, and a host's table, which says where that is.
//!
//! A guest's table of g references over a host's of h takes (g + 1) (h + 1) - 1: 24 where both have four levels. Each
//! reference of the guest's is translated by the host's table first, and so is what the guest's leaf says. The walker
//! costs what its references wait for, and nothing else, as x86-64's does in this model: a reference is a line that is
//! read, so a bucket's tag and entry in one line are one. A nested TLB may remember the host's translations; and a
//! software TLB may stand before both dimensions, with an entry for what they say together.
//!
//! Where the trace's machine is not nested (natively, or on a shadow), the host's organisation is walked alone.

use std::collections::HashMap;

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::assoc::Assoc;
use mmu_model::cache::{Caches, Served};
use mmu_model::context::{Kind, Layer};
use mmu_model::cpu::{ArraySpec, Cpu};
use mmu_model::invalidate::{Cause, Reach};
use mmu_model::memory::Memory;
use mmu_model::mmu::Mmu;
use mmu_model::organisation::{Organisation, Port, Refill, Regime};
use mmu_model::tag;
use mmu_model::walk::{Dimension, Leaf, Place, Rights, Stop};
use mmu_model::x86::steps::{HostLeaf, Steps, Walker};
use mmu_model::x86::{Context, Event, Tables};

use crate::caches::Hierarchy;
use crate::entry::Duo;
use crate::front::Front;
use crate::kept::{Kept, Spaces, page_of};
use crate::machine::Machine as Processor;
use crate::software::Software;
use crate::table::{InArray, Level, Page, Shape, Space, Table, Visit};
use crate::tally::{Counted, Tallies, Tally};

/// Where the memory of guests' tables begins in the machine: an arena is the same bytes at its guest-physical addresses.
const GUESTS: u64 = 1 << 46;
/// No line has this number.
const NO_LINE: u64 = u64::MAX;

/// What is put together.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Pages larger than the base page are mapped as such, where table and machine can.
    pub superpages: bool,
    /// The processor's nested TLB is used.
    pub nested_tlb: bool,
    /// Entries of a software TLB before both dimensions; 0: there is none.
    pub front: u64,
}

/// Two tables, and what remembers what they say.
pub struct Nested {
    guest: Kept,
    host: Kept,
    front: Option<Front>,
    nested: Option<Assoc<HostLeaf>>,
    spaces: Spaces,
    /// Of each host's table, by the trace's own: its space, and the size of the pages that a guest's tables lie in.
    hosts: HashMap<u64, (Space, PageSize)>,
    tallies: Tallies,
}

impl std::fmt::Debug for Nested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nested").field("hosts", &self.hosts.len()).finish_non_exhaustive()
    }
}

/// An MMU that walks these tables, on a processor of today.
pub fn mmu(guest: Box<dyn Table>, host: Box<dyn Table>, cpu: &Cpu, options: Options) -> Result<Mmu<Nested>, String> {
    for (whose, table) in [("guest", &guest), ("host", &host)] {
        if table.without_tlb() || table.is_virtual() || table.bits() < 48 {
            return Err(format!(
                "the {whose}'s table is not one that hardware can walk: it lies in virtual memory, needs virtual caches or \
                 maps less than 48 bits; take radix, g16, mpt, h8192, c8192 or pa-risc"
            ));
        }
    }
    let spec = cpu.nested_tlb.as_ref().filter(|_| options.nested_tlb);
    if options.nested_tlb && spec.is_none() {
        return Err(format!("{} has no nested TLB; leave out +ntlb, or take zen2", cpu.name));
    }
    let machine = Processor::of_cpu(cpu);
    let pages = machine.pages();
    let kept = |whose: &str, table| {
        let kept = Kept::new(table, &pages, machine.pairs, options.superpages);
        kept.map_err(|what| format!("the {whose}'s table: {what}"))
    };
    let (guest, host) = (kept("guest", guest)?, kept("host", host)?);
    let large = guest.largest().min(host.largest());
    let nested = Nested {
        front: (options.front > 0).then(|| Front::new(options.front, (large > PageSize::K4).then_some(PageSize::M2))),
        nested: spec.map(|spec| Assoc::new(ArraySpec::geometry(spec))),
        guest,
        host,
        spaces: Spaces::default(),
        hosts: HashMap::new(),
        tallies: Tallies::default(),
    };
    Ok(Mmu::of(nested, machine.parts(false), Context::nobody()))
}

/// An uncounted walk over the trace's own tables that notes what the host says on the way.
struct Truth<'a, M> {
    memory: &'a mut M,
    /// Where the host has the guest's root: the first that it is asked.
    root: Option<HostLeaf>,
    /// The guest-physical address that the walk ends with, and where the host has it: the last.
    last: Option<(u64, HostLeaf)>,
}

impl<M: Memory> Steps for Truth<'_, M> {
    type Error = M::Error;

    fn read(&mut self, _place: Place, at: Machine) -> Result<u64, M::Error> {
        self.memory.read(at)
    }

    fn set_bits(&mut self, at: Machine, bits: u64) -> Result<(), M::Error> {
        self.memory.set_bits(at, bits)
    }

    fn keep_nested(&mut self, address: u64, leaf: HostLeaf) {
        self.root.get_or_insert(leaf);
        self.last = Some((address, leaf));
    }
}

/// The walker's way to memory.
struct Hardware<'a> {
    caches: &'a mut Hierarchy,
    tally: &'a mut Tally,
    latency: [u64; Served::COUNT],
    cycles: u64,
    references: u64,
    /// The line read last in each dimension.
    last: [u64; Dimension::COUNT],
}

impl Hardware<'_> {
    /// Read these bytes of a table. A line that this dimension has just read is not read again.
    fn read(&mut self, dimension: Dimension, level: Level, at: u64, bytes: u64) {
        let line = self.caches.line();
        for number in at / line..=(at + bytes - 1) / line {
            if self.last[dimension as usize] == number {
                continue;
            }
            self.last[dimension as usize] = number;
            let served = self.caches.table(Machine::new(at.max(number * line)));
            self.cycles += self.latency[served as usize];
            self.references += 1;
            self.tally.loads[level as usize][served as usize] += 1;
            self.tally.references[dimension as usize] += 1;
        }
    }

    fn begin(&mut self, dimension: Dimension) {
        self.last[dimension as usize] = NO_LINE;
    }
}

/// One host's table, and what remembers its translations.
struct Host<'a> {
    kept: &'a mut Kept,
    nested: Option<&'a mut Assoc<HostLeaf>>,
    space: Space,
    tag: u64,
    /// The size of the pages that a guest's tables lie in.
    tables: PageSize,
}

/// Set and key of a guest-physical page in the nested TLB.
const fn nested_key(address: u64, size: PageSize) -> (u64, u64) {
    let page = address >> size.shift();
    (page, page << 5 | size.index() as u64)
}

impl Host<'_> {
    /// Find the page around a guest-physical address, of which this is true: by the nested TLB, or by a walk.
    fn find(&mut self, hardware: &mut Hardware<'_>, address: u64, leaf: HostLeaf) -> Page {
        let size = self.kept.size_for(leaf.size);
        let within = address & leaf.size.offset_mask() & !size.offset_mask();
        let HostLeaf { machine, rights, .. } = leaf;
        let truth = HostLeaf { machine: machine.plus(within), size, rights };
        let page = Page { machine: truth.machine, size, rights, mask: u64::MAX, leaf: leaf.size };
        let (set, key) = nested_key(address, size);
        if let Some(nested) = &mut self.nested {
            // What the host has changed since is walked anew, as its flush or its fault would have it.
            let at = nested.find(set, key, self.tag).filter(|at| nested.slot(*at).value == truth);
            hardware.tally.nested[usize::from(at.is_none())] += 1;
            if let Some(at) = at {
                nested.touch(at);
                return page;
            }
        }
        hardware.tally.updates += u64::from(self.kept.update(self.space, address, size, Some(page)));
        hardware.begin(Dimension::Host);
        walk(self.kept, hardware, Dimension::Host, self.space, address, &page);
        if let Some(nested) = &mut self.nested {
            nested.insert(set, key, self.tag, u64::MAX, truth);
        }
        page
    }

    /// Where a word of a guest's table is.
    fn table(&mut self, hardware: &mut Hardware<'_>, address: u64) -> u64 {
        let machine = Machine::new(GUESTS + address & !self.tables.offset_mask());
        let rights = Rights::from_index(Rights::COMBINATIONS - 1);
        let page = self.find(hardware, address, HostLeaf { machine, size: self.tables, rights });
        page.machine.raw() + (address & page.size.offset_mask())
    }
}

/// A refill from one table, compared with what is true.
fn walk(
    kept: &mut Kept,
    hardware: &mut Hardware<'_>,
    dimension: Dimension,
    space: Space,
    address: u64,
    truth: &Page,
) {
    let mut walked = Walked { hardware: &mut *hardware, dimension, host: None };
    let found = kept.table.refill(&mut kept.store, space, address, &mut walked);
    compare(kept, hardware, found, address, truth);
}

fn compare(kept: &Kept, hardware: &mut Hardware<'_>, found: Option<[u32; 2]>, address: u64, truth: &Page) {
    let half = (address >> truth.size.shift() & 1) as usize;
    let page = found.and_then(|pair| kept.store.pages.get(pair[half]));
    hardware.tally.mismatches += u64::from(page != Some(truth));
}

/// What a refill does where hardware walks: no handler, and no virtual loads. Of a guest's table each line is found by
/// the host's first.
struct Walked<'a, 'b, 'c> {
    hardware: &'a mut Hardware<'b>,
    dimension: Dimension,
    host: Option<&'a mut Host<'c>>,
}

impl Visit for Walked<'_, '_, '_> {
    fn interrupt(&mut self, _: Level) {}

    fn run(&mut self, _: Level, _: u64, _: u64) {}

    fn spend(&mut self, cycles: u64) {
        self.hardware.cycles += cycles;
    }

    fn load(&mut self, level: Level, at: Machine, bytes: u64) {
        let Some(host) = &mut self.host else {
            self.hardware.read(self.dimension, level, at.raw(), bytes);
            return;
        };
        let (line, end) = (self.hardware.caches.line(), at.raw() + bytes);
        let mut next = at.raw();
        while next < end {
            let to = ((next | (line - 1)) + 1).min(end);
            if self.hardware.last[Dimension::Guest as usize] != (GUESTS + next) / line {
                let machine = host.table(self.hardware, next);
                self.hardware.read(Dimension::Guest, level, machine, to - next);
            }
            next = to;
        }
    }

    fn translates(&mut self, _: InArray) -> bool {
        unreachable!("tables in virtual memory are refused")
    }

    fn protect(&mut self, _: InArray, _: [Option<Machine>; 2]) {
        unreachable!("tables in virtual memory are refused")
    }

    fn load_virtual(&mut self, _: Level, _: InArray, _: Machine, _: u64) -> bool {
        unreachable!("tables in virtual memory are refused")
    }

    fn short_cut(&mut self) {
        self.hardware.tally.short_cuts += 1;
    }
}

/// Find the guest's page, of which this is true, by its table, each line of which is found by the host's.
fn walk_guest(
    guest: &mut Kept,
    hardware: &mut Hardware<'_>,
    host: &mut Host<'_>,
    (space, address): (Space, u64),
    truth: &Page,
) {
    hardware.tally.updates += u64::from(guest.update(space, address, truth.size, Some(*truth)));
    hardware.begin(Dimension::Guest);
    let mut walked = Walked { hardware: &mut *hardware, dimension: Dimension::Guest, host: Some(host) };
    let found = guest.table.refill(&mut guest.store, space, address, &mut walked);
    compare(guest, hardware, found, address, truth);
}

impl Nested {
    /// The size of the page that an access is to find: that of the smaller of both dimensions.
    fn size_for(&self, context: &Context, leaf: &Leaf) -> PageSize {
        let host = self.host.size_for(leaf.host.unwrap_or(leaf.size));
        let paged = matches!(context.tables, Tables::Nested { guest: Some(_), .. });
        if paged { host.min(self.guest.size_for(leaf.guest)) } else { host }
    }

    /// Find this page as the hardware does, counted; the cycles that it takes.
    fn find<M>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: u64,
        known: &Known,
        page: &Page,
    ) -> u64 {
        let Self { guest, host, front, nested, spaces, hosts, tallies } = self;
        let mut hardware = Hardware {
            caches: &mut *port.caches,
            tally: &mut tallies[port.bank_number],
            latency: port.latency,
            cycles: 0,
            references: 0,
            last: [NO_LINE; Dimension::COUNT],
        };
        let space = spaces.at(address);
        let kept = front.as_mut().is_some_and(|front| {
            front.find(space, address, page, |at, bytes| hardware.read(Dimension::Flat, Level::User, at, bytes))
        });
        if kept {
            hardware.tally.short_cuts += 1;
        } else {
            if let (Tables::Nested { guest: paged, root, .. }, Some(last)) = (context.tables, known.last) {
                let (of_host, tables) = *hosts.entry(root.raw()).or_insert_with(|| {
                    (spaces.of_host(root.raw()), known.root.map_or(PageSize::K4, |leaf| leaf.size))
                });
                let nested = nested.as_mut();
                let mut host = Host { kept: host, nested, space: of_host, tag: port.tag & tag::ASID, tables };
                if paged.is_some() {
                    let size = guest.size_for(known.leaf.guest);
                    let says = Page { machine: Machine::new(last.0 & !size.offset_mask()), size, ..*page };
                    walk_guest(guest, &mut hardware, &mut host, (space, address), &says);
                }
                host.find(&mut hardware, last.0, last.1);
            } else {
                hardware.tally.updates += u64::from(host.update(space, address, page.size, Some(*page)));
                hardware.begin(Dimension::Flat);
                walk(host, &mut hardware, Dimension::Flat, space, address, page);
            }
            if let Some(front) = front {
                front.fill(space, address, page);
            }
        }
        let (cycles, references) = (hardware.cycles, hardware.references);
        let tally = hardware.tally;
        tally.refills += 1;
        tally.cycles += cycles;
        tally.most = tally.most.max(references);
        cycles
    }
}

/// What the trace's own tables say of an access.
struct Known {
    leaf: Leaf,
    root: Option<HostLeaf>,
    last: Option<(u64, HostLeaf)>,
}

impl Counted for Nested {
    fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    fn shape(&self) -> Shape {
        let (guest, host) = (self.guest.shape(), self.host.shape());
        let mut shape: Shape = [
            ("bytes", guest["bytes"] + host["bytes"]),
            ("bytes_guest", guest["bytes"]),
            ("bytes_host", host["bytes"]),
        ]
        .into();
        // Natively all is in the host's.
        shape.insert("pages_mapped", if self.hosts.is_empty() { &host } else { &guest }["pages_mapped"]);
        shape.insert("bytes_stlb", self.front.as_ref().map_or(0, Front::bytes));
        shape
    }
}

impl Organisation for Nested {
    type Context = Context;
    type Event = Event;
    type Entry = Duo;
    type Caches = Hierarchy;

    fn runs(context: &Context) -> (Layer, u64) {
        (context.layer, context.space)
    }

    fn regime(&mut self, context: &Context) -> Regime {
        let (tag, flushes) = self.spaces.run(context);
        let (translated, allowed) = (context.tables != Tables::Off, context.allowed());
        Regime { translated, tag, allowed, noted: None, flushes }
    }

    fn refill<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: Virtual,
        kind: Kind,
    ) -> Result<Refill<Duo>, Stop<M::Error>> {
        let mut truth = Truth { memory: &mut *port.memory, root: None, last: None };
        let walked = context.tables.walk(address, context.access(kind), &mut truth);
        let (root, last) = (truth.root, truth.last);
        if let Err(Stop::Fault(_)) = walked {
            port.drop_address(address);
        }
        let leaf = walked?;
        let page = page_of(&leaf, address.raw(), self.size_for(context, &leaf), context);
        let cycles = self.find(port, context, address.raw(), &Known { leaf, root, last }, &page);
        port.bank.walk_cycles[kind as usize] += cycles;
        let leaf = Leaf { machine: page.machine, size: page.size, ..leaf };
        Ok(Refill { leaf, entry: Duo::single(&page), mask: page.mask })
    }

    fn again(&mut self) {
        self.tallies = Tallies::default();
    }

    fn reach(event: Event, regime: u64) -> Option<(Cause, Option<Reach>)> {
        Software::reach(event, regime)
    }

    fn forget(&mut self, reach: &Reach) -> u64 {
        let nested = self.nested.as_mut().filter(|_| reach.nested);
        nested.map_or(0, |nested| nested.retain(|_, slot| !reach.takes_partial(slot.tag)))
    }
}
