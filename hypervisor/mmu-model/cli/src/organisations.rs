// SPDX-License-Identifier: MIT
//! `organisations`: one trace through many organisations of page tables and TLB refill, at once.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;

use clap::{ArgAction, Args};
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::x86::{Context, Event};
use mmu_organisations::catalogue::{self, Pair};
use mmu_organisations::machine::{self, Machine};
use mmu_organisations::nested::{self, Nested};
use mmu_organisations::software::{self, Options as Choice, Software};
use mmu_organisations::tally::{self, Counted};
use mmu_trace::decoded::Decoded;
use mmu_trace::error::TraceError;
use mmu_trace::replay::{Hears, Replay, ReplayError, replay_together};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::Failure;
use crate::replay::{on_or_off, open, progress};

#[derive(Args)]
pub struct Options {
    /// The trace; without one, names of organisations and machines are listed
    trace: Option<PathBuf>,
    /// An organisation, or a guest's and a host's, such as radix/h8192, walked by hardware: +ntlb with the processor's
    /// nested TLB, +stlb with a software TLB before both; give it again for more
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

/// A machine, and the processor of today that it is made of, if it is one.
#[derive(Clone)]
struct Hardware {
    machine: Machine,
    cpu: Option<Cpu>,
}

fn load(name: &str) -> Result<Hardware, Failure> {
    if let Some(machine) = Machine::built_in(name) {
        return Ok(Hardware { machine: machine?, cpu: None });
    }
    if let Some(cpu) = Cpu::built_in(name) {
        let cpu = cpu?;
        return Ok(Hardware { machine: Machine::of_cpu(&cpu), cpu: Some(cpu) });
    }
    let names: Vec<_> =
        machine::BUILT_IN.iter().map(|(n, _)| *n).chain(mmu_model::cpu::BUILT_IN.map(|(n, _)| n)).collect();
    let text = std::fs::read_to_string(name).map_err(|e| {
        format!("\"{name}\" is none of the built-in machines ({}), and no file: {e}", names.join(", "))
    })?;
    Ok(Hardware { machine: Machine::parse(name, &text)?, cpu: None })
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
#[derive(Clone)]
struct Job {
    organisation: String,
    machine_name: String,
    hardware: Hardware,
    superpages: bool,
}

fn jobs(options: &Options) -> Result<Vec<Job>, Failure> {
    let mut jobs = vec![];
    for machine_name in &options.machines {
        let hardware = load(machine_name)?;
        for organisation in &options.organisations {
            let job = Job {
                organisation: organisation.clone(),
                machine_name: machine_name.clone(),
                hardware: hardware.clone(),
                superpages: options.superpages,
            };
            // Whether they fit is told before the work.
            job.made().map_err(|e| format!("{organisation} on {machine_name}: {e}"))?;
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// An MMU with its organisation.
enum Made {
    Software(Box<Mmu<Software>>),
    Nested(Box<Mmu<Nested>>),
}

impl Job {
    fn made(&self) -> Result<Made, String> {
        let Hardware { machine, cpu } = &self.hardware;
        let table = |name: &str| {
            let known = || catalogue::ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
            let missing = || format!("--organisation {name}: there is none of this name, expected {}", known());
            catalogue::table(name, machine.pairs).ok_or_else(missing)
        };
        let superpages = self.superpages;
        let Some(Pair { guest, host, nested_tlb, front }) = Pair::parse(&self.organisation) else {
            return software::mmu(table(&self.organisation)?, machine, Choice { superpages })
                .map(|mmu| Made::Software(Box::new(mmu)));
        };
        let cpu = cpu.as_ref().ok_or("hardware that walks two tables is a processor's of today; take i7-3770")?;
        let options = nested::Options { superpages, nested_tlb, front };
        nested::mmu(table(&guest)?, table(&host)?, cpu, options).map(|mmu| Made::Nested(Box::new(mmu)))
    }
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
    let file = open(trace)?;
    let bar = progress(file.metadata()?.len());
    let from = bar.wrap_read(BufReader::with_capacity(1 << 20, file));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build()?;
    let mut models = jobs.into_iter().map(|job| Ok((job.model()?, job))).collect::<Result<Vec<_>, Failure>>()?;
    let where_in = |job: &Job, e: &dyn std::fmt::Display| -> Failure {
        format!("{}, {} on {}: {e}", trace.display(), job.organisation, job.machine_name).into()
    };
    // What is wrong with the trace itself is told without an organisation.
    let outcome = replay_together(from, &mut models, |models, block| {
        let hear = |(model, job): &mut (Box<dyn Model>, Job)| model.hear(block).map_err(|e| where_in(job, &e));
        pool.install(|| models.par_iter_mut().try_for_each(hear))
    });
    bar.finish_and_clear();
    outcome
        .map_err(|e: Failure| if e.is::<TraceError>() { format!("{}: {e}", trace.display()).into() } else { e })?;
    let results: Result<Vec<Value>, Failure> =
        models.iter().map(|(model, job)| Ok(job.result(model.told().map_err(|e| where_in(job, &e))?))).collect();
    serde_json::to_writer_pretty(&mut out, &results?)?;
    writeln!(out)?;
    Ok(())
}

/// An organisation at work on a trace, beside others.
trait Model: Send {
    fn hear(&mut self, block: &Decoded) -> Result<(), ReplayError>;
    fn told(&self) -> Result<Value, Failure>;
}

impl<O> Model for Replay<O>
where
    O: Counted<Context = Context, Event = Event>,
    Self: Hears,
{
    fn hear(&mut self, block: &Decoded) -> Result<(), ReplayError> {
        Hears::hear(self, block)
    }

    fn told(&self) -> Result<Value, Failure> {
        let [mmu] = self.mmus() else {
            return Err("the trace has several virtual processors; record one of a machine with one".into());
        };
        let mismatches = mmu.organisation().tallies().mismatches();
        if mismatches > 0 {
            let what = "refills found another page than the trace's own tables have: a fault of the organisation";
            return Err(format!("{mismatches} {what}").into());
        }
        Ok(tally::to_json(mmu))
    }
}

impl Job {
    fn model(&self) -> Result<Box<dyn Model>, Failure> {
        let again = self.clone();
        Ok(match self.made()? {
            Made::Software(_) => Box::new(Replay::new(Box::new(move || match again.made() {
                Ok(Made::Software(mmu)) => *mmu,
                _ => unreachable!("it was made before"),
            }))),
            Made::Nested(_) => Box::new(Replay::new(Box::new(move || match again.made() {
                Ok(Made::Nested(mmu)) => *mmu,
                _ => unreachable!("it was made before"),
            }))),
        })
    }

    #[allow(clippy::needless_pass_by_value)] // the macro takes it
    fn result(&self, counters: Value) -> Value {
        json!({
            "organisation": self.organisation,
            "machine": self.machine_name,
            "machine_name": self.hardware.machine.name,
            "assumptions": self.hardware.machine.assumptions,
            "superpages": self.superpages,
            "counters": counters,
        })
    }
}
