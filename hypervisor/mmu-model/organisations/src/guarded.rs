// SPDX-License-Identifier: MIT
//! Guarded page tables: Elphinstone, *Virtual Memory in a 64-bit Microkernel*, UNSW 1999, chapter 4 and appendix B.
//!
//! A radix tree in which bits that do not decide anything are skipped: an entry's guard is compared with them. An entry
//! is two words of 8 bytes: G (bits 63 to 12), the shift of the next node less 4 (11 to 6) and the number of bits left
//! (5 to 0); then a pointer plus 15. G holds the entry's own index and its guard, so that one XOR takes both off
//! the address. A leaf's G holds a wrong index on purpose: it ends the loop, which needs no other test.
//!
//! Nodes have one size of 2^k entries and lie on boundaries of k bits, counted up from the pair of base pages (bit 13); the
//! root decodes what is left at the top; or nodes change their size (`variable.rs`). The order of the entries' bits is the
//! thesis's; a leaf points to the 16 bytes {PTE, PTE, mapping, mapping} of a pair.

use std::collections::BTreeMap;

use mmu_model::address::{Machine, PageSize};

use crate::arena::Arena;
use crate::table::{Level, Pair, Shape, Space, Store, Table, Visit};

mod variable;

/// The lowest bit that a tree decodes: entries of the R4x00's TLB map pairs of pages.
const LOW: u32 = 13;
/// Bytes of a leaf.
const LEAF: u64 = 16;
/// Instructions before the loop and after it, of which the thesis prints none: 38 in all, by its raw tables. What a refill
/// takes there (A.1), less 8 a step (A.6 to A.13) and less what the same program's software TLB waits for a line as large as
/// a leaf's (A.33, less 19), is 36 for compress, 38 for tfftdp, 40 for nsieve and 42 for mm, at whatever size of nodes from
/// G8 on. Before it four registers are to be had, of which the processor leaves two free, and the root is loaded.
const BEFORE: u64 = 15;
/// See above: the test, two loads, two moves to the TLB's registers, its write, registers restored and the return.
const AFTER: u64 = 23;
/// Of one step of the loop (appendix B.1.3).
const STEP: u64 = 8;

/// Trees of one node size, one for each address space.
#[derive(Debug)]
pub struct Guarded {
    /// log2 of the entries of a node.
    bits: u32,
    /// That is how nodes begin; they grow and shrink.
    variable: bool,
    /// The TLB takes pairs, of large pages too; else only base pages lie in pairs.
    pairs: bool,
    roots: BTreeMap<Space, Machine>,
    sizes: Vec<PageSize>,
}

/// An entry, unpacked.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// G.
    guard: u64,
    /// The shift of the next node; of a leaf 64 less the length of its guard.
    next_shift: u32,
    /// Bits left.
    left: u32,
    to: u64,
}

impl Entry {
    /// The node that it points at: it decodes what its guard has left, down to its own shift.
    const fn next(&self) -> Node {
        Node { at: Machine::new(self.to), shift: self.next_shift, width: self.left - self.next_shift }
    }
}

/// A node on the way to an address.
#[derive(Clone, Copy, Debug)]
struct Node {
    at: Machine,
    shift: u32,
    width: u32,
}

/// What the way to an address ends with.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// No entry.
    Nil,
    /// An entry whose guard does not match; the number is the highest bit that differs.
    Mismatch(u32),
    /// Its leaf.
    Leaf(Machine),
}

