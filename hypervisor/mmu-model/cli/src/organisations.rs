// SPDX-License-Identifier: MIT
//! `organisations`: one trace through many organisations of page tables and TLB refill, at once.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

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
use mmu_trace::format::Fetches;
use mmu_trace::reader::Reader;
use mmu_trace::replay::{Hears, Replay, ReplayError, replay_together};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::bench::ran;
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
    /// Give something these sizes, each in a replay of its own: the cache of a level (l1, l2, l3) in KiB, all lines (line) in
    /// bytes, the TLBs of the first level (tlb) in entries; give it again for another
    #[arg(long = "sweep", value_name = "l1=KIB,KIB,…")]
    sweeps: Vec<String>,
    /// Hear the trace twice, and count the second time: with caches and tables as the first has left them
    #[arg(long)]
    warm: bool,
    /// Stop after so many accesses, at the end of the trace's block
    #[arg(long, value_name = "ACCESSES", default_value_t = u64::MAX, hide_default_value = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    first: u64,
    /// Say of each replay, too, how many accesses it has made a second of a processor
    #[arg(long)]
    speed: bool,
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

fn list() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for one in catalogue::ALL {
        writeln!(out, "{:<12} {}", one.name, one.about)?;
    }
    for name in machine::BUILT_IN.iter().map(|(n, _)| *n).chain(mmu_model::cpu::BUILT_IN.map(|(n, _)| n)) {
        writeln!(out, "{name:<12} machine: {}", load(name)?.machine.name)?;
    }
    Ok(())
}

/// One replay to be done.
#[derive(Clone)]
struct Job {
    organisation: String,
    machine_name: String,
    hardware: Hardware,
    superpages: bool,
    /// Sizes that are not the machine's: "l1" and so on and KiB, "line" and bytes, "tlb" and entries.
    sweep: Vec<(String, u64)>,
}

/// All combinations of the sizes swept; one of none, where nothing is.
fn swept(sweeps: &[String]) -> Result<Vec<Vec<(String, u64)>>, Failure> {
    let mut all = vec![vec![]];
    for sweep in sweeps {
        let wrong = || {
            format!(
                "--sweep {sweep}: expected l1, l2 or l3 and KiB, line and bytes, or tlb and entries, such as l1=8,16,32"
            )
        };
        let known = ["l1", "l2", "l3", "line", "tlb"];
        let (level, sizes) = sweep.split_once('=').filter(|(l, _)| known.contains(l)).ok_or_else(wrong)?;
        if all.iter().flatten().any(|(other, _): &(String, u64)| other == level) {
            return Err(format!("--sweep {sweep}: {level} is swept twice; give all its sizes at once").into());
        }
        let sizes: Vec<u64> = sizes.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let with = |found: &Vec<_>, kib| [&found[..], &[(level.to_owned(), kib)]].concat();
        all = all.iter().flat_map(|found| sizes.iter().map(move |kib| with(found, *kib))).collect();
    }
    Ok(all)
}

