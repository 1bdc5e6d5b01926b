// SPDX-License-Identifier: MIT
//! `synth`: a trace without a machine, of a made-up one to try the rest with, or of a program written anew.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use clap::Args;
use mmu_model::address::{Machine, Virtual};
use mmu_model::context::Kind;
use mmu_model::synthetic::{Observer, Pages, World};
use mmu_model::x86::{Context, Event};
use mmu_organisations::programs;
use mmu_trace::error::TraceError;
use mmu_trace::format::Fetches;
use mmu_trace::recorder::{RecordError, Recorder};

use crate::Failure;

#[derive(Args)]
pub struct Options {
    /// Where to write the trace
    trace: PathBuf,
    /// Accesses of the guest's processes, or of the program, at most
    #[arg(long, default_value_t = 1_000_000)]
    accesses: u64,
    /// In place of that machine, one of the programs that Elphinstone 1999 ran, written anew: nsieve, heapsort, mm, tfftdp or
    /// compress
    #[arg(long)]
    program: Option<String>,
    /// Another seed, another machine
    #[arg(long, default_value_t = 1, conflicts_with = "program")]
    seed: u64,
}

/// Records until something fails, and keeps what failed.
struct Recording {
    recorder: Recorder<BufWriter<File>>,
    failed: Option<TraceError>,
}

impl Recording {
    fn note(&mut self, outcome: Result<(), TraceError>) {
        if let (None, Err(error)) = (&self.failed, outcome) {
            self.failed = Some(error);
        }
    }
}

impl Observer for Recording {
    fn context(&mut self, context: &Context) {
        let outcome = self.recorder.set_context(context);
        self.note(outcome);
    }

    fn access(&mut self, memory: &mut Pages, address: Virtual, kind: Kind, machine: Machine) {
        let outcome = self.recorder.access(memory, address, kind, Some(machine));
        self.note(outcome.map_err(|e| match e {
            RecordError::Trace(error) => error,
            RecordError::Memory(never) => match never {},
            RecordError::NoContext => unreachable!("the world sets a context first"),
        }));
    }

    fn invalidate(&mut self, event: Event) {
        let outcome = self.recorder.invalidate(event);
        self.note(outcome);
    }

    fn region(&mut self, on: bool) {
        let outcome = self.recorder.set_region(on);
        self.note(outcome);
    }
}

fn names() -> String {
    programs::ALL.map(|one| one.name).join(", ")
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", options.trace.display());
    let file = File::create(&options.trace).map_err(|e| wrong(&e))?;
    // Of a made-up program, whatever it fetches is told.
    let recorder = Recorder::with_fetches(BufWriter::new(file), 1, Fetches::Lines).map_err(|e| wrong(&e))?;
    let mut recording = Recording { recorder, failed: None };
    match &options.program {
        None => World::new(options.seed).run(options.accesses, &mut recording),
        Some(name) => {
            let ran = programs::run(name, options.accesses, &mut recording);
            ran.ok_or_else(|| format!("--program {name}: there is none of this name, expected {}", names()))?;
        }
    }
    if let Some(error) = recording.failed {
        return Err(wrong(&error).into());
    }
    let accesses = recording.recorder.accesses();
    recording.recorder.finish().map_err(|e| wrong(&e))?;
    println!("{}: {accesses} accesses", options.trace.display());
    Ok(())
}
