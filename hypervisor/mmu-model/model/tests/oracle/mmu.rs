// SPDX-License-Identifier: MIT
//! The oracle: an MMU after the manuals and the README, with none of the model's data structures or shortcuts.

mod events;

use mmu_model::address::{Machine, PageSize};
use mmu_model::context::Kind;
use mmu_model::counters::Bank;
use mmu_model::cpu::{ArraySpec, Cpu, PartialSpec, Side, TlbSpec};
use mmu_model::invalidate::Cause;
use mmu_model::synthetic::Pages;
use mmu_model::walk::{Dimension, Reason};
use mmu_model::x86::{Context, Levels, Tables};

use crate::naive::{Entry, Half, HostPage, Lines, Rights, Sets, Space};

/// What is wrong, in whose table, at which level, and with which address of it.
type Fault = (Reason, Dimension, u8, u64);

struct Found {
    machine: u64,
    size: PageSize,
    guest: PageSize,
    host: Option<PageSize>,
    rights: Rights,
    global: bool,
}

/// One tree of tables.
#[derive(Clone, Copy)]
struct Tree {
    dimension: Dimension,
    root: u64,
    levels: u8,
    nxe: bool,
}

/// A walk down one tree: each entry read, with its level, address and content, and what is known below it.
struct Way {
    steps: Vec<(u8, u64, u64, Option<Half>)>,
    frame: u64,
    size: PageSize,
    rights: Rights,
    global: bool,
}

pub struct Oracle {
    cpu: Cpu,
    pub memory: Pages,
    tlbs: Vec<(TlbSpec, Sets<Entry>)>,
    halves: Vec<(PartialSpec, Sets<Half>)>,
    host_halves: Vec<(PartialSpec, Sets<Half>)>,
    nested: Sets<HostPage>,
    caches: Vec<Lines>,
    context: Context,
    space: Space,
    roots: Vec<Machine>,
    pub bank: Bank,
}

const fn prefix(address: u64, level: u8) -> u64 {
    (address & ((1 << 57) - 1)) >> (12 + 9 * (level - 1))
}

impl Oracle {
    pub fn new(cpu: &Cpu, memory: Pages, context: &Context) -> Self {
        let partial = |specs: &[PartialSpec]| {
            specs.iter().map(|s| (s.clone(), Sets::new(s.entries, s.ways, s.replacement))).collect()
        };
        let ArraySpec { entries, ways, replacement, .. } = *cpu.nested_tlb.as_ref().unwrap();
        let mut new = Self {
            memory,
            tlbs: cpu.tlb.iter().map(|s| (s.clone(), Sets::new(s.entries, s.ways, s.replacement))).collect(),
            halves: partial(&cpu.partial),
            host_halves: partial(&cpu.host_partial),
            nested: Sets::new(entries, ways, replacement),
            caches: [&cpu.cache.l1, &cpu.cache.l2, &cpu.cache.l3].map(|c| Lines::new(c.as_ref().unwrap())).into(),
            cpu: cpu.clone(),
            context: *context,
            space: Space { asid: 0, root: 0, pcid: 0 },
            roots: vec![],
            bank: Bank::default(),
        };
        new.set_context(context);
        new
    }

    pub fn set_context(&mut self, context: &Context) {
        let mut root_number = 0;
        if let Tables::Nested { root, .. } = context.tables {
            // The last one used is at the end.
            if self.roots.last().is_some_and(|last| *last != root) {
                self.bank.flushes[Cause::NestedRoot as usize] += 1;
            }
            self.roots.retain(|known| *known != root);
            self.roots.push(root);
            // Any number that differs from other roots'.
            root_number = if self.cpu.nested_root_tags.holds { (root.raw() >> 24) as u16 } else { 0 };
        }
        self.context = *context;
        self.space = Space { asid: context.asid, root: root_number, pcid: context.pcid };
    }

