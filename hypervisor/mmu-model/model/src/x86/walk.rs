// SPDX-License-Identifier: MIT
//! Walks of x86-64 page tables of four and five levels, alone and nested.

use crate::address::{GuestPhysical, Machine, PageSize, Virtual};
use crate::context::Kind;
use crate::walk::{Dimension, Fault, Leaf, Place, Reason, Rights, Stop};
use crate::x86::bit;
use crate::x86::steps::{Access, HostLeaf, Partial, Steps, Walker};
use crate::x86::tables::{Levels, Tables};

/// One tree of tables.
#[derive(Clone, Copy)]
struct Tree {
    dimension: Dimension,
    root: u64,
    levels: u8,
    nxe: bool,
    physical_bits: u8,
}

/// Entries on the way: addresses, contents and what a paging-structure cache keeps of them.
#[derive(Default)]
struct Path {
    entries: [(u64, u64); 5],
    partials: [(u8, Partial); 5],
    length: usize,
}

struct Found {
    frame: u64,
    size: PageSize,
    rights: Rights,
    global: bool,
    path: Path,
}

impl Tree {
    fn fault(&self, reason: Reason, level: u8) -> Fault {
        Fault { reason, dimension: self.dimension, level }
    }

    fn reserved(&self, entry: u64, level: u8) -> bool {
        let beyond = bit::FRAME & !((1 << self.physical_bits) - 1);
        let no_execute = if self.nxe { 0 } else { bit::NO_EXECUTE };
        let shape = match (level, entry & bit::LARGE != 0) {
            (4 | 5, _) => bit::LARGE,
            (3, true) => 0x3fff_e000,
            (2, true) => 0x001f_e000,
            _ => 0,
        };
        entry & (beyond | no_execute | shape) != 0
    }

    /// Walk down to the leaf. `resolve` finds the machine address of a table from what points to it.
    fn descend<S: Steps>(
        &self,
        address: u64,
        steps: &mut S,
        mut resolve: impl FnMut(&mut S, u64) -> Result<Machine, Stop<S::Error>>,
    ) -> Result<Found, Stop<S::Error>> {
        let mut path = Path::default();
        let (mut level, mut table, mut rights) = match steps.recall(self.dimension, address, self.levels) {
            Some((level, partial)) => (level - 1, partial.table, partial.rights),
            None => (self.levels, resolve(steps, self.root)?, Rights::USER.and(Rights::WRITE)),
        };
        loop {
            let index = address >> (3 + 9 * u32::from(level)) & 0x1ff;
            let at = table.plus(index * 8);
            let entry = steps.read(Place { dimension: self.dimension, level }, at).map_err(Stop::Memory)?;
            if entry & bit::PRESENT == 0 {
                return Err(self.fault(Reason::NotPresent, level).into());
            }
            if self.reserved(entry, level) {
                return Err(self.fault(Reason::Reserved, level).into());
            }
            rights = narrowed(rights, entry);
            path.entries[path.length] = (at.raw(), entry);
            if level == 1 || entry & bit::LARGE != 0 {
                path.length += 1;
                let size = PageSize::of_level(level).expect("PS is reserved above level 3");
                return Ok(Found {
                    frame: entry & bit::FRAME & !size.offset_mask(),
                    size,
                    rights,
                    global: entry & bit::GLOBAL != 0,
                    path,
                });
            }
            table = resolve(steps, entry & bit::FRAME)?;
            path.partials[path.length] = (level, Partial { table, rights });
            path.length += 1;
            level -= 1;
        }
    }

    /// The walk has succeeded: set accessed and dirty bits, remember the way. Returns whether the leaf is dirty now.
    fn finish<S: Steps>(
        &self,
        address: u64,
        path: &Path,
        write: bool,
        steps: &mut S,
    ) -> Result<bool, Stop<S::Error>> {
        for (i, &(at, entry)) in path.entries[..path.length].iter().enumerate() {
            let leaf = i + 1 == path.length;
            let wanted = bit::ACCESSED | if leaf && write { bit::DIRTY } else { 0 };
            if entry & wanted != wanted {
                steps.set_bits(Machine::new(at), wanted & !entry).map_err(Stop::Memory)?;
            }
            if !leaf {
                let (level, partial) = path.partials[i];
                steps.keep(Place { dimension: self.dimension, level }, address, partial);
            }
        }
        let (_, leaf) = path.entries[path.length - 1];
        Ok(write || leaf & bit::DIRTY != 0)
    }
}

/// What is left of the rights above an entry.
pub(crate) const fn narrowed(rights: Rights, entry: u64) -> Rights {
    let mut lost = Rights::from_index(0);
    lost = lost.and_if(entry & bit::USER == 0, Rights::USER);
    lost = lost.and_if(entry & bit::WRITE == 0, Rights::WRITE);
    rights.without(lost).and_if(entry & bit::NO_EXECUTE != 0, Rights::NO_EXECUTE)
}

/// Whether all bits above the table's reach equal the topmost one within it.
const fn canonical(address: u64, levels: u8) -> bool {
    let unused = 64 - (12 + 9 * levels as u32);
    ((address << unused) as i64 >> unused) as u64 == address
}

/// The host's tables, as AMD's nested paging walks them: every access is a user access (APM vol. 2, 15.25.5).
struct Host(Tree);

