// SPDX-License-Identifier: MIT
//! Bundles are fetched, decoded once, and executed; interruptions are delivered.

use itanium_decode::{Bundle, Unit, decode};
use itanium_mmu::mmu::Access;

use crate::bus::Bus;
use crate::cpu::{Cpu, TRAIL, ar, cr};
use crate::exec::Op;
use crate::interruption::{BREAK, Done, FLOATING_TRAP, Interruption, NI, Stop, Stuck, Trouble, X, stuck};
use crate::psr;

/// Bundles that have been decoded, by their physical address. An entry is right if the bundle in memory is the one that
/// it was made of: so whoever writes to memory, by whatever way, has nothing to tell.
#[derive(Clone, Default)]
pub(crate) struct Decoded(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    raw: u128,
    slots: usize,
    /// In an instruction of two slots it is the first that counts; there is none in the second.
    ops: [Op; 3],
}

const ENTRIES: usize = 1 << 14;

impl Entry {
    fn of(raw: u128) -> Self {
        let bundle = Bundle(raw);
        let Some(units) = bundle.units() else {
            return Self { raw, slots: 3, ops: [Op::illegal(); 3] };
        };
        let of_slot = |slot: usize| match units[slot] {
            Unit::L => decode(Unit::X, bundle.slot(2), bundle.slot(1)),
            unit => decode(unit, bundle.slot(slot), 0),
        };
        let op = |slot| {
            let last = units[slot] == Unit::B && slot == 2;
            of_slot(slot).map_or_else(Op::illegal, |found| Op::of(&found, last))
        };
        let slots = if units[1] == Unit::L { 2 } else { 3 };
        let third = if slots == 3 { op(2) } else { Op::illegal() };
        Self { raw, slots, ops: [op(0), op(1), third] }
    }
}

/// An interruption after so many without an instruction between them would be followed by more.
const UNFINISHED: u32 = 64;

impl Cpu {
    /// Executes until this many instructions have been, or a few more, or firmware calls, a program marks its place, or
    /// something stops it.
    pub fn run(&mut self, bus: &mut dyn Bus, until: u64) -> Result<Stop, Stuck> {
        let mut decoded = std::mem::take(&mut self.decoded);
        if decoded.0.is_empty() {
            decoded.0 = vec![Entry { raw: 0, slots: 3, ops: [Op::illegal(); 3] }; ENTRIES];
            // A bundle of zeros is what an empty entry would be taken for.
            decoded.0.fill(Entry::of(0));
        }
        let mut result = Ok(Stop::Reached);
        while result == Ok(Stop::Reached) && self.instructions < until {
            result = match self.bundle(&mut decoded, bus) {
                Ok(()) => Ok(Stop::Reached),
                Err(Trouble::Interruption(interruption)) => match self.called(bus, &interruption) {
                    Some(immediate) => Ok(Stop::Called(immediate)),
                    None => self.deliver(&interruption).map(|()| Stop::Reached),
                },
                Err(Trouble::Mark(number)) => {
                    self.over();
                    Ok(Stop::Marked(number))
                }
                Err(Trouble::Stuck(stuck)) => Err(*stuck),
            };
        }
        self.decoded = decoded;
        result.map_err(|stuck| self.report(bus, &stuck))
    }

    /// The immediate of a break that firmware did, which is over then.
    fn called(&mut self, bus: &mut dyn Bus, interruption: &Interruption) -> Option<u64> {
        if interruption.vector != BREAK || self.firmware.is_empty() {
            return None;
        }
        let (at, _) = self.translate(bus, Access::Fetch, self.ip, X).ok()?;
        if !self.firmware.contains(&(at & !(1 << 63))) {
            return None;
        }
        self.over();
        interruption.iim
    }

    /// An instruction that does nothing here, and ends the run, is over.
    fn over(&mut self) {
        self.instructions += 1;
        (self.ip, self.slot) = if self.slot == 2 { (self.ip + 16, 0) } else { (self.ip, self.slot + 1) };
        self.psr &= !psr::ONCE;
    }

    fn bundle(&mut self, decoded: &mut Decoded, bus: &mut dyn Bus) -> Done {
        if self.rse.loading {
            self.complete_frame(bus)?;
        }
        self.attend()?;
        let entry = self.fetch(decoded, bus)?;
        // Whoever returns to a third slot of a bundle that has two finds no instruction there.
        loop {
            let op = &entry.ops[usize::from(self.slot)];
            let level = self.level();
            if op.always || self.pr(op.qp) {
                if let Err(trouble) = (op.run)(self, bus, op) {
                    return Err(self.ended(trouble, op, entry.slots));
                }
            }
            self.count();
            let from = self.ip;
            let slot = self.slot;
            let branched = self.branch.take();
            match branched {
                Some((target, next)) => {
                    self.remember_branch(from, target);
                    (self.ip, self.slot) = (target, next);
                }
                None => self.slot += 1,
            }
            if self.has(psr::ONCE | psr::SS | psr::TB | psr::LP) {
                self.after(op, branched.is_some(), self.level() > level, (slot, entry.slots), 0)?;
            }
            if branched.is_some() {
                return Ok(());
            }
            if usize::from(self.slot) >= entry.slots {
                break;
            }
        }
        self.ip += 16;
        self.slot = 0;
        Ok(())
    }

