// SPDX-License-Identifier: MIT
//! x86-64: tables of four and five levels, alone and nested, walked by hardware with paging-structure caches.

mod events;
pub mod steps;
mod tables;
mod unit;
mod walk;

use std::collections::HashMap;

use crate::address::{Machine, Virtual};
use crate::cache::Hierarchy;
use crate::context::{Kind, Layer};
use crate::cpu::Cpu;
use crate::invalidate::{Cause, Reach};
use crate::memory::Memory;
use crate::organisation::{Organisation, Port, Refill, Regime};
use crate::tag;
use crate::tlb::Translation;
use crate::walk::{Leaf, Rights, Stop};
pub use events::Event;
use steps::{Access, Walker};
pub use tables::{Context, Control, Levels, Tables};
use unit::{Parts, Unit};
pub(crate) use walk::narrowed;

/// Bits of a page-table entry (SDM vol. 3, 4.5; APM vol. 2, 5.3).
pub mod bit {
    /// Present.
    pub const PRESENT: u64 = 1;
    /// Writable.
    pub const WRITE: u64 = 1 << 1;
    /// For user code.
    pub const USER: u64 = 1 << 2;
    /// Has been walked.
    pub const ACCESSED: u64 = 1 << 5;
    /// A leaf that has been written through.
    pub const DIRTY: u64 = 1 << 6;
    /// A leaf above the last level.
    pub const LARGE: u64 = 1 << 7;
    /// A leaf that a change of CR3 leaves in the TLB.
    pub const GLOBAL: u64 = 1 << 8;
    /// Not executable.
    pub const NO_EXECUTE: u64 = 1 << 63;
    /// Where the next table or the page is.
    pub const FRAME: u64 = 0x000f_ffff_ffff_f000;
}

/// The organisation, on one processor.
#[derive(Clone, Debug)]
pub struct X86 {
    parts: Parts,
    /// The last context's ASID.
    asid: u16,
    roots: HashMap<Machine, u16>,
    last_root: Option<Machine>,
    asid_tags: bool,
    root_tags: bool,
    confirms_faults: bool,
}

impl X86 {
    /// As this processor has it, with nothing remembered.
    pub fn new(cpu: &Cpu) -> Self {
        Self {
            parts: Parts::new(cpu),
            asid: 0,
            roots: HashMap::new(),
            last_root: None,
            asid_tags: cpu.asid_tags.holds,
            root_tags: cpu.nested_root_tags.holds,
            confirms_faults: cpu.confirms_faults.holds,
        }
    }

    /// Half walks under an ASID: an address that they lead to, the level of their last entry, and what it said.
    pub(crate) fn half_walks(&self, asid: u16) -> impl Iterator<Item = (Virtual, u8, steps::Partial)> {
        self.parts.half_walks(asid)
    }

    /// Number the nested root; notes in the regime what that brings about.
    fn root_number(&mut self, tables: &Tables, regime: &mut Regime) -> u16 {
        let Tables::Nested { root, .. } = *tables else { return 0 };
        if self.last_root.is_some_and(|last| last != root) {
            regime.noted = Some(Cause::NestedRoot);
        }
        self.last_root = Some(root);
        if !self.root_tags {
            return 0;
        }
        // Numbers are given in order of appearance; after 65,535 roots they would repeat, and all is forgotten.
        if self.roots.len() >= usize::from(u16::MAX) && !self.roots.contains_key(&root) {
            self.roots.clear();
            regime.flushes += 1;
        }
        let next = self.roots.len() as u16 + 1;
        *self.roots.entry(root).or_insert(next)
    }

    fn walk<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: Virtual,
        kind: Kind,
    ) -> Result<Leaf, Stop<M::Error>> {
        let access = context.access(kind);
        port.cycles = 0;
        let outcome = context.tables.walk(address, access, &mut Unit { port, parts: &mut self.parts });
        port.bank.walk_cycles[kind as usize] += port.cycles;
        outcome
    }

    /// If a walk has faulted, forget what may have led to it: the page's entries in all TLBs, and what is remembered of
    /// half walks (SDM vol. 3, 4.10.4.1 and, of nested faults, 29.4.3.1; APM vol. 2, 5.5.2). Whether there was any.
    fn forget_fault<T, M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        outcome: &Result<T, Stop<M::Error>>,
        address: Virtual,
    ) -> bool {
        let Err(Stop::Fault(fault)) = outcome else { return false };
        let gone = port.drop_address(address);
        gone + self.parts.forget_fault(*fault, address, port.tag) > 0
    }
}

impl Context {
    /// What an access of this kind needs.
    pub fn access(&self, kind: Kind) -> Access {
        let mut control = self.control;
        if let Tables::Nested { guest: None, .. } = self.tables {
            // SMEP and SMAP need paging.
            (control.smep, control.smap) = (false, false);
        }
        Access { kind, user: self.user, control }
    }

    /// For each kind, one bit for each combination of rights that needs no walk.
    pub fn allowed(&self) -> [u32; Kind::COUNT] {
        let mut allowed = [0; Kind::COUNT];
        for kind in Kind::ALL {
            let access = self.access(kind);
            for i in 0..Rights::COMBINATIONS {
                let rights = Rights::from_index(i);
                let may = access.allowed_by(rights) && (kind != Kind::Store || rights.has(Rights::DIRTY));
                allowed[kind as usize] |= u32::from(may) << i;
            }
        }
        allowed
    }
}

impl Organisation for X86 {
    type Context = Context;
    type Event = Event;
    type Entry = Translation;
    type Caches = Hierarchy;

    fn runs(context: &Context) -> (Layer, u64) {
        (context.layer, context.space)
    }

    fn regime(&mut self, context: &Context) -> Regime {
        let mut regime = Regime { translated: context.tables != Tables::Off, ..Regime::default() };
        let root = self.root_number(&context.tables, &mut regime);
        let asid = if self.asid_tags { context.asid } else { 0 };
        regime.tag = tag::pack(asid, root, context.pcid);
        // Where the address space changes and there are no tags to tell them apart, all goes.
        regime.flushes += u8::from(!self.asid_tags && context.asid != self.asid);
        self.asid = context.asid;
        regime.allowed = context.allowed();
        regime
    }

    fn refill<M: Memory>(
        &mut self,
        port: &mut Port<'_, Self, M>,
        context: &Context,
        address: Virtual,
        kind: Kind,
    ) -> Result<Refill<Translation>, Stop<M::Error>> {
        let mut outcome = self.walk(port, context, address, kind);
        if self.forget_fault(port, &outcome, address) && self.confirms_faults {
            outcome = self.walk(port, context, address, kind);
            self.forget_fault(port, &outcome, address);
        }
        let leaf = outcome?;
        let Leaf { machine, size, guest, rights, .. } = leaf;
        let mask = if leaf.global && context.control.pge { !tag::PCID } else { u64::MAX };
        Ok(Refill { leaf, entry: Translation { machine, rights, size, whole: size, leaf: guest }, mask })
    }

    fn reach(event: Event, regime: u64) -> Option<(Cause, Option<Reach>)> {
        event.reach(regime)
    }

    fn abandons(event: Event) -> Option<(u64, u64)> {
        let Event::AsidChange { from } = event else { return None };
        Some((tag::pack(from, 0, 0), tag::ASID))
    }

    fn forget(&mut self, reach: &Reach) -> u64 {
        self.parts.forget(reach)
    }
}
