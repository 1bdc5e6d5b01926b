// SPDX-License-Identifier: MIT
//! Where things are in physical memory. Memory begins at 0; firmware and devices lie beyond all of it.

use std::ops::{Range, RangeInclusive};

/// What a boot loader leaves to the kernel: parameters, the memory map, the command line.
pub const LOADER: Range<u64> = 0x10_0000..0x11_0000;
/// Where the processor's registers are stored until the kernel says where.
pub const STACK: Range<u64> = 0x11_0000..0x12_0000;
/// What is left of memory begins here; that below [`LOADER`] is left, too.
pub const FREE: u64 = STACK.end;

/// The firmware has memory of its own, far beyond the rest: Linux without a sparse memory map (`CONFIG_FLATMEM`) takes for
/// free what lies between pieces that are.
pub const FIRMWARE: Range<u64> = 0xe00_0000_0000..0xe00_0010_0000;
/// The code that PAL is called by. A kernel maps its granule.
pub const PAL_CODE: Range<u64> = FIRMWARE.start..FIRMWARE.start + 0x1_0000;
/// The code that SAL and EFI are called by.
pub const CODE: Range<u64> = PAL_CODE.end..PAL_CODE.end + 0x1_0000;
/// EFI's tables, and SAL's.
pub const DATA: Range<u64> = CODE.end..CODE.end + 0x1_0000;
/// ACPI's tables.
pub const ACPI: Range<u64> = DATA.end..DATA.end + 0x1_0000;
/// All code whose breaks are calls.
pub const CALLS: Range<u64> = PAL_CODE.start..CODE.end;

/// Where devices begin. Memory ends before.
pub const DEVICES: u64 = 0xf00_0000_0000;
/// The serial port's registers.
pub const UART: u64 = DEVICES;
/// The interrupt controller's.
pub const SAPIC: u64 = DEVICES + 0x1_0000;
/// How far the registers reach that the kernel is told of.
pub const REGISTERS: Range<u64> = DEVICES..DEVICES + 0x2_0000;
/// The processor interrupt block: a store to it is an interrupt of a processor (SDM vol. 2, 5.8.4).
pub const INTERRUPTS: Range<u64> = DEVICES + 0x20_0000..DEVICES + 0x40_0000;
/// Where ports are, of which there is none: what is read is all ones.
pub const PORTS: Range<u64> = DEVICES + 0x400_0000..DEVICES + 0x800_0000;

/// Input of the interrupt controller that the serial port is at.
pub const UART_PIN: u32 = 4;
/// Least and most memory that the machine may have; a multiple of a kernel's granules.
pub const MEMORY: RangeInclusive<u64> = 128 << 20..=1 << 40;
/// What the size of memory is a multiple of.
pub const GRANULE: u64 = 16 << 20;
