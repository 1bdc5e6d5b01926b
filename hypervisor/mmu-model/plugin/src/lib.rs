// SPDX-License-Identifier: GPL-2.0-or-later
//! The MMU model, live in the emulated machine: a TCG plugin for qemu-system-x86_64 with one vCPU.
//!
//!     -plugin libmmu_plugin.so,out=FILE,stack=native|hvm|pv[,cpu=i7-3770][,check=on][,trace=FILE]
//!
//! Counts between the region marks of agent/region.h, and appends to FILE one line of JSON at each region's end:
//! `{"region": 1, "cpu": …, "check": {…}, "trace": {…}, "counters": {…}}`. A region begins with empty TLBs, and
//! outside it the plugin sleeps; with check=on it never does, and every machine address that the model finds is
//! compared with the one that the emulator used. With trace= the region is recorded too, or, without cpu=, only that.
//!
//! What is seen: every load and store of every instruction, by the address of its first byte; and a fetch whenever
//! instructions begin to come from another page, or QEMU has forgotten translations since. Further fetches from a page
//! would all hit, and change nothing. What is not: fetches outside long mode, the page that an access reaches into with
//! its last bytes, and what a processor does by itself, such as pushing an interrupt's frame or saving a guest's state.

mod follow;
mod listeners;
mod qemu;

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Debug;
use std::fs::OpenOptions;
use std::io::Write as _;

use mmu_model::address::{Machine, Virtual};
use mmu_model::context::{Context, Kind};
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::walk::Stop;
use serde_json::json;

use crate::follow::{Follower, NoMemory, Physical, Stack, Wrote};
use crate::listeners::{Listeners, Traces};
use crate::qemu::{Id, Info, Insn, MemInfo, Number, Tb, Vcpu};

/// The interface's version, as QEMU looks it up.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = qemu::VERSION;

const REGION_BEGIN: u32 = 0x6162_6801; // agent/region.h
const REGION_END: u32 = 0x6162_6802;

/// Bits of a callback's user data.
const UPPER_HALF: usize = 1;

/// No page of code.
const NO_PAGE: u64 = u64::MAX;
const PAGE_SHIFT: u32 = 12;

/// Where the model finds a byte.
type Found = Result<Machine, Stop<NoMemory>>;

#[derive(Default)]
struct Check {
    on: bool,
    accesses: u64,
    fetches: u64,
    mismatches: u64,
    faults: u64,
}

struct Plugin {
    cpu: Option<Cpu>,
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
    /// The same for translated code, as it was called when it was translated; another call of the page is harmless.
    translated_page: Number,
}

/// QEMU's callbacks carry no pointer of ours that all of them could use.
struct Global(UnsafeCell<Option<Plugin>>);

// SAFETY: there is one vCPU, which is refused otherwise, and QEMU calls from its thread only.
unsafe impl Sync for Global {}

static PLUGIN: Global = Global(UnsafeCell::new(None));

/// # Safety
/// In a callback only: these do not nest.
unsafe fn plugin() -> &'static mut Plugin {
    // SAFETY: set when the plugin was installed, before any callback.
    unsafe { (*PLUGIN.0.get()).as_mut().unwrap_unchecked() }
}

impl Plugin {
    fn awake(&self) -> bool {
        self.open || self.check.on
    }

    /// A load or store. `truth` asks the emulator where it went.
    #[inline]
    fn access(&mut self, address: u64, kind: Kind, mmu_index: u32, upper: bool, truth: impl Fn() -> Option<Machine>) {
        let Some(vcpu) = &mut self.vcpu else { return };
        // Else it is the processor's own, by physical address: it saves or loads a guest's state.
        let Some(user) = follow::is_user(mmu_index) else { return };
        if !self.follower.at(vcpu, &mut self.listeners, user, upper) {
            self.not_followed += 1;
            return;
        }
        let (memory, address) = (&mut Physical(vcpu), Virtual::new(address));
        if let Some(mmu) = &mut self.listeners.mmu {
            let found = mmu.access(memory, address, kind);
            if self.check.on {
                self.check.compare(mmu.context(), address, truth(), &found);
            }
        }
        if let Some(traces) = &mut self.listeners.traces {
            let machine = if kind == Kind::Store { truth() } else { None };
            traces.access(memory, address, kind, machine);
        }
    }

