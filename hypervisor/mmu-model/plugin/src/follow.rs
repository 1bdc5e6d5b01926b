// SPDX-License-Identifier: GPL-2.0-or-later
//! From a vCPU's registers and QEMU's flushes to contexts and events.
//!
//! QEMU tells that it forgot translations, not why, and while registers change. So a flush only marks what is known as
//! stale; at the next access the registers are read again. Whether a guest runs, they say. For the rest they do not
//! suffice: CR3 may be loaded with its own value, CR4.PGE cleared and set again, and a guest entered and left with no
//! access between. So VMRUN is seen as it begins, and the instructions that write control registers leave a note of
//! what the manuals say that the value invalidates, which is less than QEMU forgets: a flush that comes after one is its
//! own. If the world has changed by the next access, a hypervisor intercepted the instruction, and it invalidated nothing.

use std::collections::HashMap;

use mmu_model::address::{GuestPhysical, Machine, Virtual};
use mmu_model::context::Layer;
use mmu_model::memory::Memory;
use mmu_model::x86::{Context, Control, Event, Levels, Tables};
use serde_json::{Map, Value};

use crate::listeners::Listeners;
use crate::qemu::Vcpu;

/// The registers that decide about translation, in the order of [`Registers::read`]; whence instructions are fetched;
/// and the general ones, as instructions number them.
#[rustfmt::skip]
pub const NAMES: [&str; 24] = [
    "cr0", "cr3", "cr4", "efer", "svm_vmcb", "svm_ncr3", "cs", "rip",
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
];
const CR0: usize = 0;
const CR4: usize = 2;
const CS: usize = 6;
const RIP: usize = 7;
const GENERAL: usize = 8;
const RAX: usize = GENERAL;
const RCX: usize = GENERAL + 1;

const CR0_WP: u64 = 1 << 16;
const CR0_PG: u64 = 1 << 31;
const CR4_PSE: u64 = 1 << 4;
const CR4_PAE: u64 = 1 << 5;
const CR4_PGE: u64 = 1 << 7;
const CR4_LA57: u64 = 1 << 12;
const CR4_PCIDE: u64 = 1 << 17;
const CR4_SMEP: u64 = 1 << 20;
const EFER_LMA: u64 = 1 << 10;
const EFER_NXE: u64 = 1 << 11;
const TABLE: u64 = 0x000f_ffff_ffff_f000;

/// Offsets in the VMCB (APM vol. 2, appendix B): the ASID, with TLB_CONTROL in the byte behind its four; whether paging is
/// nested, in bit 0; and what the guest's registers will be.
const VMCB_ASID: u64 = 0x58;
const VMCB_NESTED: u64 = 0x90;
const VMCB_EFER: u64 = 0x4d0;
const VMCB_CR4: u64 = 0x548;
const VMCB_CR3: u64 = 0x550;
const VMCB_CR0: u64 = 0x558;

/// QEMU's MMU indexes of user code, and the first that is not a program's at all (target/i386/cpu.h).
const MMU_USER: std::ops::RangeInclusive<u32> = 2..=3;
const MMU_PHYSICAL: u32 = 6;
/// The same as bits.
const USERS: u32 = 0b00_1100;
const KERNELS: u32 = 0b11_0011;

/// Whether an access with this MMU index is user code's; none if it is no program's.
#[inline]
pub fn is_user(mmu_index: u32) -> Option<bool> {
    (mmu_index < MMU_PHYSICAL).then(|| MMU_USER.contains(&mmu_index))
}

/// One of the MMU indexes of user or other code.
#[inline]
pub fn an_mmu_index(user: bool) -> usize {
    if user { *MMU_USER.start() as usize } else { 0 }
}

/// The address of the next instruction. It needs the general registers.
pub fn next_instruction(vcpu: &mut Vcpu) -> u64 {
    vcpu.register(RIP)
}

/// Whether user code runs: also while its next block is translated, as a block runs at one privilege level only.
pub fn user_runs(vcpu: &mut Vcpu) -> bool {
    vcpu.register(CS) & 3 == 3
}

/// What stands between the machine and the guest whose programs are of interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// Nothing.
    Native,
    /// A hypervisor that enters guests by VMRUN: whatever runs outside is the hypervisor's.
    Hvm,
    /// A hypervisor whose guests are para-virtual: ring 0 is the hypervisor's; kernels, that of the privileged domain
    /// too, run in ring 3 with code in the upper half of the address space.
    Pv,
}

/// What an instruction writes to a control register; the later one makes more be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrote {
    /// CR0 or CR4, with no bit changed that flushes: QEMU forgets translations, as it keeps rights with them.
    Rights,
    /// CR3
    Cr3,
    /// CR0 or CR4, with a bit changed that flushes everything.
    Control,
}

