// SPDX-License-Identifier: MIT
//! The caches that hold lines of page tables.

use crate::address::Machine;
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

/// Bytes in a line.
pub const LINE: u64 = 64;

/// No line of memory: addresses have fewer bits.
const UNUSED: u64 = u64::MAX;

/// One cache with least-recently-used replacement: each set's lines lie in order of use.
#[derive(Clone, Debug)]
struct Level {
    sets: u64,
    /// The bits of a line's number that name its set, if the number of sets is a power of two.
    mask: Option<u64>,
    ways: usize,
    lines: Vec<u64>,
}

impl Level {
    fn new(bytes: u64, ways: u32) -> Self {
        let lines = (bytes / LINE) as usize;
        let sets = (lines / ways.max(1) as usize) as u64;
        let mask = sets.is_power_of_two().then(|| sets - 1);
        Self { sets, mask, ways: ways as usize, lines: vec![UNUSED; lines] }
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
        let first = self.first_of_set(line);
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
    /// Empty caches of these (bytes, ways).
    pub fn new(levels: [(u64, u32); 3]) -> Self {
        Self { levels: levels.map(|(bytes, ways)| Level::new(bytes, ways)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_where_they_were_put_and_evicted_in_order() {
        let mut caches = Hierarchy::new([(128, 2), (256, 2), (0, 0)]);
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
        let mut caches = Hierarchy::new([(64 * 6, 2), (0, 0), (0, 0)]);
        for line in 0..6 {
            assert_eq!(caches.access(Machine::new(line * LINE)), Served::Memory);
        }
        assert!((0..6).all(|line| caches.access(Machine::new(line * LINE)) == Served::L1));
    }
}
