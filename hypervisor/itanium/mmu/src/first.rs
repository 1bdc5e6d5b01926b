// SPDX-License-Identifier: MIT
//! A first-level TLB: pieces of 4 KiB of translations that the second level holds (thesis 4.2). It changes no answer,
//! only who gives it: what a piece says is read where it came from.
//!
//! Choices: its entries are replaced least recently used first, whatever the second level does; one whose translation
//! has left the second level is gone; a hit is not seen by the second level.

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::fields::within;
use crate::tlb::{Place, Tlb};

/// A piece of a first-level TLB, by which a processor that remembers what it found there finds it again
/// ([`crate::mmu::Mmu::again`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticket {
    at: u32,
    filled: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Piece {
    rid: u32,
    page: u64,
    place: Place,
    born: u64,
    /// When it came: never the same time twice. 0: there is none.
    filled: u64,
    used: u64,
}

impl Piece {
    const NONE: Self = Self { rid: 0, page: 0, place: Place::Cache(0), born: 0, filled: 0, used: 0 };
}

/// A first-level TLB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct First {
    pieces: Vec<Piece>,
    clock: u64,
}

impl First {
    pub(crate) fn new(entries: usize) -> Self {
        Self { pieces: vec![Piece::NONE; entries], clock: 0 }
    }

    /// Whether it is one of such a processor, and each piece is of what the second level has.
    pub(crate) fn is_sound(&self, config: &Config, second: &Tlb) -> bool {
        let there = |piece: &Piece| second.has(piece.place) && second.born(piece.place) == Some(piece.born);
        let pieces = self.pieces.iter().all(|piece| piece.filled == 0 || there(piece));
        pieces && self.pieces.len() == config.first_entries && self.clock < 1 << 62
    }

    /// Where the second level has the translation of an address, if there is a piece for it here.
    pub(crate) fn find(&mut self, rid: u32, va: u64) -> Option<(Place, Ticket)> {
        let page = within(va) >> 12;
        let at = self.pieces.iter().position(|piece| piece.page == page && piece.rid == rid && piece.filled != 0)?;
        self.clock += 1;
        let piece = &mut self.pieces[at];
        piece.used = self.clock;
        Some((piece.place, Ticket { at: at as u32, filled: piece.filled }))
    }

    /// Whether a piece is still there; it is used then.
    #[inline]
    pub(crate) fn again(&mut self, ticket: Ticket) -> bool {
        match self.pieces.get_mut(ticket.at as usize) {
            Some(piece) if piece.filled == ticket.filled => {
                self.clock += 1;
                piece.used = self.clock;
                true
            }
            _ => false,
        }
    }

    /// Remembers that this place of the second level has the translation of an address.
    pub(crate) fn fill(&mut self, second: &Tlb, rid: u32, va: u64, place: Place) -> Option<Ticket> {
        let born = second.born(place)?;
        // A free one, which was never used, comes first.
        let at = (0..self.pieces.len()).min_by_key(|&at| self.pieces[at].used)?;
        self.clock += 1;
        let filled = self.clock;
        self.pieces[at] = Piece { rid, page: within(va) >> 12, place, born, filled, used: filled };
        Some(Ticket { at: at as u32, filled })
    }

    /// Something has left the second level: so have its pieces.
    pub(crate) fn settle(&mut self, second: &Tlb) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.filled != 0) {
            if second.born(piece.place) != Some(piece.born) {
                *piece = Piece::NONE;
            }
        }
    }
}