/// A MOV to CR0 or CR4, and which general register it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlWrite {
    /// It is CR4.
    pub cr4: bool,
    /// The general register's number.
    pub from: u8,
}

impl ControlWrite {
    /// As a callback's user data.
    pub const fn to_data(self) -> usize {
        (self.from as usize) << 1 | self.cr4 as usize
    }

    /// From it.
    pub const fn of_data(data: usize) -> Self {
        Self { cr4: data & 1 == 1, from: (data >> 1) as u8 }
    }

    /// What the manuals say of it: Intel SDM vol. 3, 4.10.4.1; AMD APM vol. 2, 5.5.1, which adds CR4.PSE.
    const fn wrote(self, old: u64, new: u64) -> Wrote {
        let (set, cleared) = (!old & new, old & !new);
        let flushes = if self.cr4 {
            (set | cleared) & (CR4_PGE | CR4_PAE | CR4_PSE) | set & CR4_SMEP | cleared & CR4_PCIDE
        } else {
            cleared & CR0_PG
        };
        if flushes == 0 { Wrote::Rights } else { Wrote::Control }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Registers {
    cr0: u64,
    cr3: u64,
    cr4: u64,
    efer: u64,
    vmcb: u64,
    ncr3: u64,
    asid: u16,
}

fn asid_and_tlb_control(vcpu: &mut Vcpu, vmcb: u64) -> (u16, u8) {
    let control = vcpu.read(vmcb + VMCB_ASID).unwrap_or(0);
    (control as u16, (control >> 32) as u8)
}

impl Registers {
    fn read(vcpu: &mut Vcpu) -> Self {
        let [cr0, cr3, cr4, efer, vmcb, ncr3] = std::array::from_fn(|place| vcpu.register(place));
        let asid = if vmcb == 0 { 0 } else { asid_and_tlb_control(vcpu, vmcb).0 };
        Self { cr0, cr3, cr4, efer, vmcb, ncr3, asid }
    }

    /// Those that a VMRUN of this VMCB enters a guest with; none where paging is nested, or memory cannot be read.
    fn of_guest(vcpu: &mut Vcpu, vmcb: u64) -> Option<Self> {
        if vcpu.read(vmcb + VMCB_NESTED)? & 1 == 1 {
            return None;
        }
        let [cr0, cr3, cr4, efer] = [VMCB_CR0, VMCB_CR3, VMCB_CR4, VMCB_EFER].map(|offset| vcpu.read(vmcb + offset));
        let asid = asid_and_tlb_control(vcpu, vmcb).0;
        Some(Self { cr0: cr0?, cr3: cr3?, cr4: cr4?, efer: efer?, vmcb, ncr3: 0, asid })
    }

    /// None in modes that no system of the bench stays in: 32-bit paging.
    fn tables(&self) -> Option<Tables> {
        let levels = if self.cr4 & CR4_LA57 == 0 { Levels::Four } else { Levels::Five };
        let table = self.cr3 & TABLE;
        let paging = self.cr0 & CR0_PG != 0;
        if paging && self.efer & EFER_LMA == 0 {
            return None;
        }
        Some(if self.ncr3 != 0 {
            let guest = paging.then_some((GuestPhysical::new(table), levels));
            // The host's EFER is out of sight while its guest runs; every hypervisor of the bench has NXE on.
            Tables::Nested { guest, root: Machine::new(self.ncr3 & TABLE), levels: Levels::Four, nxe: true }
        } else if paging {
            Tables::Flat { root: Machine::new(table), levels }
        } else {
            Tables::Off
        })
    }

    fn context(&self, layer: Layer, user: bool) -> Option<Context> {
        let control = Control {
            wp: self.cr0 & CR0_WP != 0,
            nxe: self.efer & EFER_NXE != 0,
            smep: self.cr4 & CR4_SMEP != 0,
            pge: self.cr4 & CR4_PGE != 0,
            ..Control::default()
        };
        let tables = self.tables()?;
        // One workload runs in a guest, and the agent sleeps beside it: all user code is counted as one process.
        Some(Context { layer, space: 0, user, control, asid: self.asid, pcid: 0, tables })
    }
}

/// Memory as the model reads it.
pub struct Physical<'a>(pub &'a mut Vcpu);

/// There is no memory at a table's address.
#[derive(Debug)]
pub struct NoMemory(Machine);

impl std::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no memory at {:#x}", self.0)
    }
}

impl std::error::Error for NoMemory {}

