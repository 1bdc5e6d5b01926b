// SPDX-License-Identifier: MIT
//! What makes the MMU forget, and what it then forgets: Intel SDM vol. 3, 4.10.4; AMD APM vol. 2, 5.5 and 15.16.
//!
//! The manuals allow a processor to forget more than they ask for. The model forgets exactly what they ask for, with
//! one exception, named at its arm.

use crate::address::Virtual;
use crate::mmu::Mmu;
use crate::numbered::numbered;
use crate::shortcut::Last;
use crate::tlb::tag;

/// An event that invalidates. Those of one address space mean the current one, as [`Mmu::set_context`] has set it;
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
    /// VMRUN: the control block's TLB_CONTROL and the ASID it enters. Tell of it before the guest's context is set.
    Vmrun {
        /// 0 nothing, 1 everything, 3 this ASID's, 7 this ASID's except global pages.
        tlb_control: u8,
        /// The guest's.
        asid: u16,
    },
}

numbered! {
    /// Causes by which invalidations are counted.
    Cause {
        /// [`Event::Cr3`]
        Cr3: "cr3",
        /// The same where nothing goes.
        Cr3Keep: "cr3_keep",
        /// [`Event::Control`]
        Control: "control",
        /// [`Event::Invlpg`]
        Invlpg: "invlpg",
        /// [`Event::Invlpga`]
        Invlpga: "invlpga",
        /// INVPCID of any type.
        Invpcid: "invpcid",
        /// [`Event::Vmrun`] with TLB_CONTROL 1.
        VmrunAll: "vmrun_all",
        /// With 3.
        VmrunAsid: "vmrun_asid",
        /// With 7.
        VmrunNonGlobal: "vmrun_nonglobal",
        /// The address space changed on a processor without ASIDs.
        WorldSwitch: "world_switch",
        /// A nested root other than the last one was used. Nothing is forgotten: see [`crate::cpu::Cpu`].
        NestedRoot: "nested_root",
    }
}

/// Which entries go.
#[derive(Clone, Copy)]
struct Reach {
    /// Entries whose tags agree in `bits`.
    tag: u64,
    bits: u64,
    /// Global entries too, whatever their PCID.
    global: bool,
    /// Translations of guest-physical addresses too.
    nested: bool,
}

impl Mmu {
    /// Forget what the event asks for.
    pub fn invalidate(&mut self, event: Event) {
        self.last = Last::default();
        let here = self.tag;
        let asid_of = |asid| tag::pack(asid, 0, 0);
        // All PCIDs of this ASID; the nested root never narrows a flush (SDM vol. 3, 29.4.3.1).
        let all = Reach { tag: here, bits: tag::ASID, global: true, nested: false };
        let context = |pcid: u16| Reach {
            tag: here & tag::ASID | u64::from(pcid),
            bits: tag::ASID | tag::PCID,
            global: false,
            nested: false,
        };
        let pcid = (here & tag::PCID) as u16;
        match event {
            Event::Cr3 { keep: true } => self.count_flush(Cause::Cr3Keep, 0),
            Event::Cr3 { keep: false } => self.flush(Cause::Cr3, context(pcid)),
            Event::Control => self.flush(Cause::Control, all),
            Event::Invlpg(address) => {
                self.flush_address(Cause::Invlpg, address, Reach { global: true, ..context(pcid) });
            }
            Event::Invlpga { address, asid } => {
                // The APM ties it to an ASID only: any PCID's entries go.
                let reach = Reach { tag: asid_of(asid), ..all };
                self.flush_address(Cause::Invlpga, address, reach);
            }
            Event::InvpcidAddress { pcid, address } => self.flush_address(Cause::Invpcid, address, context(pcid)),
            Event::InvpcidContext { pcid } => self.flush(Cause::Invpcid, context(pcid)),
            Event::InvpcidAllAndGlobal => self.flush(Cause::Invpcid, all),
            Event::InvpcidAll => self.flush(Cause::Invpcid, Reach { global: false, ..all }),
            Event::Vmrun { tlb_control, asid } => {
                let whole = Reach { tag: asid_of(asid), bits: tag::ASID, global: true, nested: true };
                match tlb_control {
                    1 => self.flush(Cause::VmrunAll, Reach { bits: 0, ..whole }),
                    3 => self.flush(Cause::VmrunAsid, whole),
                    // The APM does not say whether translations of guest-physical addresses stay: they go.
                    7 => self.flush(Cause::VmrunNonGlobal, Reach { global: false, ..whole }),
                    _ => {}
                }
            }
        }
    }

    /// The address space changed, and there are no tags to tell them apart.
    pub(crate) fn flush_world(&mut self) {
        self.flush(Cause::WorldSwitch, Reach { tag: 0, bits: 0, global: true, nested: true });
    }

    fn flush(&mut self, cause: Cause, reach: Reach) {
        let mut gone = 0;
        for tlb in &mut self.tlbs {
            gone += tlb.forget(|slot| reach.takes(slot.tag, slot.mask));
        }
        self.flush_partial(reach);
        self.count_flush(cause, gone);
    }

    fn flush_address(&mut self, cause: Cause, address: Virtual, reach: Reach) {
        let mut gone = 0;
        for tlb in &mut self.tlbs {
            gone += tlb.forget_address(address, |slot| reach.takes(slot.tag, slot.mask));
        }
        // Paging-structure caches lose all of the context, whatever the address (SDM vol. 3, 4.10.4.1; APM vol. 2,
        // 5.5.1, for EFER.TCE clear).
        self.flush_partial(reach);
        self.count_flush(cause, gone);
    }

    fn flush_partial(&mut self, reach: Reach) {
        let goes = |tag: u64| (tag ^ reach.tag) & reach.bits == 0;
        for cache in &mut self.parts.partial {
            cache.assoc.retain(|_, slot| !goes(slot.tag));
        }
        if reach.nested {
            for cache in &mut self.parts.host_partial {
                cache.assoc.retain(|_, slot| !goes(slot.tag));
            }
            self.parts.nested.retain(|_, slot| !goes(slot.tag));
        }
    }

    pub(crate) fn count_flush(&mut self, cause: Cause, entries: u64) {
        let bank = self.bank();
        bank.flushes[cause as usize] += 1;
        bank.flushed_entries += entries;
    }
}

impl Reach {
    /// Whether a TLB entry with this tag, of which the bits in `mask` matter, goes.
    const fn takes(&self, tag: u64, mask: u64) -> bool {
        let global = mask & tag::PCID == 0;
        let bits = if global { self.bits & !tag::PCID } else { self.bits };
        (self.global || !global) && (tag ^ self.tag) & bits == 0
    }
}
