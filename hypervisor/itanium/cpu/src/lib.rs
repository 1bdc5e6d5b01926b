// SPDX-License-Identifier: MIT
//! A processor. [`Cpu`] has all that a program or a kernel sees of it, and executes the bundles that it finds in the
//! memory behind a [`Bus`], which whoever has the processor provides. What each row of the decoder's table does is in
//! [`exec`]; an instruction that nobody has written yet ends the run with a [`Stuck`] that names it.

pub mod alat;
pub mod bus;
pub mod cpu;
mod exec;
pub mod general;
pub mod interruption;
mod interrupts;
mod memory;
pub mod psr;
mod report;
mod rounding;
mod rse;
mod run;

pub use bus::Bus;
pub use cpu::Cpu;
pub use exec::{covered, missing};
pub use interruption::{Interruption, Stop, Stuck, Trouble};
