// SPDX-License-Identifier: MIT
//! Branches, calls, loops and what they do to the frame (SDM vol. 3, B1 to B9, X3, X4).

use super::{Handler, Name, Op};
use crate::bus::Bus;
use crate::cpu::{Cpu, ar};
use crate::general::Frame;
use crate::interruption::{Done, at, illegal, privileged};

pub(super) fn of((mnemonic, operands): Name) -> Option<Handler> {
    Some(match (mnemonic, operands) {
        ("br{few}{clr}" | "br.cond{pos3}{few}{clr}", "b2") => |c, _, o| c.go(c.branches[usize::from(o.r2 & 7)]),
        ("br{few}{clr}" | "br.cond{pos3}{few}{clr}" | "brl{few}{clr}" | "brl.cond{pos3}{few}{clr}", _) => {
            |c, _, o| c.go(c.relative(o))
        }
        ("br.call{pos3}{few}{clr}", "b1=b2") => |c, _, o| c.call(o, c.branches[usize::from(o.r2 & 7)]),
        ("br.call{pos3}{few}{clr}" | "brl.call{pos3}{few}{clr}", _) => |c, _, o| c.call(o, c.relative(o)),
        ("br.ret{pos3}{few}{clr}", _) => Cpu::ret,
        ("br.ia{pos3}{few}{clr}", _) => Cpu::other_instructions,
        // Of processors with a virtual machine mode, which this one has not.
        ("vmsw.0" | "vmsw.1", _) => Cpu::no_instruction,
        ("br.cloop{pos3}{few}{clr}", _) => Cpu::counted_loop,
        ("br.ctop{pos3}{few}{clr}", _) => |c, _, o| c.modulo_loop(o, true),
        ("br.cexit{pos3}{few}{clr}", _) => |c, _, o| c.modulo_loop(o, false),
        ("br.wtop{pos3}{few}{clr}", _) => |c, _, o| c.while_loop(o, true),
        ("br.wexit{pos3}{few}{clr}", _) => |c, _, o| c.while_loop(o, false),
        ("brp{whp}{ih35}" | "brp{whr}{ih35}" | "brp.ret{whr}{ih35}", _) => Cpu::nothing,
        ("cover", _) => Cpu::covered_frame,
        ("clrrrb", _) => |c, _, _| {
            (c.frame.rrb_gr, c.frame.rrb_fr, c.frame.rrb_pr) = (0, 0, 0);
            Ok(())
        },
        ("clrrrb.pr", _) => |c, _, _| {
            c.frame.rrb_pr = 0;
            Ok(())
        },
        ("rfi", _) => |c, _, _| {
            c.must_be_privileged()?;
            c.return_from();
            Ok(())
        },
        ("bsw.0", _) => |c, _, _| c.bank(0),
        ("bsw.1", _) => |c, _, _| c.bank(crate::psr::BN),
        ("epc", _) => Cpu::enter_privileged_code,
        _ => return None,
    })
}

impl Cpu {
    const fn relative(&self, op: &Op) -> u64 {
        self.ip.wrapping_add(op.imm as u64)
    }

    fn go(&mut self, target: u64) -> Done {
        self.branch = Some((target & !15, 0));
        Ok(())
    }

    /// Privileged Operation fault where this code is not privileged.
    pub(super) fn must_be_privileged(&self) -> Done {
        if self.level() == 0 { Ok(()) } else { Err(privileged()) }
    }

    fn call(&mut self, op: &Op, target: u64) -> Done {
        self.branches[usize::from(op.r1 & 7)] = self.ip.wrapping_add(16);
        let (ec, level) = (self.ar[ar::EC] & 63, u64::from(self.level()));
        self.ar[ar::PFS] = self.frame.word() | ec << 52 | level << 62;
        let Frame { sof, sol, .. } = self.frame;
        self.push_frame(sol);
        self.frame = Frame { sof: sof - sol, ..Frame::default() };
        self.go(target)
    }

