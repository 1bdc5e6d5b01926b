// SPDX-License-Identifier: MIT
//! EFI: the memory map, the system table, and its runtime services, of which there are a clock and an end.

use itanium_cpu::Cpu;

use crate::board::Board;
use crate::bytes::Bytes;
use crate::map;

/// Types of memory (UEFI 2.10, 7.2.1).
mod kind {
    pub const LOADER_DATA: u32 = 2;
    pub const RUNTIME_CODE: u32 = 5;
    pub const RUNTIME_DATA: u32 = 6;
    pub const FREE: u32 = 7;
    pub const ACPI: u32 = 9;
    pub const DEVICES: u32 = 11;
    pub const PORTS: u32 = 12;
    pub const PAL: u32 = 13;
}

const UNCACHEABLE: u64 = 1;
const WRITE_BACK: u64 = 8;
const RUNTIME: u64 = 1 << 63;
const PAGE: u64 = 4096;
const NOT_FOUND: u64 = 1 << 63 | 0xe;
const UNSUPPORTED: u64 = 1 << 63 | 3;

/// Of a descriptor of the memory map.
pub const DESCRIPTOR: u64 = 40;

/// The services in the order of their table (UEFI 2.10, 4.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// What time it is.
    GetTime,
    /// The kernel will call with these virtual addresses.
    SetVirtualAddressMap,
    /// A variable, of which there is none.
    NotFound,
    /// What there is not.
    Unsupported,
    /// The end.
    Reset,
}

/// What each place of the table does.
pub const SERVICES: [Service; 11] = [
    Service::GetTime,
    Service::Unsupported,
    Service::Unsupported,
    Service::Unsupported,
    Service::SetVirtualAddressMap,
    Service::Unsupported,
    Service::NotFound,
    Service::NotFound,
    Service::Unsupported,
    Service::Unsupported,
    Service::Reset,
];

/// Where in [`map::DATA`] things are.
const RUNTIME_TABLE: u64 = map::DATA.start + 0x100;
const VENDOR: u64 = map::DATA.start + 0x200;
const CONFIGURATION: u64 = map::DATA.start + 0x300;
/// A pair of words for each service, where it is and its global pointer: what C calls it by.
const DESCRIPTORS: u64 = map::DATA.start + 0x400;
/// SAL's system table.
pub const SAL_TABLE: u64 = map::DATA.start + 0x1000;

/// The bit-reversed CRC of 32 bits that headers have.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 })
    };
    !bytes.iter().fold(!0, step)
}

/// A table with its header.
fn table(signature: u64, body: &Bytes) -> Vec<u8> {
    let length = 24 + body.0.len();
    let head = Bytes::default().u64(signature).u32(2 << 16 | 0xa).u32(length as u32);
    let sum = crc(&head.clone().u32(0).u32(0).bytes(&body.0).0);
    head.u32(sum).u32(0).bytes(&body.0).0
}

fn guid(first: u32, second: u16, third: u16, rest: [u8; 8]) -> [u8; 16] {
    Bytes::default().u32(first).u16(second).u16(third).bytes(&rest).0.try_into().expect("16 bytes")
}

/// Where a service's code is.
pub const fn entry(number: usize) -> u64 {
    map::CODE.start + 0x1000 + 0x100 * number as u64
}

/// Puts all tables where they belong.
pub fn put(board: &mut Board) {
    let acpi = guid(0x8868_e871, 0xe4f1, 0x11d3, [0xbc, 0x22, 0, 0x80, 0xc7, 0x3c, 0x88, 0x81]);
    let sal = guid(0xeb9d_2d32, 0x2d88, 0x11d3, [0x9a, 0x16, 0, 0x90, 0x27, 0x3f, 0xc1, 0x4d]);
    let listed = Bytes::default().bytes(&acpi).u64(map::ACPI.start).bytes(&sal).u64(SAL_TABLE);
    board.put(CONFIGURATION, &listed.0);
    board.put(VENDOR, &"abh\0".encode_utf16().fold(Bytes::default(), Bytes::u16).0);
    let body = Bytes::default().u64(VENDOR).u64(1).until(64).u64(RUNTIME_TABLE).u64(0).u64(2).u64(CONFIGURATION);
    board.put(map::DATA.start, &table(0x5453_5953_2049_4249, &body));
    let pointers = (0..SERVICES.len() as u64).map(|number| DESCRIPTORS + 16 * number);
    board.put(RUNTIME_TABLE, &table(0x5652_4553_544e_5552, &pointers.fold(Bytes::default(), Bytes::u64)));
    let pairs = (0..SERVICES.len()).fold(Bytes::default(), |all, number| all.u64(entry(number)).u64(0));
    board.put(DESCRIPTORS, &pairs.0);
    board.put(map::ACPI.start, &crate::acpi::tables(map::ACPI.start));
}

