// SPDX-License-Identifier: MIT
//! The caches that hold lines of page tables.

use crate::address::{Machine, Virtual};
use crate::numbered::numbered;

numbered! {
    /// Where a reference was served.
    Served {
        /// First-level cache.
        L1: "l1",
        /// Second-level cache.
        L2: "l2",
        /// Third-level cache.
        L3: "l3",
        /// No cache had the line.
        Memory: "memory",
    }
}

/// What lies between a processor and its memory.
pub trait Caches {
    /// Bytes, aligned, of which any two always lie in one line: a power of two.
    const GRANULE: u64;
    /// Whether fetches go through them too.
    const FETCHES: bool = false;

    /// Whether data's lines are kept at all, so that an access can find its line used last.
    fn keeps_data(&self) -> bool;

    /// Whether to access this data again would change nothing. The tag tells address spaces apart.
    fn is_last_used(&self, tag: u64, address: Virtual, at: Machine) -> bool;

    /// An access to data: the line's place before, and in the caches afterwards.
    fn data(&mut self, tag: u64, address: Virtual, at: Machine) -> Served;

    /// A fetch; none where fetches do not go through the caches.
    fn fetch(&mut self, tag: u64, address: Virtual, at: Machine) -> Option<Served>;

    /// A reference to a table by its machine address.
    fn table(&mut self, at: Machine) -> Served;

    /// Bytes in a line.
    fn line(&self) -> u64;
}

/// Bytes in a line.
pub const LINE: u64 = 64;

/// No line of memory: addresses have fewer bits.
const UNUSED: u64 = u64::MAX;

/// What one cache is like; 0 bytes: there is none.
#[derive(Clone, Default, Debug)]
pub struct Shape {
    /// Size.
    pub bytes: u64,
    /// Lines a set.
    pub ways: u32,
    /// Of a cache in slices: for each bit of a slice's number, the bits of the address that it is the parity of. Within
    /// a slice the set is the low bits of the line's number.
    pub slices: Vec<u64>,
}

/// One cache with least-recently-used replacement: each set's lines lie in order of use.
#[derive(Clone, Debug)]
struct Level {
    /// In each slice; 0: there is no such cache.
    sets: u64,
    /// The bits of a line's number that name its set, if the number of sets is a power of two.
    mask: Option<u64>,
    ways: usize,
    lines: Vec<u64>,
    /// As of [`Shape::slices`], of a line's number.
    slices: Vec<u64>,
}

/// Whether an odd number of bits is set, 0 or 1. Folded: without an instruction for it, counting them takes longer.
#[inline]
fn parity(bits: u64) -> u64 {
    let half = bits ^ bits >> 32;
    let quarter = half ^ half >> 16;
    let byte = quarter ^ quarter >> 8;
    0x6996 >> ((byte ^ byte >> 4) & 0xf) & 1
}

impl Level {
    fn new(shape: &Shape) -> Self {
        let lines = (shape.bytes / LINE) as usize;
        let sets = (lines / shape.ways.max(1) as usize) as u64 >> shape.slices.len();
        let mask = sets.is_power_of_two().then(|| sets - 1);
        let slices = shape.slices.iter().map(|bits| bits / LINE).collect();
        Self { sets, mask, ways: shape.ways as usize, lines: vec![UNUSED; lines], slices }
    }

    /// The first place of the line's set, which in a cache with slices lies in the line's slice.
    fn first(&self, line: u64) -> usize {
        if self.slices.is_empty() {
            return self.first_of_set(line);
        }
        let slice = self.slices.iter().rev().fold(0, |n, bits| n << 1 | parity(line & bits));
        (slice * self.sets) as usize * self.ways + self.first_of_set(line)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // as of Hierarchy::is_last_used
    fn first_of_set(&self, line: u64) -> usize {
        let set = self.mask.map_or_else(|| line % self.sets, |mask| line & mask);
        set as usize * self.ways
    }

    /// Whether the line is the last used of its set: most are.
    #[inline(always)]
    #[allow(clippy::inline_always)] // as of Hierarchy::is_last_used
    fn is_last_used(&self, line: u64) -> bool {
        self.sets > 0 && self.lines[self.first_of_set(line)] == line
    }

    /// Whether the line was there; it is afterwards, as the last used.
    fn access(&mut self, line: u64) -> bool {
        if self.sets == 0 {
            return false;
        }
        let first = self.first(line);
        let lines = &mut self.lines[first..first + self.ways];
        let mut carried = line;
        for place in lines {
            std::mem::swap(place, &mut carried);
            if carried == line {
                return true;
            }
        }
        false
    }
}

/// Three levels, each of which may be absent (0 bytes). A line read is put into all of them.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    levels: [Level; 3],
}

