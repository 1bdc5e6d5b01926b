// SPDX-License-Identifier: MIT
//! Caches as the machines of both studies have them: split or common, by virtual or machine addresses, of any line size.

use mmu_model::address::{Machine, Virtual};
use mmu_model::cache::{Caches, Served};
use serde::Deserialize;

/// Which line of a full set gives way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The one that came first.
    Fifo,
    /// The one used longest ago.
    Lru,
}

/// An address by which a line is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The program's.
    Virtual,
    /// The machine's.
    Machine,
}

/// Who uses a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Data only; there is another of the same shape for instructions.
    Split,
    /// Both.
    Common,
}

/// One cache.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Size; of each side where it is split.
    pub kib: u64,
    /// Lines a set.
    pub ways: u32,
    /// Bytes a line.
    pub line: u64,
    /// Who gives way.
    pub policy: Policy,
    /// What chooses the set.
    pub index: By,
    /// What is compared.
    pub tag: By,
    /// Whose it is.
    pub serves: Use,
    /// Which document says so.
    pub source: String,
}

#[derive(Clone, Debug)]
struct Level {
    shift: u32,
    sets: u64,
    /// The bits of a line's number that name its set, if the number of sets is a power of two.
    mask: Option<u64>,
    ways: usize,
    policy: Policy,
    index: By,
    tag: By,
    /// Of first-in-first-out sets, where the next line goes.
    next: Vec<u8>,
    lines: Vec<u64>,
}

/// No line has this name.
const UNUSED: u64 = u64::MAX;
/// The tag of addresses that are not translated, and so belong to nobody.
const NOBODY: u64 = u64::MAX;

/// What an access is to find a line by.
#[derive(Clone, Copy)]
struct Address {
    tag: u64,
    by_virtual: u64,
    by_machine: u64,
}

impl Level {
    fn new(shape: &Shape) -> Self {
        let lines = (shape.kib * 1024 / shape.line) as usize;
        let sets = lines / shape.ways as usize;
        Self {
            shift: shape.line.trailing_zeros(),
            sets: sets as u64,
            mask: sets.is_power_of_two().then(|| sets as u64 - 1),
            ways: shape.ways as usize,
            policy: shape.policy,
            index: shape.index,
            tag: shape.tag,
            next: vec![0; if shape.policy == Policy::Fifo { sets } else { 0 }],
            lines: vec![UNUSED; lines],
        }
    }

    /// The first place of the set, and the line's name.
    #[inline]
    fn place(&self, address: Address) -> (usize, u64) {
        let index = if self.index == By::Virtual { address.by_virtual } else { address.by_machine };
        let name = if self.tag == By::Machine {
            address.by_machine >> self.shift
        } else {
            // 48 bits of address tell lines apart, and 16 of the tag (a number of an address space) whose they are.
            let folded = address.tag ^ address.tag >> 16 ^ address.tag >> 32;
            (address.by_virtual << 16 >> 16 >> self.shift) | folded << 48
        };
        let line = index >> self.shift;
        let set = self.mask.map_or_else(|| line % self.sets, |mask| line & mask);
        (set as usize * self.ways, name)
    }

    /// Whether to access it again changes nothing.
    #[inline]
    fn is_settled(&self, address: Address) -> bool {
        let (first, name) = self.place(address);
        match self.policy {
            Policy::Lru => self.lines[first] == name,
            Policy::Fifo => self.lines[first..first + self.ways].contains(&name),
        }
    }

    /// Whether the line was there; it is afterwards.
    fn access(&mut self, address: Address) -> bool {
        let (first, name) = self.place(address);
        let lines = &mut self.lines[first..first + self.ways];
        if self.policy == Policy::Fifo {
            if lines.contains(&name) {
                return true;
            }
            let next = &mut self.next[first / self.ways];
            lines[usize::from(*next)] = name;
            *next = (*next + 1) % self.ways as u8;
            return false;
        }
        let mut carried = name;
        for place in lines {
            std::mem::swap(place, &mut carried);
            if carried == name {
                return true;
            }
        }
        false
    }
}

/// All caches of a machine, from the processor outwards.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// Data's, then the instructions' where they have their own.
    levels: Vec<(Level, Option<Level>)>,
    line: u64,
}