    fn ret(&mut self, _: &mut dyn Bus, op: &Op) -> Done {
        let pfs = self.ar[ar::PFS];
        let target = self.branches[usize::from(op.r2 & 7)];
        self.ar[ar::EC] = pfs >> 52 & 63;
        self.pop_frame((pfs >> 7 & 127) as u8);
        self.restore_frame(pfs);
        let level = (pfs >> 62) as u8;
        if level > self.level() {
            self.set_level(level);
        }
        self.go(target)
    }

    /// Loop branches are in the last slot (SDM vol. 3, br).
    fn must_be_last(op: &Op) -> Done {
        if op.last { Ok(()) } else { Err(illegal()) }
    }

    fn counted_loop(&mut self, _: &mut dyn Bus, op: &Op) -> Done {
        Self::must_be_last(op)?;
        let count = self.loop_count();
        if *count == 0 {
            return Ok(());
        }
        *count -= 1;
        self.go(self.relative(op))
    }

    fn modulo_loop(&mut self, op: &Op, top: bool) -> Done {
        Self::must_be_last(op)?;
        let (count, epilogue) = (self.ar[ar::LC], self.ar[ar::EC]);
        let goes_on = count != 0 || epilogue > 1;
        self.set_pr(63, count != 0);
        if count != 0 {
            self.ar[ar::LC] = count - 1;
            self.rotate();
        } else if epilogue != 0 {
            self.ar[ar::EC] = epilogue - 1;
            self.rotate();
        }
        if goes_on == top { self.go(self.relative(op)) } else { Ok(()) }
    }

    fn while_loop(&mut self, op: &Op, top: bool) -> Done {
        Self::must_be_last(op)?;
        let (on, epilogue) = (self.pr(op.qp), self.ar[ar::EC]);
        let goes_on = on || epilogue > 1;
        self.set_pr(63, false);
        if on {
            self.rotate();
        } else if epilogue != 0 {
            self.ar[ar::EC] = epilogue - 1;
            self.rotate();
        }
        if goes_on == top { self.go(self.relative(op)) } else { Ok(()) }
    }

    const fn rotate(&mut self) {
        const fn down(base: u8, of: u8) -> u8 {
            if base == 0 { of.saturating_sub(1) } else { base - 1 }
        }
        self.frame.rrb_gr = down(self.frame.rrb_gr, self.frame.sor);
        self.frame.rrb_fr = down(self.frame.rrb_fr, 96);
        self.frame.rrb_pr = down(self.frame.rrb_pr, 48);
    }

    fn covered_frame(&mut self, _: &mut dyn Bus, _: &Op) -> Done {
        if !self.has(crate::psr::IC) {
            self.cr[crate::cpu::cr::IFS] = self.frame.word() | 1 << 63;
        }
        self.cover();
        Ok(())
    }

    /// `br.ia`: Disabled Instruction Set Transition fault (SDM vol. 3, br), whatever PSR.di says: there are no others.
    fn other_instructions(&mut self, _: &mut dyn Bus, _: &Op) -> Done {
        Err(at(0x5400, 0x40))
    }

    fn bank(&mut self, bank: u64) -> Done {
        self.must_be_privileged()?;
        self.set_psr(self.psr & !crate::psr::BN | bank);
        Ok(())
    }

    /// `epc`: to the level of the page, if the page promotes (SDM vol. 3, epc).
    fn enter_privileged_code(&mut self, _: &mut dyn Bus, _: &Op) -> Done {
        if (self.ar[ar::PFS] >> 62) < u64::from(self.level()) {
            return Err(illegal());
        }
        if !self.has(crate::psr::IT) {
            self.set_level(0);
        } else if self.code_page.rights() == 7 && self.code_page.level() < self.level() {
            self.set_level(self.code_page.level());
        }
        Ok(())
    }
}
