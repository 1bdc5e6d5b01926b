// SPDX-License-Identifier: MIT
//! How the model reads page tables.

use crate::address::Machine;

/// The machine's memory, as far as a page walk needs it.
pub trait Memory {
    /// Why a word could not be had: that is never a page fault.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The eight bytes at this address, which is a multiple of eight.
    fn read(&mut self, at: Machine) -> Result<u64, Self::Error>;

    /// A walk sets accessed or dirty bits in the word at this address.
    ///
    /// An emulator has done so by the time it tells of the access, and a replay has it in the trace, so the
    /// default does nothing. A machine that is only made of tables obeys.
    fn set_bits(&mut self, _at: Machine, _bits: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}
