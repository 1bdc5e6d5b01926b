// SPDX-License-Identifier: MIT
//! Tables that are read by a kernel are written field by field.

/// Bytes that are appended to, little-endian.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// A byte.
    #[must_use]
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// Two bytes.
    #[must_use]
    pub fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Four bytes.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Eight bytes.
    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.bytes(&value.to_le_bytes())
    }

    /// These bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A text in so many bytes, with zeros behind it.
    #[must_use]
    pub fn text(self, text: &str, width: usize) -> Self {
        let end = self.0.len() + width;
        let mut all = self.bytes(&text.as_bytes()[..text.len().min(width)]);
        all.0.resize(end, 0);
        all
    }

    /// Zeros up to this length.
    #[must_use]
    pub fn until(mut self, length: usize) -> Self {
        assert!(self.0.len() <= length, "a table of {length} bytes has {}", self.0.len());
        self.0.resize(length, 0);
        self
    }

    /// Makes the sum of all bytes 0 by that at an index.
    #[must_use]
    pub fn summed(mut self, at: usize) -> Self {
        self.0[at] = 0;
        self.0[at] = self.0.iter().fold(0_u8, |sum, byte| sum.wrapping_sub(*byte));
        self
    }
}
