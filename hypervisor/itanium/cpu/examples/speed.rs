// SPDX-License-Identifier: MIT
//! How many instructions a second are executed: a loop of sums, loads, stores and calls, through the MMU. The last line
//! is JSON. `cargo run --release --example speed -- 200000000`

use std::time::Instant;

use itanium_cpu::{Bus, Cpu};
use itanium_decode::{Bundle, Unit, assemble};
use itanium_mmu::config::Config;
use itanium_mmu::fields::{Attribute, Itir, Pte};
use itanium_mmu::tlb::Side;

struct Ram(Vec<u8>);

impl Bus for Ram {
    fn load(&mut self, physical: u64, size: u32, _: Attribute) -> Option<u64> {
        let mut word = [0; 8];
        word[..size as usize].copy_from_slice(self.0.get(physical as usize..physical as usize + size as usize)?);
        Some(u64::from_le_bytes(word))
    }

    fn store(&mut self, physical: u64, size: u32, value: u64, _: Attribute) -> Option<()> {
        let to = self.0.get_mut(physical as usize..physical as usize + size as usize)?;
        to.copy_from_slice(&value.to_le_bytes()[..size as usize]);
        Some(())
    }
}

/// Bundles of a template, at 0x10000; slots that are nops are left out.
const PROGRAM: [(u8, [&str; 3]); 9] = [
    (0x01, ["alloc r2=ar.pfs,16,8,0", "mov r32=1", "mov r33=0"]),
    (0x05, ["nop.m 0x0", "", "movl r34=0x40000"]),
    (0x09, ["add r33=r33,r32", "and r35=r33,r34", "shr.u r36=r33,3"]),
    (0x09, ["ld8 r37=[r34]", "adds r38=8,r34", "dep.z r39=r36,3,6"]),
    (0x09, ["st8 [r38]=r33", "cmp.lt p6,p7=r33,r36", "add r37=r37,r39"]),
    (0x11, ["nop.m 0x0", "nop.i 0x0", "br.call.sptk.few b0=0x10070"]),
    (0x11, ["nop.m 0x0", "nop.i 0x0", "br.few 0x10020"]),
    (0x11, ["alloc r8=ar.pfs,4,2,0", "mov r9=r32", "nop.b 0x0"]),
    (0x11, ["adds r10=1,r10", "mov.i ar.pfs=r8", "br.ret.sptk.few b0"]),
];

fn main() {
    let count = std::env::args().nth(1).map_or(100_000_000, |count| count.parse().expect("a count of instructions"));
    let mut ram = Ram(vec![0; 1 << 20]);
    for (index, (template, texts)) in PROGRAM.into_iter().enumerate() {
        let at = 0x10000 + 16 * index as u64;
        let slots = if texts[1].is_empty() {
            let (_, slot, long) = assemble(texts[2], at).expect("an instruction of two slots");
            [assemble(texts[0], at).expect("an instruction").1, long, slot]
        } else {
            texts.map(|text| assemble(text, at).map(|(_, slot, _): (Unit, _, _)| slot).expect(text))
        };
        let bundle = Bundle::of_parts(template, slots).0.to_le_bytes();
        ram.0[at as usize..at as usize + 16].copy_from_slice(&bundle);
    }
    let mut cpu = Cpu::new(Config::default(), 0x10000);
    for side in [Side::Instruction, Side::Data] {
        // Present, accessed, dirty, for all to read, write and run.
        cpu.mmu.itr(side, 0, Pte(0x7e1), Itir(20 << 2), 0).expect("a good insertion");
    }
    cpu.set_psr(cpu.psr() | 1 << 13 | 1 << 17 | 1 << 27 | 1 << 36);
    let begin = Instant::now();
    if let Err(stuck) = cpu.run(&mut ram, count) {
        eprintln!("{stuck}");
        std::process::exit(1);
    }
    let seconds = begin.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    let speed = cpu.instructions as f64 / seconds / 1e6;
    println!(
        r#"{{"kind": "measured", "instructions": {}, "seconds": {seconds:.3}, "million_per_second": {speed:.1}}}"#,
        cpu.instructions
    );
}