    /// An instruction is over.
    #[inline]
    fn count(&mut self) {
        self.instructions += 1;
        self.unfinished = 0;
        if self.has(psr::IC) {
            self.last = self.ip;
        } else {
            self.uncollected += 1;
        }
    }

    /// What has ended an instruction early; or, if it is a trap, the instruction is over, and this follows it. None that
    /// asks for a trap is a branch. It is apart so that the loop has no more to do.
    #[cold]
    fn ended(&mut self, trouble: Trouble, op: &Op, slots: usize) -> Trouble {
        match trouble {
            Trouble::Interruption(own) if own.trap => {
                self.count();
                let slot = self.slot;
                self.slot += 1;
                self.after(op, false, false, (slot, slots), own.isr).expect_err("a trap is an error")
            }
            trouble => trouble,
        }
    }

    fn remember_branch(&mut self, from: u64, to: u64) {
        self.trail[self.next_branch % TRAIL] = (from, to);
        self.next_branch = (self.next_branch + 1) % TRAIL;
    }

    /// Bits of the status register that are for one instruction, and traps after each (SDM vol. 2, 5.5.1), which was in
    /// this slot of so many, and asked for these itself.
    fn after(&mut self, op: &Op, branched: bool, lowered: bool, (slot, slots): (u8, usize), own: u64) -> Done {
        if op.restores {
            return Ok(());
        }
        self.psr &= !psr::ONCE;
        let lowered = lowered && self.has(psr::LP);
        let taken = branched && self.has(psr::TB);
        let step = self.has(psr::SS);
        let code = own | u64::from(lowered) << 1 | u64::from(taken) << 2 | u64::from(step) << 3;
        let vectors = [(own != 0, FLOATING_TRAP), (lowered, 0x5e00), (taken, 0x5f00), (step, 0x6000)];
        let Some((_, vector)) = vectors.into_iter().find(|(happened, _)| *happened) else { return Ok(()) };
        if usize::from(self.slot) >= slots {
            (self.ip, self.slot) = (self.ip + 16, 0);
        }
        let isr = code | u64::from(slot) << 41;
        Err(Interruption { vector, isr, trap: true, ..Interruption::default() }.into())
    }

    fn fetch<'a>(&mut self, decoded: &'a mut Decoded, bus: &mut dyn Bus) -> Done<&'a Entry> {
        let (physical, _) = self.translate(bus, Access::Fetch, self.ip, X)?;
        let at = physical & !(1 << 63);
        let raw = bus.fetch(at).ok_or_else(|| {
            stuck(format!("a wild jump: no memory at physical {at:#x}, where instructions are fetched"))
        })?;
        let entry = &mut decoded.0[(at >> 4) as usize % ENTRIES];
        if entry.raw != raw {
            *entry = Entry::of(raw);
        }
        Ok(entry)
    }

    /// Delivers an interruption (SDM vol. 2, 5.5, and chapter 8).
    pub(crate) fn deliver(&mut self, interruption: &Interruption) -> Result<(), Stuck> {
        self.branch = None;
        self.unfinished += 1;
        if self.unfinished > UNFINISHED {
            let what = format!("{UNFINISHED} interruptions and no instruction between them, vector");
            return Err(Stuck(format!("{what} {:#x}, address {:#x?}", interruption.vector, interruption.ifa)));
        }
        let collected = self.has(psr::IC);
        if !interruption.nested {
            let slot = if interruption.trap { 0 } else { u64::from(self.slot) << 41 };
            self.cr[cr::ISR] = interruption.isr | slot | if collected { 0 } else { NI };
        }
        if collected {
            self.cr[cr::IPSR] = self.psr();
            self.cr[cr::IIP] = self.ip;
            self.cr[cr::IIPA] = self.last;
            self.cr[cr::IFS] &= !(1 << 63);
            let told = [
                (cr::IFA, interruption.ifa),
                (cr::ITIR, interruption.itir),
                (cr::IHA, interruption.iha),
                (cr::IIM, interruption.iim),
            ];
            for (register, value) in told {
                if let Some(value) = value {
                    self.cr[register] = value;
                }
            }
        }
        let dcr = self.cr[cr::DCR];
        let order = if dcr >> 1 & 1 != 0 { psr::BE } else { 0 } | if dcr & 1 != 0 { psr::PP } else { 0 };
        self.rse.loading = false;
        self.set_psr(self.psr & psr::KEPT | order);
        let to = (self.cr[cr::IVA] & !0x7fff) + interruption.vector;
        self.remember_branch(self.ip, to);
        (self.ip, self.slot) = (to, 0);
        Ok(())
    }

    /// `rfi` (SDM vol. 3, rfi).
    pub(crate) fn return_from(&mut self) {
        let ipsr = self.cr[cr::IPSR];
        self.set_psr(ipsr);
        let slot = (ipsr >> 41 & 3).min(2) as u8;
        self.branch = Some((self.cr[cr::IIP] & !15, slot));
        let ifs = self.cr[cr::IFS];
        if ifs >> 63 != 0 {
            self.pop_frame((ifs & 127) as u8);
            self.restore_frame(ifs);
        }
        // A handler that covered no frame leaves one that may still lack what a return was to load when it came.
        self.rse.loading = self.rse.dirty < 0;
    }

    pub(crate) fn loop_count(&mut self) -> &mut u64 {
        &mut self.ar[ar::LC]
    }
}