    /// One access: the machine address, or what is wrong.
    pub fn access(&mut self, address: u64, kind: Kind) -> Result<u64, Fault> {
        let k = kind as usize;
        let mut denied = false;
        for level in [1, 2] {
            let Some(entry) = self.look_up(level, address, kind, &mut denied) else { continue };
            if level == 2 {
                let page = address & !entry.whole.offset_mask();
                let machine = entry.machine & !entry.whole.offset_mask();
                self.fill(1, kind, address, Entry { page, size: entry.whole, machine, ..entry });
            }
            self.bank.hits[level as usize - 1][k][entry.size.index()] += 1;
            return Ok(self.data(kind, entry.machine + (address & entry.size.offset_mask())));
        }
        if denied {
            self.forget_page(address);
            self.bank.rewalks += 1;
        }
        let mut outcome = self.walk(address, kind);
        if self.forget_fault(address, &outcome) && self.cpu.confirms_faults.holds {
            outcome = self.walk(address, kind);
            self.forget_fault(address, &outcome);
        }
        let found = outcome.inspect_err(|(reason, ..)| {
            self.bank.faults[k] += 1;
            self.bank.fault_reasons[*reason as usize] += 1;
        })?;
        self.bank.fills[k][found.size.index()] += 1;
        match found.host {
            Some(host) => self.bank.fills_nested[found.guest.index()][host.index()] += 1,
            None => self.bank.fills_flat[found.size.index()] += 1,
        }
        let entry = Entry {
            page: address & !found.size.offset_mask(),
            size: found.size,
            space: self.space,
            global: found.global && self.context.control.pge,
            machine: found.machine,
            rights: found.rights,
            whole: found.size,
            leaf: found.guest,
        };
        self.fill(2, kind, address, entry);
        self.fill(1, kind, address, entry);
        Ok(self.data(kind, found.machine + (address & found.size.offset_mask())))
    }

    fn data(&mut self, kind: Kind, machine: u64) -> u64 {
        if kind != Kind::Fetch {
            let served = self.read_line(machine);
            self.bank.data_served[served] += 1;
        }
        machine
    }

    /// Which cache has the line, 3 being memory; it and those before it have it afterwards, as the last used.
    fn read_line(&mut self, machine: u64) -> usize {
        self.caches.iter_mut().position(|cache| cache.read(machine)).unwrap_or(3)
    }

    /// The arrays of a level that an access of this kind looks into.
    fn arrays(&self, level: u8, kind: Kind) -> Vec<usize> {
        let side = if kind == Kind::Fetch { Side::Instruction } else { Side::Data };
        let spec = |i: usize| &self.tlbs[i].0;
        (0..self.tlbs.len())
            .filter(|i| spec(*i).level == level && [side, Side::Both].contains(&spec(*i).side))
            .collect()
    }

    fn look_up(&mut self, level: u8, address: u64, kind: Kind, denied: &mut bool) -> Option<Entry> {
        for array in self.arrays(level, kind) {
            let (spec, sets) = &mut self.tlbs[array];
            let found = spec.sizes().unwrap().into_iter().find_map(|size| {
                let (number, page) = (address / size.bytes(), address & !size.offset_mask());
                let space = self.space;
                let (way, entry) = sets.find(number, |e| e.page == page && e.size == size && e.serves(space))?;
                Some((number, way, entry))
            });
            let Some((number, way, entry)) = found else { continue };
            if self.allowed(entry.rights, kind) && (kind != Kind::Store || entry.rights.dirty) {
                self.tlbs[array].1.touch(number, way);
                return Some(entry);
            }
            *denied = true;
        }
        None
    }

