// SPDX-License-Identifier: MIT
//! `bench`: accesses a second, live and in replay.

use std::hint::black_box;
use std::time::Instant;

use clap::Args;
use mmu_model::address::{GuestPhysical, Machine, PageSize, Virtual};
use mmu_model::context::{Context, Control, Kind, Layer, Levels, Tables};
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Pages, Random};
use mmu_model::x86::bit;
use mmu_trace::recorder::Recorder;
use mmu_trace::replay::replay;
use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::{CpuChoice, Failure};

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    cpus: CpuChoice,
    /// Accesses in each run
    #[arg(long, default_value_t = 20_000_000)]
    accesses: usize,
}

/// Shapes of access: each stresses another part of the model.
#[derive(Clone, Copy)]
enum Shape {
    /// Loads and stores within 48 pages, with fetches from 8: all hits in the first level.
    Hits,
    /// Like a program: runs of neighbouring words, one in 16 accesses anywhere in 32 MiB.
    Mixed,
    /// Anywhere in 512 MiB of small pages: most accesses walk.
    Misses,
}

impl Shape {
    const ALL: [(Self, &'static str); 3] = [(Self::Hits, "hits"), (Self::Mixed, "mixed"), (Self::Misses, "misses")];

    fn accesses(self, n: usize) -> Vec<(Virtual, Kind)> {
        let mut random = Random::new(1);
        let mut cursor = 0;
        (0..n)
            .map(|i| {
                let kind = [Kind::Fetch, Kind::Load, Kind::Load, Kind::Store][i % 4];
                let offset = match (self, kind) {
                    (_, Kind::Fetch) => random.below(8 << 12) & !3,
                    (Self::Hits, _) => random.below(48 << 12) & !7,
                    (Self::Mixed, _) => {
                        cursor =
                            if random.one_in(16) { random.below(32 << 20) & !7 } else { (cursor + 8) % (32 << 20) };
                        cursor
                    }
                    (Self::Misses, _) => random.below(512 << 20) & !7,
                };
                (Virtual::new(offset), kind)
            })
            .collect()
    }
}

/// 512 MiB of 4 KiB pages over 2 MiB host pages.
fn machine() -> (Pages, Context) {
    let mut memory = Pages::default();
    let (moved, tables) = (1 << 30, 16 << 20);
    let bits = OPEN | bit::ACCESSED | bit::DIRTY;
    let mut guest = Builder::new(0x1000, moved, Levels::Four);
    for page in (0..512 << 20).step_by(4096) {
        guest.map(&mut memory, page, PageSize::K4, tables + page, bits);
    }
    let mut host = Builder::new(0x10_0000, 0, Levels::Four);
    for region in (0..1 << 30).step_by(2 << 20) {
        host.map(&mut memory, region, PageSize::M2, moved + region, bits);
    }
    let context = Context {
        layer: Layer::GuestUser,
        space: 1,
        user: true,
        control: Control::default(),
        asid: 1,
        pcid: 0,
        tables: Tables::Nested {
            guest: Some((GuestPhysical::new(guest.root), Levels::Four)),
            root: Machine::new(host.root),
            levels: Levels::Four,
            nxe: true,
        },
    };
    (memory, context)
}

fn million_a_second(accesses: usize, start: Instant) -> f64 {
    (accesses as f64 / start.elapsed().as_secs_f64() / 1e5).round() / 10.0
}

fn live(cpu: &Cpu, memory: &mut Pages, context: &Context, accesses: &[(Virtual, Kind)], data: bool) -> f64 {
    let mut mmu = Mmu::new(cpu);
    mmu.set_data_through_caches(data);
    mmu.set_context(context);
    mmu.set_region(true);
    let start = Instant::now();
    let mut sum = 0;
    for &(address, kind) in accesses {
        sum ^= mmu.access(memory, address, kind).expect("all is mapped").raw();
    }
    black_box(sum);
    million_a_second(accesses.len(), start)
}

fn record(memory: &mut Pages, context: &Context, accesses: &[(Virtual, Kind)]) -> Result<(Vec<u8>, f64), Failure> {
    let mut recorder = Recorder::new(vec![], 1)?;
    recorder.set_context(context)?;
    recorder.set_region(true)?;
    let start = Instant::now();
    for &(address, kind) in accesses {
        // Data lies above all tables here.
        recorder.access(memory, address, kind, Some(Machine::new(8 << 30)))?;
    }
    let trace = recorder.finish()?;
    Ok((trace, million_a_second(accesses.len(), start)))
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let (mut memory, context) = machine();
    let mut out = Map::new();
    let mut put = |name: String, value: f64| {
        println!("{name:<40} {value:>10.1}");
        out.insert(name, Value::from(value));
    };
    for (shape, shape_name) in Shape::ALL {
        let accesses = shape.accesses(options.accesses);
        let (trace, recorded) = record(&mut memory, &context, &accesses)?;
        put(format!("record_{shape_name}_maccesses_s"), recorded);
        put(format!("trace_{shape_name}_bits_access"), trace.len() as f64 * 8.0 / accesses.len() as f64);
        for (name, cpu) in options.cpus.load()? {
            put(format!("live_{name}_{shape_name}_maccesses_s"), live(&cpu, &mut memory, &context, &accesses, false));
            let with_data = live(&cpu, &mut memory, &context, &accesses, true);
            put(format!("live_{name}_{shape_name}_data_maccesses_s"), with_data);
            let start = Instant::now();
            replay(&trace[..], &cpu, false)?;
            put(format!("replay_{name}_{shape_name}_maccesses_s"), million_a_second(accesses.len(), start));
            let threads = rayon::current_num_threads();
            let start = Instant::now();
            let done: Result<Vec<_>, _> =
                (0..threads).into_par_iter().map(|_| replay(&trace[..], &cpu, false)).collect();
            done?;
            let n = threads * accesses.len();
            put(format!("replay_{name}_{shape_name}_{threads}_threads_maccesses_s"), million_a_second(n, start));
        }
    }
    println!("{}", Value::Object(out));
    Ok(())
}
