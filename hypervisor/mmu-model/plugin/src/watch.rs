// SPDX-License-Identifier: GPL-2.0-or-later
//! What is watched in translated code: accesses, changes of page, and the instructions that invalidate.

use mmu_trace::format::LINE;

use crate::callbacks::{on_begin, on_control, on_cr3, on_end, on_invlpga, on_vmrun};
use crate::callbacks::{on_fetch, on_line, on_load, on_next_page, on_store};
use crate::check::Code;
use crate::follow::ControlWrite;
use crate::qemu::{self, Id, Insn, Tb};
use crate::{PAGE_SHIFT, UPPER_HALF, follow, plugin};

const REGION_BEGIN: u32 = 0x6162_6801; // agent/region.h
const REGION_END: u32 = 0x6162_6802;

/// What an instruction is to the plugin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Watched {
    Begin,
    End,
    Cr3,
    Control(ControlWrite),
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
    // Operand size, address size, REX: hardly anybody writes the first two, but they are legal.
    let operation = code.iter().position(|byte| !matches!(byte, 0x66 | 0x67 | 0x40..=0x4f)).unwrap_or(code.len());
    match &code[operation..] {
        [0x0f, 0x01, 0xd8] => Watched::Vmrun,
        [0x0f, 0x01, 0xdf] => Watched::Invlpga,
        [0x0f, 0x22, modrm, ..] => {
            // The byte right before, if any, is the REX prefix that counts: bit 0 is the fourth of the register read, bit
            // 2 that of the control register, which is then CR8 or none.
            let rex = code[..operation].last().filter(|byte| matches!(byte, 0x40..=0x4f)).copied().unwrap_or(0);
            match modrm >> 3 & 7 | (rex & 4) << 1 {
                register @ (0 | 4) => {
                    Watched::Control(ControlWrite { cr4: register == 4, from: modrm & 7 | (rex & 1) << 3 })
                }
                3 => Watched::Cr3,
                _ => Watched::Nothing,
            }
        }
        _ => Watched::Nothing,
    }
}

/// QEMU translates a block.
pub unsafe extern "C" fn on_translation(_: Id, tb: *mut Tb) {
    // SAFETY: QEMU's callback; the block and its instructions are valid while it runs.
    unsafe {
        let start = qemu::qemu_plugin_tb_vaddr(tb);
        let data = std::ptr::without_provenance_mut(if start >> 63 == 1 { UPPER_HALF } else { 0 });
        let mut block = Vec::new();
        let user = plugin().vcpu.as_mut().is_some_and(follow::user_runs);
        let instructions = plugin().instructions;
        for index in 0..qemu::qemu_plugin_tb_n_insns(tb) {
            let insn = qemu::qemu_plugin_tb_get_insn(tb, index);
            let mut code = [0u8; 15];
            let size = qemu::qemu_plugin_insn_data(insn, code.as_mut_ptr().cast(), code.len());
            let code = &code[..size];
            let (begin, end) = (start + block.len() as u64, start + (block.len() + code.len()) as u64);
            let lines = if plugin().by_line { lines(start, begin, end) } else { vec![] };
            let (here, beyond): (Vec<u64>, Vec<u64>) = lines.into_iter().partition(|at| *at < page_end(start));
            watch_lines(insn, &here, user);
            watch_next_page(start, block.len(), insn, code, user);
            watch_lines(insn, &beyond, user);
            block.extend(code);
            let run_with = |callback, flags, data| {
                let data = std::ptr::without_provenance_mut(data);
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, flags, data);
            };
            let run = |callback, flags| run_with(callback, flags, 0);
            let what = watched(code);
            // What is registered first is done first: neither mark is counted.
            if what == Watched::End {
                run(on_end, qemu::NO_REGS);
            }
            qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, qemu::ADD, instructions, 1);
            match what {
                Watched::Begin => run(on_begin, qemu::NO_REGS),
                Watched::Cr3 => run(on_cr3, qemu::NO_REGS),
                Watched::Control(write) => run_with(on_control, qemu::READS_REGS, write.to_data()),
                Watched::Invlpga => run(on_invlpga, qemu::READS_REGS),
                Watched::Vmrun => run(on_vmrun, qemu::READS_REGS),
                Watched::End | Watched::Nothing => {}
            }
            // Which of them it is need not be asked at each access.
            qemu::qemu_plugin_register_vcpu_mem_cb(insn, on_load, qemu::NO_REGS, qemu::MEM_R, data);
            qemu::qemu_plugin_register_vcpu_mem_cb(insn, on_store, qemu::NO_REGS, qemu::MEM_W, data);
        }
        watch_block(start, tb, &block, user);
    }
}

const fn page_end(address: u64) -> u64 {
    (address | ((1 << PAGE_SHIFT) - 1)).wrapping_add(1)
}

