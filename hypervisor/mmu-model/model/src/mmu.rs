// SPDX-License-Identifier: MIT
//! One processor's MMU.

use std::collections::HashMap;

use crate::address::{Machine, PageSize, Virtual};
use crate::cache::LINE;
use crate::context::{Context, Control, Kind, Layer, Tables};
use crate::counters::{Bank, Counters};
use crate::cpu::{Cpu, Side};
use crate::invalidate::Cause;
use crate::memory::Memory;
use crate::shortcut::{Again, Last, Recent, Recents};
use crate::tlb::{Tlb, Translation, tag};
use crate::unit::{Parts, Unit};
use crate::walk::{Access, Fault, Leaf, Rights, Stop, Walker};

/// The bank for what lies outside the region.
const OUTSIDE: usize = Layer::COUNT;

/// TLBs, caches and counters of one processor.
///
/// Tell it who runs ([`Mmu::set_context`]), every access ([`Mmu::access`]) and every event that invalidates
/// ([`Mmu::invalidate`](crate::invalidate)), in the order in which they happen.
#[derive(Clone, Debug)]
pub struct Mmu {
    /// First-level arrays lie before second-level ones.
    pub(crate) tlbs: Vec<Tlb>,
    pub(crate) parts: Parts,
    /// Per side (data, instruction): indices of the arrays of each level.
    lookup: [[Vec<usize>; 2]; 2],
    recents: [Recents; 2],
    pub(crate) last: Last,
    pub(crate) tag: u64,
    /// For each kind, one bit for each combination of rights that needs no walk.
    allowed: [u32; Kind::COUNT],
    context: Context,
    bank: usize,
    again: Again,
    counters: Counters,
    in_region: bool,
    /// The process the region belongs to.
    space: Option<u64>,
    roots: HashMap<Machine, u16>,
    last_root: Option<Machine>,
    asid_tags: bool,
    root_tags: bool,
    splits_1g: bool,
    data_through_caches: bool,
    /// Data and instructions have a first-level array in common.
    shared: bool,
}

impl Mmu {
    /// A processor with everything empty, the region closed, and paging off.
    pub fn new(cpu: &Cpu) -> Self {
        let mut specs: Vec<_> = cpu.tlb.iter().filter(|t| t.entries > 0).collect();
        specs.sort_by_key(|t| t.level);
        let serving = |level: u8, side: Side| -> Vec<usize> {
            (0..specs.len())
                .filter(|&i| specs[i].level == level && [side, Side::Both].contains(&specs[i].side))
                .collect()
        };
        let lookup = [Side::Data, Side::Instruction].map(|side| [1, 2].map(|level| serving(level, side)));
        let context = Context {
            layer: Layer::GuestKernel,
            space: 0,
            user: false,
            control: Control::default(),
            asid: 0,
            pcid: 0,
            tables: Tables::Off,
        };
        let shared = lookup[0][0].iter().any(|array| lookup[1][0].contains(array));
        let mut mmu = Self {
            tlbs: specs
                .iter()
                .map(|t| Tlb::new(&t.name, &t.sizes().expect("checked when read"), t.geometry()))
                .collect(),
            lookup,
            parts: Parts::new(cpu),
            recents: Default::default(),
            last: Last::default(),
            tag: 0,
            allowed: [0; Kind::COUNT],
            context,
            bank: OUTSIDE,
            again: Again::default(),
            counters: Counters::default(),
            in_region: false,
            space: None,
            roots: HashMap::new(),
            last_root: None,
            asid_tags: cpu.asid_tags,
            root_tags: cpu.nested_root_tags,
            splits_1g: cpu.second_level_splits_1g,
            data_through_caches: true,
            shared,
        };
        mmu.set_context(&context);
        mmu
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
            let guest = [Layer::GuestUser, Layer::GuestKernel].contains(&self.context.layer);
            self.space = guest.then_some(self.context.space);
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
        let other = self.space.is_some_and(|space| space != self.context.space);
        self.bank = match self.context.layer {
            _ if !self.in_region => OUTSIDE,
            Layer::GuestUser if other => Layer::GuestOther as usize,
            layer => layer as usize,
        };
    }

    #[inline]
    pub(crate) fn bank(&mut self) -> &mut Bank {
        &mut self.counters.banks[self.bank]
    }

