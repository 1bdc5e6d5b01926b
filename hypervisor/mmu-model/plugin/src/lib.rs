// SPDX-License-Identifier: GPL-2.0-or-later
//! The MMU model, live in the emulated machine: a TCG plugin for qemu-system-x86_64 with one vCPU.
//!
//!     -plugin libmmu_plugin.so,out=FILE,stack=native|hvm|pv[,cpu=i7-3770][,data=off][,check=on|entries]
//!         [,trace=FILE][,fetches=lines]
//!
//! Counts between the region marks of agent/region.h, and appends to FILE one line of JSON at each region's end:
//! `{"region": 1, "instructions": 2001, "vmrun": 0, "tlb_control": {…}, "cpu": …, "check": {…}, "trace": {…},
//! "counters": {…}, "estimate": {…}, "perf": {…}}`. A region begins with empty TLBs, and outside it the plugin sleeps;
//! with check=on it never does, and every machine address that the model finds is compared with the one that the
//! emulator used. With check=entries that is done in regions only; and as a guest on tables of one dimension is entered,
//! all that the model remembers under its ASID is compared with these tables: what they no longer say should have been
//! flushed. With trace= the region is recorded too, or, without cpu=, only that.
//!
//! What hypervisor/qemu/plugin says of a region, a line says too, and of a mark that does not fit: a machine that has this
//! plugin needs no other, which would cost an addition at each instruction more.
//!
//! What is seen: every load and store of every instruction, by the address of its first byte; and a fetch whenever
//! instructions begin to come from another page, or QEMU has forgotten translations since. Further fetches from a page
//! would all hit, and change nothing; with fetches=lines a trace has one for each line of 16 bytes that instructions begin
//! to come from, for the sake of instruction caches. What is not: fetches outside long mode, the page that an access reaches
//! into with its last bytes, and what a processor does by itself, such as pushing an interrupt's frame or saving a guest's
//! state.

mod arguments;
mod callbacks;
mod check;
mod follow;
mod listeners;
mod qemu;
mod site;
mod watch;

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::fs::OpenOptions;
use std::io::Write as _;

use mmu_model::address::{Machine, Virtual};
use mmu_model::context::Kind;
use mmu_model::cpu::Cpu;
use mmu_model::estimate::Estimate;
use mmu_model::mmu::Mmu;
use mmu_model::perf;
use mmu_trace::format::{Fetches, LINE};
use serde_json::{Value, json};

use crate::arguments::{Wanted, arguments};
use crate::check::{Check, Code};
use crate::follow::{Follower, Physical};
use crate::listeners::Listeners;
use crate::qemu::{Id, Info, Number, Vcpu};
use crate::site::{Site, Sites};

/// The interface's version, as QEMU looks it up.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = qemu::VERSION;

/// The user data of accesses of code in the upper half of addresses: how far their bits of [`Plugin::straight`] lie up.
const UPPER_HALF: usize = 16;

/// No page of code.
const NO_PAGE: u64 = u64::MAX;
/// No line of code.
const NO_LINE: u64 = u64::MAX;
const PAGE_SHIFT: u32 = 12;

struct Plugin {
    /// Of which accesses it is known that the context is right and that only the model is told: a bit for each MMU
    /// index, from bit 16 on for code in the upper half. Every callback that could change it forgets it.
    straight: u32,
    cpu: Option<Cpu>,
    data: bool,
    out: String,
    listeners: Listeners,
    follower: Follower,
    vcpu: Option<Vcpu>,
    open: bool,
    regions: u64,
    entries_before: u64,
    /// In this region; before it there is 32-bit code, while a guest boots.
    not_followed: u64,
    check: Check,
    /// The page that instructions come from.
    code_page: u64,
    /// Of each line that they begin to come from, a fetch is recorded; the last one.
    by_line: bool,
    code_line: u64,
    /// The same for translated code, as it was called when it was translated; another call of the page is harmless.
    translated_page: Number,
    /// How often QEMU has forgotten translations.
    flushes: u64,
    translated_page_there: *mut u64,
    sites: Sites,
    /// Counted by translated code; from the region's begin on they are the region's.
    instructions: Number,
}

