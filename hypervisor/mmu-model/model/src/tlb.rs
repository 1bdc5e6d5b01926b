// SPDX-License-Identifier: MIT
//! Translation lookaside buffers.

use crate::address::{Machine, PageSize, Virtual};
use crate::assoc::{Assoc, Geometry, Slot};
use crate::walk::Rights;

/// Address-space tags, packed: ASID from bit 32, number of the nested root from bit 16, PCID from bit 0.
pub mod tag {
    /// The process-context identifier.
    pub const PCID: u64 = 0xffff;
    /// The nested table, on processors that tag with it.
    pub const ROOT: u64 = 0xffff << 16;
    /// The address-space identifier.
    pub const ASID: u64 = 0xffff << 32;

    /// All three together.
    pub const fn pack(asid: u16, root: u16, pcid: u16) -> u64 {
        (asid as u64) << 32 | (root as u64) << 16 | pcid as u64
    }
}

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Where the page begins.
    pub machine: Machine,
    /// What is allowed.
    pub rights: Rights,
    /// Size of this entry.
    pub size: PageSize,
    /// Size of the leaf in the guest's table (or the only one): what INVLPG forgets as a whole.
    pub leaf: PageSize,
}

impl Default for Translation {
    fn default() -> Self {
        Self { machine: Machine::new(0), rights: Rights::default(), size: PageSize::K4, leaf: PageSize::K4 }
    }
}

/// One array of entries, for one page size or several.
#[derive(Clone, Debug)]
pub struct Tlb {
    /// As the CPU file names it.
    pub name: String,
    holds: [bool; PageSize::COUNT],
    assoc: Assoc<Translation>,
    /// Entries smaller than the leaf they came from.
    splinters: u64,
}

/// The page number, and in the low bits the size: equal pages of two sizes differ.
#[inline]
const fn key(page: u64, size: PageSize) -> u64 {
    let pages_less_one = (size.bytes() >> 12) - 1;
    (page & !pages_less_one) << 2 | size as u64
}

#[inline]
const fn page_of(address: Virtual) -> u64 {
    address.raw() >> 12
}

impl Tlb {
    /// An empty one.
    pub fn new(name: &str, sizes: &[PageSize], geometry: Geometry) -> Self {
        let mut holds = [false; PageSize::COUNT];
        sizes.iter().for_each(|s| holds[*s as usize] = true);
        Self { name: name.to_owned(), holds, assoc: Assoc::new(geometry), splinters: 0 }
    }

    /// Whether entries of this size can be in it.
    #[inline]
    pub fn holds(&self, size: PageSize) -> bool {
        self.holds[size as usize] && !self.assoc.is_absent()
    }

    /// Which insertion the entry at this place is of; 0: there is no entry.
    #[inline]
    pub fn birth(&self, place: usize) -> u64 {
        self.assoc.birth(place)
    }

    /// Where the entry for this address is.
    #[inline]
    pub fn find(&self, address: Virtual, tag: u64) -> Option<usize> {
        PageSize::ALL.into_iter().filter(|s| self.holds[*s as usize]).find_map(|size| {
            let page = page_of(address);
            self.assoc.find(page >> (size.shift() - 12), key(page, size), tag)
        })
    }

    /// What the entry at this place says.
    #[inline]
    pub fn get(&self, place: usize) -> (Translation, u64) {
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
    pub fn insert(&mut self, address: Virtual, tag: u64, mask: u64, entry: Translation) -> Option<usize> {
        let page = page_of(address);
        let size = entry.size;
        let (at, lost) = self.assoc.insert(page >> (size.shift() - 12), key(page, size), tag, mask, entry)?;
        self.splinters += u64::from(entry.leaf > entry.size);
        self.splinters -= u64::from(lost.is_some_and(|(_, old)| old.leaf > old.size));
        Some(at)
    }

    /// Forget all entries that `goes` is true for; returns how many.
    pub fn forget(&mut self, mut goes: impl FnMut(&Slot<Translation>) -> bool) -> u64 {
        let splinters = &mut self.splinters;
        self.assoc.retain(|_, slot| {
            let stays = !goes(slot);
            *splinters -= u64::from(!stays && slot.value.leaf > slot.value.size);
            stays
        })
    }

    /// Forget the entries for one address that `goes` is true for, and with each all that came of the same leaf
    /// (SDM vol. 3, 4.10.4.1: if a larger page was cached in pieces, all pieces go); returns how many.
    pub fn forget_address(&mut self, address: Virtual, mut goes: impl FnMut(&Slot<Translation>) -> bool) -> u64 {
        let page = page_of(address);
        if self.splinters == 0 {
            let mut gone = 0;
            for size in PageSize::ALL {
                let (set, key) = (page >> (size.shift() - 12), key(page, size));
                while self.holds[size as usize] {
                    let Some(at) = self.assoc.find_where(set, key, &mut goes) else { break };
                    self.assoc.remove(at);
                    gone += 1;
                }
            }
            return gone;
        }
        let splinters = &mut self.splinters;
        self.assoc.retain(|found, slot| {
            let leaf_pages_less_one = (slot.value.leaf.bytes() >> 12) - 1;
            let stays = ((found >> 2) ^ page) & !leaf_pages_less_one != 0 || !goes(slot);
            *splinters -= u64::from(!stays && slot.value.leaf > slot.value.size);
            stays
        })
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
