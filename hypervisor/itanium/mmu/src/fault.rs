// SPDX-License-Identifier: MIT
//! Faults of the MMU: which there are, which comes first, and where each goes.

use serde::{Deserialize, Serialize};

use crate::fields::Itir;

/// A fault, in the order of priority within its side (SDM vol. 2, 5.5.1, table 5-6, and figure 4-16; 4.1.8 names the
/// access bit before the dirty bit, but those two and the instruction reference have them in this order).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Alternate Instruction TLB: a miss where the walker is off.
    AlternateInstruction,
    /// VHPT Instruction: a miss, and another on the table's own page.
    VhptInstruction,
    /// Instruction TLB: a miss, and the walker found nothing that it may take.
    InstructionTlb,
    /// Instruction Page Not Present.
    InstructionNotPresent,
    /// Instruction NaT Page Consumption.
    InstructionNatPage,
    /// Instruction Key Miss: no key register has the page's key.
    InstructionKeyMiss,
    /// Instruction Key Permission: one has, and forbids this.
    InstructionKeyPermission,
    /// Instruction Access Rights.
    InstructionAccessRights,
    /// Instruction Access Bit: it is clear.
    InstructionAccessBit,
    /// Unimplemented Data Address.
    UnimplementedData,
    /// Data Nested TLB: a miss while interruptions are not collected.
    DataNested,
    /// Alternate Data TLB: a miss where the walker is off.
    AlternateData,
    /// VHPT Data: a miss, and another on the table's own page.
    VhptData,
    /// Data TLB: a miss, and the walker found nothing that it may take.
    DataTlb,
    /// Data Page Not Present.
    DataNotPresent,
    /// Data NaT Page Consumption.
    DataNatPage,
    /// Data Key Miss: no key register has the page's key.
    DataKeyMiss,
    /// Data Key Permission: one has, and forbids this.
    DataKeyPermission,
    /// Data Access Rights.
    DataAccessRights,
    /// Data Dirty Bit: it is clear, and this is a store.
    DataDirtyBit,
    /// Data Access Bit: it is clear.
    DataAccessBit,
}

impl Kind {
    /// Each, in order.
    pub const ALL: [Self; 21] = [
        Self::AlternateInstruction,
        Self::VhptInstruction,
        Self::InstructionTlb,
        Self::InstructionNotPresent,
        Self::InstructionNatPage,
        Self::InstructionKeyMiss,
        Self::InstructionKeyPermission,
        Self::InstructionAccessRights,
        Self::InstructionAccessBit,
        Self::UnimplementedData,
        Self::DataNested,
        Self::AlternateData,
        Self::VhptData,
        Self::DataTlb,
        Self::DataNotPresent,
        Self::DataNatPage,
        Self::DataKeyMiss,
        Self::DataKeyPermission,
        Self::DataAccessRights,
        Self::DataDirtyBit,
        Self::DataAccessBit,
    ];

    /// Where its handler is, from the base of the interruption vector table (SDM vol. 2, 5.7, table 5-7).
    pub const fn vector(self) -> u64 {
        match self {
            Self::VhptInstruction | Self::VhptData => 0x0000,
            Self::InstructionTlb => 0x0400,
            Self::DataTlb => 0x0800,
            Self::AlternateInstruction => 0x0c00,
            Self::AlternateData => 0x1000,
            Self::DataNested => 0x1400,
            Self::InstructionKeyMiss => 0x1800,
            Self::DataKeyMiss => 0x1c00,
            Self::DataDirtyBit => 0x2000,
            Self::InstructionAccessBit => 0x2400,
            Self::DataAccessBit => 0x2800,
            Self::InstructionNotPresent | Self::DataNotPresent => 0x5000,
            Self::InstructionKeyPermission | Self::DataKeyPermission => 0x5100,
            Self::InstructionAccessRights => 0x5200,
            Self::DataAccessRights => 0x5300,
            Self::UnimplementedData => 0x5400,
            Self::InstructionNatPage | Self::DataNatPage => 0x5600,
        }
    }
}

/// A set of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Kinds(u32);

impl Kinds {
    /// No fault.
    pub const NONE: Self = Self(0);

    /// With one more.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self(self.0 | 1 << kind as u32)
    }

    /// Whether it has this.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u32 & 1 != 0
    }

    /// Without those of another set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// That which is raised.
    pub fn first(self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| self.has(kind))
    }
}

/// What a fault tells the processor. It writes these to the control registers where PSR.ic is 1, and not otherwise
/// (SDM vol. 2, 5.5 and chapter 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// Which.
    pub kind: Kind,
    /// For IFA: the address that was accessed.
    pub address: u64,
    /// For ITIR: size and identifier of the region of that address, but of the VHPT entry's in a VHPT fault.
    pub itir: Itir,
    /// For IHA: the address of the VHPT entry, in VHPT and TLB faults.
    pub entry: Option<u64>,
}
