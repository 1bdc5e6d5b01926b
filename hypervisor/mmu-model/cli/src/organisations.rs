// SPDX-License-Identifier: MIT
//! `organisations`: one trace through many organisations of page tables and TLB refill, at once.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;

use clap::{ArgAction, Args};
use mmu_model::cpu::Cpu;
use mmu_organisations::catalogue;
use mmu_organisations::machine::{self, Machine};
use mmu_organisations::software::{self, Options as Choice, Software};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::Failure;
use crate::replay::{on_or_off, open, progress};

#[derive(Args)]
pub struct Options {
    /// The trace; without one, names of organisations and machines are listed
    trace: Option<PathBuf>,
    /// An organisation; give it again for more
    #[arg(long = "organisation", value_name = "NAME", default_value = "g16")]
    organisations: Vec<String>,
    /// A machine, or a processor, that comes with the model, or a machine's file; give it again for more
    #[arg(long = "machine", value_name = "NAME|FILE", default_value = "r4700")]
    machines: Vec<String>,
    /// Whether large pages of the trace are mapped as large as machine and organisation can; else in base pages
    #[arg(long, value_name = "on|off", default_value = "off", action = ArgAction::Set, value_parser = on_or_off)]
    superpages: bool,
    /// Write here in place of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Threads; as many as processors if not given
    #[arg(long)]
    jobs: Option<usize>,
}

fn load(name: &str) -> Result<Machine, Failure> {
    if let Some(machine) = Machine::built_in(name) {
        return Ok(machine?);
    }
    if let Some(cpu) = Cpu::built_in(name) {
        return Ok(Machine::of_cpu(&cpu?));
    }
    let names: Vec<_> =
        machine::BUILT_IN.iter().map(|(n, _)| *n).chain(mmu_model::cpu::BUILT_IN.map(|(n, _)| n)).collect();
    let text = std::fs::read_to_string(name).map_err(|e| {
        format!("\"{name}\" is none of the built-in machines ({}), and no file: {e}", names.join(", "))
    })?;
    Ok(Machine::parse(name, &text)?)
}

fn list() {
    for one in catalogue::ALL {
        println!("{:<12} {}", one.name, one.about);
    }
    for (name, _) in machine::BUILT_IN {
        println!("{name:<12} machine");
    }
}

/// One replay to be done.
struct Job {
    organisation: String,
    machine_name: String,
    machine: Machine,
}

fn jobs(options: &Options) -> Result<Vec<Job>, Failure> {
    let mut jobs = vec![];
    for machine_name in &options.machines {
        let machine = load(machine_name)?;
        for organisation in &options.organisations {
            let known = || catalogue::ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
            let table = catalogue::table(organisation, machine.pairs).ok_or_else(|| {
                format!("--organisation {organisation}: there is none of this name, expected {}", known())
            })?;
            // Whether they fit is told before the work.
            software::mmu(table, &machine, Choice { superpages: options.superpages })
                .map_err(|e| format!("{organisation} on {machine_name}: {e}"))?;
            let (organisation, machine_name) = (organisation.clone(), machine_name.clone());
            jobs.push(Job { organisation, machine_name, machine: machine.clone() });
        }
    }
    Ok(jobs)
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let jobs = jobs(options)?;
    let Some(trace) = &options.trace else {
        list();
        return Ok(());
    };
    let mut out: Box<dyn Write> = match &options.output {
        Some(path) => {
            Box::new(File::create(path).map_err(|e| format!("{}: cannot be written: {e}", path.display()))?)
        }
        None => Box::new(std::io::stdout()),
    };
    let bytes = open(trace)?.metadata()?.len();
    let bar = progress(bytes * jobs.len() as u64);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build()?;
    let results: Result<Vec<Value>, Failure> = pool.install(|| {
        jobs.par_iter()
            .map(|job| {
                let from = bar.wrap_read(BufReader::with_capacity(1 << 20, open(trace)?));
                one(job, from, options.superpages).map_err(|e| {
                    format!("{}, {} on {}: {e}", trace.display(), job.organisation, job.machine_name).into()
                })
            })
            .collect()
    });
    bar.finish_and_clear();
    serde_json::to_writer_pretty(&mut out, &results?)?;
    writeln!(out)?;
    Ok(())
}

fn one(job: &Job, from: impl std::io::Read, superpages: bool) -> Result<Value, Failure> {
    let (name, machine) = (job.organisation.clone(), job.machine.clone());
    let fresh = move || {
        let table = catalogue::table(&name, machine.pairs).expect("checked before");
        software::mmu(table, &machine, Choice { superpages }).expect("checked before")
    };
    let mmus = mmu_trace::replay::replay_on::<_, Software>(from, Box::new(fresh))?;
    let [mmu] = &mmus[..] else {
        return Err("the trace has several virtual processors; record one of a machine with one".into());
    };
    let software = mmu.organisation();
    if software.mismatches() > 0 {
        return Err(format!(
            "{} refills found another page than the trace's own tables have: a fault of the organisation",
            software.mismatches()
        )
        .into());
    }
    Ok(json!({
        "organisation": job.organisation,
        "machine": job.machine_name,
        "machine_name": job.machine.name,
        "assumptions": job.machine.assumptions,
        "superpages": superpages,
        "counters": software::to_json(mmu),
    }))
}
