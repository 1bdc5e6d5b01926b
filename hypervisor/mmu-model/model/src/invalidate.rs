// SPDX-License-Identifier: MIT
//! Why the MMU forgets, and which entries: what an event of an organisation comes down to.

use crate::address::Virtual;
use crate::numbered::numbered;
use crate::tag;

numbered! {
    /// Causes by which invalidations are counted.
    Cause {
        /// CR3 was written.
        Cr3: "cr3",
        /// The same where nothing goes.
        Cr3Keep: "cr3_keep",
        /// A control bit of x86 that empties all was changed.
        Control: "control",
        /// INVLPG
        Invlpg: "invlpg",
        /// INVLPGA
        Invlpga: "invlpga",
        /// INVPCID of any type.
        Invpcid: "invpcid",
        /// VMRUN with TLB_CONTROL 1.
        VmrunAll: "vmrun_all",
        /// With 3.
        VmrunAsid: "vmrun_asid",
        /// With 7.
        VmrunNonGlobal: "vmrun_nonglobal",
        /// VMRUN enters a guest under another ASID than last time.
        AsidChange: "asid_change",
        /// The address space changed on a processor without ASIDs.
        WorldSwitch: "world_switch",
        /// A nested root other than the last one was used. Nothing is forgotten: see [`crate::cpu::Cpu`].
        NestedRoot: "nested_root",
    }
}

impl Cause {
    /// Whether it is to make the MMU forget: the other causes are noted only.
    pub const fn flushes(self) -> bool {
        !matches!(self, Self::Cr3Keep | Self::NestedRoot)
    }
}

/// Which entries go.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// Entries whose tags agree in `bits`.
    pub tag: u64,
    /// See above.
    pub bits: u64,
    /// Global entries too, whatever their PCID.
    pub global: bool,
    /// Translations of guest-physical addresses too.
    pub nested: bool,
    /// Only translations of this address; paging-structure caches lose all of the context all the same, unless
    /// `mapping` is set.
    pub address: Option<Virtual>,
    /// Of paging-structure caches, too, only what would be used for the address.
    pub mapping: bool,
}

impl Reach {
    /// Everything.
    pub const ALL: Self = Self { tag: 0, bits: 0, global: true, nested: true, address: None, mapping: false };

    /// Whether a TLB entry with this tag, of which the bits in `mask` matter, goes.
    pub const fn takes(&self, tag: u64, mask: u64) -> bool {
        let global = mask & tag::PCID == 0;
        let bits = if global { self.bits & !tag::PCID } else { self.bits };
        (self.global || !global) && (tag ^ self.tag) & bits == 0
    }

    /// Whether an entry with this tag in the walker's own caches, which know no global pages, goes.
    pub const fn takes_partial(&self, tag: u64) -> bool {
        (tag ^ self.tag) & self.bits == 0
    }
}