fn jobs(options: &Options) -> Result<Vec<Job>, Failure> {
    let mut jobs = vec![];
    for machine_name in &options.machines {
        let hardware = load(machine_name)?;
        for (sweep, organisation) in swept(&options.sweeps)?
            .into_iter()
            .flat_map(|sweep| options.organisations.iter().map(move |o| (sweep.clone(), o)))
        {
            let mut job = Job {
                organisation: organisation.clone(),
                machine_name: machine_name.clone(),
                hardware: hardware.clone(),
                superpages: options.superpages,
                sweep,
            };
            // Whether they fit is told before the work.
            job.resize().and_then(|()| job.made()).map_err(|e| format!("{organisation} on {machine_name}: {e}"))?;
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
    fn resize(&mut self) -> Result<(), String> {
        let resize = |(what, size): &(String, u64)| self.hardware.machine.resize(what, *size);
        self.sweep.iter().try_for_each(resize)
    }

    /// What a trace must have that this one has not.
    fn lacks(&self, fetches: Fetches) -> Option<String> {
        let asked_by_caches = catalogue::table(&self.organisation, false).is_some_and(|table| table.without_tlb());
        (asked_by_caches && fetches == Fetches::Pages).then(|| {
            "it is asked by misses of caches, and the trace has one fetch of each page only; record it with every line's \
             (abh run --trace FILE --every-fetch)"
                .to_owned()
        })
    }

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
        if !self.sweep.is_empty() {
            return Err("nothing is swept where hardware walks two tables; leave out --sweep".to_owned());
        }
        let cpu = cpu.as_ref().ok_or("hardware that walks two tables is a processor's of today; take i7-3770")?;
        let options = nested::Options { superpages, nested_tlb, front };
        nested::mmu(table(&guest)?, table(&host)?, cpu, options).map(|mmu| Made::Nested(Box::new(mmu)))
    }
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let jobs = jobs(options)?;
    let Some(trace) = &options.trace else {
        return list();
    };
    let mut out: Box<dyn Write> = match &options.output {
        Some(path) => {
            Box::new(File::create(path).map_err(|e| format!("{}: cannot be written: {e}", path.display()))?)
        }
        None => Box::new(std::io::stdout()),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build()?;
    let made = jobs.into_iter().map(|job| Running::new(job, options.speed));
    let mut models = made.collect::<Result<Vec<_>, Failure>>()?;
    let mut fetches = Fetches::default();
    for turn in 0..=u8::from(options.warm) {
        if turn > 0 {
            models.iter_mut().for_each(|one| one.model.again());
        }
        fetches = hear(options, trace, &mut models, &pool)?;
    }
    let results: Result<Vec<Value>, Failure> = models.iter().map(|one| one.result(trace, fetches, options)).collect();
    serde_json::to_writer_pretty(&mut out, &results?)?;
    writeln!(out)?;
    Ok(())
}

/// Let all hear the trace from its beginning.
fn hear(
    options: &Options,
    trace: &Path,
    models: &mut [Running],
    pool: &rayon::ThreadPool,
) -> Result<Fetches, Failure> {
    let of_trace = |e: TraceError| -> Failure { format!("{}: {e}", trace.display()).into() };
    let file = open(trace)?;
    let bar = progress(file.metadata()?.len());
    let from = bar.wrap_read(BufReader::with_capacity(1 << 20, file));
    let reader = Reader::new(from).map_err(of_trace)?.stopping_after(options.first);
    let fetches = reader.fetches();
    for Running { job, .. } in &*models {
        job.lacks(fetches).map_or(Ok(()), |what| Err(job.failed(trace, &what)))?;
    }
    // What is wrong with the trace itself is told without an organisation.
    let outcome = replay_together(reader, models, |models, block| {
        pool.install(|| models.par_iter_mut().try_for_each(|one| one.hear(trace, block)))
    });
    bar.finish_and_clear();
    outcome.map_err(|e: Failure| e.downcast::<TraceError>().map_or_else(|e| e, |e| of_trace(*e)))?;
    Ok(fetches)
}

/// One replay, with how long it has taken of a processor.
struct Running {
    job: Job,
    model: Box<dyn Model>,
    accesses: u64,
    timed: bool,
    nanoseconds: u64,
}

/// Nanoseconds that this thread has run; the kernel brings its count up to date when a thread gives way.
fn now() -> Option<u64> {
    std::thread::yield_now();
    ran()
}

impl Running {
    fn new(job: Job, timed: bool) -> Result<Self, Failure> {
        Ok(Self { model: job.model()?, job, accesses: 0, timed, nanoseconds: 0 })
    }

    fn hear(&mut self, trace: &Path, block: &Decoded) -> Result<(), Failure> {
        let before = self.timed.then(now).flatten();
        self.model.hear(block).map_err(|e| self.job.failed(trace, &e))?;
        self.accesses += block.accesses();
        self.nanoseconds += self.timed.then(now).flatten().zip(before).map_or(0, |(after, before)| after - before);
        Ok(())
    }

    fn result(&self, trace: &Path, fetches: Fetches, options: &Options) -> Result<Value, Failure> {
        let job = &self.job;
        let counters = self.model.told().map_err(|e| job.failed(trace, &e))?;
        let sweep: Map<String, Value> = job.sweep.iter().map(|(level, kib)| (level.clone(), (*kib).into())).collect();
        let mut result = json!({
            "organisation": job.organisation,
            "machine": job.machine_name,
            "machine_name": job.hardware.machine.name,
            "assumptions": job.hardware.machine.assumptions,
            "superpages": job.superpages,
            "swept": sweep,
            "warm": options.warm,
            "fetches": fetches.name(),
            "counters": counters,
        });
        if options.speed {
            result["accesses_per_processor_second"] = json!(self.accesses as f64 / (self.nanoseconds as f64 / 1e9));
        }
        Ok(result)
    }
}

/// An organisation at work on a trace, beside others.
trait Model: Send {
    fn hear(&mut self, block: &Decoded) -> Result<(), ReplayError>;
    fn again(&mut self);
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

    fn again(&mut self) {
        Self::again(self);
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

    fn failed(&self, trace: &Path, what: &dyn std::fmt::Display) -> Failure {
        format!("{}, {} on {}: {what}", trace.display(), self.organisation, self.machine_name).into()
    }
}
