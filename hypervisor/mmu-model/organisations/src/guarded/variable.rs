// SPDX-License-Identifier: MIT
//! Nodes that change their size with what lies in them, which the thesis proposes (section 4.2: "dynamically variable") and
//! did not build: where pages lie close, one wide node saves steps; where they lie apart, a narrow one saves entries.
//!
//! The rule is ours. A node is doubled if half of its entries would then lead somewhere, and halved if less than an eighth
//! does; so none changes to and fro. Refills need no more than before: no step asks how wide a node is.

use std::collections::BTreeSet;

use super::{Guarded, LOW, Node};
use crate::arena::Arena;
use crate::table::Space;

/// The widest node, as log2 of its entries: the largest that the thesis measured.
const WIDEST: u32 = 8;

impl Guarded {
    /// Give the nodes on the way to an address the sizes that fit, from the last to the first below the root.
    pub(super) fn fit(&self, arena: &mut Arena, space: Space, address: u64) {
        if !self.variable {
            return;
        }
        let way = |arena: &Arena| self.descend(arena, space, address).map_or_else(Vec::new, |(path, _)| path);
        let mut path = way(arena);
        let mut place = path.len().saturating_sub(1);
        while place > 0 {
            if resized(arena, path[place - 1], path[place], address) {
                path = way(arena);
                place = place.min(path.len() - 1);
            } else {
                place -= 1;
            }
        }
    }
}

/// Whether the node was replaced by one of another size.
fn resized(arena: &mut Arena, above: Node, node: Node, address: u64) -> bool {
    let used: Vec<u64> = (0..1 << node.width).filter(|index| node.read(arena, *index).is_some()).collect();
    if node.width > 1 && used.len() * 8 < 1 << node.width {
        halve(arena, above, node, &used, address);
        return true;
    }
    if node.width == WIDEST || node.shift == LOW {
        return false;
    }
    let doubled: u64 = used.iter().map(|index| parts(arena, node, *index)).sum();
    // Where nothing of a node below is taken in, no step is saved.
    let doubles = doubled > used.len() as u64 && doubled * 2 >= 2 << node.width;
    if doubles {
        double(arena, above, node, &used, address);
    }
    doubles
}

/// How many entries one becomes where its node has one bit more: two if it stands for both of that bit's values.
fn parts(arena: &Arena, node: Node, index: u64) -> u64 {
    let entry = node.read(arena, index).expect("it is used");
    if entry.left < node.shift {
        return 1;
    }
    if node.is_leaf(index, &entry) {
        return 2;
    }
    let next = entry.next();
    let half = 1 << (next.width - 1);
    [0, half].into_iter().filter(|first| !within(arena, next, *first, half).is_empty()).count() as u64
}

fn double(arena: &mut Arena, above: Node, node: Node, used: &[u64], address: u64) {
    let new = Guarded::make(arena, node.shift - 1, node.width + 1);
    for &index in used {
        let entry = node.read(arena, index).expect("it is used");
        let leaf = node.is_leaf(index, &entry);
        if leaf || entry.left < node.shift {
            new.attach(arena, node.key(index, &entry), &entry, leaf);
            continue;
        }
        // The node below has lost its uppermost bit to this one.
        let next = entry.next();
        for first in [0, 1 << (next.width - 1)] {
            let half = within(arena, next, first, 1 << (next.width - 1));
            take_in(arena, new, next, index << node.shift, &half, next.width - 1);
        }
        give_back(arena, next);
    }
    above.write_next(arena, address, node.shift + node.width, new);
    give_back(arena, node);
}

fn halve(arena: &mut Arena, above: Node, node: Node, used: &[u64], address: u64) {
    let pairs: BTreeSet<u64> = used.iter().map(|index| index >> 1).collect();
    let pair_of = |pair: u64| used.iter().copied().filter(|index| index >> 1 == pair).collect::<Vec<_>>();
    let top = node.shift + node.width;
    if let (Some(pair), 1) = (pairs.first(), pairs.len()) {
        // All lies in one: a node of two entries behind a longer guard.
        let prefix = address >> top << top | pair << (node.shift + 1);
        take_in_above(arena, above, node, prefix, &pair_of(*pair));
    } else {
        let new = Guarded::make(arena, node.shift + 1, node.width - 1);
        for pair in pairs {
            take_in(arena, new, node, 0, &pair_of(pair), 1);
        }
        above.write_next(arena, address, top, new);
    }
    give_back(arena, node);
}

/// The used indices of so many from the first.
fn within(arena: &Arena, node: Node, first: u64, many: u64) -> Vec<u64> {
    (first..first + many).filter(|index| node.read(arena, *index).is_some()).collect()
}

/// Put these entries of another node, which all fall to one entry of `into`, there: directly if it is one, else in a node of
/// this width.
fn take_in(arena: &mut Arena, into: Node, from: Node, prefix: u64, used: &[u64], width: u32) {
    let Some(&first) = used.first() else { return };
    let entry = from.read(arena, first).expect("it is used");
    let key = prefix | from.key(first, &entry);
    if used.iter().all(|index| from.read(arena, *index).is_some_and(|other| other.to == entry.to)) {
        let leaf = from.is_leaf(first, &entry);
        into.attach(arena, key, &entry, leaf);
        return;
    }
    let part = Guarded::make(arena, from.shift, width);
    for &index in used {
        let entry = from.read(arena, index).expect("it is used");
        let leaf = from.is_leaf(index, &entry);
        part.attach(arena, prefix | from.key(index, &entry), &entry, leaf);
    }
    into.write_next(arena, key, from.shift + width, part);
}

/// The same for all entries of a node that lie in one pair: they get a node of two.
fn take_in_above(arena: &mut Arena, above: Node, from: Node, prefix: u64, used: &[u64]) {
    let part = Guarded::make(arena, from.shift, 1);
    for &index in used {
        let entry = from.read(arena, index).expect("it is used");
        let leaf = from.is_leaf(index, &entry);
        part.attach(arena, from.key(index, &entry), &entry, leaf);
    }
    above.write_next(arena, prefix, from.shift + 1, part);
}

fn give_back(arena: &mut Arena, node: Node) {
    let bytes = 16 << node.width;
    arena.give_back(node.at, bytes, bytes);
}
