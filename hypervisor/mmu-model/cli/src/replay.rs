// SPDX-License-Identifier: MIT
//! `replay` and `check`.

use std::fs::File;
use std::io::{BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mmu_model::context::Layer;
use mmu_model::counters::Counters;
use mmu_model::cpu::{Cpu, Events};
use mmu_model::estimate::Estimate;
use mmu_model::perf;
use mmu_trace::decoded::Decoded;
use mmu_trace::error::TraceError;
use mmu_trace::reader::Reader;
use mmu_trace::replay::{Hears, Replay, ReplayError, replay_together, x86};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::{CpuChoice, Failure};

#[derive(Args)]
pub struct Options {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    cpus: CpuChoice,
    /// Give one TLB of every processor these numbers of entries, each in a replay of its own
    #[arg(long, value_name = "TLB=N,N,…")]
    sweep: Option<String>,
    /// Whether data accesses go through the caches too, where page-table lines then compete with data
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = on_or_off)]
    data: bool,
    /// Print lines as `perf stat -j` does, under its event names, in place of JSON
    #[arg(long)]
    perf: bool,
    /// Whose counts --perf prints: guest_user, guest_other, guest_kernel, hypervisor or total
    #[arg(long, default_value = "total", requires = "perf")]
    layer: String,
    /// Write here in place of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Threads; as many as processors if not given
    #[arg(long)]
    jobs: Option<usize>,
}

pub fn on_or_off(word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".into()),
    }
}

/// One replay to be done.
struct Job {
    name: String,
    sweep: Option<(String, u32)>,
    cpu: Cpu,
}

fn jobs(options: &Options) -> Result<Vec<Job>, Failure> {
    let cpus = options.cpus.load()?;
    let Some(sweep) = &options.sweep else {
        return Ok(cpus.into_iter().map(|(name, cpu)| Job { name, sweep: None, cpu }).collect());
    };
    let wrong = || format!("--sweep {sweep}: expected a TLB and numbers of entries, such as stlb=128,256,512");
    let (array, sizes) = sweep.split_once('=').ok_or_else(wrong)?;
    let sizes: Vec<u32> = sizes.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let mut jobs = vec![];
    for (name, cpu) in cpus {
        for &entries in &sizes {
            let mut cpu = cpu.clone();
            cpu.resize(array, entries)?;
            jobs.push(Job { name: name.clone(), sweep: Some((array.to_owned(), entries)), cpu });
        }
    }
    Ok(jobs)
}

pub fn open(trace: &Path) -> Result<File, Failure> {
    File::open(trace).map_err(|e| format!("{}: cannot be opened: {e}", trace.display()).into())
}

pub fn progress(bytes: u64) -> ProgressBar {
    let shown = std::io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("replay {bar:40} {percent} % of {total_bytes}, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

pub fn run(options: &Options) -> Result<(), Failure> {
    let jobs = jobs(options)?;
    events(&Counters::default(), &options.layer, Events::Zen)?; // a wrong name is told before the work
    // The output is made first: a wrong path fails before an hour's work, not after.
    let mut out: Box<dyn Write> = match &options.output {
        Some(path) => {
            Box::new(File::create(path).map_err(|e| format!("{}: cannot be written: {e}", path.display()))?)
        }
        None => Box::new(std::io::stdout()),
    };
    let file = open(&options.trace)?;
    let bar = progress(file.metadata()?.len());
    let from = bar.wrap_read(BufReader::with_capacity(1 << 20, file));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.jobs.unwrap_or(0)).build()?;
    let mut models: Vec<_> = jobs.iter().map(|job| x86(&job.cpu, options.data)).collect();
    let outcome: Result<(), ReplayError> = Reader::new(from).map_err(Into::into).and_then(|reader| {
        replay_together(reader, &mut models, |models, block| {
            pool.install(|| models.par_iter_mut().try_for_each(|model| model.hear(block)))
        })
    });
    bar.finish_and_clear();
    outcome.map_err(|e| format!("{}: {e}", options.trace.display()))?;
    let replayed: Vec<Counters> = models.iter().map(Replay::counters).collect();
    if options.perf {
        for (job, counters) in jobs.iter().zip(&replayed) {
            if jobs.len() > 1 {
                writeln!(out, "# {}", title(job))?;
            }
            for (event, n) in events(counters, &options.layer, job.cpu.events)? {
                writeln!(out, "{}", perf::json_line(&event, n))?;
            }
        }
    } else {
        let results: Vec<Value> = jobs.iter().zip(&replayed).map(|(job, c)| result(job, c, options)).collect();
        serde_json::to_writer_pretty(&mut out, &results)?;
        writeln!(out)?;
    }
    Ok(())
}

fn title(job: &Job) -> String {
    let sweep = job.sweep.as_ref().map(|(array, n)| format!(" with {array} of {n} entries"));
    job.name.clone() + &sweep.unwrap_or_default()
}

fn events(counters: &Counters, layer: &str, family: Events) -> Result<Vec<(String, u64)>, Failure> {
    if layer == "total" {
        return Ok(perf::total(counters, family));
    }
    let found = Layer::ALL.into_iter().find(|l| l.name() == layer);
    let names = Layer::ALL.map(Layer::name).join(", ");
    found
        .map(|l| perf::events(counters.layer(l), family))
        .ok_or_else(|| format!("--layer {layer}: expected {names} or total").into())
}

fn result(job: &Job, counters: &Counters, options: &Options) -> Value {
    json!({
        "cpu": job.name,
        "cpu_name": job.cpu.name,
        "assumptions": job.cpu.assumptions,
        "sweep": job.sweep.as_ref().map(|(array, entries)| json!({"tlb": array, "entries": entries})),
        "data_through_caches": options.data,
        "counters": counters.to_json(),
        "estimate": Estimate::new(counters, &job.cpu).to_json(),
    })
}

pub fn check(trace: &Path) -> Result<(), Failure> {
    let whole = |mut reader: Reader<_>| {
        let mut block = Decoded::default();
        while reader.decode(&mut block)? {}
        Ok((reader.totals(), reader.fetches()))
    };
    let reader = Reader::new(BufReader::with_capacity(1 << 20, open(trace)?));
    let (totals, fetches) = reader.and_then(whole).map_err(|e: TraceError| format!("{}: {e}", trace.display()))?;
    let (accesses, records, fetches) = (totals.accesses, totals.records, fetches.name());
    println!("{}: whole; {accesses} accesses in {records} records, fetches by {fetches}", trace.display());
    Ok(())
}
