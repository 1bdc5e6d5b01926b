// SPDX-License-Identifier: MIT
//! Addresses that cannot be mixed, and the page sizes.

use std::fmt;

use crate::numbered::numbered;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The address with this value.
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// Its value.
            pub const fn raw(self) -> u64 {
                self.0
            }

            /// The address this many bytes further on.
            #[must_use]
            pub const fn plus(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address! {
    /// What an instruction names: a linear address of a guest, or of the hypervisor where that runs.
    Virtual
}
address! {
    /// What a guest under nested paging takes for memory.
    GuestPhysical
}
address! {
    /// Where memory really is.
    Machine
}

numbered! {
    /// The sizes that one TLB entry or one leaf of a table can cover, from the smallest to the largest.
    PageSize {
        /// 4 KiB
        K4: "4k",
        /// 2 MiB
        M2: "2m",
        /// 1 GiB
        G1: "1g",
    }
}

impl PageSize {
    /// log2 of the size in bytes.
    pub const fn shift(self) -> u32 {
        12 + 9 * self as u32
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// The bits of an address that lie within a page.
    pub const fn offset_mask(self) -> u64 {
        self.bytes() - 1
    }

    /// The size of a leaf at this level of an x86-64 table, 1 being the last.
    pub const fn of_level(level: u8) -> Option<Self> {
        match level {
            1 => Some(Self::K4),
            2 => Some(Self::M2),
            3 => Some(Self::G1),
            _ => None,
        }
    }
}