/// The memory map, of so many bytes of memory.
pub fn memory_map(memory: u64) -> Vec<u8> {
    let of = |kind: u32, range: std::ops::Range<u64>, attribute: u64| (kind, range, attribute);
    let all = [
        of(kind::FREE, 0..map::LOADER.start, WRITE_BACK),
        of(kind::LOADER_DATA, map::LOADER.start..map::FREE, WRITE_BACK),
        of(kind::FREE, map::FREE..memory, WRITE_BACK),
        of(kind::PAL, map::PAL_CODE, WRITE_BACK | RUNTIME),
        of(kind::RUNTIME_CODE, map::CODE, WRITE_BACK | RUNTIME),
        of(kind::RUNTIME_DATA, map::DATA, WRITE_BACK | RUNTIME),
        of(kind::ACPI, map::ACPI, WRITE_BACK),
        of(kind::DEVICES, map::REGISTERS, UNCACHEABLE),
        of(kind::DEVICES, map::INTERRUPTS, UNCACHEABLE),
        of(kind::PORTS, map::PORTS, UNCACHEABLE),
    ];
    let descriptor = |bytes: Bytes, (kind, range, attribute): (u32, std::ops::Range<u64>, u64)| {
        let pages = (range.end - range.start) / PAGE;
        bytes.u32(kind).u32(0).u64(range.start).u64(0).u64(pages).u64(attribute)
    };
    all.into_iter().fold(Bytes::default(), descriptor).0
}

/// A service was called: its answer. Nothing of the end's: the machine's to do.
pub fn call(cpu: &mut Cpu, board: &mut Board, service: Service, seconds: u64, nanoseconds: u32) {
    let status = match service {
        Service::GetTime => {
            for (register, word) in (14..).zip(time(seconds, nanoseconds)) {
                cpu.set_gr(register, word.into(), false);
            }
            0
        }
        Service::SetVirtualAddressMap => move_services(cpu, board),
        Service::NotFound => NOT_FOUND,
        Service::Unsupported | Service::Reset => UNSUPPORTED,
    };
    cpu.set_gr(8, status, false);
}

/// From now on services are called where the map has put their code.
fn move_services(cpu: &Cpu, board: &mut Board) -> u64 {
    let [length, size, at] = [32, 33, 35].map(|register| cpu.gr(register).0);
    if size < DESCRIPTOR || length / size > 64 {
        return UNSUPPORTED;
    }
    let Some(told) = board.piece(at, length) else { return UNSUPPORTED };
    let word = |each: &[u8], at: usize| u64::from_le_bytes(each[at..at + 8].try_into().expect("8 bytes"));
    let mine = told.chunks_exact(size as usize).find(|each| word(each, 8) == map::CODE.start);
    let Some(moved) = mine.map(|each| word(each, 16)) else { return UNSUPPORTED };
    for number in 0..SERVICES.len() {
        let to = entry(number) - map::CODE.start + moved;
        board.put(DESCRIPTORS + 16 * number as u64, &to.to_le_bytes());
    }
    0
}

/// A time as EFI has it (UEFI 2.10, 8.3), of seconds since 1970.
fn time(seconds: u64, nanoseconds: u32) -> [u32; 4] {
    let (day, second) = (seconds / 86400, (seconds % 86400) as u32);
    let (year, month, date) = civil(day);
    let zone = 0x7ff; // none
    [year | month << 16 | date << 24, second / 3600 | second / 60 % 60 << 8 | second % 60 << 16, nanoseconds, zone]
}

/// Year, month and day of a day since 1970: counted, as firmware has time.
fn civil(mut day: u64) -> (u32, u32, u32) {
    let leap = |year: u32| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    (year, month as u32 + 1, day as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(20_454), (2026, 1, 1));
    }

    #[test]
    fn the_sum_of_a_header_is_the_known_one() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn the_memory_map_has_no_holes_below_its_end() {
        let memory = 128 << 20;
        let all = memory_map(memory);
        let word = |at: usize| u64::from_le_bytes(all[at..at + 8].try_into().unwrap());
        let mut next = 0;
        for at in (0..all.len()).step_by(DESCRIPTOR as usize).take(3) {
            assert_eq!(word(at + 8), next);
            next += word(at + 24) * PAGE;
        }
        assert_eq!(next, memory);
    }
}