/// QEMU's callbacks carry no pointer of ours that all of them could use.
struct Global(UnsafeCell<Option<Plugin>>);

// SAFETY: there is one vCPU, which is refused otherwise, and QEMU calls from its thread only.
unsafe impl Sync for Global {}

static PLUGIN: Global = Global(UnsafeCell::new(None));

/// # Safety
/// In a callback only: these do not nest.
unsafe fn plugin() -> &'static mut Plugin {
    // SAFETY: the caller's.
    let plugin = unsafe { unchanged_plugin() };
    plugin.straight = 0;
    plugin
}

/// For the callbacks that are called most.
///
/// # Safety
/// As of [`plugin`].
#[inline]
unsafe fn unchanged_plugin() -> &'static mut Plugin {
    // SAFETY: set when the plugin was installed, before any callback.
    unsafe { (*PLUGIN.0.get()).as_mut().unwrap_unchecked() }
}

impl Plugin {
    /// # Safety
    /// While the plugin is being installed.
    unsafe fn new(wanted: Wanted) -> Self {
        let Wanted { out, cpu, stack, data, check, traces } = wanted;
        let mut new = Self {
            straight: 0,
            by_line: traces.as_ref().is_some_and(|traces| traces.fetches == Fetches::Lines),
            code_line: NO_LINE,
            listeners: Listeners { mmu: None, traces },
            cpu,
            data,
            out,
            follower: Follower::new(stack),
            vcpu: None,
            open: false,
            regions: 0,
            entries_before: 0,
            not_followed: 0,
            check: Check::new(check),
            code_page: NO_PAGE,
            flushes: 0,
            // SAFETY: the caller's.
            translated_page: unsafe { Number::new() },
            translated_page_there: std::ptr::null_mut(), // known when there is a vCPU, before any of its callbacks
            sites: Sites::default(),
            // SAFETY: the caller's.
            instructions: unsafe { Number::new() },
        };
        new.listeners.mmu = new.fresh();
        new
    }

    /// The model with nothing in it.
    fn fresh(&self) -> Option<Mmu> {
        self.cpu.as_ref().map(|cpu| {
            let mut mmu = Mmu::new(cpu);
            mmu.set_data_through_caches(self.data);
            mmu
        })
    }

    fn awake(&self) -> bool {
        self.open || self.check.always()
    }

    /// An access, if it goes straight to the model. If not, nothing has happened.
    #[inline(always)]
    #[allow(clippy::inline_always)] // of most accesses it is all
    fn goes_straight(&mut self, address: u64, kind: Kind, bit: usize) -> bool {
        if self.straight >> bit & 1 == 0 {
            return false;
        }
        let (Some(mmu), Some(vcpu)) = (&mut self.listeners.mmu, &mut self.vcpu) else { return false };
        // What it finds is only compared, and a fault is counted.
        _ = mmu.access(&mut Physical(vcpu), Virtual::new(address), kind);
        true
    }

    /// Whether listeners know whose access it is: from here on, until something happens, without being asked again.
    fn follows(&mut self, user: bool, upper: bool) -> bool {
        let Some(vcpu) = &mut self.vcpu else { return false };
        let followed = self.follower.at(vcpu, &mut self.listeners, user, upper);
        let model_only = self.open && self.listeners.traces.is_none() && !self.check.on();
        self.straight = if model_only { self.follower.straight(UPPER_HALF) } else { 0 };
        followed
    }

    /// A VMRUN begins.
    fn vmrun(&mut self) {
        let Some(vcpu) = &mut self.vcpu else { return };
        let entered = self.follower.begins_vmrun(vcpu, &mut self.listeners);
        let (true, Some(context), Some(mmu)) = (self.check.entries(), entered, &self.listeners.mmu) else { return };
        self.check.compare_entries(&context, &mmu.stale(&mut Physical(vcpu), &context));
    }

