// SPDX-License-Identifier: MIT
//! Reads a trace and trusts nothing in it.

use std::io::{ErrorKind, Read};

use crate::decoded::Decoded;
use crate::error::TraceError;
use crate::format::{BLOCK_MOST, Decoder, Fetches, MAGIC, MARK_BLOCK, MARK_END, Record, VERSION};

/// Reads a trace, one block after the other.
pub struct Reader<R: Read> {
    from: R,
    offset: u64,
    decoder: Decoder,
    fetches: Fetches,
    records: u64,
    accesses: u64,
    enough: u64,
}

/// What the end mark says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Records of any kind.
    pub records: u64,
    /// Accesses.
    pub accesses: u64,
}

impl<R: Read> Reader<R> {
    /// Read and check the header.
    pub fn new(from: R) -> Result<Self, TraceError> {
        let (decoder, fetches) = (Decoder::default(), Fetches::default());
        let mut reader = Self { from, offset: 0, decoder, fetches, records: 0, accesses: 0, enough: u64::MAX };
        let mut magic = [0; 8];
        match reader.take(&mut magic) {
            Ok(()) if magic == MAGIC => {}
            Ok(()) => return Err(TraceError::NotATrace),
            Err(TraceError::Truncated { offset }) if offset < 8 => return Err(TraceError::NotATrace),
            Err(error) => return Err(error),
        }
        match u32::from_le_bytes(reader.array()?) {
            VERSION => {}
            other => return Err(TraceError::Version(other)),
        }
        let [byte] = reader.array()?;
        let what = || format!("its fetches are of kind {byte}, which none has");
        reader.fetches =
            Fetches::of_byte(byte).ok_or_else(|| TraceError::Corrupt { offset: reader.offset - 1, what: what() })?;
        Ok(reader)
    }

    /// Which fetches it has.
    pub fn fetches(&self) -> Fetches {
        self.fetches
    }

    /// Stop after so many accesses, at the end of the block that has the last of them.
    #[must_use]
    pub fn stopping_after(mut self, accesses: u64) -> Self {
        self.enough = accesses;
        self
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.from.read(&mut bytes[filled..]) {
                Ok(0) => return Err(TraceError::Truncated { offset: self.offset + filled as u64 }),
                Ok(n) => filled += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.offset += filled as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    /// The next block's records as bytes and the offset where it begins, or none at the end.
    fn block(&mut self) -> Result<Option<(u64, Vec<u8>)>, TraceError> {
        let offset = self.offset;
        let corrupt = |what: String| TraceError::Corrupt { offset, what };
        match self.array::<1>()?[0] {
            MARK_BLOCK => {}
            MARK_END => return self.end(offset).map(|()| None),
            other => return Err(corrupt(format!("it is marked {other:#04x}, neither block nor end"))),
        }
        let packed_length = u32::from_le_bytes(self.array()?) as usize;
        let raw_length = u32::from_le_bytes(self.array()?) as usize;
        if raw_length == 0 || raw_length > BLOCK_MOST || packed_length > 2 * BLOCK_MOST {
            return Err(corrupt(format!("a block of {packed_length} bytes for {raw_length} is never written")));
        }
        let mut packed = vec![0; packed_length];
        self.take(&mut packed)?;
        let raw = zstd::bulk::decompress(&packed, raw_length).map_err(|e| corrupt(e.to_string()))?;
        if raw.len() != raw_length {
            return Err(corrupt(format!("it holds {} bytes, expected {raw_length}", raw.len())));
        }
        Ok(Some((offset, raw)))
    }

    fn end(&mut self, offset: u64) -> Result<(), TraceError> {
        let corrupt = |what: String| Err(TraceError::Corrupt { offset, what });
        let said = Totals { records: u64::from_le_bytes(self.array()?), accesses: u64::from_le_bytes(self.array()?) };
        let got = self.totals();
        if said != got {
            return corrupt(format!("the end mark says {said:?}, and there were {got:?}"));
        }
        let mut more = [0];
        loop {
            match self.from.read(&mut more) {
                Ok(0) => return Ok(()),
                Ok(_) => return corrupt("something follows the end mark".into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What has been read so far.
    pub fn totals(&self) -> Totals {
        Totals { records: self.records, accesses: self.accesses }
    }

    /// Decode the next block in place of what was decoded before; false at the end mark, or when it is enough.
    pub fn decode(&mut self, into: &mut Decoded) -> Result<bool, TraceError> {
        into.clear();
        if self.accesses >= self.enough {
            return Ok(false);
        }
        let Some((offset, raw)) = self.block()? else { return Ok(false) };
        let mut rest = &raw[..];
        while !rest.is_empty() {
            let (record, after) =
                self.decoder.next(rest).map_err(|what| TraceError::Corrupt { offset, what: what.to_owned() })?;
            rest = after;
            self.records += 1;
            self.accesses += u64::from(matches!(record, Record::Access(..)));
            into.push(record);
        }
        Ok(true)
    }
}
