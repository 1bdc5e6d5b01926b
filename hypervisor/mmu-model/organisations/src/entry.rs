// SPDX-License-Identifier: MIT
//! What a TLB that software refills holds: one page, or an even page and the odd one behind it under one tag.

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::tlb::{Entry, Part};
use mmu_model::walk::Rights;

use crate::table::Page;

/// Two translations under one tag, of which one may be invalid; of a machine without pairs, one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Duo {
    machine: [u64; 2],
    rights: [Rights; 2],
    valid: [bool; 2],
    page: PageSize,
    span: PageSize,
    leaf: PageSize,
}

impl Duo {
    /// An entry for one page.
    pub fn single(page: &Page) -> Self {
        Self {
            machine: [page.machine.raw(); 2],
            rights: [page.rights; 2],
            valid: [true; 2],
            page: page.size,
            span: page.size,
            leaf: page.leaf,
        }
    }

    /// An entry for an even page and the odd one behind it, of which at least one is there. Both have the size of the
    /// one that is missed.
    pub fn pair(pages: [Option<&Page>; 2], size: PageSize) -> Self {
        let pages = pages.map(|page| page.filter(|page| page.size == size));
        Self {
            machine: pages.map(|page| page.map_or(0, |page| page.machine.raw())),
            rights: pages.map(|page| page.map_or(Rights::default(), |page| page.rights)),
            valid: pages.map(|page| page.is_some()),
            page: size,
            span: PageSize::of_shift(size.shift() + 1),
            leaf: pages.into_iter().flatten().map(|page| page.leaf).max().unwrap_or(size),
        }
    }
}

impl Entry for Duo {
    #[inline]
    fn size(&self) -> PageSize {
        self.span
    }

    #[inline]
    fn leaf(&self) -> PageSize {
        self.leaf
    }

    #[inline]
    fn part(&self, address: Virtual) -> Option<Part> {
        let half = if self.span > self.page { (address.raw() >> self.page.shift() & 1) as usize } else { 0 };
        self.valid[half].then(|| Part {
            machine: Machine::new(self.machine[half]),
            rights: self.rights[half],
            size: self.page,
        })
    }

    /// Only where entries are single: an array that holds pairs holds the size that is inserted.
    fn piece(self, address: Virtual, size: PageSize) -> Self {
        let within = address.raw() & self.span.offset_mask() & !size.offset_mask();
        if within == 0 && size == self.span {
            return self;
        }
        Self { machine: self.machine.map(|machine| machine + within), page: size, span: size, ..self }
    }
}
