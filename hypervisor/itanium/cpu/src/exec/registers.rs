// SPDX-License-Identifier: MIT
//! Moves between general registers and all others; alloc (SDM vol. 3, I21 to I28, M22 to M36, M44).

use super::{Handler, Name, Op};
use crate::bus::Bus;
use crate::cpu::{Cpu, ar, cr};
use crate::general::Frame;
use crate::interruption::{Done, illegal, nat, privileged_register, reserved};
use crate::psr;

pub(super) fn of((mnemonic, operands): Name) -> Option<Handler> {
    Some(match (mnemonic, operands) {
        ("mov", "b1=r2") | ("mov{wh}{ih}" | "mov.ret{wh}{ih}", _) => |c, _, o| {
            c.branches[usize::from(o.r1 & 7)] = c.value(o.r2, 0)?;
            Ok(())
        },
        ("mov", "r1=b2") => |c, _, o| c.constant(o, c.branches[usize::from(o.r2 & 7)]),
        ("mov", "r1=ip") => |c, _, o| c.constant(o, c.ip),
        ("mov", "r1=pr") => |c, _, o| c.constant(o, c.predicates),
        ("mov", "pr=r2,mask17") => |c, _, o| {
            let (value, mask) = (c.value(o.r2, 0)?, o.imm as u64);
            c.predicates = c.predicates & !mask | value & mask | 1;
            Ok(())
        },
        ("mov", "pr.rot=imm44") => |c, _, o| {
            c.predicates = c.predicates & 0xffff | o.imm as u64 & !0xffff;
            Ok(())
        },
        ("mov.i", "ar3=r2") => |c, _, o| c.application_from(o, true),
        ("mov.m", "ar3=r2") => |c, _, o| c.application_from(o, false),
        ("mov.i", "ar3=imm8") => |c, _, o| c.set_application(usize::from(o.r3), o.imm as u64, true),
        ("mov.m", "ar3=imm8") => |c, _, o| c.set_application(usize::from(o.r3), o.imm as u64, false),
        ("mov.i", "r1=ar3") => |c, _, o| c.application_to(o, true),
        ("mov.m", "r1=ar3") => |c, _, o| c.application_to(o, false),
        ("mov", "cr3=r2") => |c, _, o| {
            c.control_allowed(o)?;
            let value = c.value(o.r2, 0)?;
            c.set_control(usize::from(o.r3), value)
        },
        ("mov", "r1=cr3") => |c, _, o| {
            c.target(o.r1)?;
            c.control_allowed(o)?;
            let value = c.control(usize::from(o.r3));
            c.constant(o, value)
        },
        ("mov", "psr.l=r2") => |c, _, o| {
            c.must_be_privileged()?;
            let value = c.value(o.r2, 0)? & 0xffff_ffff;
            if value & !psr::LOW != 0 {
                return Err(reserved());
            }
            c.set_psr(c.psr & !0xffff_ffff | value);
            Ok(())
        },
        ("mov", "psr.um=r2") => |c, _, o| {
            let value = c.value(o.r2, 0)? & 0x3f;
            if value & !psr::USER != 0 {
                return Err(reserved());
            }
            c.set_user_mask(value, psr::USER);
            Ok(())
        },
        ("mov", "r1=psr") => |c, _, o| {
            c.target(o.r1)?;
            c.must_be_privileged()?;
            c.constant(o, c.psr & (psr::LOW | psr::MC | psr::IT))
        },
        ("mov", "r1=psr.um") => |c, _, o| c.constant(o, c.psr & psr::USER),
        ("sum", _) => |c, _, o| c.change_user_mask(o, true),
        ("rum", _) => |c, _, o| c.change_user_mask(o, false),
        ("ssm", _) => |c, _, o| c.change_system_mask(o, true),
        ("rsm", _) => |c, _, o| c.change_system_mask(o, false),
        ("alloc", _) => Cpu::alloc,
        ("flushrs", _) => |c, b, _| c.flush_stack(b),
        ("loadrs", _) => |c, b, _| c.load_stack(b),
        _ => return None,
    })
}

/// Application registers that there are: kernel, stack, those of the other instruction set, and so on.
const fn exists(number: usize) -> bool {
    matches!(number, 0..8 | 16..=19 | 21 | 24..=30 | 32 | 36 | 40 | 44 | 48..67 | 112..128)
}

/// Bits of FPSR that are reserved, and rounding precisions that are (SDM vol. 1, 5.1.3, table 5-5).
fn is_fpsr(value: u64) -> bool {
    value >> 58 == 0 && (0..4).all(|field| value >> (6 + 13 * field + 2) & 3 != 1) && value >> 12 & 1 == 0
}

impl Cpu {
    /// Those up to 63 are the memory unit's, those from 64 on the integer unit's; ignored ones are both's.
    fn application_unit(number: usize, integer: bool) -> Done {
        let right = if integer { number >= 48 } else { !(64..112).contains(&number) };
        if right && exists(number) { Ok(()) } else { Err(illegal()) }
    }

    /// The register stack engine does only what it must: its registers may be moved.
    fn lazy(&self) -> bool {
        self.rsc() % 4 == 0
    }

