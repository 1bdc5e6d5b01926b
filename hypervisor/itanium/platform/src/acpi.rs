// SPDX-License-Identifier: MIT
//! ACPI's tables: which processors and interrupt controllers there are, and a device, the serial port. There is no ACPI
//! hardware, as the flag of the FADT says.

use crate::bytes::Bytes;
use crate::map;

const HEADER: usize = 36;
const REDUCED: u32 = 1 << 20;

/// A table of this signature and revision, with what follows its header.
fn table(signature: &str, revision: u8, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u32;
    let header = Bytes::default().text(signature, 4).u32(length).u8(revision).u8(0);
    let named = header.text("ABH", 6).text("ITANIUM", 8).u32(1).text("ABH", 4).u32(1);
    named.bytes(body).summed(9).0
}

/// A package of AML: its length counts itself.
fn package(body: &[u8]) -> Vec<u8> {
    let short = body.len() + 1;
    let head = if short < 0x40 {
        vec![short as u8]
    } else {
        let long = body.len() + 2;
        vec![0x40 | (long & 15) as u8, (long >> 4) as u8]
    };
    [head, body.to_vec()].concat()
}

fn name(segment: &str, value: &[u8]) -> Vec<u8> {
    [b"\x08", segment.as_bytes(), value].concat()
}

/// The serial port: what it is, where its registers are, which interrupt it has.
fn device() -> Vec<u8> {
    // Of memory that this device takes, not moved, not cacheable, writable.
    let memory = Bytes::default().u8(0x8a).u16(0x2b).u8(0).u8(0x0d).u8(1);
    let memory = memory.u64(0).u64(map::UART).u64(map::UART + 7).u64(0).u64(8);
    // A level that is active when high.
    let resources = memory.u8(0x89).u16(6).u8(1).u8(1).u32(map::UART_PIN).u8(0x79).u8(0);
    let buffer = [&[0x0a, resources.0.len() as u8], &resources.0[..]].concat();
    let current = [vec![0x11], package(&buffer)].concat();
    // "PNP0501", compressed as EISA does.
    let identity = [0x0c, 0x41, 0xd0, 0x05, 0x01];
    let body = [b"COM0".to_vec(), name("_HID", &identity), name("_UID", &[0]), name("_CRS", &current)].concat();
    let device = [vec![0x5b, 0x82], package(&body)].concat();
    [vec![0x10], package(&[b"\\_SB_".to_vec(), device].concat())].concat()
}

fn fadt(dsdt: u64) -> Vec<u8> {
    // Its fields of 32 bits are 0: the table may lie beyond.
    let before_flags = Bytes::default().until(112 - HEADER);
    let body = before_flags.u32(REDUCED).until(140 - HEADER).u64(dsdt).until(268 - HEADER);
    table("FACP", 5, &body.0)
}

fn madt() -> Vec<u8> {
    // One processor, of identifier 0, that is enabled.
    let local = Bytes::default().u8(7).u8(20).u8(0).u8(0).u8(0).until(8).u32(1).u32(0).until(20);
    let devices = Bytes::default().u8(6).u8(16).u8(0).u8(0).u32(0).u64(map::SAPIC);
    // The interrupt block's address has more than 32 bits.
    let block = Bytes::default().u8(5).u8(12).u16(0).u64(map::INTERRUPTS.start);
    let body = Bytes::default().u32(0).u32(0).bytes(&local.0).bytes(&devices.0).bytes(&block.0);
    table("APIC", 3, &body.0)
}

/// All tables, as they lie in memory from this address on; the first is what EFI's configuration table points to.
pub fn tables(at: u64) -> Vec<u8> {
    let mut all = Bytes::default().until(64);
    let mut put = |bytes: Vec<u8>| {
        let place = all.0.len();
        all = std::mem::take(&mut all).bytes(&bytes).until((place + bytes.len()).next_multiple_of(16));
        at + place as u64
    };
    let dsdt = put(table("DSDT", 2, &device()));
    let listed = [put(fadt(dsdt)), put(madt())];
    let list = listed.into_iter().fold(Bytes::default(), Bytes::u64);
    let list = put(table("XSDT", 1, &list.0));
    let first = Bytes::default().text("RSD PTR ", 8).u8(0).text("ABH", 6).u8(2).u32(0).summed(8);
    let whole = first.u32(36).u64(list).u8(0).until(36).summed(32);
    all.0[..36].copy_from_slice(&whole.0);
    all.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    #[test]
    fn tables_are_found_from_the_first_and_add_up() {
        let all = tables(0x1000);
        assert_eq!((sum(&all[..20]), sum(&all[..36])), (0, 0));
        let word = |at: usize| u64::from_le_bytes(all[at..at + 8].try_into().unwrap());
        let list = word(24) as usize - 0x1000;
        let length = |at: usize| u32::from_le_bytes(all[at + 4..at + 8].try_into().unwrap()) as usize;
        assert_eq!(&all[list..list + 4], b"XSDT");
        let mut found = vec![];
        for at in (list + HEADER..list + length(list)).step_by(8) {
            let place = word(at) as usize - 0x1000;
            assert_eq!(sum(&all[place..place + length(place)]), 0);
            found.push(String::from_utf8(all[place..place + 4].to_vec()).unwrap());
        }
        assert_eq!(found, ["FACP", "APIC"]);
    }

    #[test]
    fn a_package_counts_itself() {
        assert_eq!(package(&[0; 62])[0], 63);
        assert_eq!(package(&[0; 63])[..2], [0x41, 4]);
    }
}