const fn low(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Node {
    fn index(&self, address: u64) -> u64 {
        address >> self.shift & low(self.width)
    }

    fn entry(&self, index: u64) -> Machine {
        self.at.plus(index * 16)
    }

    /// The bit of an index that a leaf's guard has wrong.
    fn wrong(&self) -> u64 {
        1 << (self.shift + self.width - 1)
    }

    fn read(&self, arena: &Arena, index: u64) -> Option<Entry> {
        let at = self.entry(index);
        let (first, to) = (arena.get64(at), arena.get64(at.plus(8)));
        let (next_shift, left) = ((first >> 6 & 63) as u32 + 4, (first & 63) as u32);
        (to != 0).then(|| Entry { guard: first & !0xfff, next_shift, left, to: to - 15 })
    }

    fn is_leaf(&self, index: u64, entry: &Entry) -> bool {
        (entry.guard ^ index << self.shift) & self.wrong() != 0
    }

    /// The address's bits that an entry stands for, from this node's downwards.
    fn key(&self, index: u64, entry: &Entry) -> u64 {
        index << self.shift | entry.guard & low(self.shift) & !low(entry.left)
    }

    fn write(&self, arena: &mut Arena, index: u64, entry: Entry) {
        let first = entry.guard | u64::from((entry.next_shift - 4) & 63) << 6 | u64::from(entry.left);
        arena.put64(self.entry(index), first);
        arena.put64(self.entry(index).plus(8), entry.to + 15);
    }

    /// No entry: a guard that never matches.
    fn write_nil(&self, arena: &mut Arena, index: u64) {
        let guard = (index << self.shift ^ self.wrong()) & !0xfff;
        arena.put64(self.entry(index), guard | u64::from(self.shift));
        arena.put64(self.entry(index).plus(8), 0);
    }

    /// Point at a leaf that stands for 2^left bytes. One larger than what an index stands for has several.
    fn write_leaf(&self, arena: &mut Arena, address: u64, left: u32, leaf: Machine) {
        let slots = 1 << left.saturating_sub(self.shift);
        let first = self.index(address) & !(slots - 1);
        for index in first..first + slots {
            let guard = (index << self.shift ^ self.wrong() | address & low(self.shift)) & !low(left);
            let next_shift = 64 - self.shift.saturating_sub(left);
            self.write(arena, index, Entry { guard, next_shift, left, to: leaf.raw() });
        }
    }

    fn write_next(&self, arena: &mut Arena, address: u64, left: u32, next: Node) {
        let index = self.index(address);
        let guard = (index << self.shift | address & low(self.shift)) & !low(left);
        self.write(arena, index, Entry { guard, next_shift: next.shift, left, to: next.at.raw() });
    }
}

impl Node {
    /// Put an entry that stood elsewhere into this node, for the same key.
    fn attach(&self, arena: &mut Arena, key: u64, entry: &Entry, leaf: bool) {
        if leaf {
            self.write_leaf(arena, key, entry.left, Machine::new(entry.to));
        } else {
            self.write_next(arena, key, entry.left, entry.next());
        }
    }
}

impl Guarded {
    /// Nodes of this many entries: a power of two from 2 to 256. Whether the TLB takes pairs of large pages.
    pub fn new(entries: u32, pairs: bool) -> Self {
        assert!(entries.is_power_of_two() && (2..=256).contains(&entries), "{entries} entries a node");
        // Where large pages are single, one of 8 KiB would look like a pair of base pages.
        let sizes = (12..=32).filter(|shift| pairs || *shift != 13).map(PageSize::of_shift).collect();
        Self { bits: entries.trailing_zeros(), variable: false, pairs, roots: BTreeMap::new(), sizes }
    }

    /// Nodes that begin with two entries, and are as large as what lies in them makes worth while.
    pub fn of_any_size(pairs: bool) -> Self {
        Self { variable: true, ..Self::new(2, pairs) }
    }

    /// The bits of an address that a leaf with pages of this size stands for, and where in it a page's entry is.
    fn in_leaf(&self, address: u64, size: PageSize) -> (u32, u64) {
        if self.pairs || size == PageSize::K4 {
            (size.shift() + 1, (address >> size.shift() & 1) * 4)
        } else {
            (size.shift(), 0)
        }
    }

    /// The size of the pages of a leaf that stands for so many bits.
    fn size_of(&self, left: u32) -> PageSize {
        PageSize::of_shift(if self.pairs || left == LOW { left - 1 } else { left })
    }

    fn make(arena: &mut Arena, shift: u32, width: u32) -> Node {
        let bytes = 16 << width;
        let node = Node { at: arena.take(bytes, bytes), shift, width };
        (0..1 << width).for_each(|index| node.write_nil(arena, index));
        node
    }

    /// Where the root begins to decode, and how many bits.
    const fn top(&self) -> (u32, u32) {
        let width = if (64 - LOW) % self.bits == 0 { self.bits } else { (64 - LOW) % self.bits };
        (64 - width, width)
    }

    fn root(&self, space: Space) -> Option<Node> {
        let (shift, width) = self.top();
        self.roots.get(&space).map(|at| Node { at: *at, shift, width })
    }

    /// The nodes on the way to an address, the last first to be changed, and what it ends with.
    fn descend(&self, arena: &Arena, space: Space, address: u64) -> Option<(Vec<Node>, End)> {
        let mut node = self.root(space)?;
        let mut path = vec![];
        loop {
            path.push(node);
            let index = node.index(address);
            let Some(entry) = node.read(arena, index) else { return Some((path, End::Nil)) };
            let differs = (address ^ entry.guard) & low(node.shift) & !low(entry.left);
            if differs != 0 {
                return Some((path, End::Mismatch(63 - differs.leading_zeros())));
            }
            if node.is_leaf(index, &entry) {
                return Some((path, End::Leaf(Machine::new(entry.to))));
            }
            node = entry.next();
        }
    }

    /// The leaf of an address, and the bits that it stands for: each miss asks this twice, so no path is kept.
    fn find(&self, arena: &Arena, space: Space, address: u64) -> Option<(Machine, u32)> {
        let mut node = self.root(space)?;
        loop {
            let index = node.index(address);
            let entry = node.read(arena, index)?;
            if (address ^ entry.guard) & low(node.shift) & !low(entry.left) != 0 {
                return None;
            }
            if node.is_leaf(index, &entry) {
                return Some((Machine::new(entry.to), entry.left));
            }
            node = entry.next();
        }
    }

    /// The leaf for an address that stands for 2^left bytes, made if need be. Nothing else lies in it.
    fn place(&mut self, arena: &mut Arena, space: Space, address: u64, left: u32) -> Machine {
        let (shift, width) = self.top();
        self.roots.entry(space).or_insert_with(|| Self::make(arena, shift, width).at);
        let (path, end) = self.descend(arena, space, address).expect("there is a root");
        let node = path[path.len() - 1];
        let differs = match end {
            End::Leaf(leaf) => return leaf,
            End::Mismatch(bit) => Some(bit),
            End::Nil => None,
        };
        let leaf = arena.take(LEAF, LEAF);
        let Some(bit) = differs else {
            node.write_leaf(arena, address, left, leaf);
            self.fit(arena, space, address);
            return leaf;
        };
        // A node where they part, with what was there and the new leaf.
        let index = node.index(address);
        let old = node.read(arena, index).expect("it did not match");
        let was_leaf = node.is_leaf(index, &old);
        let parts = Self::make(arena, LOW + (bit - LOW) / self.bits * self.bits, self.bits);
        let key = node.key(index, &old);
        parts.attach(arena, key, &old, was_leaf);
        parts.write_leaf(arena, address, left, leaf);
        node.write_next(arena, address, parts.shift + parts.width, parts);
        self.fit(arena, space, address);
        leaf
    }

    /// Take the leaf of an address out of the tree, with the nodes that are needed no more.
    fn remove(&mut self, store: &mut Store, space: Space, address: u64) -> Vec<u32> {
        let arena = &mut store.arena;
        let Some((mut path, End::Leaf(leaf))) = self.descend(arena, space, address) else { return vec![] };
        let gone = [0, 4].map(|half| arena.get32(leaf.plus(half)));
        arena.give_back(leaf, LEAF, LEAF);
        let mut node = path.pop().expect("a path has a node");
        let entry = node.read(arena, node.index(address)).expect("it leads to the leaf");
        let slots = 1 << entry.left.saturating_sub(node.shift);
        let first = node.index(address) & !(slots - 1);
        (first..first + slots).for_each(|index| node.write_nil(arena, index));
        while let Some(above) = path.pop() {
            let left: Vec<(u64, Entry)> =
                (0..1 << node.width).filter_map(|index| Some((index, node.read(arena, index)?))).collect();
            let Some(&(index, only)) = left.first() else { unreachable!("a node has two entries at least") };
            if left.iter().any(|(_, entry)| entry.to != only.to) {
                break;
            }
            // Its only entry stands where the node stood, with both guards in one.
            let over = above.read(arena, above.index(address)).expect("it leads to the node");
            let key = above.key(above.index(address), &over) | node.key(index, &only);
            let was_leaf = node.is_leaf(index, &only);
            above.attach(arena, key, &only, was_leaf);
            let bytes = 16 << node.width;
            arena.give_back(node.at, bytes, bytes);
            node = above;
        }
        self.fit(arena, space, address);
        gone.into_iter().filter(|entry| *entry != 0).collect()
    }

    /// Every entry below a node: which it is, its node's depth, and whether it is a leaf's.
    fn walk(arena: &Arena, node: Node, depth: u64, each: &mut impl FnMut(u64, u64, &Entry, bool, u64)) -> u64 {
        let mut nil = 0;
        for index in 0..1 << node.width {
            let Some(entry) = node.read(arena, index) else {
                nil += 1;
                continue;
            };
            let leaf = node.is_leaf(index, &entry);
            each(node.key(index, &entry), u64::from(node.shift), &entry, leaf, depth);
            if !leaf {
                let next = entry.next();
                nil += Self::walk(arena, next, depth + 1, each);
            }
        }
        nil
    }

    /// Addresses of leaves that lie in the 2^bits bytes around the address and are smaller.
    fn smaller_within(&self, arena: &Arena, space: Space, address: u64, bits: u32) -> Vec<u64> {
        let Some(mut node) = self.root(space) else { return vec![] };
        let mut prefix = 0;
        loop {
            let index = node.index(address);
            if node.shift < bits {
                break;
            }
            let Some(entry) = node.read(arena, index) else { return vec![] };
            let differs = (address ^ entry.guard) & low(node.shift) & !low(entry.left) & !low(bits);
            if differs != 0 {
                return vec![];
            }
            prefix |= node.key(index, &entry);
            if node.is_leaf(index, &entry) {
                return if entry.left < bits { vec![prefix] } else { vec![] };
            }
            node = entry.next();
        }
        let mut found = vec![];
        Self::keys(arena, node, prefix, &mut found);
        found.retain(|(key, left)| (key ^ address) & !low(bits) == 0 && *left < bits);
        found.into_iter().map(|(key, _)| key).collect()
    }

    /// Addresses of all leaves below a node, and the bits that each stands for.
    fn keys(arena: &Arena, node: Node, prefix: u64, found: &mut Vec<(u64, u32)>) {
        for index in 0..1 << node.width {
            let Some(entry) = node.read(arena, index) else { continue };
            let key = prefix | node.key(index, &entry) & !low(entry.left);
            if !node.is_leaf(index, &entry) {
                let next = entry.next();
                Self::keys(arena, next, key, found);
            } else if found.last() != Some(&(key, entry.left)) {
                found.push((key, entry.left));
            }
        }
    }
}

impl Table for Guarded {
    fn sizes(&self) -> &[PageSize] {
        &self.sizes
    }

    fn set(&mut self, store: &mut Store, space: Space, address: u64, size: PageSize, entry: u32) -> Vec<u32> {
        let (left, half) = self.in_leaf(address, size);
        let mut gone = vec![];
        // What is larger and holds the address goes, and what is smaller and lies in the pair.
        if self.find(&store.arena, space, address).is_some_and(|(_, found)| found > left) {
            gone.extend(self.remove(store, space, address));
        }
        if left > LOW {
            for other in self.smaller_within(&store.arena, space, address, left) {
                gone.extend(self.remove(store, space, other));
            }
        }
        if entry == 0 && self.find(&store.arena, space, address).is_none() {
            return gone;
        }
        let leaf = self.place(&mut store.arena, space, address, left);
        let old = store.arena.get32(leaf.plus(half));
        gone.extend((old != 0 && old != entry).then_some(old));
        store.arena.put32(leaf.plus(half), entry);
        if store.arena.get64(leaf) == 0 {
            self.remove(store, space, address);
        }
        gone
    }

    fn get(&self, store: &Store, space: Space, address: u64) -> (u32, PageSize) {
        let Some((leaf, left)) = self.find(&store.arena, space, address) else { return (0, PageSize::K4) };
        let size = self.size_of(left);
        (store.arena.get32(leaf.plus(self.in_leaf(address, size).1)), size)
    }

    /// The subtree of the region, every entry of it.
    fn within(&self, store: &Store, space: Space, begin: u64, bytes: u64) -> Vec<(u64, PageSize)> {
        let bits = bytes.trailing_zeros();
        let around = self.find(&store.arena, space, begin).filter(|(_, left)| *left >= bits);
        let keys = match around {
            Some((_, left)) => vec![begin & !low(left)],
            None => self.smaller_within(&store.arena, space, begin, bits),
        };
        let mut found = vec![];
        for key in keys {
            let (leaf, left) = self.find(&store.arena, space, key).expect("it was found");
            let size = self.size_of(left);
            let halves: &[u64] = if self.pairs || left == LOW { &[0, 1] } else { &[0] };
            let mapped = halves.iter().filter(|half| store.arena.get32(leaf.plus(**half * 4)) != 0);
            found.extend(mapped.map(|half| (key + half * size.bytes(), size)));
        }
        found.retain(|(at, size)| (at ^ begin) & !(bytes - 1) & !size.offset_mask() == 0);
        found
    }

    fn refill(&mut self, store: &mut Store, space: Space, address: u64, visit: &mut dyn Visit) -> Option<Pair> {
        visit.run(Level::User, 0, BEFORE);
        let root = self.root(space)?;
        // The loop of appendix B.1.3, on the words that it loads.
        let (mut p, mut shift, mut v) = (root.at, root.shift, address);
        let left = loop {
            visit.run(Level::User, BEFORE, STEP);
            let at = p.plus((v >> shift) * 16);
            visit.load(Level::User, at, 16);
            let first = store.arena.get64(at);
            p = Machine::new(store.arena.get64(at.plus(8)).wrapping_sub(15));
            v ^= first & !0xfff;
            shift = (first >> 6 & 63) as u32 + 4;
            let left = (first & 63) as u32;
            if v >> left != 0 {
                break left;
            }
        };
        visit.run(Level::User, BEFORE + STEP, AFTER);
        if (v >> left).checked_shl(shift).unwrap_or(0) != 0 {
            return None;
        }
        visit.load(Level::User, p, 8);
        let pair = [store.arena.get32(p), store.arena.get32(p.plus(4))];
        Some(if self.pairs || left == LOW { pair } else { [pair[0]; 2] })
    }

    fn end(&mut self, store: &mut Store, space: Space) -> Vec<u32> {
        let Some(root) = self.root(space) else { return vec![] };
        let mut keys = vec![];
        Self::keys(&store.arena, root, 0, &mut keys);
        let gone = keys.into_iter().flat_map(|(key, _)| self.remove(store, space, key)).collect();
        let bytes = 16 << root.width;
        store.arena.give_back(root.at, bytes, bytes);
        self.roots.remove(&space);
        gone
    }

    fn shape(&self, store: &Store) -> Shape {
        let (mut leaves, mut inner, mut depths, mut null) = (0, 0, 0, 0);
        for space in self.roots.keys() {
            let root = self.root(*space).expect("it is listed");
            null += Self::walk(&store.arena, root, 1, &mut |_, _, _, leaf, depth| {
                leaves += u64::from(leaf);
                inner += u64::from(!leaf);
                depths += if leaf { depth } else { 0 };
            });
        }
        let nodes = inner + self.roots.len() as u64;
        [
            ("bytes", store.arena.used()),
            ("nodes", nodes),
            ("entries_null", null),
            ("entries_leaf", leaves),
            ("entries_internal", inner),
            ("depths", depths),
        ]
        .into()
    }
}