    /// Instructions come from another page now, or its translation may have gone. In the checking mode the code there
    /// must be what the emulator has translated.
    fn fetch(&mut self, address: u64, code: Code) {
        self.code_page = address >> PAGE_SHIFT;
        let Some(vcpu) = &mut self.vcpu else { return };
        let (user, upper) = (code.is_users(), address >> 63 == 1);
        if !self.follower.at(vcpu, &mut self.listeners, user, upper) || !self.follower.in_long_mode() {
            self.not_followed += 1;
            return;
        }
        let (memory, address) = (&mut Physical(vcpu), Virtual::new(address));
        if let Some(mmu) = &mut self.listeners.mmu {
            let found = mmu.access(memory, address, Kind::Fetch);
            if self.check.on {
                let there = found.as_ref().ok().and_then(|machine| memory.0.read(machine.raw()));
                self.check.compare_code(mmu.context(), address, code, there, &found);
            }
        }
        if let Some(traces) = &mut self.listeners.traces {
            traces.access(memory, address, Kind::Fetch, None);
        }
    }

    /// The next block begins with a fetch.
    fn forget_code_page(&mut self) {
        self.code_page = NO_PAGE;
        // SAFETY: the only vCPU's number.
        unsafe { qemu::qemu_plugin_u64_set(self.translated_page, 0, NO_PAGE) };
    }

    fn begin(&mut self) {
        if self.open {
            return;
        }
        self.regions += 1;
        self.open = true;
        self.not_followed = 0;
        self.listeners.begin(self.regions, self.cpu.as_ref().map(Mmu::new));
        self.follower.restart();
        self.forget_code_page();
        self.entries_before = self.follower.entries;
    }

    fn end(&mut self) {
        if !self.open {
            return;
        }
        self.open = false;
        let trace = self.listeners.end(self.follower.entries - self.entries_before);
        let check = &self.check;
        let line = json!({
            "region": self.regions,
            "cpu": self.cpu.as_ref().map(|cpu| &cpu.name),
            "not_followed": self.not_followed,
            "check": check.on.then(
                || json!({"accesses": check.accesses, "fetches": check.fetches, "mismatches": check.mismatches, "faults": check.faults})
            ),
            "trace": trace.map(
                |trace| json!({"file": trace.path, "accesses": trace.accesses, "unreadable": trace.unreadable})
            ),
            "counters": self.listeners.mmu.as_ref().map(|mmu| mmu.counters().to_json()),
        });
        let file = OpenOptions::new().append(true).create(true).open(&self.out);
        if let Err(error) = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
            eprintln!("mmu plugin: {}: {error}; the counts of region {} are lost", self.out, self.regions);
        }
    }
}

impl Check {
    fn compare(&mut self, context: &Context, address: Virtual, truth: Option<Machine>, found: &Found) {
        let Some(truth) = truth else { return };
        self.accesses += 1;
        self.judge(context, address, found.as_ref().is_ok_and(|machine| *machine == truth), truth, found);
    }

    fn compare_code(&mut self, context: &Context, address: Virtual, code: Code, there: Option<u64>, found: &Found) {
        self.fetches += 1;
        self.judge(context, address, there.is_some_and(|there| code.begins(there)), code, found);
    }

    fn judge(&mut self, context: &Context, address: Virtual, right: bool, truth: impl Debug, found: &Found) {
        self.faults += u64::from(found.is_err());
        if !right {
            self.mismatches += 1;
            if self.mismatches <= 10 {
                eprintln!("mmu plugin: {address:?}: the emulator has {truth:x?}, the model {found:x?}; {context:x?}");
            }
        }
    }
}

/// The first bytes of code, packed into a callback's user data: up to seven, above them how many, and the top bit says
/// that user code runs there.
#[derive(Clone, Copy, Debug)]
struct Code(u64);

impl Code {
    fn new(bytes: &[u8], user: bool) -> Self {
        let bytes = &bytes[..bytes.len().min(7)];
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        all[7] = bytes.len() as u8 | u8::from(user) << 7;
        Self(u64::from_le_bytes(all))
    }

    fn is_users(self) -> bool {
        self.0 >> 63 == 1
    }

    /// Whether eight bytes begin with it.
    fn begins(self, bytes: u64) -> bool {
        let unused = 64 - 8 * (self.0 >> 56 & 7);
        unused == 64 || (self.0 ^ bytes) << unused == 0
    }
}

