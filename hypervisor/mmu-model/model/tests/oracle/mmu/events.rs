// SPDX-License-Identifier: MIT
//! What the oracle forgets at each event.

use mmu_model::invalidate::Cause;
use mmu_model::x86::Event;

use super::{Oracle, prefix};
use crate::naive::{Entry, Half, Space};

/// Invalidations.
impl Oracle {
    pub fn invalidate(&mut self, event: Event) {
        let Space { asid, pcid, .. } = self.space;
        let local = move |e: &Entry, pcid: u16| !e.global && e.space.asid == asid && e.space.pcid == pcid;
        let at = |e: &Entry, address: u64| e.is_of_leaf_at(address);
        match event {
            Event::Cr3 { keep: true } => self.bank.flushes[Cause::Cr3Keep as usize] += 1,
            Event::Cr3 { keep: false } => {
                self.flush(
                    Cause::Cr3,
                    |e| local(e, pcid),
                    |h| h.space.asid == asid && h.space.pcid == pcid,
                    |_| false,
                );
            }
            Event::Control => {
                self.flush(Cause::Control, |e| e.space.asid == asid, |h| h.space.asid == asid, |_| false);
            }
            Event::Invlpg(address) => self.flush(
                Cause::Invlpg,
                |e| at(e, address.raw()) && (local(e, pcid) || e.global && e.space.asid == asid),
                |h| h.space.asid == asid && h.space.pcid == pcid,
                |_| false,
            ),
            Event::Invlpga { address, asid } => self.flush(
                Cause::Invlpga,
                |e| at(e, address.raw()) && e.space.asid == asid,
                |h| h.space.asid == asid,
                |_| false,
            ),
            Event::InvpcidAddress { pcid, address } => self.flush(
                Cause::Invpcid,
                |e| at(e, address.raw()) && local(e, pcid),
                // Of half walks, those alone that lead to the address.
                |h| h.space.asid == asid && h.space.pcid == pcid && h.prefix == prefix(address.raw(), h.level),
                |_| false,
            ),
            Event::InvpcidContext { pcid } => {
                self.flush(
                    Cause::Invpcid,
                    |e| local(e, pcid),
                    |h| h.space.asid == asid && h.space.pcid == pcid,
                    |_| false,
                );
            }
            Event::InvpcidAllAndGlobal => {
                self.flush(Cause::Invpcid, |e| e.space.asid == asid, |h| h.space.asid == asid, |_| false);
            }
            Event::InvpcidAll => {
                self.flush(
                    Cause::Invpcid,
                    |e| !e.global && e.space.asid == asid,
                    |h| h.space.asid == asid,
                    |_| false,
                );
            }
            Event::Vmrun { tlb_control: 1, .. } => self.flush(Cause::VmrunAll, |_| true, |_| true, |_| true),
            Event::Vmrun { tlb_control: 3, asid } => {
                let own = |s: &Space| s.asid == asid;
                self.flush(Cause::VmrunAsid, |e| own(&e.space), |h| own(&h.space), own);
            }
            Event::Vmrun { tlb_control: 7, asid } => {
                let own = |s: &Space| s.asid == asid;
                self.flush(Cause::VmrunNonGlobal, |e| !e.global && own(&e.space), |h| own(&h.space), own);
            }
            Event::Vmrun { .. } => {}
            Event::AsidChange { from } => {
                let left: u64 = self.tlbs.iter().map(|(_, sets)| sets.count(|e| e.space.asid == from)).sum();
                self.bank.flushes[Cause::AsidChange as usize] += 1;
                self.bank.flushes_empty += u64::from(left == 0);
                self.bank.abandoned_entries += left;
            }
        }
    }

    fn flush(
        &mut self,
        cause: Cause,
        entry_goes: impl Fn(&Entry) -> bool,
        half_goes: impl Fn(&Half) -> bool,
        host_goes: impl Fn(&Space) -> bool,
    ) {
        self.bank.flushes[cause as usize] += 1;
        let entries: u64 = self.tlbs.iter_mut().map(|(_, sets)| sets.forget(&entry_goes)).sum();
        let halves: u64 = self.halves.iter_mut().map(|(_, sets)| sets.forget(&half_goes)).sum();
        let hosts: u64 = self.host_halves.iter_mut().map(|(_, sets)| sets.forget(|h| host_goes(&h.space))).sum();
        let nested = self.nested.forget(|page| host_goes(&page.space));
        self.bank.flushed_entries += entries;
        self.bank.flushes_empty += u64::from(entries + halves + hosts + nested == 0);
    }
}
