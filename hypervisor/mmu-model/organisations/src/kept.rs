// SPDX-License-Identifier: MIT
//! A table that is kept as the trace's own tables say, and the numbers of the address spaces in it.

use std::collections::HashMap;

use mmu_model::address::PageSize;
use mmu_model::tag;
use mmu_model::walk::Leaf;
use mmu_model::x86::{Context, Tables};

use crate::table::{Page, Shape, Space, Store, Table};

/// A table, what it is made of, and the sizes of pages that it is given.
pub struct Kept {
    /// The table.
    pub table: Box<dyn Table>,
    /// Its words and entries.
    pub store: Store,
    /// Sizes that both table and machine have, the largest first.
    sizes: Vec<PageSize>,
    pairs: bool,
}

impl Kept {
    /// A table for a machine with pages of these sizes, in pairs or not; of large ones only if they are wanted, and then
    /// there must be one: a replay that maps base pages all the same would be taken for one that does not.
    pub fn new(table: Box<dyn Table>, pages: &[PageSize], pairs: bool, superpages: bool) -> Result<Self, String> {
        let mut sizes: Vec<_> = table.sizes().iter().copied().filter(|size| pages.contains(size)).collect();
        sizes.retain(|size| superpages || *size == PageSize::K4);
        sizes.reverse();
        if sizes.last() != Some(&PageSize::K4) && !table.sizes().is_empty() {
            return Err(format!(
                "pages of 4k, as traces have them, are not among those of machine and table ({})",
                names(pages)
            ));
        }
        if superpages && sizes.first().is_none_or(|largest| *largest == PageSize::K4) {
            return Err(format!(
                "it cannot map large pages here: its table has pages of {}, the machine's TLBs of {}; expected one in \
                 common above 4k. Leave out --superpages on, or take an organisation of every size (g16, h8192) on a \
                 machine with large pages (r4700, i7-3770)",
                names(table.sizes()),
                names(pages)
            ));
        }
        Ok(Self { table, store: Store::default(), sizes, pairs })
    }

    /// Whether the table maps such addresses at all: of 48 bits those of both halves.
    pub fn maps(&self, address: u64) -> bool {
        let bits = self.table.bits();
        bits == 64 || address >> bits == 0 || (bits >= 48 && !address >> (bits - 1) == 0)
    }

    /// The largest page that machine and table have, and the trace's leaf is wide enough for.
    pub fn size_for(&self, leaf: PageSize) -> PageSize {
        let wide = |size: &&PageSize| **size == PageSize::K4 || size.shift() + u32::from(self.pairs) <= leaf.shift();
        *self.sizes.iter().find(wide).expect("the base page is among them")
    }

    /// The largest page that it is given.
    pub fn largest(&self) -> PageSize {
        self.sizes[0]
    }

    /// Make the table say this of the page around an address. Whether it said otherwise.
    pub fn update(&mut self, space: Space, address: u64, size: PageSize, page: Option<Page>) -> bool {
        let begin = address & !size.offset_mask();
        let (entry, found) = self.table.get(&self.store, space, begin);
        if self.store.pages.get(entry).copied() == page && (page.is_none() || found == size) {
            return false;
        }
        let new = page.map_or(0, |page| self.store.pages.entry(page));
        for gone in self.table.set(&mut self.store, space, begin, size, new) {
            self.store.pages.drop(gone);
        }
        self.table.changed(&mut self.store, space, begin, size);
        true
    }

    /// The table's sizes and counts.
    pub fn shape(&self) -> Shape {
        let mut shape = self.table.shape(&self.store);
        shape.insert("pages_mapped", self.store.pages.mapped());
        shape
    }
}

/// Sizes as messages name them.
fn names(sizes: &[PageSize]) -> String {
    let names: Vec<_> = sizes.iter().map(|size| size.name()).collect();
    if names.is_empty() { "no size".to_owned() } else { names.join(", ") }
}

/// The page of this size around an address, as a leaf of the trace has it.
pub fn page_of(leaf: &Leaf, address: u64, size: PageSize, context: &Context) -> Page {
    let within = address & leaf.size.offset_mask() & !size.offset_mask();
    let mask = if leaf.global && context.control.pge { !tag::PCID } else { u64::MAX };
    Page { machine: leaf.machine.plus(within), size, rights: leaf.rights, mask, leaf: leaf.guest }
}

/// Numbers of address spaces: by ASID, and by the table's root for what tasks do not share.
#[derive(Debug, Default)]
pub struct Spaces {
    numbers: HashMap<(u16, Option<u64>), Space>,
    /// Who runs: its own part, and the one shared with others of its ASID.
    running: [Space; 2],
}

impl Spaces {
    fn number(&mut self, asid: u16, root: Option<u64>) -> Space {
        let next = self.numbers.len() as Space + 1;
        *self.numbers.entry((asid, root)).or_insert(next)
    }

    /// This context runs now. Returns its tag, which names the space, and how often everything is forgotten: after 65,535
    /// spaces numbers repeat, and all is forgotten at each switch.
    pub fn run(&mut self, context: &Context) -> (u64, u8) {
        let root = match context.tables {
            Tables::Off => None,
            Tables::Flat { root, .. } => Some(root.raw()),
            Tables::Nested { guest, root, .. } => Some(guest.map_or(root.raw() | 1, |(guest, _)| guest.raw() << 1)),
        };
        self.running = [self.number(context.asid, root), self.number(context.asid, None)];
        (tag::pack(context.asid, 0, self.running[0] as u16), u8::from(self.running[0] > u32::from(u16::MAX)))
    }

    /// The space that an address belongs to: the upper half is shared by all tables of an ASID.
    pub fn at(&self, address: u64) -> Space {
        self.running[(address >> 63) as usize]
    }

    /// The space of a host's tables, which translate all that a guest takes for memory.
    pub fn of_host(&mut self, root: u64) -> Space {
        self.number(u16::MAX, Some(root))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}
