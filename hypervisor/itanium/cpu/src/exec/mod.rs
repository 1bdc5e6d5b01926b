// SPDX-License-Identifier: MIT
//! What each row of the decoder's table does, in a file for each kind: a file's `of` gives a row's function by its
//! mnemonic and operands.
#![allow(clippy::unnecessary_wraps, clippy::unused_self)] // all that executes has one type

mod branch;
mod compare;
mod extract;
mod float;
mod float_move;
mod float_pair;
mod indirect;
mod integer;
mod load;
mod multimedia;
mod registers;
mod semaphore;
mod store;
mod system;

use std::sync::OnceLock;

use itanium_decode::operand::Kind;
use itanium_decode::table::forms;
use itanium_decode::{Form, Instruction};

use crate::bus::Bus;
use crate::cpu::Cpu;
use crate::interruption::{Done, illegal, stuck};

/// What executes an instruction.
pub(crate) type Handler = fn(&mut Cpu, &mut dyn Bus, &Op) -> Done;

/// An instruction, taken apart once.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub run: Handler,
    pub slot: u64,
    /// The first number of its operands.
    pub imm: i64,
    /// The others.
    pub more: [u8; 2],
    pub qp: u8,
    /// Executed whatever its predicate is.
    pub always: bool,
    /// It is in the last slot, and of the branch unit.
    pub last: bool,
    /// It sets the status register's bits for the next instruction: rfi.
    pub restores: bool,
    /// Bits 12:6, and so on, whatever kind of register they name.
    pub r1: u8,
    pub r2: u8,
    pub r3: u8,
    pub r4: u8,
    pub p1: u8,
    pub p2: u8,
}

impl Op {
    /// Where there is no instruction.
    pub(crate) fn illegal() -> Self {
        Self {
            run: Cpu::no_instruction,
            slot: 0,
            imm: 0,
            more: [0; 2],
            qp: 0,
            always: true,
            last: false,
            restores: false,
            r1: 0,
            r2: 0,
            r3: 0,
            r4: 0,
            p1: 0,
            p2: 0,
        }
    }

    pub(crate) fn of(found: &Instruction, last: bool) -> Self {
        let is_number = |kind| matches!(kind, Kind::Number | Kind::Bits | Kind::Target | Kind::Permutation);
        let operands = found.operands().filter(|operand| is_number(operand.kind()));
        let mut numbers = operands.map(|operand| operand.value(found));
        let imm = numbers.next().unwrap_or(0);
        let more = [numbers.next().unwrap_or(0) as u8, numbers.next().unwrap_or(0) as u8];
        let field = |low: u32| (found.slot >> low & 127) as u8;
        let form = found.form;
        Self {
            run: handlers()[form.id].unwrap_or(Cpu::not_yet),
            slot: found.slot,
            imm,
            more,
            qp: found.predicate(),
            always: found.predicate() == 0 || even_if_false(form.mnemonic),
            last,
            restores: form.mnemonic == "rfi",
            r1: field(6),
            r2: field(13),
            r3: field(20),
            r4: field(27),
            p1: field(6) & 63,
            p2: field(27) & 63,
        }
    }

    pub(crate) const fn bit(&self, at: u32) -> bool {
        self.slot >> at & 1 != 0
    }

    pub(crate) const fn bits(&self, high: u32, low: u32) -> u64 {
        self.slot >> low & ((1 << (high - low + 1)) - 1)
    }
}

/// Instructions that do something where their predicate is false: they clear predicates, or count.
fn even_if_false(mnemonic: &str) -> bool {
    let names = ["br.wtop", "br.wexit", "frcpa", "fprcpa", "frsqrta", "fprsqrta"];
    mnemonic.contains("unc") || names.iter().any(|name| mnemonic.starts_with(name))
}

/// A row of the table by what it is called.
pub(crate) type Name = (&'static str, &'static str);

fn handler(form: &Form) -> Option<Handler> {
    let name = (form.mnemonic, form.operands);
    let files = [
        integer::of,
        extract::of,
        multimedia::of,
        compare::of,
        branch::of,
        load::of,
        store::of,
        semaphore::of,
        registers::of,
        indirect::of,
        system::of,
        float_move::of,
        float::of,
        float_pair::of,
    ];
    files.iter().find_map(|of| of(name))
}

fn handlers() -> &'static [Option<Handler>] {
    static HANDLERS: OnceLock<Vec<Option<Handler>>> = OnceLock::new();
    HANDLERS.get_or_init(|| forms().iter().map(handler).collect())
}

/// Whether the processor executes a row of the decoder's table.
pub fn covered(form: &Form) -> bool {
    handlers()[form.id].is_some()
}

/// Rows that nobody has written yet: mnemonics, each once.
pub fn missing() -> Vec<&'static str> {
    let mut names: Vec<_> = forms().iter().filter(|form| !covered(form)).map(|form| form.mnemonic).collect();
    names.dedup();
    names
}

impl Cpu {
    /// An instruction that the machine does not have yet ends the run.
    pub(crate) fn not_yet(&mut self, _: &mut dyn Bus, _: &Op) -> Done {
        Err(stuck("an instruction that is not implemented"))
    }

    /// What a slot without an instruction does.
    pub(crate) fn no_instruction(&mut self, _: &mut dyn Bus, _: &Op) -> Done {
        Err(illegal())
    }

    /// Nothing.
    pub(crate) fn nothing(&mut self, _: &mut dyn Bus, _: &Op) -> Done {
        Ok(())
    }
}
