// SPDX-License-Identifier: MIT
//! Address-space tags, packed: ASID from bit 32, number of the nested root from bit 16, PCID from bit 0.

/// The process-context identifier.
pub const PCID: u64 = 0xffff;
/// The nested table, on processors that tag with it.
pub const ROOT: u64 = 0xffff << 16;
/// The address-space identifier.
pub const ASID: u64 = 0xffff << 32;

/// All three together.
pub const fn pack(asid: u16, root: u16, pcid: u16) -> u64 {
    (asid as u64) << 32 | (root as u64) << 16 | pcid as u64
}