    /// Who runs now.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Say who runs now. This invalidates nothing by itself, except on a processor without ASIDs.
    pub fn set_context(&mut self, context: &Context) {
        let switched = !self.asid_tags && context.asid != self.context.asid;
        self.context = *context;
        self.last = Last::default();
        self.choose_bank();
        let root = self.root_number();
        let asid = if self.asid_tags { context.asid } else { 0 };
        self.tag = tag::pack(asid, root, context.pcid);
        if switched {
            self.flush_world();
        }
        for kind in Kind::ALL {
            let access = self.access_of(kind);
            self.allowed[kind as usize] = (0..Rights::COMBINATIONS)
                .filter(|i| {
                    let rights = Rights::from_index(*i);
                    rights.allow(access) && (kind != Kind::Store || rights.has(Rights::DIRTY))
                })
                .fold(0, |bits, i| bits | 1 << i);
        }
    }

    fn root_number(&mut self) -> u16 {
        let Tables::Nested { root, .. } = self.context.tables else { return 0 };
        if self.last_root.is_some_and(|last| last != root) {
            self.count_flush(Cause::NestedRoot, 0);
        }
        self.last_root = Some(root);
        if !self.root_tags {
            return 0;
        }
        // Numbers are given in order of appearance; after 65,535 roots they would repeat, and all is forgotten.
        if self.roots.len() >= usize::from(u16::MAX) && !self.roots.contains_key(&root) {
            self.roots.clear();
            self.flush_world();
        }
        let next = self.roots.len() as u16 + 1;
        *self.roots.entry(root).or_insert(next)
    }

    #[inline]
    fn access_of(&self, kind: Kind) -> Access {
        let mut control = self.context.control;
        if let Tables::Nested { guest: None, .. } = self.context.tables {
            // SMEP and SMAP need paging.
            (control.smep, control.smap) = (false, false);
        }
        Access { kind, user: self.context.user, control }
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
        let line = address.raw() / LINE;
        if kind != Kind::Fetch && self.last.line == line && self.last.allowed >> kind as usize & 1 == 1 {
            self.again.count(kind, self.last.size);
            return Some(self.last.less.plus(address.raw()));
        }
        let side = usize::from(kind == Kind::Fetch);
        for large in [false, true] {
            let Some(recent) = self.recents[side].find(address, large, self.tag) else { continue };
            if self.allowed[kind as usize] >> recent.rights & 1 == 0 {
                continue;
            }
            if !self.tlbs[usize::from(recent.array)].touch_if(recent.place as usize, recent.birth) {
                continue;
            }
            let (size, less) = (recent.size, recent.less);
            let machine = less.plus(address.raw());
            if kind == Kind::Fetch {
                self.again.count(kind, size);
                if self.shared {
                    self.last = Last::default();
                }
                return Some(machine);
            }
            if !self.data_through_caches || !self.parts.caches.has_l1() {
                return Some(self.hit(0, kind, size, machine));
            }
            let may = |kind: Kind| (self.allowed[kind as usize] >> recent.rights & 1) << kind as u32;
            let allowed = (may(Kind::Load) | may(Kind::Store)) as u8;
            self.last = Last { line, less, size, allowed };
            if self.parts.caches.is_last_used(machine) {
                self.again.count(kind, size);
                return Some(machine);
            }
            return Some(self.hit(0, kind, size, machine));
        }
        None
    }

    #[inline(never)]
    fn hit(&mut self, level: usize, kind: Kind, size: PageSize, machine: Machine) -> Machine {
        self.bank().hits[level][kind as usize][size as usize] += 1;
        self.data(kind, machine)
    }

