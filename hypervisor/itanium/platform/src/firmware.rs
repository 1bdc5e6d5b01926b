// SPDX-License-Identifier: MIT
//! The firmware's code: a few bundles for each way of calling it, whose break ends the run for the machine to answer.

use itanium_decode::program;

use crate::board::Board;
use crate::{efi, map, sal};

/// Which break is whose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Called {
    /// PAL, by either convention.
    Pal,
    /// SAL.
    Sal,
    /// This service of EFI's.
    Efi(efi::Service),
}

const PAL: u64 = 1;
const SAL: u64 = 2;
const EFI: u64 = 16;

/// Whose break has this immediate.
pub fn called(immediate: u64) -> Option<Called> {
    match immediate {
        PAL => Some(Called::Pal),
        SAL => Some(Called::Sal),
        EFI.. => efi::SERVICES.get((immediate - EFI) as usize).copied().map(Called::Efi),
        _ => None,
    }
}

fn put(board: &mut Board, at: u64, text: &str) {
    for (index, bundle) in program(at, text).into_iter().enumerate() {
        board.put(at + 16 * index as u64, &bundle.0.to_le_bytes());
    }
}

/// Puts all code where it belongs.
pub fn install(board: &mut Board) {
    // Calls from 256 on have a register frame and return from it, others are jumped to (SDM vol. 2, 11.10.1).
    let pal = format!(
        "break.m {PAL:#x}
        tbit.z p6,p7=r28,8
        (p7) br.ret.sptk.many b0
        br.many b0"
    );
    put(board, map::PAL_CODE.start, &pal);
    put(board, sal::ENTRY, &format!("break.m {SAL:#x}\nbr.ret.sptk.many b0"));
    for (number, service) in efi::SERVICES.into_iter().enumerate() {
        // A clock's answer is stored by code, so that its address faults as any.
        let told = match service {
            efi::Service::GetTime => "st4 [r32]=r14,4\nst4 [r32]=r15,4\nst4 [r32]=r16,4\nst4 [r32]=r17,4",
            _ => "",
        };
        let text = format!("break.m {:#x}\n{told}\nbr.ret.sptk.many b0", EFI + number as u64);
        put(board, efi::entry(number), &text);
    }
    board.put(efi::SAL_TABLE, &sal::table());
    efi::put(board);
}
