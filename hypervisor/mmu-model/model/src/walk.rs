// SPDX-License-Identifier: MIT
//! What a page walk is, whatever the shape of the tables.

use crate::address::{Machine, PageSize, Virtual};
use crate::context::{Control, Kind};
use crate::numbered::numbered;

/// Finds the translation of one address in tables in memory.
///
/// How other organisations fit. A *hashed*, *clustered* or *guarded* table asks for words at addresses of its own
/// choosing, in any number ([`Steps::read`] with the step as level); a *software-refilled* TLB is the same with the
/// handler's instructions added by [`Steps::spend`], its own loads being translated by a nested call. The *Itanium's
/// VHPT* walker may give up half-way: it returns [`Stop::Software`], and the handler is a second `Walker` tried next.
pub trait Walker {
    /// Walk for one access.
    fn walk<S: Steps>(&self, address: Virtual, access: Access, steps: &mut S) -> Result<Leaf, Stop<S::Error>>;
}

/// What the hardware does for a walker; it counts, caches and costs. Unless told otherwise it remembers nothing, and
/// nothing costs.
pub trait Steps {
    /// Why memory could not be read.
    type Error;

    /// One reference to a table.
    fn read(&mut self, place: Place, at: Machine) -> Result<u64, Self::Error>;

    /// Set accessed or dirty bits in an entry just read.
    fn set_bits(&mut self, at: Machine, bits: u64) -> Result<(), Self::Error>;

    /// Cycles spent otherwise than on references.
    fn spend(&mut self, _cycles: u64) {}

    /// The deepest level, from 2 up to the top, whose entry for this address is remembered, and what it said.
    fn recall(&mut self, _dimension: Dimension, _address: u64, _top: u8) -> Option<(u8, Partial)> {
        None
    }

    /// Remember what the entry at this level said.
    fn keep(&mut self, _place: Place, _address: u64, _partial: Partial) {}

    /// The remembered translation of a guest-physical address.
    fn recall_nested(&mut self, _address: u64) -> Option<HostLeaf> {
        None
    }

    /// Remember the translation of a guest-physical address.
    fn keep_nested(&mut self, _address: u64, _leaf: HostLeaf) {}
}

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

/// What is to be allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Load, store or fetch.
    pub kind: Kind,
    /// Privilege level 3.
    pub user: bool,
    /// Control bits of who accesses.
    pub control: Control,
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

    /// Whether an access is allowed, dirty bits aside (SDM vol. 3, 4.6; APM vol. 2, 5.6).
    pub const fn allow(self, access: Access) -> bool {
        let (user_page, control) = (self.has(Self::USER), access.control);
        match access.kind {
            _ if access.user && !user_page => false,
            Kind::Fetch => !self.has(Self::NO_EXECUTE) && (access.user || !user_page || !control.smep),
            _ if !access.user && user_page && control.smap => false,
            Kind::Load => true,
            Kind::Store => self.has(Self::HOST_WRITE) && (self.has(Self::WRITE) || (!access.user && !control.wp)),
        }
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

/// What is remembered of a half walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partial {
    /// The next table.
    pub table: Machine,
    /// What the entries so far allow.
    pub rights: Rights,
}

impl Default for Partial {
    fn default() -> Self {
        Self { table: Machine::new(0), rights: Rights::default() }
    }
}

/// The host's translation of a guest-physical address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLeaf {
    /// Where the host's page begins.
    pub machine: Machine,
    /// Its size.
    pub size: PageSize,
    /// What is allowed.
    pub rights: Rights,
}

impl Default for HostLeaf {
    fn default() -> Self {
        Self { machine: Machine::new(0), size: PageSize::K4, rights: Rights::default() }
    }
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

/// No hardware at all: every reference goes to memory, nothing is remembered or counted.
#[derive(Debug)]
pub struct Plain<'a, M>(pub &'a mut M);

impl<M: crate::memory::Memory> Steps for Plain<'_, M> {
    type Error = M::Error;

    fn read(&mut self, _place: Place, at: Machine) -> Result<u64, M::Error> {
        self.0.read(at)
    }

    fn set_bits(&mut self, at: Machine, bits: u64) -> Result<(), M::Error> {
        self.0.set_bits(at, bits)
    }
}