    /// The address, having been sent through the caches if it is data's.
    #[inline]
    fn data(&mut self, kind: Kind, machine: Machine) -> Machine {
        if self.data_through_caches && kind != Kind::Fetch {
            let served = self.parts.caches.access(machine);
            self.bank().data_served[served as usize] += 1;
        }
        machine
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
        if self.context.tables == Tables::Off {
            self.bank().untranslated[kind as usize] += 1;
            return Ok(self.data(kind, Machine::new(address.raw())));
        }
        let side = usize::from(kind == Kind::Fetch);
        let mut denied = false;
        for level in 0..2 {
            for i in 0..self.lookup[side][level].len() {
                let array = self.lookup[side][level][i];
                let Some(place) = self.tlbs[array].find(address, self.tag) else { continue };
                let (entry, mask) = self.tlbs[array].get(place);
                if self.allowed[kind as usize] >> entry.rights.index() & 1 == 0 {
                    denied = true;
                    continue;
                }
                self.tlbs[array].touch(place);
                if level == 0 {
                    self.remember(side, address, array, place);
                } else {
                    self.fill_level(0, side, address, mask, entry);
                }
                let machine = entry.machine.plus(address.raw() & entry.size.offset_mask());
                return Ok(self.hit(level, kind, entry.size, machine));
            }
        }
        if denied {
            // The processor may not use the entry for this; it walks anew, and the old entry goes (SDM vol. 3,
            // 4.10.4.1 on page faults; a first store through a clean entry sets the dirty bit by such a walk).
            self.drop_address(address);
            self.bank().rewalks += 1;
        }
        let leaf = self.walk(memory, address, kind)?;
        self.fill(side, address, &leaf);
        Ok(self.data(kind, leaf.machine.plus(address.raw() & leaf.size.offset_mask())))
    }

    fn drop_address(&mut self, address: Virtual) {
        let tag = self.tag;
        for tlb in &mut self.tlbs {
            tlb.forget_address(address, |slot| slot.serves(tag));
        }
    }

    fn walk<M: Memory>(&mut self, memory: &mut M, address: Virtual, kind: Kind) -> Result<Leaf, Stop<M::Error>> {
        let access = self.access_of(kind);
        let bank = &mut self.counters.banks[self.bank];
        let mut unit = Unit { memory, parts: &mut self.parts, bank, tag: self.tag, cycles: 0 };
        let outcome = self.context.tables.walk(address, access, &mut unit);
        let cycles = unit.cycles;
        bank.walk_cycles[kind as usize] += cycles;
        match &outcome {
            Ok(leaf) => {
                bank.fills[kind as usize][leaf.size as usize] += 1;
                match leaf.host {
                    Some(host) => bank.fills_nested[leaf.guest as usize][host as usize] += 1,
                    None => bank.fills_flat[leaf.size as usize] += 1,
                }
            }
            Err(Stop::Fault(Fault { reason, .. })) => {
                bank.faults[kind as usize] += 1;
                bank.fault_reasons[*reason as usize] += 1;
            }
            Err(_) => {}
        }
        outcome
    }

    #[inline]
    fn fill(&mut self, side: usize, address: Virtual, leaf: &Leaf) {
        let mask = if leaf.global && self.context.control.pge { !tag::PCID } else { u64::MAX };
        let Leaf { machine, size, guest, rights, .. } = *leaf;
        let entry = Translation { machine, rights, size, leaf: guest };
        self.fill_level(1, side, address, mask, entry);
        self.fill_level(0, side, address, mask, entry);
    }

    /// Put an entry into the array of this level that takes it, if there is one.
    #[inline]
    fn fill_level(&mut self, level: usize, side: usize, address: Virtual, mask: u64, entry: Translation) {
        for i in 0..self.lookup[side][level].len() {
            let array = self.lookup[side][level][i];
            let Some(entry) = self.fitting(level, side, array, address, entry) else { continue };
            let place = self.tlbs[array].insert(address, self.tag, mask, entry);
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
        entry: Translation,
    ) -> Option<Translation> {
        let held = |size| self.lookup[side][level].iter().any(|&a| self.tlbs[a].holds(size));
        let mut size = entry.size;
        while !held(size) {
            let smaller = match size {
                PageSize::G1 if level == 0 || self.splits_1g => PageSize::M2,
                PageSize::M2 if level == 0 => PageSize::K4,
                _ => return None,
            };
            size = smaller;
        }
        let within = address.raw() & entry.size.offset_mask() & !size.offset_mask();
        self.tlbs[array].holds(size).then(|| Translation { machine: entry.machine.plus(within), size, ..entry })
    }

    /// Forget what spares looking things up. It changes no result, which is what a test needs it for.
    pub fn forget_shortcuts(&mut self) {
        self.last = Last::default();
        self.recents = Default::default();
    }

    /// Note where the page of this address is, in a first-level array.
    #[inline]
    fn remember(&mut self, side: usize, address: Virtual, array: usize, place: usize) {
        let tlb = &self.tlbs[array];
        let (Translation { machine, rights, size, .. }, _) = tlb.get(place);
        let recent = Recent {
            tag: self.tag,
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
        self.tlbs.iter().map(|t| (t.name.as_str(), t.len())).collect()
    }
}