unsafe extern "C" fn on_vcpu(_: Id, index: c_uint) {
    // SAFETY: QEMU's callback for this vCPU.
    unsafe {
        if index > 0 {
            eprintln!("mmu plugin: it models one processor, and this machine has another; add -smp 1");
            std::process::exit(1);
        }
        match Vcpu::current(&follow::NAMES) {
            Ok(vcpu) => plugin().vcpu = Some(vcpu),
            Err(name) => {
                eprintln!(
                    "mmu plugin: this processor shows no register {name}; use one with SVM, and a patched QEMU"
                );
                std::process::exit(1);
            }
        }
    }
}

unsafe extern "C" fn on_flush(_: Id, _: c_uint, _: u32, address: u64, len: u64) {
    // SAFETY: QEMU's callback.
    let plugin = unsafe { plugin() };
    let awake = plugin.awake();
    plugin.forget_code_page();
    match &mut plugin.vcpu {
        Some(vcpu) if len != qemu::ALL_ADDRESSES && awake => {
            plugin.follower.flushed_page(vcpu, &mut plugin.listeners, address);
        }
        _ => plugin.follower.flushed(),
    }
}

unsafe extern "C" fn on_memory(_: c_uint, info: MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: QEMU's callback, for this access.
    unsafe {
        let plugin = plugin();
        if !plugin.awake() {
            return;
        }
        let kind = if qemu::qemu_plugin_mem_is_store(info) { Kind::Store } else { Kind::Load };
        let index = qemu::qemu_plugin_mem_mmu_index(info);
        plugin.access(address, kind, index, data.addr() & UPPER_HALF != 0, || {
            let hwaddr = qemu::qemu_plugin_get_hwaddr(info, address);
            (!hwaddr.is_null()).then(|| Machine::new(qemu::qemu_plugin_hwaddr_phys_addr(hwaddr)))
        });
    }
}

/// Registered at a block's begin, for blocks of another page than the last one's.
unsafe extern "C" fn on_fetch(_: c_uint, code: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers.
    let plugin = unsafe { plugin() };
    let awake = plugin.awake();
    if let (true, Some(vcpu)) = (awake, &mut plugin.vcpu) {
        let address = follow::next_instruction(vcpu);
        if address >> PAGE_SHIFT != plugin.code_page {
            plugin.fetch(address, Code(code.addr() as u64));
        }
    }
}

/// Registered where a block goes on into the next page. RIP may lag behind, somewhere in the block's first page.
unsafe extern "C" fn on_next_page(_: c_uint, code: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers.
    let plugin = unsafe { plugin() };
    let awake = plugin.awake();
    if let (true, Some(vcpu)) = (awake, &mut plugin.vcpu) {
        let address = follow::next_instruction(vcpu);
        let page = if plugin.code_page == NO_PAGE { address >> PAGE_SHIFT } else { plugin.code_page };
        plugin.fetch((page + 1) << PAGE_SHIFT, Code(code.addr() as u64));
    }
}

unsafe extern "C" fn on_cr3(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.follower.writes(Wrote::Cr3);
}

unsafe extern "C" fn on_control(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.follower.writes(Wrote::Control);
}

unsafe extern "C" fn on_invlpga(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers.
    let plugin = unsafe { plugin() };
    if let Some(vcpu) = &mut plugin.vcpu {
        plugin.follower.begins_invlpga(vcpu);
    }
}

unsafe extern "C" fn on_vmrun(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers.
    let plugin = unsafe { plugin() };
    let awake = plugin.awake();
    if let (true, Some(vcpu)) = (awake, &mut plugin.vcpu) {
        plugin.follower.begins_vmrun(vcpu, &mut plugin.listeners);
    }
}

unsafe extern "C" fn on_begin(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.begin();
}

unsafe extern "C" fn on_end(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.end();
}

/// What an instruction is to the plugin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Watched {
    Begin,
    End,
    Cr3,
    Control,
    Invlpga,
    Vmrun,
    Nothing,
}

fn watched(code: &[u8]) -> Watched {
    // NOP with a 32-bit displacement: the marks.
    if let [0x0f, 0x1f, 0x80, mark @ ..] = code {
        return match <[u8; 4]>::try_from(mark).map(u32::from_le_bytes) {
            Ok(REGION_BEGIN) => Watched::Begin,
            Ok(REGION_END) => Watched::End,
            _ => Watched::Nothing,
        };
    }
    let code = if let [0x40..=0x4f, rest @ ..] = code { rest } else { code };
    match code {
        [0x0f, 0x01, 0xd8] => Watched::Vmrun,
        [0x0f, 0x01, 0xdf] => Watched::Invlpga,
        [0x0f, 0x22, modrm, ..] => match modrm >> 3 & 7 {
            0 | 4 => Watched::Control,
            3 => Watched::Cr3,
            _ => Watched::Nothing,
        },
        _ => Watched::Nothing,
    }
}

