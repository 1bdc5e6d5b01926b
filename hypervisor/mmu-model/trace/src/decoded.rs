// SPDX-License-Identifier: MIT
//! A block of records, decoded once for all models that hear it: accesses as words that lie side by side, and the few
//! records that are none, by how many accesses are before them.

use mmu_model::address::Virtual;
use mmu_model::context::Kind;

use crate::format::Record;

/// The records of one block.
#[derive(Debug, Default)]
pub struct Decoded {
    /// An address and in the low two bits its kind; the top two bits of an address are those below them.
    accesses: Vec<u64>,
    /// Records that are no such accesses, with the number of accesses before each.
    others: Vec<(usize, Record)>,
}

/// One piece of a block.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Accesses, one after the other.
    Accesses(&'a [u64]),
    /// Something else; or an access whose address is not a canonical one.
    Other(Record),
}

/// What an access of [`Piece::Accesses`] says.
#[inline]
pub const fn unpack(access: u64) -> (Virtual, Kind) {
    let kind = match access & 3 {
        0 => Kind::Load,
        1 => Kind::Store,
        _ => Kind::Fetch,
    };
    (Virtual::new((access as i64 >> 2) as u64), kind)
}

impl Decoded {
    /// Forget all; room stays.
    pub fn clear(&mut self) {
        self.accesses.clear();
        self.others.clear();
    }

    /// How many accesses it has.
    pub fn accesses(&self) -> u64 {
        let others = self.others.iter().filter(|(_, record)| matches!(record, Record::Access(..))).count();
        (self.accesses.len() + others) as u64
    }

    /// Add a record.
    #[inline]
    pub fn push(&mut self, record: Record) {
        if let Record::Access(address, kind) = record {
            let packed = address.raw() << 2 | kind as u64;
            if unpack(packed).0 == address {
                self.accesses.push(packed);
                return;
            }
        }
        self.others.push((self.accesses.len(), record));
    }

    /// All records, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let ends = self.others.iter().map(|(at, _)| *at).chain([self.accesses.len()]);
        let begins = std::iter::once(0).chain(self.others.iter().map(|(at, _)| *at));
        let runs = begins.zip(ends).map(|(begin, end)| Piece::Accesses(&self.accesses[begin..end]));
        let others = self.others.iter().map(|(_, record)| Some(Piece::Other(*record))).chain([None]);
        runs.zip(others).flat_map(|(run, other)| [Some(run), other]).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in() {
        let access = |address: u64, kind| Record::Access(Virtual::new(address), kind);
        let records = [
            Record::Region(true),
            access(0, Kind::Load),
            access(u64::MAX, Kind::Store),
            access(1 << 62, Kind::Load), // not canonical
            access(0xffff_8000_0000_0001, Kind::Fetch),
            Record::Tally(1, 2),
            Record::Context(3),
            access(0x7fff_ffff_ffff, Kind::Store),
        ];
        let mut decoded = Decoded::default();
        for _ in 0..2 {
            decoded.clear();
            records.iter().for_each(|record| decoded.push(*record));
            let mut out = vec![];
            for piece in decoded.pieces() {
                match piece {
                    Piece::Accesses(run) => out.extend(run.iter().map(|packed| {
                        let (address, kind) = unpack(*packed);
                        Record::Access(address, kind)
                    })),
                    Piece::Other(record) => out.push(record),
                }
            }
            assert_eq!(out, records);
        }
    }
}
