// SPDX-License-Identifier: MIT
//! Addresses that cannot be mixed, and the page sizes.

use std::fmt;

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

/// The size of a page, of what one TLB entry covers or of one leaf of a table: a power of two of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u8);

impl PageSize {
    /// 4 KiB
    pub const K4: Self = Self(12);
    /// 2 MiB
    pub const M2: Self = Self(21);
    /// 1 GiB
    pub const G1: Self = Self(30);
    /// The sizes of x86-64, from the smallest to the largest.
    pub const ALL: [Self; 3] = [Self::K4, Self::M2, Self::G1];
    /// How many sizes counters tell apart: from 4 KiB up.
    pub const COUNT: usize = 32;

    /// The size of 2^shift bytes, from 4 KiB to 8 TiB.
    pub const fn of_shift(shift: u32) -> Self {
        assert!(shift >= 12 && shift < 12 + Self::COUNT as u32, "a page has 4 KiB at least and 8 TiB at most");
        Self(shift as u8)
    }

    /// log2 of the size in bytes.
    pub const fn shift(self) -> u32 {
        self.0 as u32
    }

    /// Which counter is this size's.
    pub const fn index(self) -> usize {
        self.0 as usize - 12
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

    /// The size with this name, such as "4k".
    pub fn of_name(name: &str) -> Option<Self> {
        (12..12 + Self::COUNT as u32).map(Self::of_shift).find(|size| size.name() == name)
    }

    /// As counters and machine files name it: "4k", "16m", "1g".
    pub fn name(self) -> String {
        let tens = self.shift() / 10;
        format!("{}{}", 1_u64 << (self.shift() % 10), ["", "k", "m", "g", "t"][tens as usize])
    }
}

impl fmt::Debug for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self::K4
    }
}
