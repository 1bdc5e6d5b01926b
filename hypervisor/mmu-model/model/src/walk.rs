// SPDX-License-Identifier: MIT
//! What a refill finds, or why it finds nothing, whatever the shape of the tables.

use crate::address::{Machine, PageSize};
use crate::numbered::numbered;

numbered! {
    /// Which table a reference goes to.
    Dimension {
        /// The only one.
        Flat: "flat",
        /// The guest's, under nested paging.
        Guest: "guest",
        /// The host's, under nested paging.
        Host: "host",
    }
}

/// Table and level of a reference; level 1 is the last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// Which table.
    pub dimension: Dimension,
    /// Which level.
    pub level: u8,
}

/// Rights and state of a translation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rights(u8);

impl Rights {
    /// User code may.
    pub const USER: Self = Self(1);
    /// May be written.
    pub const WRITE: Self = Self(2);
    /// May not be executed.
    pub const NO_EXECUTE: Self = Self(4);
    /// The dirty bits are set: a store needs no walk to set them.
    pub const DIRTY: Self = Self(8);
    /// The host lets it be written, which a supervisor without CR0.WP cannot overrule.
    pub const HOST_WRITE: Self = Self(16);
    /// Number of combinations.
    pub const COMBINATIONS: u8 = 32;

    /// This combination.
    pub const fn from_index(index: u8) -> Self {
        Self(index)
    }

    /// The number of this combination.
    pub const fn index(self) -> u8 {
        self.0
    }

    /// Whether all of these are there.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With these added.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With these added if the condition holds.
    #[must_use]
    pub const fn and_if(self, condition: bool, other: Self) -> Self {
        if condition { self.and(other) } else { self }
    }

    /// With these taken away.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A translation that a walk has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Where the page of the effective size begins.
    pub machine: Machine,
    /// The effective size: the smaller of the two below.
    pub size: PageSize,
    /// The size of the guest's leaf, or of the only one.
    pub guest: PageSize,
    /// The size of the host's leaf, under nested paging.
    pub host: Option<PageSize>,
    /// What is allowed.
    pub rights: Rights,
    /// Not tied to a process.
    pub global: bool,
}

/// Why there is no translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop<E> {
    /// The tables say no.
    Fault(Fault),
    /// The hardware leaves it to software.
    Software,
    /// The tables could not be read: nothing is known.
    Memory(E),
}

impl<E> From<Fault> for Stop<E> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What is wrong.
    pub reason: Reason,
    /// With whose table; a fault in the host's is a nested page fault.
    pub dimension: Dimension,
    /// At which level; 0 where it is the whole walk's.
    pub level: u8,
}

/// What is wrong with a translation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Reason {
    /// The address is not canonical.
    NonCanonical = 0,
    /// An entry is not present.
    NotPresent = 1,
    /// An entry has a reserved bit set.
    Reserved = 2,
    /// The access is not allowed.
    Denied = 3,
}