impl Memory for Physical<'_> {
    type Error = NoMemory;

    fn read(&mut self, at: Machine) -> Result<u64, NoMemory> {
        self.0.read(at.raw()).ok_or(NoMemory(at))
    }
}

/// Follows one vCPU.
pub struct Follower {
    stack: Stack,
    registers: Registers,
    stale: bool,
    /// The registers have never been read, so nothing has changed.
    fresh: bool,
    /// The control register that was written last, and the worst that a flush came of since.
    wrote: Option<Wrote>,
    flushed_by: Option<Wrote>,
    invlpga: Option<u16>,
    followed: bool,
    user: bool,
    upper: bool,
    /// The ASID under which each guest was last entered, by its VMCB.
    asids: HashMap<u64, u16>,
    /// VMRUNs seen.
    pub entries: u64,
    /// The same since listeners began anew, by TLB_CONTROL.
    pub controls: Controls,
}

/// VMRUNs by TLB_CONTROL (APM vol. 2, 15.16.1): 0, 1, 3, 7, and any other value, which is reserved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Controls([u64; 5]);

impl Controls {
    const NAMES: [&str; 5] = ["0", "1", "3", "7", "reserved"];

    fn count(&mut self, control: u8) {
        self.0[[0, 1, 3, 7].iter().position(|known| *known == control).unwrap_or(4)] += 1;
    }

    /// By name.
    pub fn to_json(self) -> Value {
        Self::NAMES.into_iter().zip(self.0).map(|(name, n)| (name.to_owned(), n.into())).collect::<Map<_, _>>().into()
    }
}

impl Follower {
    /// Knows nothing yet.
    pub fn new(stack: Stack) -> Self {
        Self {
            stack,
            registers: Registers::default(),
            stale: true,
            fresh: true,
            wrote: None,
            flushed_by: None,
            invlpga: None,
            followed: false,
            user: false,
            upper: false,
            asids: HashMap::new(),
            entries: 0,
            controls: Controls::default(),
        }
    }

    /// QEMU forgot everything.
    pub fn flushed(&mut self) {
        self.stale = true;
        self.flushed_by = self.flushed_by.max(self.wrote);
    }

    /// Those who listen know nothing yet.
    pub fn restart(&mut self) {
        (self.stale, self.fresh) = (true, true);
        self.asids.clear();
        self.controls = Controls::default();
    }

    /// QEMU forgot one page: INVLPG or INVLPGA.
    pub fn flushed_page(&mut self, vcpu: &mut Vcpu, to: &mut Listeners, address: u64) {
        self.update(vcpu, to);
        let address = Virtual::new(address);
        to.invalidate(match self.invlpga.take() {
            Some(asid) => Event::Invlpga { address, asid },
            None => Event::Invlpg(address),
        });
    }

    /// A MOV to CR3 begins.
    pub fn writes_cr3(&mut self) {
        self.writes(Wrote::Cr3);
    }

    /// A MOV to CR0 or CR4 begins. It needs the general registers.
    pub fn writes_control(&mut self, vcpu: &mut Vcpu, write: ControlWrite) {
        let old = vcpu.register(if write.cr4 { CR4 } else { CR0 });
        let new = vcpu.register(GENERAL + usize::from(write.from));
        self.writes(write.wrote(old, new));
    }

    fn writes(&mut self, what: Wrote) {
        self.wrote = Some(what);
        self.stale = true;
    }

    /// A VMRUN begins; its VMCB is in RAX. It needs the general registers. Where the guest translates by tables of one
    /// dimension, it is entered in the context that is returned.
    pub fn begins_vmrun(&mut self, vcpu: &mut Vcpu, to: &mut Listeners) -> Option<Context> {
        self.update(vcpu, to);
        self.entries += 1;
        let vmcb = vcpu.register(RAX);
        let (asid, tlb_control) = asid_and_tlb_control(vcpu, vmcb);
        self.controls.count(tlb_control);
        if let Some(from) = self.asids.insert(vmcb, asid).filter(|from| *from != asid) {
            to.invalidate(Event::AsidChange { from });
        }
        to.invalidate(Event::Vmrun { tlb_control, asid });
        let guest = Registers::of_guest(vcpu, vmcb)?;
        guest.context(Layer::GuestKernel, false).filter(|context| context.tables != Tables::Off)
    }

    /// An INVLPGA begins; the ASID is in ECX. It needs the general registers.
    pub fn begins_invlpga(&mut self, vcpu: &mut Vcpu) {
        self.invlpga = Some(vcpu.register(RCX) as u16);
    }

