// SPDX-License-Identifier: MIT
//! The words of memory that a trace has told of.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use mmu_model::address::Machine;
use mmu_model::memory::Memory;

/// Pages by number; page numbers need no strong hash.
#[derive(Clone, Copy, Default, Debug)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("page numbers are hashed as numbers");
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[derive(Clone, Debug)]
struct Page {
    known: [u64; 8],
    words: [u64; 512],
}

/// Some words of a machine's memory, by address.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pages: HashMap<u64, Box<Page>, BuildHasherDefault<PageHasher>>,
}

/// A walk needed a word that the trace has not told of. The recorder should have: it is a fault of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing(pub Machine);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the trace does not say what is at machine address {:#x}", self.0)
    }
}

impl std::error::Error for Missing {}

impl Image {
    const fn split(at: Machine) -> (u64, usize) {
        (at.raw() >> 12, (at.raw() >> 3) as usize & 511)
    }

    /// A word, if it is known.
    #[inline]
    pub fn get(&self, at: Machine) -> Option<u64> {
        let (page, index) = Self::split(at);
        let page = self.pages.get(&page)?;
        (page.known[index / 64] >> (index % 64) & 1 == 1).then(|| page.words[index])
    }

    /// Learn a word.
    pub fn set(&mut self, at: Machine, value: u64) {
        let (page, index) = Self::split(at);
        let page = self.pages.entry(page).or_insert_with(|| Box::new(Page { known: [0; 8], words: [0; 512] }));
        page.known[index / 64] |= 1 << (index % 64);
        page.words[index] = value;
    }

    /// Every word that is known, in no order.
    pub fn words(&self) -> impl Iterator<Item = Machine> {
        self.pages.iter().flat_map(|(page, content)| {
            let known = (0..512).filter(|index| content.known[index / 64] >> (index % 64) & 1 == 1);
            known.map(move |index| Machine::new(page << 12 | (index as u64) << 3))
        })
    }

    /// Whether any word of the page around this address is known.
    #[inline]
    pub fn has_page(&self, at: Machine) -> bool {
        self.pages.contains_key(&(at.raw() >> 12))
    }
}

impl Memory for Image {
    type Error = Missing;

    #[inline]
    fn read(&mut self, at: Machine) -> Result<u64, Missing> {
        self.get(at).ok_or(Missing(at))
    }
}
