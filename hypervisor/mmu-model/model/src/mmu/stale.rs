// SPDX-License-Identifier: MIT
//! What an x86-64 processor remembers though the tables no longer say so: where software has to have flushed, the sign
//! that it has not.

use super::Mmu;
use crate::address::{Machine, Virtual};
use crate::context::Kind;
use crate::memory::Memory;
use crate::tag;
use crate::tlb::{Tlb, Translation};
use crate::walk::{Place, Rights, Stop};
use crate::x86::steps::{Access, Steps, Walker};
use crate::x86::{Context, Tables, bit, narrowed};

/// What one entry of a table says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    /// Level of the table that the entry is in, 1 being the last.
    pub level: u8,
    /// It maps a page; else it leads to the next table.
    pub leaf: bool,
    /// Where the page or the table begins.
    pub machine: Machine,
    /// What this entry and those above it allow.
    pub rights: Rights,
}

impl Said {
    /// Whether all that it lets one reach could be reached by the other in the same way. Dirty bits are left out: that a
    /// page has been written is no right.
    fn within(self, tables: Self) -> bool {
        let more = |right| self.rights.has(right) && !tables.rights.has(right);
        let executes = !self.rights.has(Rights::NO_EXECUTE) && tables.rights.has(Rights::NO_EXECUTE);
        (self.level, self.leaf, self.machine) == (tables.level, tables.leaf, tables.machine)
            && !more(Rights::USER)
            && !more(Rights::WRITE)
            && !executes
    }
}

/// Something that is remembered, and that the tables do not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The first address that it serves.
    pub address: Virtual,
    /// What is remembered.
    pub held: Said,
    /// What a walk of the tables finds in its place, if anything.
    pub tables: Option<Said>,
}

/// What came of comparing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Looked {
    /// So many translations and half walks were compared.
    pub entries: u64,
    /// These the tables do not say.
    pub stale: Vec<Stale>,
}

impl Mmu {
    /// Compares all that is remembered under the context's ASID with its tables, and changes nothing. Of tables with
    /// another dimension behind them nothing is compared.
    ///
    /// It is for a moment at which software must have flushed what it took away: such as a VMRUN, whose guest has no
    /// part in the tables that the hardware walks for it. Rights that were given since may be missing, as the manuals let
    /// them: an access that an entry denies walks anew.
    pub fn stale<M: Memory>(&self, memory: &mut M, context: &Context) -> Looked {
        let mut looked = Looked::default();
        if !matches!(context.tables, Tables::Flat { .. }) {
            return looked;
        }
        let mut compare = |address, until, held: Said| {
            looked.entries += 1;
            let tables = says(memory, context, address, until);
            if !tables.is_some_and(|tables| held.within(tables)) {
                looked.stale.push(Stale { address, held, tables });
            }
        };
        let asid = tag::pack(context.asid, 0, 0);
        for (address, slot) in self.parts.tlbs.iter().flat_map(Tlb::entries) {
            if (slot.tag ^ asid) & tag::ASID == 0 {
                compare(address, 1, leaf(&slot.value));
            }
        }
        for (address, level, partial) in self.organisation.half_walks(context.asid) {
            compare(address, level, Said { level, leaf: false, machine: partial.table, rights: partial.rights });
        }
        looked
    }
}

/// The leaf that an entry, or the larger page of which it is a piece, came of.
fn leaf(entry: &Translation) -> Said {
    Said {
        level: (entry.leaf.shift() / 9) as u8,
        leaf: true,
        machine: Machine::new(entry.machine.raw() & !entry.leaf.offset_mask()),
        rights: entry.rights,
    }
}

/// What the tables say of an address, down to this level or to the leaf; none where a processor finds nothing.
fn says<M: Memory>(memory: &mut M, context: &Context, address: Virtual, until: u8) -> Option<Said> {
    // What a supervisor may always do, so that no rights end the walk.
    let mut control = context.control;
    control.smap = false;
    let access = Access { kind: Kind::Load, user: false, control };
    let mut reading = Reading { memory, entries: vec![] };
    let outcome = context.tables.walk(address, access, &mut reading);
    let mut entries = reading.entries;
    if let Err(Stop::Fault(fault)) = outcome {
        entries.retain(|(level, _)| *level != fault.level);
    }
    let mut rights = Rights::USER.and(Rights::WRITE);
    for (level, entry) in entries {
        rights = narrowed(rights, entry);
        let leaf = level == 1 || entry & bit::LARGE != 0;
        if leaf || level == until {
            let within = if leaf { (1 << (3 + 9 * u32::from(level))) - 1 } else { 0 };
            return Some(Said { level, leaf, machine: Machine::new(entry & bit::FRAME & !within), rights });
        }
    }
    None
}

/// Reads tables, keeps what it read, and leaves them as they are.
struct Reading<'a, M> {
    memory: &'a mut M,
    entries: Vec<(u8, u64)>,
}

impl<M: Memory> Steps for Reading<'_, M> {
    type Error = M::Error;

    fn read(&mut self, place: Place, at: Machine) -> Result<u64, M::Error> {
        let entry = self.memory.read(at)?;
        self.entries.push((place.level, entry));
        Ok(entry)
    }

    fn set_bits(&mut self, _at: Machine, _bits: u64) -> Result<(), M::Error> {
        Ok(())
    }
}