unsafe extern "C" fn on_translation(_: Id, tb: *mut Tb) {
    // SAFETY: QEMU's callback; the block and its instructions are valid while it runs.
    unsafe {
        let start = qemu::qemu_plugin_tb_vaddr(tb);
        let upper = usize::from(start >> 63 == 1);
        let data = std::ptr::without_provenance_mut(upper * UPPER_HALF);
        let mut block = Vec::new();
        let user = plugin().vcpu.as_mut().is_some_and(follow::user_runs);
        for index in 0..qemu::qemu_plugin_tb_n_insns(tb) {
            let insn = qemu::qemu_plugin_tb_get_insn(tb, index);
            let mut code = [0u8; 15];
            let size = qemu::qemu_plugin_insn_data(insn, code.as_mut_ptr().cast(), code.len());
            let code = &code[..size];
            watch_next_page(start, block.len(), insn, code, user);
            block.extend(code);
            let run = |callback, flags| {
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, flags, std::ptr::null_mut());
            };
            match watched(code) {
                Watched::Begin => run(on_begin, qemu::NO_REGS),
                Watched::End => run(on_end, qemu::NO_REGS),
                Watched::Cr3 => run(on_cr3, qemu::NO_REGS),
                Watched::Control => run(on_control, qemu::NO_REGS),
                Watched::Invlpga => run(on_invlpga, qemu::READS_REGS),
                Watched::Vmrun => run(on_vmrun, qemu::READS_REGS),
                Watched::Nothing => {}
            }
            qemu::qemu_plugin_register_vcpu_mem_cb(insn, on_memory, qemu::NO_REGS, qemu::MEM_RW, data);
        }
        watch_block(start, tb, &block, user);
    }
}

const fn page_end(address: u64) -> u64 {
    (address | ((1 << PAGE_SHIFT) - 1)).wrapping_add(1)
}

/// Have the block's begin tell of a change of page.
unsafe fn watch_block(start: u64, tb: *mut Tb, block: &[u8], user: bool) {
    let here = block.len().min(page_end(start).wrapping_sub(start) as usize);
    let code = std::ptr::without_provenance_mut(Code::new(&block[..here], user).0 as usize);
    // SAFETY: the caller has the block from QEMU.
    unsafe {
        let (number, page) = (plugin().translated_page, start >> PAGE_SHIFT);
        qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
            tb,
            on_fetch,
            qemu::READS_REGS,
            qemu::UNEQUAL,
            number,
            page,
            code,
        );
        qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, qemu::STORE, number, page);
    }
}

/// Have the first instruction with a byte in the page after the block's first tell so; `before` bytes come before it.
unsafe fn watch_next_page(start: u64, before: usize, insn: *mut Insn, code: &[u8], user: bool) {
    let left = (page_end(start).wrapping_sub(start) as usize).wrapping_sub(before);
    let begins_there = before > 0 && left == 0;
    if !begins_there && !(1..code.len()).contains(&left) {
        return;
    }
    let data = std::ptr::without_provenance_mut(Code::new(&code[left..], user).0 as usize);
    // SAFETY: the caller has the instruction from QEMU.
    unsafe {
        qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, on_next_page, qemu::READS_REGS, data);
        let (number, page) = (plugin().translated_page, page_end(start) >> PAGE_SHIFT);
        qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, qemu::STORE, number, page);
    }
}

/// What the command line asks for.
struct Wanted {
    out: String,
    cpu: Option<Cpu>,
    stack: Stack,
    check: bool,
    traces: Option<Traces>,
}