/// Where an instruction of a block has the first byte of a line that none before it has.
fn lines(block: u64, begin: u64, end: u64) -> Vec<u64> {
    let first = if begin == block { begin } else { begin.next_multiple_of(LINE) };
    std::iter::successors(Some(first), |at| Some(at / LINE * LINE + LINE)).take_while(|at| *at < end).collect()
}

/// A callback's user data: where in its page a line is fetched, and whether user code does.
const fn line_data(at: u64, user: bool) -> usize {
    ((at & ((1 << PAGE_SHIFT) - 1)) << 1) as usize | user as usize
}

/// Have an instruction tell that it comes from these lines.
unsafe fn watch_lines(insn: *mut Insn, lines: &[u64], user: bool) {
    for at in lines {
        let data = std::ptr::without_provenance_mut(line_data(*at, user));
        // SAFETY: the caller has the instruction from QEMU.
        unsafe { qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, on_line, qemu::NO_REGS, data) };
    }
}

/// Have the block's begin tell of a change of page.
unsafe fn watch_block(start: u64, tb: *mut Tb, block: &[u8], user: bool) {
    let here = block.len().min(page_end(start).wrapping_sub(start) as usize);
    // SAFETY: the caller has the block from QEMU.
    unsafe {
        let site = plugin().sites.add(start, Code::new(&block[..here], user));
        let (number, page) = (plugin().translated_page, start >> PAGE_SHIFT);
        qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
            tb,
            on_fetch,
            qemu::READS_REGS,
            qemu::UNEQUAL,
            number,
            page,
            site,
        );
    }
}

/// Have the first instruction with a byte in the page after the block's first tell so; `before` bytes come before it.
unsafe fn watch_next_page(start: u64, before: usize, insn: *mut Insn, code: &[u8], user: bool) {
    let left = (page_end(start).wrapping_sub(start) as usize).wrapping_sub(before);
    let begins_there = before > 0 && left == 0;
    if !begins_there && !(1..code.len()).contains(&left) {
        return;
    }
    // SAFETY: the caller has the instruction from QEMU.
    unsafe {
        let site = plugin().sites.add(page_end(start), Code::new(&code[left..], user));
        qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, on_next_page, qemu::READS_REGS, site);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_block_is_told_once() {
        assert_eq!(lines(0x1005, 0x1005, 0x1007), [0x1005]);
        assert!(lines(0x1005, 0x1007, 0x1010).is_empty());
        assert_eq!(lines(0x1005, 0x1010, 0x1012), [0x1010]);
        assert_eq!(lines(0x1005, 0x100e, 0x1012), [0x1010]);
        assert_eq!(lines(0x1005, 0x1005, 0x1012), [0x1005, 0x1010]);
        assert_eq!(lines(0x1ff5, 0x1ffe, 0x2003), [0x2000]);
        assert_eq!((line_data(0x1ff5, true), line_data(0x2000, false)), (0xff5 << 1 | 1, 0));
    }

    #[test]
    fn watched_instructions_are_known_with_and_without_prefix() {
        for (code, what) in [
            (&[0x0f, 0x1f, 0x80, 0x01, 0x68, 0x62, 0x61][..], Watched::Begin),
            (&[0x0f, 0x1f, 0x80, 0x02, 0x68, 0x62, 0x61], Watched::End),
            (&[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00], Watched::Nothing),
            (&[0x0f, 0x22, 0xd8], Watched::Cr3),
            (&[0x41, 0x0f, 0x22, 0xd9], Watched::Cr3),
            (&[0x0f, 0x22, 0xc0], Watched::Control(ControlWrite { cr4: false, from: 0 })),
            (&[0x0f, 0x22, 0xe3], Watched::Control(ControlWrite { cr4: true, from: 3 })),
            (&[0x41, 0x0f, 0x22, 0xe7], Watched::Control(ControlWrite { cr4: true, from: 15 })),
            (&[0x66, 0x48, 0x0f, 0x22, 0xc7], Watched::Control(ControlWrite { cr4: false, from: 7 })),
            (&[0x0f, 0x22, 0xd0], Watched::Nothing),
            (&[0x44, 0x0f, 0x22, 0xc0], Watched::Nothing),
            (&[0x0f, 0x20, 0xd8], Watched::Nothing),
            (&[0x0f, 0x01, 0xd8], Watched::Vmrun),
            (&[0x66, 0x0f, 0x01, 0xd8], Watched::Vmrun),
            (&[0x66, 0x67], Watched::Nothing),
            (&[0x0f, 0x01, 0xdf], Watched::Invlpga),
            (&[0x0f, 0x01, 0x38], Watched::Nothing),
        ] {
            assert_eq!(watched(code), what, "{code:x?}");
        }
    }
}