    /// A load or store. `truth` asks the emulator where it went.
    fn access(&mut self, address: u64, kind: Kind, mmu_index: u32, upper: bool, truth: impl Fn() -> Option<Machine>) {
        // Else it is the processor's own, by physical address: it saves or loads a guest's state.
        let Some(user) = follow::is_user(mmu_index) else { return };
        if !self.follows(user, upper) {
            self.not_followed += 1;
            return;
        }
        let Some(vcpu) = &mut self.vcpu else { return };
        let (memory, address) = (&mut Physical(vcpu), Virtual::new(address));
        if let Some(mmu) = &mut self.listeners.mmu {
            let found = mmu.access(memory, address, kind);
            if self.check.on() {
                self.check.compare(mmu.context(), address, truth(), &found);
            }
        }
        if let Some(traces) = &mut self.listeners.traces {
            let machine = if kind == Kind::Store { truth() } else { None };
            traces.access(memory, address, kind, machine);
            self.tally();
        }
    }

    /// Record now and then how many instructions and exits there have been.
    #[inline]
    fn tally(&mut self) {
        if let Some(traces) = self.listeners.traces.as_mut().filter(|traces| traces.wants_tally()) {
            // SAFETY: the only vCPU's number.
            let instructions = unsafe { qemu::qemu_plugin_u64_get(self.instructions, 0) };
            traces.tally(instructions, self.follower.entries - self.entries_before);
        }
    }

    /// Instructions come from another page now, or its translation may have gone. In the checking mode the code there
    /// must be what the emulator has translated.
    #[inline]
    fn fetch(&mut self, address: u64, code: Code) {
        self.code_page = address >> PAGE_SHIFT;
        if self.by_line {
            return; // its lines are told of one by one
        }
        let (user, upper) = (code.is_users(), address >> 63 == 1);
        let bit = follow::an_mmu_index(user) + if upper { UPPER_HALF } else { 0 };
        if !self.goes_straight(address, Kind::Fetch, bit) {
            self.fetch_slowly(address, code, user, upper);
        }
    }

    /// Instructions come from the line around this place of the page now.
    fn fetch_line(&mut self, within: u64, user: bool) {
        let address = self.code_page << PAGE_SHIFT | within;
        if self.code_page != NO_PAGE && self.code_line != address / LINE {
            self.code_line = address / LINE;
            self.record_fetch(address, user, address >> 63 == 1);
        }
    }

    fn record_fetch(&mut self, address: u64, user: bool, upper: bool) {
        if !self.follows(user, upper) || !self.follower.in_long_mode() {
            self.not_followed += 1;
            return;
        }
        let (Some(vcpu), Some(traces)) = (&mut self.vcpu, &mut self.listeners.traces) else { return };
        traces.access(&mut Physical(vcpu), Virtual::new(address), Kind::Fetch, None);
        self.tally();
    }

    #[inline(never)]
    fn fetch_slowly(&mut self, address: u64, code: Code, user: bool, upper: bool) {
        if !self.follows(user, upper) || !self.follower.in_long_mode() {
            self.not_followed += 1;
            return;
        }
        let Some(vcpu) = &mut self.vcpu else { return };
        let (memory, address) = (&mut Physical(vcpu), Virtual::new(address));
        if let Some(mmu) = &mut self.listeners.mmu {
            let found = mmu.access(memory, address, Kind::Fetch);
            if self.check.on() {
                let there = found.as_ref().ok().and_then(|machine| memory.0.read(machine.raw()));
                self.check.compare_code(mmu.context(), address, code, there, &found);
            }
        }
        if let Some(traces) = &mut self.listeners.traces {
            traces.access(memory, address, Kind::Fetch, None);
        }
    }

    /// Where a block begins that runs now. RIP says it, but to read a register takes longer than all the rest of a
    /// fetch; so it is read once after each flush, as no block moves within an address space without one. In the
    /// checking mode it is read always.
    fn address_of(&mut self, site: &mut Site) -> u64 {
        let known = site.address(self.flushes);
        if let (Some(address), false) = (known, self.check.on()) {
            return address;
        }
        let Some(vcpu) = &mut self.vcpu else { return site.start };
        let address = follow::next_instruction(vcpu);
        self.check.compare_block(known, address);
        site.runs_at(address, self.flushes);
        address
    }

