// SPDX-License-Identifier: GPL-2.0-or-later
//! What QEMU calls, but for the translation of a block, which `watch.rs` has.

use std::ffi::{c_uint, c_void};

use mmu_model::address::Machine;
use mmu_model::context::Kind;

use crate::follow::{self, ControlWrite};
use crate::qemu::{self, Id, MemInfo, Vcpu};
use crate::site::Site;
use crate::{NO_PAGE, PAGE_SHIFT, UPPER_HALF, plugin, unchanged_plugin};

pub unsafe extern "C" fn on_vcpu(_: Id, index: c_uint) {
    // SAFETY: QEMU's callback for this vCPU.
    unsafe {
        if index > 0 {
            eprintln!("mmu plugin: it models one processor, and this machine has another; add -smp 1");
            std::process::exit(1);
        }
        match Vcpu::current(&follow::NAMES) {
            Ok(vcpu) => {
                plugin().vcpu = Some(vcpu);
                plugin().translated_page_there = plugin().translated_page.place(index);
                plugin().forget_code_page();
            }
            Err(name) => {
                eprintln!(
                    "mmu plugin: this processor shows no register {name}; use one with SVM, and a patched QEMU"
                );
                std::process::exit(1);
            }
        }
    }
}

pub unsafe extern "C" fn on_flush(_: Id, _: c_uint, _: u32, address: u64, len: u64) {
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

pub unsafe extern "C" fn on_load(_: c_uint, info: MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: QEMU's callback, for this access.
    unsafe {
        if !unchanged_plugin().goes_straight(address, Kind::Load, data.addr() + qemu::mmu_index(info)) {
            on_memory(Kind::Load, info, address, data);
        }
    }
}

pub unsafe extern "C" fn on_store(_: c_uint, info: MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: QEMU's callback, for this access.
    unsafe {
        if !unchanged_plugin().goes_straight(address, Kind::Store, data.addr() + qemu::mmu_index(info)) {
            on_memory(Kind::Store, info, address, data);
        }
    }
}

#[inline(never)]
unsafe fn on_memory(kind: Kind, info: MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: the caller is QEMU's callback.
    unsafe {
        let plugin = unchanged_plugin();
        if !plugin.awake() {
            return;
        }
        let index = qemu::qemu_plugin_mem_mmu_index(info);
        plugin.check.compare_index(info, index as usize);
        plugin.access(address, kind, index, data.addr() == UPPER_HALF, || {
            let hwaddr = qemu::qemu_plugin_get_hwaddr(info, address);
            (!hwaddr.is_null()).then(|| Machine::new(qemu::qemu_plugin_hwaddr_phys_addr(hwaddr)))
        });
    }
}

/// Registered at a block's begin, for blocks of another page than the last one's.
pub unsafe extern "C" fn on_fetch(_: c_uint, data: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers, with the user data of this block.
    let (plugin, site) = unsafe { (unchanged_plugin(), Site::of_data(data)) };
    plugin.set_translated_page(site.translated_page());
    if plugin.awake() {
        let address = plugin.address_of(site);
        if address >> PAGE_SHIFT != plugin.code_page {
            plugin.fetch(address, site.code);
        }
    }
}

/// Registered where a block goes on into the next page. RIP may lag behind, somewhere in the block's first page.
pub unsafe extern "C" fn on_next_page(_: c_uint, data: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers, with the user data of this place.
    let (plugin, site) = unsafe { (unchanged_plugin(), Site::of_data(data)) };
    plugin.set_translated_page(site.translated_page());
    if let (true, Some(vcpu)) = (plugin.awake(), &mut plugin.vcpu) {
        let page = plugin.code_page;
        let page = if page == NO_PAGE { follow::next_instruction(vcpu) >> PAGE_SHIFT } else { page };
        plugin.fetch((page + 1) << PAGE_SHIFT, site.code);
    }
}

/// Registered at instructions that begin to come from another line, where lines are recorded; the user data are what
/// `watch.rs` makes of the place.
pub unsafe extern "C" fn on_line(_: c_uint, data: *mut c_void) {
    // SAFETY: QEMU's callback.
    let plugin = unsafe { unchanged_plugin() };
    if plugin.open {
        let data = data.addr() as u64;
        plugin.fetch_line(data >> 1, data & 1 == 1);
    }
}

pub unsafe extern "C" fn on_cr3(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.follower.writes_cr3();
}

pub unsafe extern "C" fn on_control(_: c_uint, data: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers.
    let plugin = unsafe { plugin() };
    if let Some(vcpu) = &mut plugin.vcpu {
        plugin.follower.writes_control(vcpu, ControlWrite::of_data(data.addr()));
    }
}

pub unsafe extern "C" fn on_invlpga(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers.
    let plugin = unsafe { plugin() };
    if let Some(vcpu) = &mut plugin.vcpu {
        plugin.follower.begins_invlpga(vcpu);
    }
}

pub unsafe extern "C" fn on_vmrun(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback, registered as one that reads registers.
    let plugin = unsafe { plugin() };
    if plugin.awake() {
        plugin.vmrun();
    }
}

pub unsafe extern "C" fn on_begin(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.begin();
}

pub unsafe extern "C" fn on_end(_: c_uint, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.end();
}

/// QEMU has thrown away all translated code.
pub unsafe extern "C" fn on_code_flush(_: Id) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.sites.clear();
}

pub unsafe extern "C" fn on_exit(_: Id, _: *mut c_void) {
    // SAFETY: QEMU's callback.
    unsafe { plugin() }.close();
}