    /// Put a page into the array of the level that has room for its size, or for a smaller piece of it.
    fn fill(&mut self, level: u8, kind: Kind, address: u64, whole: Entry) {
        let mut size = whole.size;
        loop {
            let arrays = self.arrays(level, kind);
            let holder = arrays.into_iter().find(|i| self.tlbs[*i].0.sizes().unwrap().contains(&size));
            if let Some(array) = holder {
                let page = address & !size.offset_mask();
                let entry = Entry { page, size, machine: whole.machine + (page - whole.page), ..whole };
                let space = self.space;
                let like = |e: &Entry| e.page == page && e.size == size && e.serves(space);
                return self.tlbs[array].1.put(address / size.bytes(), like, entry);
            }
            size = match size {
                PageSize::G1 if level == 1 || self.cpu.second_level_splits_1g.holds => PageSize::M2,
                PageSize::M2 if level == 1 => PageSize::K4,
                _ => return,
            };
        }
    }

    fn allowed(&self, rights: Rights, kind: Kind) -> bool {
        let (user, control) = (self.context.user, self.context.control);
        match kind {
            _ if user && !rights.user => false,
            Kind::Load => user || !(rights.user && control.smap),
            Kind::Store if user => rights.write && rights.host_write,
            Kind::Store => rights.host_write && (rights.write || !control.wp) && !(rights.user && control.smap),
            Kind::Fetch => !rights.no_execute && (user || !(rights.user && control.smep)),
        }
    }

    fn forget_page(&mut self, address: u64) -> u64 {
        let space = self.space;
        self.tlbs.iter_mut().map(|(_, sets)| sets.forget(|e| e.is_of_leaf_at(address) && e.serves(space))).sum()
    }

    fn forget_fault(&mut self, address: u64, outcome: &Result<Found, Fault>) -> bool {
        let Err((_, dimension, _, translated)) = *outcome else { return false };
        let (space, host_space) = (self.space, Space { pcid: 0, ..self.space });
        let mut gone = self.forget_page(address);
        let leads = |half: &Half, to: u64| half.prefix == prefix(to, half.level);
        for (_, sets) in &mut self.halves {
            gone += sets.forget(|half| half.space == space && leads(half, address));
        }
        if dimension == Dimension::Host {
            for (_, sets) in &mut self.host_halves {
                gone += sets.forget(|half| half.space == host_space && leads(half, translated));
            }
            gone += self.nested.forget(|e| e.space == host_space && e.page == translated & !e.size.offset_mask());
        }
        gone > 0
    }
}

/// Walks.
impl Oracle {
    fn walk(&mut self, address: u64, kind: Kind) -> Result<Found, Fault> {
        let nxe = self.context.control.nxe;
        let tree = |dimension, root, levels: Levels, nxe| Tree { dimension, root, levels: levels as u8, nxe };
        match self.context.tables {
            Tables::Off | Tables::Nested { guest: None, .. } => unreachable!("paging is on"),
            Tables::Flat { root, levels } => {
                let tree = tree(Dimension::Flat, root.raw(), levels, nxe);
                let way = self.go_down(tree, None, address, kind)?;
                let found = self.allow(tree, &way, address, kind)?;
                let dirty = self.mark(tree, &way, kind);
                let rights = Rights { dirty, ..found };
                let Way { frame: machine, size, global, .. } = way;
                Ok(Found { machine, size, guest: size, host: None, rights, global })
            }
            Tables::Nested { guest: Some((root, levels)), root: host_root, levels: host_levels, nxe: host_nxe } => {
                let host = tree(Dimension::Host, host_root.raw(), host_levels, host_nxe);
                let tree = tree(Dimension::Guest, root.raw(), levels, nxe);
                let way = self.go_down(tree, Some(host), address, kind)?;
                let found = self.allow(tree, &way, address, kind)?;
                let behind = self.host(host, way.frame + (address & way.size.offset_mask()), kind, kind)?;
                let dirty = self.mark(tree, &way, kind) && behind.rights.dirty;
                let size = way.size.min(behind.size);
                let guest_physical = way.frame + (address & way.size.offset_mask());
                let machine = behind.machine + (guest_physical - behind.page) & !size.offset_mask();
                let no_execute = found.no_execute || behind.rights.no_execute;
                let rights = Rights { dirty, no_execute, host_write: behind.rights.write, ..found };
                Ok(Found { machine, size, guest: way.size, host: Some(behind.size), rights, global: way.global })
            }
        }
    }