    /// The next block begins with a fetch, and may have moved.
    fn forget_code_page(&mut self) {
        (self.code_page, self.code_line) = (NO_PAGE, NO_LINE);
        self.flushes += 1;
        self.set_translated_page(NO_PAGE);
    }

    #[inline]
    fn set_translated_page(&mut self, page: u64) {
        // SAFETY: the only vCPU's number, which stays where it is while there is no other.
        unsafe { *self.translated_page_there = page };
    }

    fn begin(&mut self) {
        self.regions += 1;
        if self.open {
            // Neither begin can be trusted, so both regions end here, uncounted.
            self.open = false;
            self.listeners.abandon();
            self.say(&json!({"region": self.regions, "error": "begin inside a region"}));
            return;
        }
        self.open = true;
        self.not_followed = 0;
        let fresh = self.fresh();
        self.listeners.begin(self.regions, fresh);
        self.follower.restart();
        self.forget_code_page();
        self.entries_before = self.follower.entries;
        // SAFETY: the only vCPU's number.
        unsafe { qemu::qemu_plugin_u64_set(self.instructions, 0, 0) };
    }

    fn end(&mut self) {
        if !self.open {
            self.regions += 1;
            self.say(&json!({"region": self.regions, "error": "end without a begin"}));
            return;
        }
        self.open = false;
        // SAFETY: the only vCPU's number.
        let instructions = unsafe { qemu::qemu_plugin_u64_get(self.instructions, 0) };
        let entries = self.follower.entries - self.entries_before;
        let trace = self.listeners.end(instructions, entries);
        let counted = self.cpu.as_ref().zip(self.listeners.mmu.as_ref().map(Mmu::counters));
        let line = json!({
            "region": self.regions,
            "instructions": instructions,
            "vmrun": entries,
            "tlb_control": self.follower.controls.to_json(),
            "cpu": self.cpu.as_ref().map(|cpu| &cpu.name),
            "not_followed": self.not_followed,
            "check": self.check.to_json(),
            "trace": trace.map(
                |trace| json!({"file": trace.path, "accesses": trace.accesses, "unreadable": trace.unreadable})
            ),
            "counters": counted.as_ref().map(|(_, counters)| counters.to_json()),
            "estimate": counted.as_ref().map(|(cpu, counters)| Estimate::new(counters, cpu).to_json()),
            "perf": counted.as_ref().map(|(cpu, counters)| perf::to_json(counters, cpu.events)),
        });
        self.say(&line);
    }

    /// QEMU ends.
    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.say(&json!({"region": self.regions, "error": "begin without an end"}));
        }
    }

    /// In one piece to a file opened for appending: a reader, or a killed QEMU, never leaves half a line behind.
    fn say(&self, line: &Value) {
        let file = OpenOptions::new().append(true).create(true).open(&self.out);
        if let Err(error) = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
            eprintln!("mmu plugin: {}: {error}; the counts of region {} are lost", self.out, self.regions);
        }
    }
}

/// QEMU calls it once, when it has loaded the plugin.
///
/// # Safety
/// QEMU passes what it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: argv has argc strings; callbacks come after this function has returned.
    unsafe {
        if !(*info).system_emulation {
            eprintln!("mmu plugin: it wants a whole machine; run qemu-system-x86_64");
            return 1;
        }
        let words: Vec<String> = (0..usize::try_from(argc).unwrap_or(0))
            .map(|i| CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned())
            .collect();
        match arguments(&words) {
            Ok(wanted) => *PLUGIN.0.get() = Some(Plugin::new(wanted)),
            Err(problem) => {
                eprintln!("mmu plugin: {problem}");
                return 1;
            }
        }
        qemu::qemu_plugin_register_vcpu_init_cb(id, callbacks::on_vcpu);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, watch::on_translation);
        qemu::qemu_plugin_register_vcpu_tlb_flush_cb(id, callbacks::on_flush);
        qemu::qemu_plugin_register_flush_cb(id, callbacks::on_code_flush);
        qemu::qemu_plugin_register_atexit_cb(id, callbacks::on_exit, std::ptr::null_mut());
    }
    0
}
