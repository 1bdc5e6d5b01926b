// SPDX-License-Identifier: MIT
//! `bench`: accesses a second, live and in replay.

use std::hint::black_box;
use std::time::Instant;

use clap::Args;
use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::context::Kind;
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Pages, Random, user_on};
use mmu_model::x86::{Context, Levels, bit};
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
    let context = user_on(&guest, Some(&host));
    (memory, context)
}

/// Wall time, and the time this thread has really run: on a busy machine they differ.
struct Clock {
    start: Instant,
    ran: Option<u64>,
}

/// Nanoseconds this thread has run, where Linux says so.
pub fn ran() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

#[derive(Clone, Copy)]
struct Speed {
    wall: f64,
    cpu: Option<f64>,
}

impl Clock {
    fn start() -> Self {
        Self { ran: ran(), start: Instant::now() }
    }

    /// Million accesses a second.
    fn speed(&self, accesses: usize) -> Speed {
        let rate = |seconds: f64| (accesses as f64 / seconds / 1e5).round() / 10.0;
        let wall = rate(self.start.elapsed().as_secs_f64());
        let cpu = self.ran.zip(ran()).map(|(before, now)| rate((now - before) as f64 / 1e9));
        Speed { wall, cpu }
    }
}

fn live(cpu: &Cpu, memory: &mut Pages, context: &Context, accesses: &[(Virtual, Kind)], data: bool) -> Speed {
    let mut mmu = Mmu::new(cpu);
    mmu.set_data_through_caches(data);
    mmu.set_context(context);
    mmu.set_region(true);
    let clock = Clock::start();
    let mut sum = 0;
    for &(address, kind) in accesses {
        sum ^= mmu.access(memory, address, kind).expect("all is mapped").raw();
    }
    black_box(sum);
    clock.speed(accesses.len())
}

fn record(memory: &mut Pages, context: &Context, accesses: &[(Virtual, Kind)]) -> Result<(Vec<u8>, Speed), Failure> {
    let mut recorder = Recorder::new(vec![], 1)?;
    recorder.set_context(context)?;
    recorder.set_region(true)?;
    let clock = Clock::start();
    for &(address, kind) in accesses {
        // Data lies above all tables here.
        recorder.access(memory, address, kind, Some(Machine::new(8 << 30)))?;
    }
    let trace = recorder.finish()?;
    Ok((trace, clock.speed(accesses.len())))
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let (mut memory, context) = machine();
    let mut out = Map::new();
    let mut put = |name: String, value: Option<f64>| {
        if let Some(value) = value {
            println!("{name:<44} {value:>8.1}");
            out.insert(name, Value::from(value));
        }
    };
    for (shape, shape_name) in Shape::ALL {
        let accesses = shape.accesses(options.accesses);
        let (trace, recorded) = record(&mut memory, &context, &accesses)?;
        put(format!("trace_{shape_name}_bits_access"), Some(trace.len() as f64 * 8.0 / accesses.len() as f64));
        let mut both = |name: String, speed: Speed| {
            put(format!("{name}_maccesses_s"), Some(speed.wall));
            put(format!("{name}_maccesses_cpu_s"), speed.cpu);
        };
        both(format!("record_{shape_name}"), recorded);
        for (name, cpu) in options.cpus.load()? {
            both(format!("live_{name}_{shape_name}"), live(&cpu, &mut memory, &context, &accesses, false));
            both(format!("live_{name}_{shape_name}_data"), live(&cpu, &mut memory, &context, &accesses, true));
            let clock = Clock::start();
            replay(&trace[..], &cpu, false)?;
            both(format!("replay_{name}_{shape_name}"), clock.speed(accesses.len()));
            let threads = rayon::current_num_threads();
            let clock = Clock::start();
            let done: Result<Vec<_>, _> =
                (0..threads).into_par_iter().map(|_| replay(&trace[..], &cpu, false)).collect();
            done?;
            let speed = clock.speed(threads * accesses.len());
            both(format!("replay_{name}_{shape_name}_{threads}_threads"), Speed { cpu: None, ..speed });
        }
    }
    println!("{}", Value::Object(out));
    Ok(())
}
