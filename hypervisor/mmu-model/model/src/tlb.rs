// SPDX-License-Identifier: MIT
//! Translation lookaside buffers.

use crate::address::{Machine, PageSize, Virtual};
use crate::assoc::{Assoc, Geometry, Slot};
use crate::walk::Rights;

/// What an entry says of one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where the page begins.
    pub machine: Machine,
    /// What is allowed.
    pub rights: Rights,
    /// Size of the page.
    pub size: PageSize,
}

/// What a TLB holds: one translation, or more that share a tag.
pub trait Entry: Copy + Default {
    /// How much of the address space it stands for.
    fn size(&self) -> PageSize;

    /// Size of the leaf that it came of, as the software that invalidates knows it.
    fn leaf(&self) -> PageSize;

    /// What it says of an address that lies in it; none where that part is not valid.
    fn part(&self, address: Virtual) -> Option<Part>;

    /// The entry of a level nearer to the processor that a hit here fills.
    #[must_use]
    fn nearer(self) -> Self {
        self
    }

    /// The entry for the part of this size around the address, for an array that holds no larger.
    #[must_use]
    fn piece(self, address: Virtual, size: PageSize) -> Self;
}

/// What an entry for one page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Where the page begins.
    pub machine: Machine,
    /// What is allowed.
    pub rights: Rights,
    /// Size of this entry.
    pub size: PageSize,
    /// Size of the page that the walk found, of which this entry may be a piece.
    pub whole: PageSize,
    /// Size of the leaf in the guest's table (or the only one): what INVLPG forgets as a whole.
    pub leaf: PageSize,
}

impl Default for Translation {
    fn default() -> Self {
        let size = PageSize::K4;
        Self { machine: Machine::new(0), rights: Rights::default(), size, whole: size, leaf: size }
    }
}

impl Entry for Translation {
    #[inline]
    fn size(&self) -> PageSize {
        self.size
    }

    #[inline]
    fn leaf(&self) -> PageSize {
        self.leaf
    }

    #[inline]
    fn part(&self, _address: Virtual) -> Option<Part> {
        Some(Part { machine: self.machine, rights: self.rights, size: self.size })
    }

    /// Of a page in pieces, the first level has the whole (AMD 56305, 2.7.2).
    #[inline]
    fn nearer(self) -> Self {
        let begin = Machine::new(self.machine.raw() & !self.whole.offset_mask());
        Self { machine: begin, size: self.whole, ..self }
    }

    #[inline]
    fn piece(self, address: Virtual, size: PageSize) -> Self {
        let within = address.raw() & self.size.offset_mask() & !size.offset_mask();
        Self { machine: self.machine.plus(within), size, ..self }
    }
}

/// One array of entries, for one page size or several.
#[derive(Clone, Debug)]
pub struct Tlb<E = Translation> {
    /// As the CPU file names it.
    pub name: String,
    /// What its entries may cover, from the smallest to the largest.
    sizes: Vec<PageSize>,
    assoc: Assoc<E>,
    /// Entries smaller than the leaf they came from.
    splinters: u64,
}

/// The page number, and in the low bits the size: equal pages of two sizes differ.
#[inline]
const fn key(page: u64, size: PageSize) -> u64 {
    let pages_less_one = (size.bytes() >> 12) - 1;
    (page & !pages_less_one) << 5 | size.index() as u64
}

#[inline]
const fn page_of(address: Virtual) -> u64 {
    address.raw() >> 12
}

impl<E: Entry> Tlb<E> {
    /// An empty one.
    pub fn new(name: &str, sizes: &[PageSize], geometry: Geometry) -> Self {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        Self { name: name.to_owned(), sizes, assoc: Assoc::new(geometry), splinters: 0 }
    }

    /// Whether entries of this size can be in it.
    #[inline]
    pub fn holds(&self, size: PageSize) -> bool {
        self.sizes.contains(&size) && !self.assoc.is_absent()
    }

    /// Which insertion the entry at this place is of; 0: there is no entry.
    #[inline]
    pub fn birth(&self, place: usize) -> u64 {
        self.assoc.birth(place)
    }

    /// Where the entry for this address is.
    #[inline]
    pub fn find(&self, address: Virtual, tag: u64) -> Option<usize> {
        let page = page_of(address);
        for &size in &self.sizes {
            if let Some(place) = self.assoc.find(page >> (size.shift() - 12), key(page, size), tag) {
                return Some(place);
            }
        }
        None
    }

    /// What the entry at this place says.
    #[inline]
    pub fn get(&self, place: usize) -> (E, u64) {
        let slot = self.assoc.slot(place);
        (slot.value, slot.mask)
    }

    /// Note a use.
    #[inline]
    pub fn touch(&mut self, place: usize) {
        self.assoc.touch(place);
    }

    /// Note a use, if the entry at this place is of this insertion still.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call more for each access
    pub fn touch_if(&mut self, place: usize, birth: u64) -> bool {
        let same = self.assoc.birth(place) == birth;
        if same {
            self.assoc.touch(place);
        }
        same
    }

    /// Remember a translation; `mask` says which bits of the tag matter.
    #[inline]
    pub fn insert(&mut self, address: Virtual, tag: u64, mask: u64, entry: E) -> Option<usize> {
        let page = page_of(address);
        let size = entry.size();
        let (at, lost) = self.assoc.insert(page >> (size.shift() - 12), key(page, size), tag, mask, entry)?;
        self.splinters += u64::from(entry.leaf() > entry.size());
        self.splinters -= u64::from(lost.is_some_and(|(_, old)| old.leaf() > old.size()));
        Some(at)
    }

    /// Forget all entries that `goes` is true for; returns how many.
    pub fn forget(&mut self, mut goes: impl FnMut(&Slot<E>) -> bool) -> u64 {
        let splinters = &mut self.splinters;
        self.assoc.retain(|_, slot| {
            let stays = !goes(slot);
            *splinters -= u64::from(!stays && slot.value.leaf() > slot.value.size());
            stays
        })
    }

    /// Forget the entries for one address that `goes` is true for, and with each all that came of the same leaf
    /// (SDM vol. 3, 4.10.4.1: if a larger page was cached in pieces, all pieces go); returns how many.
    pub fn forget_address(&mut self, address: Virtual, mut goes: impl FnMut(&Slot<E>) -> bool) -> u64 {
        let page = page_of(address);
        if self.splinters == 0 {
            let mut gone = 0;
            for &size in &self.sizes {
                let (set, key) = (page >> (size.shift() - 12), key(page, size));
                while let Some(at) = self.assoc.find_where(set, key, &mut goes) {
                    self.assoc.remove(at);
                    gone += 1;
                }
            }
            return gone;
        }
        let splinters = &mut self.splinters;
        self.assoc.retain(|found, slot| {
            let leaf_pages_less_one = (slot.value.leaf().bytes() >> 12) - 1;
            let stays = ((found >> 5) ^ page) & !leaf_pages_less_one != 0 || !goes(slot);
            *splinters -= u64::from(!stays && slot.value.leaf() > slot.value.size());
            stays
        })
    }

    /// Where each entry begins, and the entry.
    pub fn entries(&self) -> impl Iterator<Item = (Virtual, &Slot<E>)> {
        self.assoc.entries().map(|(key, slot)| (Virtual::new(key >> 5 << 12), slot))
    }

    /// How many entries `is` is true for.
    pub fn count(&self, is: impl FnMut(&Slot<E>) -> bool) -> u64 {
        self.assoc.count(is)
    }

    /// How many entries are in use.
    pub fn len(&self) -> usize {
        self.assoc.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.assoc.is_empty()
    }
}
