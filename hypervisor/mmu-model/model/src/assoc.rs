// SPDX-License-Identifier: MIT
//! A set-associative store with tags: TLBs, paging-structure caches and the nested TLB are made of it.

use serde::Deserialize;

/// Which entry of a full set gives way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replacement {
    /// The one used longest ago.
    Lru,
    /// The one that a binary tree of last directions points at (ways: a power of two, 64 at most).
    Plru,
    /// Any, by a generator with a fixed seed.
    Random,
}

/// Number of entries and ways; no entries: the structure is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Entries in all.
    pub entries: u32,
    /// Entries a set.
    pub ways: u32,
    /// Which of them gives way.
    pub replacement: Replacement,
}

/// An entry without its key.
#[derive(Clone, Copy, Debug)]
pub struct Slot<V> {
    /// Address-space tag.
    pub tag: u64,
    /// The bits of the tag that must agree.
    pub mask: u64,
    stamp: u64,
    /// What is remembered.
    pub value: V,
}

impl<V> Slot<V> {
    /// Whether the entry serves this address space.
    #[inline]
    pub const fn serves(&self, tag: u64) -> bool {
        (self.tag ^ tag) & self.mask == 0
    }
}

/// The key of an unused entry; no structure's real keys reach it.
const UNUSED: u64 = u64::MAX;

/// The store. Keys lie beside each other, so that one set is searched in one or two cache lines.
#[derive(Clone, Debug)]
pub struct Assoc<V> {
    set_mask: u64,
    ways: usize,
    keys: Vec<u64>,
    slots: Vec<Slot<V>>,
    /// Which insertion each entry is of; 0: none. So whoever remembers a place can tell whether it still holds the same.
    births: Vec<u64>,
    insertions: u64,
    replacement: Replacement,
    trees: Vec<u64>,
    /// By way: the bits of a tree that a use keeps, and those it sets. A node then points away from the way used.
    turns: Vec<(u64, u64)>,
    /// One bit a set that may hold something: a flush costs what there is to forget, not what there is room for.
    occupied: Vec<u64>,
    clock: u64,
    random: u64,
}