    /// The MMU indexes of accesses that need not be asked about while nothing happens: a bit each, those of code in the
    /// upper half so many bits up.
    pub fn straight(&self, upper: usize) -> u32 {
        let bits = if self.user { USERS } else { KERNELS };
        let known = !self.stale && self.followed && self.in_long_mode();
        if known { bits << if self.upper { upper } else { 0 } } else { 0 }
    }

    /// Whoever makes an access now is the context that listeners know; false if none of theirs fits.
    pub fn at(&mut self, vcpu: &mut Vcpu, to: &mut Listeners, user: bool, upper: bool) -> bool {
        if self.stale || user != self.user || upper != self.upper {
            (self.user, self.upper) = (user, upper);
            if self.stale {
                self.update(vcpu, to);
            } else {
                self.set_context(to);
            }
        }
        self.followed
    }

    /// RIP is an address only there: elsewhere it counts from where CS begins.
    pub fn in_long_mode(&self) -> bool {
        self.registers.efer & EFER_LMA != 0
    }

    fn update(&mut self, vcpu: &mut Vcpu, to: &mut Listeners) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let old = self.registers;
        let new = Registers::read(vcpu);
        self.registers = new;
        self.wrote = None;
        let flushed_by = self.flushed_by.take();
        if std::mem::take(&mut self.fresh) {
            self.set_context(to);
            return;
        }
        self.set_context(to);
        if new.vmcb != old.vmcb {
            return;
        }
        match flushed_by {
            Some(Wrote::Control) => to.invalidate(Event::Control),
            Some(Wrote::Cr3) => to.invalidate(Event::Cr3 { keep: false }),
            // QEMU's own reasons, such as rights, or a change of the machine's memory map.
            Some(Wrote::Rights) | None => {}
        }
    }

    fn layer(&self) -> Layer {
        let inside = match self.stack {
            Stack::Native => true,
            Stack::Hvm => self.registers.vmcb != 0,
            Stack::Pv => self.user,
        };
        let kernel = match self.stack {
            Stack::Pv => self.upper,
            Stack::Native | Stack::Hvm => !self.user,
        };
        match (inside, kernel) {
            (false, _) => Layer::Hypervisor,
            (true, true) => Layer::GuestKernel,
            (true, false) => Layer::GuestUser,
        }
    }

    fn set_context(&mut self, to: &mut Listeners) {
        let context = self.registers.context(self.layer(), self.user);
        self.followed = context.is_some();
        if let Some(context) = context {
            to.set_context(&context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_mmu_indexes_are_those_that_are_told_apart() {
        for index in 0..32 {
            let bit = |bits: u32| bits >> index & 1 == 1;
            assert_eq!((bit(USERS), bit(KERNELS)), (is_user(index) == Some(true), is_user(index) == Some(false)));
        }
        assert_eq!([true, false].map(|user| is_user(an_mmu_index(user) as u32)), [Some(true), Some(false)]);
    }

    #[test]
    fn the_manuals_bits_flush_and_no_others() {
        let wrote = |cr4, old: u64, new: u64| ControlWrite { cr4, from: 0 }.wrote(old, new);
        let all = u64::from(u32::MAX);
        for bit in (0..32).map(|n| 1 << n) {
            let flushes = |either, set, cleared| (either | set, either | cleared);
            for (cr4, (set, cleared)) in
                [(false, flushes(0, 0, CR0_PG)), (true, flushes(CR4_PGE | CR4_PAE | CR4_PSE, CR4_SMEP, CR4_PCIDE))]
            {
                assert_eq!(wrote(cr4, all & !bit, all) == Wrote::Control, set & bit != 0, "{cr4} set {bit:#x}");
                assert_eq!(wrote(cr4, all, all & !bit) == Wrote::Control, cleared & bit != 0, "{cr4} clear {bit:#x}");
            }
        }
        assert_eq!(wrote(true, all, all), Wrote::Rights);
        for write in [ControlWrite { cr4: true, from: 15 }, ControlWrite { cr4: false, from: 0 }] {
            assert_eq!(ControlWrite::of_data(write.to_data()), write);
        }
    }

    #[test]
    fn nothing_goes_straight_before_it_is_known_who_runs() {
        let mut follower = Follower::new(Stack::Native);
        assert_eq!(follower.straight(16), 0);
        (follower.stale, follower.followed, follower.registers.efer) = (false, true, EFER_LMA);
        assert_eq!(follower.straight(16), KERNELS);
        (follower.user, follower.upper) = (true, true);
        assert_eq!(follower.straight(16), USERS << 16);
        follower.flushed();
        assert_eq!(follower.straight(16), 0);
        (follower.stale, follower.followed) = (false, false);
        assert_eq!(follower.straight(16), 0);
    }
}