    /// The tree's own rights, if they allow the access. What the host allows is asked later.
    fn allow(&self, tree: Tree, way: &Way, address: u64, kind: Kind) -> Result<Rights, Fault> {
        let rights = Rights { host_write: true, ..way.rights };
        if self.allowed(rights, kind) { Ok(rights) } else { Err((Reason::Denied, tree.dimension, 0, address)) }
    }

    /// Read entries down to the leaf, from the deepest half walk remembered. `whose` is the access that it is for.
    fn go_down(&mut self, tree: Tree, host: Option<Tree>, address: u64, whose: Kind) -> Result<Way, Fault> {
        let fault = |reason, level| Err((reason, tree.dimension, level, address));
        let above = address as i64 >> (12 + 9 * tree.levels - 1);
        if (tree.dimension == Dimension::Host && above >> 1 != 0)
            || (tree.dimension != Dimension::Host && above != 0 && above != -1)
        {
            return fault(Reason::NonCanonical, 0);
        }
        let (mut level, mut table, mut rights) = if let Some(half) = self.recall(tree, address) {
            (half.level - 1, half.table, half.rights)
        } else {
            let all = Rights { user: true, write: true, ..Rights::default() };
            (tree.levels, self.place(host, tree.root, whose)?, all)
        };
        let mut steps = vec![];
        loop {
            let at = table + 8 * (address >> (12 + 9 * (level - 1)) & 511);
            let entry = self.reference(tree.dimension, level, at, whose);
            let bit = |n: u32| entry >> n & 1 == 1;
            if !bit(0) {
                return fault(Reason::NotPresent, level);
            }
            let leaf = level == 1 || bit(7);
            let mut reserved: Vec<u32> = (u32::from(self.context.control.physical_bits)..52).collect();
            reserved.extend((!tree.nxe).then_some(63));
            reserved.extend((level > 3).then_some(7));
            if leaf && (level == 2 || level == 3) {
                reserved.extend(13..12 + 9 * (u32::from(level) - 1));
            }
            if reserved.into_iter().any(bit) {
                return fault(Reason::Reserved, level);
            }
            rights.user &= bit(2);
            rights.write &= bit(1);
            rights.no_execute |= bit(63);
            let frame = entry & 0x000f_ffff_ffff_f000;
            if leaf {
                steps.push((level, at, entry, None));
                let size = PageSize::of_level(level).unwrap();
                return Ok(Way { steps, frame: frame & !size.offset_mask(), size, rights, global: bit(8) });
            }
            table = self.place(host, frame, whose)?;
            let half = Half { level, prefix: prefix(address, level), space: self.space_of(tree), table, rights };
            steps.push((level, at, entry, Some(half)));
            level -= 1;
        }
    }

    fn space_of(&self, tree: Tree) -> Space {
        let pcid = if tree.dimension == Dimension::Host { 0 } else { self.space.pcid };
        Space { pcid, ..self.space }
    }

    /// Where a table is: with a host, its walker writes there, since it may set accessed bits.
    fn place(&mut self, host: Option<Tree>, table: u64, whose: Kind) -> Result<u64, Fault> {
        let Some(host) = host else { return Ok(table) };
        let page = self.host(host, table, Kind::Store, whose)?;
        Ok(page.machine + (table - page.page))
    }

