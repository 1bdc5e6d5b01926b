// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's plugin interface, version 5, as far as it is used here: include/qemu/qemu-plugin.h.
//!
//! QEMU exports these functions and is linked to GLib, so all of them are found when QEMU loads the plugin.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The interface's version that this was written for.
pub const VERSION: c_int = 5;
/// A callback that reads no registers. (QEMU keeps system registers up to date anyway.)
pub const NO_REGS: c_int = 0;
/// A callback that reads general registers.
pub const READS_REGS: c_int = 1;
/// Loads.
pub const MEM_R: c_int = 1;
/// Stores.
pub const MEM_W: c_int = 2;
/// A condition: unequal.
pub const UNEQUAL: c_int = 3;
/// An inline operation: add.
pub const ADD: c_int = 0;
/// The length of a flush of everything.
pub const ALL_ADDRESSES: u64 = u64::MAX;

/// A plugin's number.
pub type Id = u64;
/// What a callback is given of a memory access.
pub type MemInfo = u32;
/// A block of translated code.
pub enum Tb {}
/// One of its instructions.
pub enum Insn {}
/// Where an access went.
pub enum Hwaddr {}
/// Numbers that translated code reads and writes without a call.
pub enum Scoreboard {}
enum Register {}

/// One of these numbers.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Number {
    board: *mut Scoreboard,
    offset: usize,
}

impl Number {
    /// One for each vCPU, at 0.
    ///
    /// # Safety
    /// Call it when the plugin is installed, or in a callback.
    pub unsafe fn new() -> Self {
        // SAFETY: QEMU's allocation; it lasts as long as the plugin.
        Self { board: unsafe { qemu_plugin_scoreboard_new(size_of::<u64>()) }, offset: 0 }
    }

    /// Where a vCPU's is. It moves when there are more vCPUs than there was room for.
    ///
    /// # Safety
    /// Call it in a callback, for a vCPU that there is.
    pub unsafe fn place(self, vcpu: c_uint) -> *mut u64 {
        // SAFETY: QEMU gives where the vCPU's element begins.
        unsafe { qemu_plugin_scoreboard_find(self.board, vcpu).byte_add(self.offset).cast() }
    }
}

/// The MMU index in the handle of an access (QEMU: exec/memopidx.h): what [`qemu_plugin_mem_mmu_index`] says, without a
/// call. The checking mode compares them.
#[inline]
pub fn mmu_index(info: MemInfo) -> usize {
    (info & 15) as usize
}

/// What QEMU says of itself.
#[repr(C)]
pub struct Info {
    target_name: *const c_char,
    min_version: c_int,
    cur_version: c_int,
    /// A whole machine, not a program.
    pub system_emulation: bool,
    smp_vcpus: c_int,
    max_vcpus: c_int,
}

#[repr(C)]
struct RegisterDescriptor {
    handle: *mut Register,
    name: *const c_char,
    feature: *const c_char,
}

#[repr(C)]
struct GByteArray {
    data: *mut u8,
    len: c_uint,
}

#[repr(C)]
struct GArray {
    data: *mut c_void,
    len: c_uint,
}

pub type VcpuCallback = unsafe extern "C" fn(Id, c_uint);
pub type TranslationCallback = unsafe extern "C" fn(Id, *mut Tb);
pub type FlushCallback = unsafe extern "C" fn(Id, c_uint, u32, u64, u64);
pub type RunCallback = unsafe extern "C" fn(c_uint, *mut c_void);
pub type CodeFlushCallback = unsafe extern "C" fn(Id);
pub type ExitCallback = unsafe extern "C" fn(Id, *mut c_void);
pub type MemCallback = unsafe extern "C" fn(c_uint, MemInfo, u64, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, callback: VcpuCallback);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: TranslationCallback);
    pub fn qemu_plugin_register_vcpu_tlb_flush_cb(id: Id, callback: FlushCallback);
    pub fn qemu_plugin_register_flush_cb(id: Id, callback: CodeFlushCallback);
    pub fn qemu_plugin_register_atexit_cb(id: Id, callback: ExitCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        callback: RunCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        callback: MemCallback,
        flags: c_int,
        rw: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        tb: *mut Tb,
        callback: RunCallback,
        flags: c_int,
        condition: c_int,
        number: Number,
        value: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        operation: c_int,
        number: Number,
        value: u64,
    );
    fn qemu_plugin_scoreboard_new(size: usize) -> *mut Scoreboard;
    fn qemu_plugin_scoreboard_find(board: *mut Scoreboard, vcpu: c_uint) -> *mut c_void;
    pub fn qemu_plugin_u64_set(number: Number, vcpu: c_uint, value: u64);
    pub fn qemu_plugin_u64_get(number: Number, vcpu: c_uint) -> u64;
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_mem_mmu_index(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_get_hwaddr(info: MemInfo, vaddr: u64) -> *mut Hwaddr;
    pub fn qemu_plugin_hwaddr_phys_addr(hwaddr: *const Hwaddr) -> u64;
    fn qemu_plugin_read_memory_hwaddr(addr: u64, data: *mut GByteArray, len: usize) -> c_int;
    fn qemu_plugin_get_registers() -> *mut GArray;
    fn qemu_plugin_read_register(handle: *mut Register, data: *mut GByteArray) -> c_int;
    fn g_byte_array_new() -> *mut GByteArray;
    fn g_array_free(array: *mut GArray, free_segment: c_int) -> *mut c_char;
}

/// The vCPU that called: its registers, and memory by physical address.
pub struct Vcpu {
    registers: Vec<*mut Register>,
    buffer: *mut GByteArray,
}

impl Vcpu {
    /// The vCPU, and those of its registers that have these names; or the name that it has not.
    ///
    /// # Safety
    /// Call it, and all methods, only in a callback of QEMU on that vCPU.
    pub unsafe fn current<'a>(names: &[&'a str]) -> Result<Self, &'a str> {
        // SAFETY: QEMU gives a valid array of descriptors with static names.
        unsafe {
            let list = qemu_plugin_get_registers();
            let all = std::slice::from_raw_parts((*list).data.cast::<RegisterDescriptor>(), (*list).len as usize);
            let find = |name: &&'a str| {
                let found = all.iter().find(|each| CStr::from_ptr(each.name).to_bytes() == name.as_bytes());
                found.map(|each| each.handle).ok_or(*name)
            };
            let registers: Result<Vec<_>, _> = names.iter().map(find).collect();
            g_array_free(list, 1);
            Ok(Self { registers: registers?, buffer: g_byte_array_new() })
        }
    }

    /// The register with this place in the list of names.
    pub fn register(&mut self, place: usize) -> u64 {
        // SAFETY: the handle is QEMU's own; QEMU appends to the buffer and says how much.
        unsafe {
            (*self.buffer).len = 0; // to which QEMU appends
            let size = qemu_plugin_read_register(self.registers[place], self.buffer);
            let size = usize::try_from(size).unwrap_or(0).min(8);
            let mut bytes = [0; 8];
            std::ptr::copy_nonoverlapping((*self.buffer).data, bytes.as_mut_ptr(), size);
            u64::from_le_bytes(bytes)
        }
    }

    /// Eight bytes of the machine's memory, if there is memory.
    pub fn read(&mut self, physical: u64) -> Option<u64> {
        // SAFETY: QEMU makes the buffer as long as it is asked to, and fills it if it returns 0.
        unsafe {
            if qemu_plugin_read_memory_hwaddr(physical, self.buffer, 8) != 0 {
                return None;
            }
            Some((*self.buffer).data.cast::<u64>().read_unaligned())
        }
    }
}
