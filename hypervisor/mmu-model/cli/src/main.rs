// SPDX-License-Identifier: MIT
//! `abh-mmu`: replay traces through models of processors, vary a TLB's size, and measure the model's own speed.

mod bench;
mod organisations;
mod replay;
mod synth;
mod thesis;

use std::io::{ErrorKind, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use mmu_model::cpu::{BUILT_IN, Cpu};

/// What went wrong, in words for the user.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay a trace on processors, all at once, and print their counters as JSON
    Replay(replay::Options),
    /// Check a trace from its first byte to its last and print how much it holds
    Check {
        /// The trace
        trace: PathBuf,
    },
    /// List the processors that come with the model
    Cpus,
    /// Replay a trace through other organisations of page tables and TLB refill, all at once
    Organisations(organisations::Options),
    /// Sizes of tables and costs of operations on them, by the made-up workloads of Elphinstone 1999
    Thesis(thesis::Options),
    /// Record a made-up machine: a hypervisor, a guest's kernel and two processes
    Synth(synth::Options),
    /// Measure the model's speed; the last line is one JSON object
    Bench(bench::Options),
}

#[derive(Args)]
struct CpuChoice {
    /// A built-in processor (see `cpus`) or a file; give it again for more
    #[arg(long = "cpu", value_name = "NAME|FILE", default_value = "i7-3770")]
    cpus: Vec<String>,
}

impl CpuChoice {
    fn load(&self) -> Result<Vec<(String, Cpu)>, Failure> {
        self.cpus.iter().map(|name| Ok((name.clone(), load_cpu(name)?))).collect()
    }
}

fn load_cpu(name: &str) -> Result<Cpu, Failure> {
    if let Some(cpu) = Cpu::built_in(name) {
        return Ok(cpu?);
    }
    let names = BUILT_IN.map(|(n, _)| n).join(", ");
    let text = std::fs::read_to_string(name)
        .map_err(|e| format!("\"{name}\" is none of the built-in processors ({names}), and no file: {e}"))?;
    Ok(Cpu::parse(name, &text)?)
}

fn list_cpus() -> Result<(), Failure> {
    let mut out = stdout().lock();
    for (name, _) in BUILT_IN {
        let cpu = load_cpu(name)?;
        writeln!(out, "{name:<12} {}", cpu.name)?;
        for tlb in &cpu.tlb {
            let (sizes, t) = (tlb.pages.join("+"), &tlb.name);
            writeln!(
                out,
                "{:12} level {} {t:<8} {:>5} entries, {:>2} ways, {sizes}",
                "", tlb.level, tlb.entries, tlb.ways
            )?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Replay(options) => replay::run(&options),
        Command::Check { trace } => replay::check(&trace),
        Command::Cpus => list_cpus(),
        Command::Organisations(options) => organisations::run(&options),
        Command::Thesis(options) => thesis::run(&options),
        Command::Synth(options) => synth::run(&options),
        Command::Bench(options) => bench::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure)
            if failure.downcast_ref().is_some_and(|e: &std::io::Error| e.kind() == ErrorKind::BrokenPipe) =>
        {
            ExitCode::FAILURE // who reads has read enough, as `head` does
        }
        Err(failure) => {
            eprintln!("abh-mmu: {failure}");
            ExitCode::FAILURE
        }
    }
}