impl Hierarchy {
    /// Empty caches; the first is in one piece, as all are that a core has for itself.
    pub fn new(levels: &[Shape; 3]) -> Self {
        Self { levels: levels.each_ref().map(Level::new) }
    }

    /// Whether there is a first level.
    #[inline]
    pub fn has_l1(&self) -> bool {
        self.levels[0].sets > 0
    }

    /// Whether the line this address lies in is the last used of its set in the first level: to read it again changes
    /// nothing.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call more for each access
    pub fn is_last_used(&self, at: Machine) -> bool {
        self.levels[0].is_last_used(at.raw() / LINE)
    }

    /// Read the line this address lies in.
    #[inline]
    pub fn access(&mut self, at: Machine) -> Served {
        let line = at.raw() / LINE;
        if self.levels[0].is_last_used(line) { Served::L1 } else { self.search(line) }
    }

    #[inline(never)]
    fn search(&mut self, line: u64) -> Served {
        let held = self.levels.iter_mut().position(|level| level.access(line));
        held.map_or(Served::Memory, |level| Served::ALL[level])
    }
}

impl Caches for Hierarchy {
    const GRANULE: u64 = LINE;

    #[inline]
    fn keeps_data(&self) -> bool {
        self.has_l1()
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // as of Hierarchy::is_last_used
    fn is_last_used(&self, _tag: u64, _address: Virtual, at: Machine) -> bool {
        Self::is_last_used(self, at)
    }

    #[inline]
    fn data(&mut self, _tag: u64, _address: Virtual, at: Machine) -> Served {
        self.access(at)
    }

    #[inline]
    fn fetch(&mut self, _tag: u64, _address: Virtual, _at: Machine) -> Option<Served> {
        None
    }

    #[inline]
    fn table(&mut self, at: Machine) -> Served {
        self.access(at)
    }

    fn line(&self) -> u64 {
        LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy(levels: [(u64, u32); 3]) -> Hierarchy {
        Hierarchy::new(&levels.map(|(bytes, ways)| Shape { bytes, ways, slices: vec![] }))
    }

    /// Bits as the paper's table lists them, for the four slices of a processor with four cores.
    #[test]
    fn a_slice_is_the_parity_of_the_bits_listed() {
        let o0 = [6, 10, 12, 14, 16, 17, 18, 20, 22, 24, 25, 26, 27, 28, 30, 32, 33, 35, 36];
        let o1 = [7, 11, 13, 15, 17, 19, 20, 21, 22, 23, 24, 26, 28, 29, 31, 33, 34, 35, 37];
        let shape = Shape { bytes: 8 << 20, ways: 16, slices: vec![0x1b_5f57_5440, 0x2e_b5fa_a880] };
        let level = Level::new(&shape);
        for n in 0..100_000_u64 {
            let address = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
            let parity = |bits: &[u32]| bits.iter().filter(|bit| address >> **bit & 1 == 1).count() % 2;
            let set = (address >> 6) as usize % 2048;
            assert_eq!(level.first(address / LINE), ((parity(&o1) * 2 + parity(&o0)) * 2048 + set) * 16);
        }
    }

    #[test]
    fn lines_are_found_where_they_were_put_and_evicted_in_order() {
        let mut caches = hierarchy([(128, 2), (256, 2), (0, 0)]);
        let read = |c: &mut Hierarchy, line: u64| c.access(Machine::new(line * LINE + 8));
        assert_eq!(read(&mut caches, 0), Served::Memory);
        assert_eq!(read(&mut caches, 2), Served::Memory);
        assert_eq!(read(&mut caches, 0), Served::L1);
        assert_eq!(read(&mut caches, 4), Served::Memory); // evicts 2 from L1, and 0, used there first, from L2
        assert_eq!(read(&mut caches, 0), Served::L1);
        assert_eq!(read(&mut caches, 2), Served::L2);
    }

    #[test]
    fn a_set_count_that_is_no_power_of_two_works() {
        let mut caches = hierarchy([(64 * 6, 2), (0, 0), (0, 0)]);
        for line in 0..6 {
            assert_eq!(caches.access(Machine::new(line * LINE)), Served::Memory);
        }
        assert!((0..6).all(|line| caches.access(Machine::new(line * LINE)) == Served::L1));
    }
}
