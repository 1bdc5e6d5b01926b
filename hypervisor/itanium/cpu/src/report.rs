// SPDX-License-Identifier: MIT
//! What a run that cannot go on says: where, what is there, registers, the last branches.

use std::fmt::Write;

use itanium_decode::{Bundle, Unit, decode};
use itanium_mmu::mmu::Access;

use crate::bus::Bus;
use crate::cpu::Cpu;
use crate::interruption::{Stuck, X};

impl Cpu {
    /// The same as what a run that cannot go on says, for another reason: the caller's.
    pub fn tell(&mut self, bus: &mut dyn Bus, why: &str) -> Stuck {
        self.report(bus, &Stuck(why.to_owned()))
    }

    pub(crate) fn report(&mut self, bus: &mut dyn Bus, stuck: &Stuck) -> Stuck {
        let mut text =
            format!("{} after {} instructions, at {:#x}.{}\n", stuck.0, self.instructions, self.ip, self.slot);
        text += &self.bundle_text(bus);
        text += &self.state();
        Stuck(text)
    }

    /// The bundle where it is, disassembled.
    fn bundle_text(&mut self, bus: &mut dyn Bus) -> String {
        let Ok((physical, _)) = self.translate(bus, Access::Fetch, self.ip, X) else {
            return "  no translation\n".to_owned();
        };
        let Some(raw) = bus.fetch(physical & !(1 << 63)) else { return "  no memory\n".to_owned() };
        let bundle = Bundle(raw);
        let Some(units) = bundle.units() else { return format!("  {raw:#034x}: a reserved template\n") };
        let mut text = String::new();
        for (slot, unit) in units.into_iter().enumerate() {
            let found = match unit {
                Unit::L => continue,
                Unit::X => decode(unit, bundle.slot(2), bundle.slot(1)),
                unit => decode(unit, bundle.slot(slot), 0),
            };
            let what = found.map_or_else(|| "no instruction".to_owned(), |found| found.text(self.ip));
            let _ = writeln!(text, "  {slot} {unit:?} {what}");
        }
        text
    }

    /// Registers and the last branches.
    pub fn state(&self) -> String {
        let mut text = format!(
            "  psr {:#x} cfm {:#x} bsp {:#x} bspstore {:#x} dirty {}\n",
            self.psr(),
            self.frame.word(),
            self.rse.bsp,
            self.rse.bspstore,
            self.rse.dirty
        );
        for register in (0..128).filter(|&register| register < 32 || register - 32 < self.frame.sof) {
            let (value, nat) = self.gr(register);
            if value != 0 || nat {
                let _ = writeln!(text, "  r{register} {value:#x}{}", if nat { " NaT" } else { "" });
            }
        }
        for (number, value) in self.branches.iter().enumerate() {
            let _ = writeln!(text, "  b{number} {value:#x}");
        }
        let _ = writeln!(text, "  predicates {:#x}", self.predicates);
        let (newest, oldest) = self.trail.split_at(self.next_branch);
        for (from, to) in oldest.iter().chain(newest).filter(|branch| **branch != (0, 0)) {
            let _ = writeln!(text, "  branch {from:#x} -> {to:#x}");
        }
        text
    }
}