impl Hierarchy {
    /// Empty ones; at most three levels, whose shapes [`crate::machine`] has checked.
    pub fn new(shapes: &[Shape]) -> Self {
        let level = |shape: &Shape| (Level::new(shape), (shape.serves == Use::Split).then(|| Level::new(shape)));
        Self { levels: shapes.iter().map(level).collect(), line: shapes.first().map_or(64, |shape| shape.line) }
    }

    fn access(&mut self, address: Address, fetch: bool) -> Served {
        let found = self.levels.iter_mut().position(|(data, instructions)| {
            let level = if fetch { instructions.as_mut().unwrap_or(data) } else { data };
            level.access(address)
        });
        found.map_or(Served::Memory, |level| Served::ALL[level])
    }
}

impl Caches for Hierarchy {
    const GRANULE: u64 = 16;
    const FETCHES: bool = true;

    #[inline]
    fn keeps_data(&self) -> bool {
        !self.levels.is_empty()
    }

    #[inline]
    fn is_last_used(&self, tag: u64, address: Virtual, at: Machine) -> bool {
        self.levels[0].0.is_settled(Address { tag, by_virtual: address.raw(), by_machine: at.raw() })
    }

    #[inline]
    fn data(&mut self, tag: u64, address: Virtual, at: Machine) -> Served {
        self.access(Address { tag, by_virtual: address.raw(), by_machine: at.raw() }, false)
    }

    #[inline]
    fn fetch(&mut self, tag: u64, address: Virtual, at: Machine) -> Option<Served> {
        Some(self.access(Address { tag, by_virtual: address.raw(), by_machine: at.raw() }, true))
    }

    #[inline]
    fn table(&mut self, at: Machine) -> Served {
        self.access(Address { tag: NOBODY, by_virtual: at.raw(), by_machine: at.raw() }, false)
    }

    fn line(&self) -> u64 {
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Served::{L1, Memory};

    fn shape(kib: u64, ways: u32, line: u64, policy: Policy, by: By) -> Shape {
        Shape { kib, ways, line, policy, index: by, tag: by, serves: Use::Split, source: "test".into() }
    }

    fn read(caches: &mut Hierarchy, address: u64) -> Served {
        caches.data(0, Virtual::new(address), Machine::new(address))
    }

    #[test]
    fn first_in_goes_first_however_often_it_is_used() {
        let mut caches = Hierarchy::new(&[shape(1, 2, 32, Policy::Fifo, By::Machine)]);
        let sets = 1024 / 32 / 2 * 32;
        let found = [0, sets, 0, 0, 2 * sets, 0].map(|address| read(&mut caches, address));
        assert_eq!(found, [Memory, Memory, L1, L1, Memory, Memory]);
        let mut caches = Hierarchy::new(&[shape(1, 2, 32, Policy::Lru, By::Machine)]);
        let found = [0, sets, 0, 0, 2 * sets, 0].map(|address| read(&mut caches, address));
        assert_eq!(found, [Memory, Memory, L1, L1, Memory, L1]);
    }

    #[test]
    fn virtual_caches_keep_address_spaces_and_sides_apart() {
        let mut caches = Hierarchy::new(&[shape(1, 1, 16, Policy::Lru, By::Virtual)]);
        let at = |caches: &mut Hierarchy, tag| caches.data(tag, Virtual::new(64), Machine::new(0));
        assert_eq!((at(&mut caches, 1), at(&mut caches, 2)), (Memory, Memory));
        assert_eq!((at(&mut caches, 2), at(&mut caches, 1)), (L1, Memory));
        let fetch = |caches: &mut Hierarchy| caches.fetch(1, Virtual::new(64), Machine::new(0));
        assert_eq!((fetch(&mut caches), fetch(&mut caches)), (Some(Memory), Some(L1)));
        assert_eq!(at(&mut caches, 1), L1, "a fetch is none of data's");
    }

    #[test]
    fn a_line_is_as_long_as_the_machine_says() {
        for line in [16, 32, 64, 128] {
            let mut caches = Hierarchy::new(&[shape(1, 1, line, Policy::Lru, By::Machine)]);
            assert_eq!(read(&mut caches, 0), Memory);
            assert_eq!((read(&mut caches, line - 8), read(&mut caches, line)), (L1, Memory));
        }
    }
}
