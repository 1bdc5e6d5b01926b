// SPDX-License-Identifier: MIT
//! What spares most accesses the looking up. None of it changes a result: what is remembered holds as long as the entry
//! it was found in.

use crate::address::{Machine, PageSize, Virtual};
use crate::cache::Served;
use crate::context::Kind;
use crate::counters::Bank;

/// Pages remembered in each table of recent ones.
const RECENT: usize = 1024;

/// A page as an entry of a first-level TLB translates it, and which entry that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    pub tag: u64,
    /// Machine address less virtual address, modulo 2^64.
    pub less: Machine,
    pub birth: u64,
    pub place: u32,
    pub array: u8,
    pub rights: u8,
    pub size: PageSize,
}

/// 4 KiB page number, or 2 MiB page number (of a 1 GiB entry, the part), and what is remembered of it.
type Numbered = (u64, Recent);

/// No address has this page.
const NONE: Numbered =
    (u64::MAX, Recent { tag: 0, less: Machine::new(0), birth: 0, place: 0, array: 0, rights: 0, size: PageSize::K4 });

/// Pages found in the first level, by small and by large page, since one table would not reach far.
#[derive(Clone, Debug)]
pub(crate) struct Recents([Box<[Numbered; RECENT]>; 2]);

impl Default for Recents {
    fn default() -> Self {
        Self([false, true].map(|_| vec![NONE; RECENT].into_boxed_slice().try_into().expect("so many")))
    }
}

impl Recents {
    /// The page that has this address, if it is remembered among the small or the large ones.
    #[inline]
    pub fn find(&self, address: Virtual, large: bool, tag: u64) -> Option<&Recent> {
        let page = page_number(address, large);
        let (number, recent) = &self.0[usize::from(large)][slot(page)];
        (*number == page && recent.tag == tag).then_some(recent)
    }

    /// Remember the page that has this address.
    #[inline]
    pub fn note(&mut self, address: Virtual, recent: Recent) {
        let large = recent.size >= PageSize::M2;
        let page = page_number(address, large);
        self.0[usize::from(large)][slot(page)] = (page, recent);
    }
}

#[inline]
const fn page_number(address: Virtual, large: bool) -> u64 {
    address.raw() >> if large { 21 } else { 12 }
}

#[inline]
const fn slot(page: u64) -> usize {
    // Addresses far apart share low bits more often than not.
    (page ^ page >> 10) as usize % RECENT
}

/// The line of data used last. Until another is, or something is walked for or invalidated, it is the last used of its
/// TLB entry's set and of its cache set: to use it again changes nothing but counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub line: u64,
    pub less: Machine,
    pub size: PageSize,
    /// One bit for each kind of access that needs no walk.
    pub allowed: u8,
}

impl Default for Last {
    fn default() -> Self {
        // No address has this line.
        Self { line: u64::MAX, less: Machine::new(0), size: PageSize::K4, allowed: 0 }
    }
}

/// Accesses, by kind and size, that found everything in the first level: data its line, too. They are most, so they are
/// counted once, where no bank need be looked for, and the bank is told when another one's turn comes.
#[derive(Clone, Default, Debug)]
pub(crate) struct Again([[u64; PageSize::COUNT]; Kind::COUNT]);

impl Again {
    #[inline]
    pub fn count(&mut self, kind: Kind, size: PageSize) {
        self.0[kind as usize][size.index()] += 1;
    }

    pub fn tell(&self, bank: &mut Bank) {
        for kind in Kind::ALL {
            for (size, count) in self.0[kind as usize].iter().enumerate() {
                bank.hits[0][kind as usize][size] += count;
                bank.data_served[Served::L1 as usize] += if kind == Kind::Fetch { 0 } else { *count };
            }
        }
    }
}