    /// The host's page behind a guest-physical address, for a use of this kind.
    fn host(&mut self, tree: Tree, address: u64, kind: Kind, whose: Kind) -> Result<HostPage, Fault> {
        let denied =
            |r: Rights| !r.user || (kind == Kind::Store && !r.write) || (kind == Kind::Fetch && r.no_execute);
        let space = self.space_of(tree);
        let known = PageSize::ALL.into_iter().find_map(|size| {
            let (number, page) = (address / size.bytes(), address & !size.offset_mask());
            let (way, e) = self.nested.find(number, |e| e.page == page && e.size == size && e.space == space)?;
            Some((number, way, e))
        });
        match known {
            Some((number, way, page)) => {
                self.nested.touch(number, way);
                self.bank.nested_hits += 1;
                if !denied(page.rights) && (kind != Kind::Store || page.rights.dirty) {
                    return Ok(page);
                }
            }
            None => self.bank.nested_misses += 1,
        }
        let way = self.go_down(tree, None, address, whose)?;
        if denied(way.rights) {
            return Err((Reason::Denied, Dimension::Host, 0, address));
        }
        let dirty = self.mark(tree, &way, kind);
        let rights = Rights { dirty, ..way.rights };
        let (size, page) = (way.size, address & !way.size.offset_mask());
        let new = HostPage { page, size, space, machine: way.frame, rights };
        let like = |e: &HostPage| e.page == page && e.size == size && e.space == space;
        self.nested.put(address / size.bytes(), like, new);
        Ok(new)
    }

    fn reference(&mut self, dimension: Dimension, level: u8, at: u64, whose: Kind) -> u64 {
        let served = self.read_line(at);
        let cost = &self.cpu.cost;
        let cycles = [cost.l1_cycles, cost.l2_cycles, cost.l3_cycles, cost.memory_cycles][served];
        self.bank.served[served] += 1;
        self.bank.refs[dimension as usize][usize::from(level) - 1] += 1;
        self.bank.walk_cycles[whose as usize] += cycles;
        self.bank.host_walk_cycles += if dimension == Dimension::Host { cycles } else { 0 };
        self.memory.get(Machine::new(at))
    }

    /// Set accessed and dirty bits on the way, and remember it; whether the leaf is dirty now.
    fn mark(&mut self, tree: Tree, way: &Way, kind: Kind) -> bool {
        for &(_, at, entry, half) in &way.steps {
            let wanted = 1 << 5 | if half.is_none() && kind == Kind::Store { 1 << 6 } else { 0 };
            if entry & wanted != wanted {
                let at = Machine::new(at);
                let value = self.memory.get(at);
                self.memory.write(at, value | wanted);
            }
            let Some(half) = half else { continue };
            let host = tree.dimension == Dimension::Host;
            let caches = if host { &mut self.host_halves } else { &mut self.halves };
            for (_, sets) in caches.iter_mut().filter(|(spec, _)| spec.levels.contains(&half.level)) {
                let like = |e: &Half| e.level == half.level && e.prefix == half.prefix && e.space == half.space;
                sets.put(half.prefix, like, half);
            }
        }
        kind == Kind::Store || way.steps.last().unwrap().2 >> 6 & 1 == 1
    }

    /// The deepest half walk known; all that are known for the address have been used.
    fn recall(&mut self, tree: Tree, address: u64) -> Option<Half> {
        let space = self.space_of(tree);
        let host = tree.dimension == Dimension::Host;
        let caches = if host { &mut self.host_halves } else { &mut self.halves };
        let mut known: Vec<Half> = vec![];
        for (spec, sets) in caches {
            let mut levels = spec.levels.clone();
            levels.sort_unstable();
            for level in levels.into_iter().filter(|level| *level <= tree.levels) {
                let prefix = prefix(address, level);
                let wanted = |e: &Half| e.level == level && e.prefix == prefix && e.space == space;
                let Some((way, half)) = sets.find(prefix, wanted) else { continue };
                sets.touch(prefix, way);
                known.push(half);
            }
        }
        let deepest = known.into_iter().min_by_key(|half| half.level)?;
        let hits = if host { &mut self.bank.host_partial_hits } else { &mut self.bank.partial_hits };
        hits[usize::from(deepest.level) - 1] += 1;
        Some(deepest)
    }
}
