// SPDX-License-Identifier: MIT
//! What a walk of x86-64 tables asks of the hardware, and what it is asked.

use crate::address::{Machine, PageSize, Virtual};
use crate::context::Kind;
use crate::walk::{Dimension, Leaf, Place, Rights, Stop};
use crate::x86::tables::Control;

/// Finds the translation of one address in tables in memory.
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

impl Access {
    /// Whether these rights allow it, dirty bits aside (SDM vol. 3, 4.6; APM vol. 2, 5.6).
    pub const fn allowed_by(self, rights: Rights) -> bool {
        let (user_page, control) = (rights.has(Rights::USER), self.control);
        match self.kind {
            _ if self.user && !user_page => false,
            Kind::Fetch => !rights.has(Rights::NO_EXECUTE) && (self.user || !user_page || !control.smep),
            _ if !self.user && user_page && control.smap => false,
            Kind::Load => true,
            Kind::Store => {
                rights.has(Rights::HOST_WRITE) && (rights.has(Rights::WRITE) || (!self.user && !control.wp))
            }
        }
    }
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