    fn application_to(&mut self, op: &Op, integer: bool) -> Done {
        let number = usize::from(op.r3);
        Self::application_unit(number, integer)?;
        self.target(op.r1)?;
        if matches!(number, ar::RNAT | ar::BSPSTORE) && !self.lazy() {
            return Err(illegal());
        }
        if number == ar::ITC && self.has(psr::SI) && self.level() != 0 {
            return Err(privileged_register());
        }
        let value = match number {
            ar::BSP => self.rse.bsp,
            ar::BSPSTORE => self.rse.bspstore,
            ar::ITC => self.itc(),
            48..64 | 112..128 => 0,
            number => self.ar[number],
        };
        self.constant(op, value)
    }

    fn application_from(&mut self, op: &Op, integer: bool) -> Done {
        Self::application_unit(usize::from(op.r3), integer)?;
        match self.gr(op.r2) {
            (value, false) => self.set_application(usize::from(op.r3), value, integer),
            _ => Err(nat(0)),
        }
    }

    fn set_application(&mut self, number: usize, value: u64, integer: bool) -> Done {
        Self::application_unit(number, integer)?;
        match number {
            ar::BSP => return Err(illegal()),
            ar::BSPSTORE | ar::RNAT if !self.lazy() => return Err(illegal()),
            0..8 | ar::ITC if self.level() != 0 => return Err(privileged_register()),
            ar::BSPSTORE => self.set_bspstore(value),
            ar::RSC if value >> 30 != 0 || value >> 5 & 0x7ff != 0 => return Err(reserved()),
            ar::RSC => {
                let level = (value >> 2 & 3).max(u64::from(self.level()));
                self.ar[ar::RSC] = value & !0xc | level << 2;
            }
            ar::FPSR if !is_fpsr(value) => return Err(reserved()),
            ar::PFS if value >> 38 & 0x3fff != 0 || value >> 58 & 15 != 0 => return Err(reserved()),
            ar::ITC => {
                self.ar[ar::ITC] = value.wrapping_sub(self.instructions);
                self.set_timer();
            }
            ar::EC => self.ar[ar::EC] = value & 63,
            48..64 | 112..128 => {}
            number => self.ar[number] = value,
        }
        Ok(())
    }

    /// Which control registers there are, and that those of interruptions are the handler's (SDM vol. 3, mov cr).
    fn control_allowed(&self, op: &Op) -> Done {
        let number = usize::from(op.r3);
        let exists = matches!(number, 0..3 | 8 | 16..=17 | 19..26 | 64..75 | 80..82);
        if !exists || (16..26).contains(&number) && self.has(psr::IC) {
            return Err(illegal());
        }
        self.must_be_privileged()
    }

    fn control(&mut self, number: usize) -> u64 {
        match number {
            cr::PTA => self.mmu.pta().word(),
            cr::IVR => self.take_interrupt(),
            cr::EOI => 0,
            cr::IRR..cr::ITV => self.requested(number - cr::IRR),
            number => self.cr[number],
        }
    }

    fn set_control(&mut self, number: usize, value: u64) -> Done {
        let vector = |value: u64| value & 0xff | value & 1 << 16;
        match number {
            cr::IVR | cr::IRR..cr::ITV => return Err(illegal()),
            cr::DCR if value & !0x7f07 != 0 => return Err(reserved()),
            cr::PTA => return self.mmu.set_pta(value).map_err(|_| reserved()),
            cr::EOI => self.end_interrupt(),
            cr::ITV | cr::PMV | cr::CMCV if value & 0xe00 != 0 => return Err(reserved()),
            cr::ITV | cr::PMV | cr::CMCV => self.cr[number] = vector(value),
            cr::LRR0 | cr::LRR1 => self.cr[number] = value & 0x1_ffff,
            cr::LID => self.cr[number] = value & 0xffff_0000,
            cr::TPR => {
                self.cr[cr::TPR] = value & 0x1_00f0;
                self.look_for_interrupts();
            }
            cr::IVA => self.cr[cr::IVA] = value & !0x7fff,
            cr::IFS if value >> 63 != 0 && Frame::of_word(value).is_none() => return Err(reserved()),
            cr::ITM => {
                self.cr[cr::ITM] = value;
                self.set_timer();
            }
            number => self.cr[number] = value,
        }
        Ok(())
    }

    /// Of the user mask, `up` is changed only where performance monitors are not secure.
    fn set_user_mask(&mut self, value: u64, mask: u64) {
        let mask = if self.has(psr::SP) { mask & !psr::UP } else { mask };
        self.set_psr(self.psr & !mask | value & mask);
    }

    fn change_user_mask(&mut self, op: &Op, set: bool) -> Done {
        let mask = op.imm as u64;
        if mask & !psr::USER != 0 {
            return Err(reserved());
        }
        self.set_user_mask(if set { mask } else { 0 }, mask);
        Ok(())
    }

    fn change_system_mask(&mut self, op: &Op, set: bool) -> Done {
        self.must_be_privileged()?;
        let mask = op.imm as u64;
        if mask & !psr::SYSTEM != 0 {
            return Err(reserved());
        }
        self.set_psr(if set { self.psr | mask } else { self.psr & !mask });
        Ok(())
    }

    fn alloc(&mut self, bus: &mut dyn Bus, op: &Op) -> Done {
        let sizes = [op.imm as u8, op.more[0], op.more[1]];
        let beyond = op.r1 >= 32 && op.r1 - 32 >= sizes[0];
        if op.r1 == 0 || beyond {
            return Err(illegal());
        }
        self.resize_frame(bus, sizes)?;
        self.set_gr(op.r1, self.ar[ar::PFS], false);
        Ok(())
    }
}
