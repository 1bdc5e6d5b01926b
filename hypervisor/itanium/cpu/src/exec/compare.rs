// SPDX-License-Identifier: MIT
//! Compares and tests, which write two predicates (SDM vol. 3, A6 to A8, I16, I17, I30).

use super::{Handler, Name, Op};
use crate::cpu::Cpu;
use crate::interruption::{Done, illegal};

/// How a result becomes predicates (SDM vol. 3, cmp, table 2-14 ff.).
#[derive(Clone, Copy)]
pub(super) enum Way {
    Normal,
    Unconditional,
    And,
    Or,
    OrAndcm,
}

/// A function for a way: each is one of its own, for the function has no state.
macro_rules! ways {
    ($o:ident, $suffix:expr, $call:ident($($arg:expr),*)) => {
        match $suffix {
            "" => |c, _, $o| c.$call($o, Way::Normal, $($arg),*),
            ".unc" => |c, _, $o| c.$call($o, Way::Unconditional, $($arg),*),
            ".and" => |c, _, $o| c.$call($o, Way::And, $($arg),*),
            ".or" => |c, _, $o| c.$call($o, Way::Or, $($arg),*),
            ".or.andcm" => |c, _, $o| c.$call($o, Way::OrAndcm, $($arg),*),
            _ => return None,
        }
    };
}

pub(super) fn of((mnemonic, operands): Name) -> Option<Handler> {
    let (test, rest) = mnemonic.split_once('.')?;
    let at = rest.find('.').unwrap_or(rest.len());
    let (relation, suffix) = rest.split_at(at);
    Some(match (test, relation, operands) {
        ("cmp{cmpw}", "eq", "p1,p2=r2,r3") => ways!(o, suffix, two_compared(|a, b| a == b)),
        ("cmp{cmpw}", "ne", "p1,p2=r2,r3") => ways!(o, suffix, two_compared(|a, b| a != b)),
        ("cmp{cmpw}", "lt", "p1,p2=r2,r3") => ways!(o, suffix, two_compared(|a, b| a < b)),
        ("cmp{cmpw}", "ltu", "p1,p2=r2,r3") => ways!(o, suffix, two_compared(|a, b| (a as u64) < b as u64)),
        ("cmp{cmpw}", "gt", "p1,p2=r0,r3") => ways!(o, suffix, compared(0, |a, b| a > b)),
        ("cmp{cmpw}", "le", "p1,p2=r0,r3") => ways!(o, suffix, compared(0, |a, b| a <= b)),
        ("cmp{cmpw}", "ge", "p1,p2=r0,r3") => ways!(o, suffix, compared(0, |a, b| a >= b)),
        ("cmp{cmpw}", "lt", "p1,p2=r0,r3") => ways!(o, suffix, compared(0, |a, b| a < b)),
        ("cmp{cmpw}", "eq", "p1,p2=imm8,r3") => ways!(o, suffix, compared(o.imm, |a, b| a == b)),
        ("cmp{cmpw}", "ne", "p1,p2=imm8,r3") => ways!(o, suffix, compared(o.imm, |a, b| a != b)),
        ("cmp{cmpw}", "lt", "p1,p2=imm8,r3") => ways!(o, suffix, compared(o.imm, |a, b| a < b)),
        ("cmp{cmpw}", "ltu", "p1,p2=imm8,r3") => ways!(o, suffix, compared(o.imm, |a, b| (a as u64) < b as u64)),
        ("tbit", "z", _) => ways!(o, suffix, bit_tested(false)),
        ("tbit", "nz", _) => ways!(o, suffix, bit_tested(true)),
        ("tnat", "z", _) => ways!(o, suffix, nat_tested(false)),
        ("tnat", "nz", _) => ways!(o, suffix, nat_tested(true)),
        ("tf", "z", _) => ways!(o, suffix, feature_tested(false)),
        ("tf", "nz", _) => ways!(o, suffix, feature_tested(true)),
        _ => return None,
    })
}

impl Cpu {
    /// Writes the predicates of a result; of sources that are NaTs there is none.
    #[inline]
    pub(super) fn judge(&mut self, op: &Op, way: Way, result: Option<bool>) -> Done {
        let on = op.qp == 0 || self.pr(op.qp);
        if op.p1 == op.p2 && (on || matches!(way, Way::Unconditional)) {
            return Err(illegal());
        }
        let written = match (way, result) {
            (way, _) if !on => matches!(way, Way::Unconditional).then_some((false, false)),
            (Way::Normal | Way::Unconditional, Some(result)) => Some((result, !result)),
            (Way::And, Some(true)) | (Way::Or | Way::OrAndcm, None | Some(false)) => None,
            (Way::Normal | Way::Unconditional, None) | (Way::And, None | Some(false)) => Some((false, false)),
            (Way::Or, Some(true)) => Some((true, true)),
            (Way::OrAndcm, Some(true)) => Some((true, false)),
        };
        if let Some((first, second)) = written {
            self.set_pr(op.p1, first);
            self.set_pr(op.p2, second);
        }
        Ok(())
    }

    fn two_compared(&mut self, op: &Op, way: Way, relation: impl Fn(i64, i64) -> bool) -> Done {
        let ((a, a_nat), (b, b_nat)) = (self.gr(op.r2), self.gr(op.r3));
        let result = relation(narrow(op, a as i64), narrow(op, b as i64));
        self.judge(op, way, (!a_nat && !b_nat).then_some(result))
    }

    fn compared(&mut self, op: &Op, way: Way, first: i64, relation: impl Fn(i64, i64) -> bool) -> Done {
        let (b, nat) = self.gr(op.r3);
        let result = relation(narrow(op, first), narrow(op, b as i64));
        self.judge(op, way, (!nat).then_some(result))
    }

    fn bit_tested(&mut self, op: &Op, way: Way, set: bool) -> Done {
        let (value, nat) = self.gr(op.r3);
        self.judge(op, way, (!nat).then_some((value >> op.imm & 1 != 0) == set))
    }

    fn nat_tested(&mut self, op: &Op, way: Way, set: bool) -> Done {
        let (_, nat) = self.gr(op.r3);
        self.judge(op, way, Some(nat == set))
    }

    /// Features are those of CPUID's fourth register.
    fn feature_tested(&mut self, op: &Op, way: Way, set: bool) -> Done {
        let has = self.cpuid[4] >> op.imm & 1 != 0;
        self.judge(op, way, Some(has == set))
    }
}

/// `cmp4` looks at 32 bits; with their sign they are in the same order, unsigned too.
const fn narrow(op: &Op, value: i64) -> i64 {
    if op.bit(34) { value as i32 as i64 } else { value }
}
