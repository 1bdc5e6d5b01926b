// SPDX-License-Identifier: MIT
//! SAL: its system table, and what a kernel calls it for.

use crate::bytes::Bytes;
use crate::map;

/// Beats a second of the platform's clock.
pub const BASE_HZ: u64 = 200_000_000;
/// Where the code is that SAL is called by.
pub const ENTRY: u64 = map::CODE.start;

/// Status, and three results.
pub type Answer = [u64; 4];

const UNIMPLEMENTED: Answer = [u64::MAX, 0, 0, 0];
const INVALID: Answer = [-2_i64 as u64, 0, 0, 0];
const NOTHING_TO_TELL: Answer = [-5_i64 as u64, 0, 0, 0];
const WELL: Answer = [0; 4];

/// The system table: who made it, and where PAL and SAL are.
pub fn table() -> Vec<u8> {
    let entry = Bytes::default().u8(0).until(8).u64(map::PAL_CODE.start).u64(ENTRY).u64(0).until(48);
    let head = Bytes::default().text("SST_", 4).u32(96 + 48).u8(0x20).u8(3).u16(1).u8(0).until(20);
    let named = head.u16(0x100).u16(0x100).text("abh", 32).text("itanium", 32).until(96);
    named.bytes(&entry.0).summed(12).0
}

/// A call by its number and first argument (SAL specification 3.3, chapter 9, from memory and as Linux calls it).
pub fn call(function: u64, first: u64) -> Answer {
    match function {
        // Vectors, parameters and the size of records of machine checks, of which there are none; where PAL is; caches.
        0x0100_0000 | 0x0100_0002 | 0x0100_0003 | 0x0100_0005 | 0x0100_0006 | 0x0100_0008 | 0x0100_0009 => WELL,
        0x0100_0001 => NOTHING_TO_TELL,
        0x0100_0012 => match first {
            0 => [0, BASE_HZ, u64::MAX, 0],
            _ => UNIMPLEMENTED,
        },
        // There is no PCI.
        0x0100_0010 | 0x0100_0011 => INVALID,
        _ => UNIMPLEMENTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_adds_up_and_says_its_length() {
        let table = table();
        assert_eq!(table.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        assert_eq!(u32::from_le_bytes(table[4..8].try_into().unwrap()) as usize, table.len());
    }
}