fn arguments(words: &[String]) -> Result<Wanted, String> {
    let (mut out, mut cpu, mut stack, mut check, mut traces) = (None, None, None, false, None);
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is no key=value"))?;
        match (key, value) {
            ("out", path) => out = Some(path.to_owned()),
            ("trace", path) => traces = Some(Traces::new(path)?),
            ("cpu", name) => {
                let known = || mmu_model::cpu::BUILT_IN.map(|(name, _)| name).join(", ");
                let found = Cpu::built_in(name).ok_or_else(|| format!("cpu={name}: known are {}", known()))?;
                cpu = Some(found.map_err(|error| error.to_string())?);
            }
            ("stack", "native") => stack = Some(Stack::Native),
            ("stack", "hvm") => stack = Some(Stack::Hvm),
            ("stack", "pv") => stack = Some(Stack::Pv),
            ("check", "on" | "off") => check = value == "on",
            _ => return Err(format!("{word:?} is not known")),
        }
    }
    if cpu.is_none() && (check || traces.is_none()) {
        return Err("no processor; add cpu=NAME, or only record with trace=PATH".into());
    }
    let out = out.ok_or("no output file; add out=PATH")?;
    let stack = stack.ok_or("no stack; add stack=native, hvm or pv")?;
    Ok(Wanted { out, cpu, stack, check, traces })
}

impl Plugin {
    /// # Safety
    /// While the plugin is being installed.
    unsafe fn new(wanted: Wanted) -> Self {
        let Wanted { out, cpu, stack, check, traces } = wanted;
        Self {
            listeners: Listeners { mmu: cpu.as_ref().map(Mmu::new), traces },
            cpu,
            out,
            follower: Follower::new(stack),
            vcpu: None,
            open: false,
            regions: 0,
            entries_before: 0,
            not_followed: 0,
            check: Check { on: check, ..Check::default() },
            code_page: NO_PAGE,
            // SAFETY: the caller's.
            translated_page: unsafe { Number::new() },
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
        qemu::qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu::qemu_plugin_register_vcpu_tlb_flush_cb(id, on_flush);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_instructions_are_known_with_and_without_prefix() {
        for (code, what) in [
            (&[0x0f, 0x1f, 0x80, 0x01, 0x68, 0x62, 0x61][..], Watched::Begin),
            (&[0x0f, 0x1f, 0x80, 0x02, 0x68, 0x62, 0x61], Watched::End),
            (&[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00], Watched::Nothing),
            (&[0x0f, 0x22, 0xd8], Watched::Cr3),
            (&[0x41, 0x0f, 0x22, 0xd9], Watched::Cr3),
            (&[0x0f, 0x22, 0xc0], Watched::Control),
            (&[0x0f, 0x22, 0xe0], Watched::Control),
            (&[0x0f, 0x22, 0xd0], Watched::Nothing),
            (&[0x0f, 0x20, 0xd8], Watched::Nothing),
            (&[0x0f, 0x01, 0xd8], Watched::Vmrun),
            (&[0x0f, 0x01, 0xdf], Watched::Invlpga),
            (&[0x0f, 0x01, 0x38], Watched::Nothing),
        ] {
            assert_eq!(watched(code), what, "{code:x?}");
        }
    }

    #[test]
    fn code_is_compared_as_far_as_it_goes() {
        let memory = u64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(Code::new(&[], true).begins(memory));
        assert!(Code::new(&[1], true).begins(memory));
        assert!(Code::new(&[1, 2, 3, 4, 5, 6, 7], true).begins(memory));
        assert!(Code::new(&[1, 2, 3, 4, 5, 6, 7, 99, 99], false).begins(memory), "seven bytes are kept");
        assert!(Code::new(&[1], true).is_users() && !Code::new(&[1, 2, 3, 4, 5, 6, 7], false).is_users());
        assert!(!Code::new(&[2], false).begins(memory));
        assert!(!Code::new(&[1, 2, 3, 4, 5, 6, 9], false).begins(memory));
    }

    #[test]
    fn arguments_are_checked() {
        let configured = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            arguments(&words).err().unwrap_or_default()
        };
        assert_eq!(configured(&["out=o", "stack=pv", "cpu=zen2", "check=on"]), "");
        assert!(configured(&["out=o", "stack=pv"]).contains("cpu=NAME"));
        assert!(configured(&["out=o", "cpu=zen2"]).contains("add stack="));
        assert!(configured(&["stack=pv", "cpu=zen2"]).contains("add out="));
        assert!(configured(&["cpu=zen1"]).contains("known are i7-3770"));
        assert!(configured(&["out=o", "stack=pv", "trace=/nonexistent/t"]).contains("trace=/nonexistent/t"));
        assert!(configured(&["out"]).contains("no key=value"));
        assert!(configured(&["trace=/dev/null", "out=o", "stack=pv", "check=on"]).contains("cpu=NAME"));
    }
}
