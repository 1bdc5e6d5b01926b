// SPDX-License-Identifier: MIT
//! A first-level TLB: pieces of 4 KiB of translations that the second level holds (thesis 4.2). It changes no answer,
//! only who gives it: what a piece says is read where it came from.
//!
//! Choices: its entries are replaced least recently used first, whatever the second level does; one whose translation
//! has left the second level is gone; a hit is not seen by the second level.

use serde::{Deserialize, Serialize};

use crate::fields::within;
use crate::tlb::{Place, Tlb};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Piece {
    rid: u32,
    page: u64,
    place: Place,
    born: u64,
    used: u64,
}

/// A first-level TLB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct First {
    pieces: Vec<Piece>,
    entries: usize,
    clock: u64,
}

impl First {
    pub(crate) fn new(entries: usize) -> Self {
        Self { pieces: vec![], entries, clock: 0 }
    }

    /// Where the second level has the translation of an address, if there is a piece for it here.
    pub(crate) fn find(&mut self, second: &Tlb, rid: u32, va: u64) -> Option<Place> {
        let page = within(va) >> 12;
        let at = self.pieces.iter().position(|piece| piece.page == page && piece.rid == rid)?;
        let piece = &mut self.pieces[at];
        if second.born(piece.place) != Some(piece.born) {
            self.pieces.swap_remove(at);
            return None;
        }
        self.clock += 1;
        piece.used = self.clock;
        Some(piece.place)
    }

    /// Remembers that this place of the second level has the translation of an address.
    pub(crate) fn fill(&mut self, second: &Tlb, rid: u32, va: u64, place: Place) {
        let Some(born) = second.born(place) else { return };
        if self.entries == 0 {
            return;
        }
        if self.pieces.len() == self.entries {
            let stays = |piece: &Piece| second.born(piece.place) == Some(piece.born);
            let victim = self.pieces.iter().enumerate().min_by_key(|(_, piece)| (stays(piece), piece.used));
            self.pieces.swap_remove(victim.map_or(0, |(at, _)| at));
        }
        self.clock += 1;
        self.pieces.push(Piece { rid, page: within(va) >> 12, place, born, used: self.clock });
    }
}