impl Host {
    fn translate<S: Steps>(
        &self,
        address: GuestPhysical,
        kind: Kind,
        steps: &mut S,
    ) -> Result<HostLeaf, Stop<S::Error>> {
        let tree = &self.0;
        let address = address.raw();
        let denied = |rights: Rights| {
            !rights.has(Rights::USER)
                || (kind == Kind::Store && !rights.has(Rights::WRITE))
                || (kind == Kind::Fetch && rights.has(Rights::NO_EXECUTE))
        };
        if let Some(leaf) = steps.recall_nested(address) {
            // What is denied, or would set a dirty bit, is walked again.
            if !denied(leaf.rights) && (kind != Kind::Store || leaf.rights.has(Rights::DIRTY)) {
                return Ok(leaf);
            }
        }
        if address >> (12 + 9 * u32::from(tree.levels)) != 0 {
            return Err(tree.fault(Reason::NonCanonical, 0).into());
        }
        let found = tree.descend(address, steps, |_, table| Ok(Machine::new(table)))?;
        if denied(found.rights) {
            return Err(tree.fault(Reason::Denied, 0).into());
        }
        let dirty = tree.finish(address, &found.path, kind == Kind::Store, steps)?;
        let rights = found.rights.and_if(dirty, Rights::DIRTY);
        let leaf = HostLeaf { machine: Machine::new(found.frame), size: found.size, rights };
        steps.keep_nested(address, leaf);
        Ok(leaf)
    }

    /// Where the byte at this guest-physical address is. The walker's references to the guest's tables count as
    /// writes, since they may set accessed bits.
    fn table<S: Steps>(&self, address: u64, steps: &mut S) -> Result<Machine, Stop<S::Error>> {
        let leaf = self.translate(GuestPhysical::new(address), Kind::Store, steps)?;
        Ok(leaf.machine.plus(address & leaf.size.offset_mask()))
    }
}

impl Walker for Tables {
    fn walk<S: Steps>(&self, address: Virtual, access: Access, steps: &mut S) -> Result<Leaf, Stop<S::Error>> {
        let Access { control, kind, .. } = access;
        let flat = |dimension, root, levels: Levels, nxe| Tree {
            dimension,
            root,
            levels: levels as u8,
            nxe,
            physical_bits: control.physical_bits,
        };
        match *self {
            Tables::Off => Ok(Leaf {
                machine: Machine::new(address.raw() & !PageSize::K4.offset_mask()),
                size: PageSize::K4,
                guest: PageSize::K4,
                host: None,
                rights: Rights::from_index(Rights::COMBINATIONS - 1).without(Rights::NO_EXECUTE),
                global: false,
            }),
            Tables::Flat { root, levels } => {
                let tree = flat(Dimension::Flat, root.raw(), levels, control.nxe);
                walk_flat(&tree, address, access, steps)
            }
            Tables::Nested { guest, root, levels, nxe } => {
                let host = Host(flat(Dimension::Host, root.raw(), levels, nxe));
                match guest {
                    None => unpaged(&host, address, kind, steps),
                    Some((root, levels)) => {
                        let tree = flat(Dimension::Guest, root.raw(), levels, control.nxe);
                        walk_nested(&tree, &host, address, access, steps)
                    }
                }
            }
        }
    }
}

fn walk_flat<S: Steps>(tree: &Tree, address: Virtual, access: Access, steps: &mut S) -> Result<Leaf, Stop<S::Error>> {
    let address = address.raw();
    if !canonical(address, tree.levels) {
        return Err(tree.fault(Reason::NonCanonical, 0).into());
    }
    let found = tree.descend(address, steps, |_, table| Ok(Machine::new(table)))?;
    let rights = found.rights.and(Rights::HOST_WRITE);
    if !access.allowed_by(rights) {
        return Err(tree.fault(Reason::Denied, 0).into());
    }
    let dirty = tree.finish(address, &found.path, access.kind == Kind::Store, steps)?;
    Ok(Leaf {
        machine: Machine::new(found.frame),
        size: found.size,
        guest: found.size,
        host: None,
        rights: rights.and_if(dirty, Rights::DIRTY),
        global: found.global,
    })
}

fn walk_nested<S: Steps>(
    tree: &Tree,
    host: &Host,
    address: Virtual,
    access: Access,
    steps: &mut S,
) -> Result<Leaf, Stop<S::Error>> {
    let address = address.raw();
    if !canonical(address, tree.levels) {
        return Err(tree.fault(Reason::NonCanonical, 0).into());
    }
    let found = tree.descend(address, steps, |steps, table| host.table(table, steps))?;
    if !access.allowed_by(found.rights.and(Rights::HOST_WRITE)) {
        return Err(tree.fault(Reason::Denied, 0).into());
    }
    let guest_physical = found.frame | (address & found.size.offset_mask());
    let behind = host.translate(GuestPhysical::new(guest_physical), access.kind, steps)?;
    let guest_dirty = tree.finish(address, &found.path, access.kind == Kind::Store, steps)?;
    let size = found.size.min(behind.size);
    let within = guest_physical & behind.size.offset_mask() & !size.offset_mask();
    Ok(Leaf {
        machine: behind.machine.plus(within),
        size,
        guest: found.size,
        host: Some(behind.size),
        rights: found
            .rights
            .and_if(behind.rights.has(Rights::WRITE), Rights::HOST_WRITE)
            .and_if(behind.rights.has(Rights::NO_EXECUTE), Rights::NO_EXECUTE)
            .and_if(guest_dirty && behind.rights.has(Rights::DIRTY), Rights::DIRTY),
        global: found.global,
    })
}

/// The guest has paging off: its addresses are guest-physical, and only the host's leaf has a size.
fn unpaged<S: Steps>(host: &Host, address: Virtual, kind: Kind, steps: &mut S) -> Result<Leaf, Stop<S::Error>> {
    let behind = host.translate(GuestPhysical::new(address.raw()), kind, steps)?;
    Ok(Leaf {
        machine: behind.machine,
        size: behind.size,
        guest: behind.size,
        host: None,
        rights: behind.rights.and(Rights::USER).and_if(behind.rights.has(Rights::WRITE), Rights::HOST_WRITE),
        global: false,
    })
}
