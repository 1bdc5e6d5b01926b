// SPDX-License-Identifier: MIT
//! `itanium`: run a kernel on an Itanium machine, with its console here, and say what happened.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use itanium_mmu::config::Config;
use itanium_platform::{End, Machine, Refused, Setup, Stuck};

/// What went wrong, in words for the user.
type Failure = Box<dyn std::error::Error>;

/// What Linux says of errors that it can do nothing about.
const PANIC: &str = "Kernel panic - not syncing";

/// How much of the console a report repeats.
const TAIL: usize = 2000;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// The kernel: a vmlinux of this architecture, or with --restore a snapshot
    kernel: PathBuf,
    /// Go on from a snapshot
    #[arg(long, conflicts_with_all = ["ramdisk", "append", "command_line", "memory"])]
    restore: bool,
    /// Write a snapshot to a file at the end, whatever the end is
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// A RAM disk: an archive of cpio, packed as the kernel can unpack it
    #[arg(long, value_name = "FILE")]
    ramdisk: Option<PathBuf>,
    /// Memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u64,
    /// The kernel's command line, from its first word
    #[arg(long, value_name = "TEXT", default_value = "earlycon=uart8250,mmio,0xf0000000000 console=ttyS0 panic=-1")]
    command_line: String,
    /// More words of it
    #[arg(long, value_name = "TEXT", default_value = "")]
    append: String,
    /// End after so many instructions, which is a failure
    #[arg(long, value_name = "COUNT", default_value_t = 20_000_000_000)]
    instructions: u64,
    /// Write what was counted to a file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

struct Console {
    tail: Vec<u8>,
}

impl Console {
    fn tell(&mut self, bytes: &[u8]) {
        // Whoever closes the pipe wants to see no more.
        let _ = std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush());
        self.tail.extend_from_slice(bytes);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|why| format!("{}: {why}", path.display()).into())
}

/// Says what is wrong.
fn told(stuck: &Stuck, tail: &str) -> bool {
    eprintln!("\nitanium: {stuck}\nThe console's end:\n{tail}");
    false
}

/// What the user is told of a machine that is not started: with the file that is to blame.
fn named(why: &Refused, arguments: &Arguments) -> Failure {
    let file = match why {
        Refused::Kernel(_) => Some(&arguments.kernel),
        Refused::Ramdisk(_) => arguments.ramdisk.as_ref(),
        Refused::Setup(_) => None,
    };
    file.map_or_else(|| why.to_string(), |file| format!("{}: {why}", file.display())).into()
}

fn begin(arguments: &Arguments) -> Result<Machine, Failure> {
    if arguments.restore {
        let file = File::open(&arguments.kernel).and_then(|file| Machine::restore(&mut BufReader::new(file)));
        return file.map_err(|why| format!("{}: {why}", arguments.kernel.display()).into());
    }
    let ramdisk = arguments.ramdisk.as_ref().map(read).transpose()?;
    if ramdisk.as_ref().is_some_and(Vec::is_empty) {
        return Err(named(&Refused::Ramdisk("it is empty".into()), arguments));
    }
    let setup = Setup {
        config: Config::default(),
        memory: arguments.memory.saturating_mul(1 << 20),
        kernel: read(&arguments.kernel)?,
        ramdisk: ramdisk.unwrap_or_default(),
        command_line: format!("{} {}", arguments.command_line, arguments.append).trim().to_owned(),
    };
    Machine::boot(&setup).map_err(|why| named(&why, arguments))
}

fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let mut machine = begin(arguments)?;
    let mut console = Console { tail: vec![] };
    let begin = Instant::now();
    let ended = machine.run(arguments.instructions, &mut |bytes| console.tell(bytes));
    let seconds = begin.elapsed().as_secs_f64();
    let count = machine.cpu.instructions;
    #[allow(clippy::cast_precision_loss)]
    let speed = count as f64 / seconds / 1e6;
    if let Some(path) = &arguments.json {
        let mut counted = serde_json::to_value(machine.counted())?;
        counted["seconds"] = seconds.into();
        counted["marks"] = serde_json::to_value(&machine.marks)?;
        std::fs::write(path, format!("{counted:#}\n"))?;
    }
    if let Some(path) = &arguments.save {
        let mut to = BufWriter::new(File::create(path)?);
        machine.save(&mut to)?;
        to.flush()?;
    }
    let tail = String::from_utf8_lossy(&console.tail).into_owned();
    let well = match ended {
        // Linux resets the machine after it, too.
        Ok(End::Reset(..)) if tail.contains(PANIC) => told(&machine.stuck("the kernel has panicked"), &tail),
        Ok(End::Reset(kind, status)) => {
            eprintln!("\nitanium: the kernel asked for reset {kind}, status {status}");
            true
        }
        Ok(End::Limit) => told(&machine.stuck("it has not ended"), &tail),
        Err(stuck) => told(&stuck, &tail),
    };
    eprintln!("itanium: {count} instructions in {seconds:.2} s: {speed:.1} million a second");
    Ok(well)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("itanium: {why}");
            ExitCode::from(2)
        }
    }
}
