// SPDX-License-Identifier: MIT
//! Bundles of Itanium instructions: three slots of 41 bits, of which a table says what each is.
//!
//! The table is text, `table.txt`, and is read once. An [`Instruction`] is a row of it and the bits of the slot; its
//! operands are cut out of the bits when they are asked for, and [`Instruction::text`] writes it as the GNU
//! disassembler does.

pub mod assemble;
pub mod bundle;
pub mod operand;
pub mod program;
pub mod table;

pub use assemble::assemble;
pub use bundle::{Bundle, Unit};
pub use operand::Operand;
pub use program::program;
pub use table::{Form, Instruction, decode};
