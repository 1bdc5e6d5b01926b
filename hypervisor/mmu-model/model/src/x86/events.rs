// SPDX-License-Identifier: MIT
//! What makes an x86-64 processor forget, and what it then forgets: Intel SDM vol. 3, 4.10.4; AMD APM vol. 2, 5.5 and
//! 15.16.
//!
//! The manuals allow a processor to forget more than they ask for. The model forgets exactly what they ask for, with
//! one exception, named at its arm.

use crate::address::Virtual;
use crate::invalidate::{Cause, Reach};
use crate::tag;

/// An event that invalidates. Those of one address space mean the current one, as `Mmu::set_context` has set it;
/// a write of CR3 comes after the context with the new table and PCID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// MOV to CR3, or a task switch that loads it. `keep`: CR4.PCIDE was set, and so was bit 63 of the value.
    Cr3 {
        /// Nothing is invalidated.
        keep: bool,
    },
    /// A change of CR0 or CR4 that flushes everything, global pages and all PCIDs included: CR0.PG cleared, CR4.PGE
    /// changed, CR4.PCIDE cleared, CR4.SMEP set, and on AMD any change of CR4.PAE or PSE.
    Control,
    /// INVLPG
    Invlpg(Virtual),
    /// INVLPGA
    Invlpga {
        /// The address.
        address: Virtual,
        /// Whose.
        asid: u16,
    },
    /// INVPCID type 0
    InvpcidAddress {
        /// Of which context.
        pcid: u16,
        /// The address.
        address: Virtual,
    },
    /// INVPCID type 1
    InvpcidContext {
        /// Which context.
        pcid: u16,
    },
    /// INVPCID type 2
    InvpcidAllAndGlobal,
    /// INVPCID type 3
    InvpcidAll,
    /// VMRUN enters a guest under another ASID than last time, by which hypervisors spare themselves a flush: nothing is
    /// forgotten, but the guest finds nothing of what is there. Tell of it before [`Event::Vmrun`].
    AsidChange {
        /// The guest's last one.
        from: u16,
    },
    /// VMRUN: the control block's TLB_CONTROL and the ASID it enters. Tell of it before the guest's context is set.
    Vmrun {
        /// 0 nothing, 1 everything, 3 this ASID's, 7 this ASID's except global pages.
        tlb_control: u8,
        /// The guest's.
        asid: u16,
    },
}

impl Event {
    /// What goes and what is counted, where the current address space has this tag; none: nothing happens.
    ///
    /// INVLPG and INVLPGA empty the paging-structure caches of the whole context, whatever the address (SDM vol. 3,
    /// 4.10.4.1; APM vol. 2, 5.5.1, for EFER.TCE clear); INVPCID does not.
    pub fn reach(self, here: u64) -> Option<(Cause, Option<Reach>)> {
        // All PCIDs of this ASID; the nested root never narrows a flush (SDM vol. 3, 29.4.3.1).
        let all = Reach { tag: here, bits: tag::ASID, global: true, nested: false, address: None, mapping: false };
        let context = |pcid: u16| Reach {
            tag: here & tag::ASID | u64::from(pcid),
            bits: tag::ASID | tag::PCID,
            global: false,
            ..all
        };
        let pcid = (here & tag::PCID) as u16;
        let (cause, reach) = match self {
            Self::Cr3 { keep: true } => return Some((Cause::Cr3Keep, None)),
            Self::Cr3 { keep: false } => (Cause::Cr3, context(pcid)),
            Self::Control => (Cause::Control, all),
            Self::Invlpg(address) => (Cause::Invlpg, Reach { global: true, address: Some(address), ..context(pcid) }),
            // The APM ties it to an ASID only: any PCID's entries go.
            Self::Invlpga { address, asid } => {
                (Cause::Invlpga, Reach { tag: tag::pack(asid, 0, 0), address: Some(address), ..all })
            }
            Self::InvpcidAddress { pcid, address } => {
                (Cause::Invpcid, Reach { address: Some(address), mapping: true, ..context(pcid) })
            }
            Self::InvpcidContext { pcid } => (Cause::Invpcid, context(pcid)),
            Self::InvpcidAllAndGlobal => (Cause::Invpcid, all),
            Self::InvpcidAll => (Cause::Invpcid, Reach { global: false, ..all }),
            Self::AsidChange { .. } => return Some((Cause::AsidChange, None)),
            Self::Vmrun { tlb_control, asid } => {
                let whole = Reach { tag: tag::pack(asid, 0, 0), nested: true, ..all };
                match tlb_control {
                    1 => (Cause::VmrunAll, Reach { bits: 0, ..whole }),
                    3 => (Cause::VmrunAsid, whole),
                    // The APM does not say whether translations of guest-physical addresses stay: they go.
                    7 => (Cause::VmrunNonGlobal, Reach { global: false, ..whole }),
                    _ => return None,
                }
            }
        };
        Some((cause, Some(reach)))
    }
}
