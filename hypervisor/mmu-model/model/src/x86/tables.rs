// SPDX-License-Identifier: MIT
//! What an x86-64 processor is told: which tables to walk, and the control bits that matter.

use crate::address::{GuestPhysical, Machine};
use crate::context::Layer;

/// How deep an x86-64 table is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Levels {
    /// 48-bit addresses
    Four = 4,
    /// 57-bit addresses (CR4.LA57)
    Five = 5,
}

/// The tables that the hardware walks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tables {
    /// Paging is off: the address is a machine address.
    Off,
    /// One table to machine addresses: native, shadow or para-virtual.
    Flat {
        /// Its top page.
        root: Machine,
        /// Its depth.
        levels: Levels,
    },
    /// A guest's table to guest-physical addresses, and a host's (AMD nested paging) from there to the machine's.
    Nested {
        /// The guest's top page and depth; none while the guest has paging off.
        guest: Option<(GuestPhysical, Levels)>,
        /// The nested table's top page (nCR3).
        root: Machine,
        /// Its depth.
        levels: Levels,
        /// Whether the host's EFER.NXE was on when the guest was entered.
        nxe: bool,
    },
}

/// The control bits that decide about rights and reserved bits.
///
/// Protection keys are not modelled; nor is SMAP's override by EFLAGS.AC: leave `smap` off where that is not followed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Control {
    /// CR0.WP: the supervisor, too, obeys read-only pages.
    pub wp: bool,
    /// EFER.NXE: pages can forbid execution.
    pub nxe: bool,
    /// CR4.SMEP: the supervisor does not execute user pages.
    pub smep: bool,
    /// CR4.PGE: a global bit in a table means something.
    pub pge: bool,
    /// CR4.SMAP: the supervisor does not touch user pages.
    pub smap: bool,
    /// MAXPHYADDR of the processor whose tables these are; address bits above it are reserved.
    pub physical_bits: u8,
}

impl Default for Control {
    /// As Linux and Xen set it on the bench's emulated processor.
    fn default() -> Self {
        Self { wp: true, nxe: true, smep: false, pge: true, smap: false, physical_bits: 40 }
    }
}

/// Everything that decides how an access translates, besides the address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Context {
    /// Whose accesses these are.
    pub layer: Layer,
    /// Names the process, by anything that differs between processes and lasts: such as its own table's address.
    pub space: u64,
    /// Privilege level 3.
    pub user: bool,
    /// Control bits.
    pub control: Control,
    /// Address-space identifier (Intel: VPID); 0 is the host.
    pub asid: u16,
    /// Process-context identifier; 0 unless CR4.PCIDE.
    pub pcid: u16,
    /// What the hardware walks.
    pub tables: Tables,
}

impl Context {
    /// Who runs before anybody says who does.
    pub fn nobody() -> Self {
        Self {
            layer: Layer::GuestKernel,
            space: 0,
            user: false,
            control: Control::default(),
            asid: 0,
            pcid: 0,
            tables: Tables::Off,
        }
    }
}