impl<V: Copy + Default> Assoc<V> {
    /// An empty store. Sets must be a power of two, which [`crate::cpu`] checks for CPU files.
    pub fn new(geometry: Geometry) -> Self {
        let (entries, ways) = (geometry.entries as usize, geometry.ways.max(1) as usize);
        let sets = entries / ways;
        assert!(entries % ways == 0 && (sets == 0 || sets.is_power_of_two()), "{geometry:?}");
        Self {
            set_mask: (sets as u64).saturating_sub(1),
            ways,
            keys: vec![UNUSED; entries],
            slots: vec![Slot { tag: 0, mask: u64::MAX, stamp: 0, value: V::default() }; entries],
            births: vec![0; entries],
            insertions: 0,
            replacement: geometry.replacement,
            trees: vec![0; if geometry.replacement == Replacement::Plru { sets } else { 0 }],
            turns: if geometry.replacement == Replacement::Plru { turns(ways) } else { vec![] },
            occupied: vec![0; sets.div_ceil(64)],
            clock: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Whether there is no room at all.
    pub fn is_absent(&self) -> bool {
        self.keys.is_empty()
    }

    /// Which insertion the entry at this place is of; 0: there is no entry.
    #[inline]
    pub fn birth(&self, at: usize) -> u64 {
        self.births[at]
    }

    /// The entry at this place.
    #[inline]
    pub fn slot(&self, at: usize) -> &Slot<V> {
        &self.slots[at]
    }

    /// Where the entry with this key that serves this address space is; `set_index` chooses the set.
    #[inline]
    pub fn find(&self, set_index: u64, key: u64, tag: u64) -> Option<usize> {
        if self.keys.is_empty() {
            return None;
        }
        let first = (set_index & self.set_mask) as usize * self.ways;
        let keys = &self.keys[first..first + self.ways];
        // Most sets hold no such key: that is found without a branch a way.
        #[allow(clippy::needless_bitwise_bool)]
        if !keys.iter().fold(false, |found, k| found | (*k == key)) {
            return None;
        }
        (first..first + self.ways).find(|&at| self.keys[at] == key && self.slots[at].serves(tag))
    }

    /// Where an entry with this key is of which `wanted` holds, whatever its tag.
    pub fn find_where(&self, set_index: u64, key: u64, mut wanted: impl FnMut(&Slot<V>) -> bool) -> Option<usize> {
        let first = (set_index & self.set_mask) as usize * self.ways;
        let range = if self.keys.is_empty() { 0..0 } else { first..first + self.ways };
        range.into_iter().find(|&at| self.keys[at] == key && wanted(&self.slots[at]))
    }

    /// Note a use of the entry at this place.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a call more for each access
    pub fn touch(&mut self, at: usize) {
        if self.replacement == Replacement::Plru {
            // Ways are a power of two here.
            let (set, way) = (at >> self.ways.trailing_zeros(), at & (self.ways - 1));
            let (keep, put) = self.turns[way];
            let tree = &mut self.trees[set];
            *tree = *tree & keep | put;
        } else {
            self.clock += 1;
            self.slots[at].stamp = self.clock;
        }
    }

    fn victim(&mut self, set: usize) -> usize {
        let first = set * self.ways;
        let range = first..first + self.ways;
        if let Some(free) = self.keys[range.clone()].iter().position(|k| *k == UNUSED) {
            return first + free;
        }
        match self.replacement {
            Replacement::Lru => range.min_by_key(|at| self.slots[*at].stamp).unwrap_or(first),
            Replacement::Random => {
                // xorshift64
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                first + (self.random % self.ways as u64) as usize
            }
            Replacement::Plru => {
                let (mut node, mut half, mut way) = (1, self.ways / 2, 0);
                while half > 0 {
                    let right = self.trees[set] >> node & 1 == 1;
                    way += if right { half } else { 0 };
                    node = node * 2 + usize::from(right);
                    half /= 2;
                }
                first + way
            }
        }
    }

    /// Remember something, in place of an equal entry, an unused one, or the one that gives way.
    ///
    /// Returns where it is, and the key and value that were lost.
    pub fn insert(&mut self, set_index: u64, key: u64, tag: u64, mask: u64, value: V) -> Option<(usize, Lost<V>)> {
        if self.keys.is_empty() {
            return None;
        }
        debug_assert_ne!(key, UNUSED);
        let set = (set_index & self.set_mask) as usize;
        let at = self.find(set_index, key, tag).unwrap_or_else(|| self.victim(set));
        let lost = (self.keys[at] != UNUSED).then(|| (self.keys[at], self.slots[at].value));
        self.keys[at] = key;
        self.slots[at] = Slot { tag, mask, stamp: 0, value };
        self.insertions += 1;
        self.births[at] = self.insertions;
        self.occupied[set / 64] |= 1 << (set % 64);
        self.touch(at);
        Some((at, lost))
    }

    /// Forget the entry at this place.
    pub fn remove(&mut self, at: usize) {
        self.keys[at] = UNUSED;
        self.births[at] = 0;
    }

    /// Forget every entry of which `stays` (given key and entry) is false; returns how many.
    pub fn retain(&mut self, mut stays: impl FnMut(u64, &Slot<V>) -> bool) -> u64 {
        let mut gone = 0;
        for group in 0..self.occupied.len() {
            let mut bits = self.occupied[group];
            while bits != 0 {
                let set = group * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let mut left = false;
                for at in set * self.ways..(set + 1) * self.ways {
                    if self.keys[at] == UNUSED {
                    } else if stays(self.keys[at], &self.slots[at]) {
                        left = true;
                    } else {
                        self.remove(at);
                        gone += 1;
                    }
                }
                if !left {
                    self.occupied[group] &= !(1 << (set % 64));
                }
            }
        }
        gone
    }

    /// Key and entry of all that is in use.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &Slot<V>)> {
        self.keys.iter().copied().zip(&self.slots).filter(|(key, _)| *key != UNUSED)
    }

    /// How many entries `is` is true for.
    pub fn count(&self, mut is: impl FnMut(&Slot<V>) -> bool) -> u64 {
        self.entries().filter(|(_, slot)| is(slot)).count() as u64
    }

    /// How many entries are in use.
    pub fn len(&self) -> usize {
        self.keys.iter().filter(|k| **k != UNUSED).count()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a use of each way turns the nodes of a binary tree, the root being node 1.
fn turns(ways: usize) -> Vec<(u64, u64)> {
    let turn = |way: usize| {
        let (mut keep, mut put) = (u64::MAX, 0);
        let (mut node, mut low, mut half) = (1, 0, ways / 2);
        while half > 0 {
            let right = way >= low + half;
            keep &= !(1 << node);
            put |= u64::from(!right) << node;
            low += if right { half } else { 0 };
            node = node * 2 + usize::from(right);
            half /= 2;
        }
        (keep, put)
    };
    (0..ways).map(turn).collect()
}

/// What an insertion displaced.
pub type Lost<V> = Option<(u64, V)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn store(entries: u32, ways: u32, replacement: Replacement) -> Assoc<u32> {
        Assoc::new(Geometry { entries, ways, replacement })
    }

    #[test]
    fn lru_gives_way_in_order_of_use() {
        let mut s = store(2, 2, Replacement::Lru);
        s.insert(0, 10, 0, u64::MAX, 1);
        let (second, _) = s.insert(0, 11, 0, u64::MAX, 2).unwrap();
        let first = s.find(0, 10, 0).unwrap();
        s.touch(first);
        assert_eq!(s.insert(0, 12, 0, u64::MAX, 3), Some((second, Some((11, 2)))));
    }

    #[test]
    fn plru_never_evicts_the_last_used() {
        let mut s = store(8, 8, Replacement::Plru);
        for key in 0..1000 {
            s.insert(0, key, 0, u64::MAX, 0);
            let (_, lost) = s.insert(0, key + 10_000, 0, u64::MAX, 0).unwrap();
            assert_ne!(lost.map(|(k, _)| k), Some(key));
        }
    }

    #[test]
    fn plru_with_two_ways_is_lru() {
        let (mut tree, mut lru) = (store(2, 2, Replacement::Plru), store(2, 2, Replacement::Lru));
        for key in [1, 2, 1, 3, 3, 2, 1, 2, 3, 1, 1, 2] {
            assert_eq!(tree.insert(0, key, 0, u64::MAX, 0), lru.insert(0, key, 0, u64::MAX, 0));
        }
    }

    #[test]
    fn tags_keep_address_spaces_apart_unless_masked() {
        let mut s = store(4, 4, Replacement::Lru);
        s.insert(0, 7, 1, u64::MAX, 1);
        assert_eq!(s.find(0, 7, 2), None);
        s.insert(0, 8, 1, 0, 1);
        assert!(s.find(0, 8, 2).is_some());
    }

    #[test]
    fn retain_counts_and_forgets() {
        let mut s = store(256, 2, Replacement::Lru);
        for key in 0..200 {
            s.insert(key, key, key % 3, u64::MAX, 0);
        }
        let before = s.len() as u64;
        let gone = s.retain(|_, slot| slot.tag != 1);
        assert_eq!(before - gone, s.len() as u64);
        assert!((0..200).all(|k| k % 3 != 1 || s.find(k, k, 1).is_none()));
        assert_eq!(s.retain(|_, _| false), s_before(before, gone));
        assert!(s.is_empty());
    }

    fn s_before(before: u64, gone: u64) -> u64 {
        before - gone
    }
}
