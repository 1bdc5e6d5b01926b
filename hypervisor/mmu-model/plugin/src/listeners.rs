// SPDX-License-Identifier: GPL-2.0-or-later
//! Who is told what the machine does: a live model, a trace, or both, in the same order.

use std::fs::File;
use std::io::BufWriter;

use mmu_model::address::{Machine, Virtual};
use mmu_model::context::Kind;
use mmu_model::memory::Memory;
use mmu_model::mmu::Mmu;
use mmu_model::x86::{Context, Event};
use mmu_trace::error::TraceError;
use mmu_trace::format::Fetches;
use mmu_trace::recorder::{RecordError, Recorder};

/// zstd's level: the fastest, as it is done while the machine waits.
const COMPRESSION: i32 = 1;

/// What a region's trace came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// Its file.
    pub path: String,
    /// Accesses in it.
    pub accesses: u64,
    /// Accesses that are not: there was no memory where a table should be.
    pub unreadable: u64,
}

/// Writes one trace for each region: the first to the path itself, the others to the path with `.2` and so on.
pub struct Traces {
    path: String,
    /// Which fetches it is told of.
    pub fetches: Fetches,
    current: Option<(Recorder<BufWriter<File>>, Recorded)>,
    /// Instructions and exits of the region that have been recorded.
    tallied: (u64, u64),
}

/// After so many accesses what instructions there were is recorded, for replays of a part of a trace.
const TALLY_AFTER: u64 = 1 << 20;

impl Traces {
    /// Make the first trace's file, so that a wrong path is told before the machine runs.
    pub fn new(path: &str) -> Result<Self, String> {
        File::create(path).map_err(|error| format!("trace={path}: {error}"))?;
        Ok(Self { path: path.to_owned(), fetches: Fetches::Pages, current: None, tallied: (0, 0) })
    }

    /// Of these fetches.
    pub fn with_fetches(self, fetches: Fetches) -> Self {
        Self { fetches, ..self }
    }

    fn open(&mut self, region: u64) -> Result<(), TraceError> {
        let path = if region == 1 { self.path.clone() } else { format!("{}.{region}", self.path) };
        let file = BufWriter::new(File::create(&path)?);
        let mut recorder = Recorder::with_fetches(file, COMPRESSION, self.fetches)?;
        self.tallied = (0, 0);
        recorder.set_region(true)?;
        self.current = Some((recorder, Recorded { path, accesses: 0, unreadable: 0 }));
        Ok(())
    }

    fn begin(&mut self, region: u64) {
        let opened = self.open(region);
        self.go_on(opened);
    }

    /// A trace that cannot be written is given up, with no end mark, and the machine runs on.
    fn go_on(&mut self, outcome: Result<(), TraceError>) {
        if let Err(error) = outcome {
            eprintln!("mmu plugin: trace={}: {error}; the trace is lost", self.path);
            self.current = None;
        }
    }

    fn tell(&mut self, what: impl FnOnce(&mut Recorder<BufWriter<File>>) -> Result<(), TraceError>) {
        if let Some((recorder, _)) = &mut self.current {
            let outcome = what(recorder);
            self.go_on(outcome);
        }
    }

    /// An access that the emulator made; `machine` says where, for a store, if that is known.
    #[inline]
    pub fn access<M: Memory>(&mut self, memory: &mut M, address: Virtual, kind: Kind, machine: Option<Machine>) {
        let Some((recorder, recorded)) = &mut self.current else { return };
        match recorder.access(memory, address, kind, machine) {
            Ok(()) => {}
            Err(RecordError::Trace(error)) => self.go_on(Err(error)),
            Err(RecordError::Memory(_) | RecordError::NoContext) => recorded.unreadable += 1,
        }
    }

    /// Whether [`Traces::tally`] is to be called.
    #[inline]
    pub fn wants_tally(&self) -> bool {
        self.current.as_ref().is_some_and(|(recorder, _)| recorder.accesses() % TALLY_AFTER == 0)
    }

    /// So many instructions and exits there have been in the region.
    pub fn tally(&mut self, instructions: u64, exits: u64) {
        let (before, exits_before) = std::mem::replace(&mut self.tallied, (instructions, exits));
        self.tell(|recorder| recorder.tally(instructions - before, exits - exits_before));
    }

    fn end(&mut self, instructions: u64, exits: u64) -> Option<Recorded> {
        self.tally(instructions, exits);
        let (mut recorder, mut recorded) = self.current.take()?;
        recorded.accesses = recorder.accesses();
        let finished = recorder.set_region(false).and_then(|()| recorder.finish());
        match finished {
            Ok(_) => Some(recorded),
            Err(error) => {
                self.go_on(Err(error));
                None
            }
        }
    }
}

/// The model and the traces, as far as they are wanted.
pub struct Listeners {
    /// The live model.
    pub mmu: Option<Mmu>,
    /// The traces.
    pub traces: Option<Traces>,
}

impl Listeners {
    /// A region begins; from here on the model has an empty TLB.
    pub fn begin(&mut self, region: u64, fresh: Option<Mmu>) {
        self.mmu = fresh;
        if let Some(mmu) = &mut self.mmu {
            mmu.set_region(true);
        }
        if let Some(traces) = &mut self.traces {
            traces.begin(region);
        }
    }

    /// The region ends, after so many instructions and VM entries.
    pub fn end(&mut self, instructions: u64, exits: u64) -> Option<Recorded> {
        if let Some(mmu) = &mut self.mmu {
            mmu.set_region(false);
            mmu.tally(instructions, exits);
        }
        self.traces.as_mut().and_then(|traces| traces.end(instructions, exits))
    }

    /// The region cannot be trusted: its trace stays without an end mark.
    pub fn abandon(&mut self) {
        if let Some(mmu) = &mut self.mmu {
            mmu.set_region(false);
        }
        if let Some(traces) = &mut self.traces {
            traces.current = None;
        }
    }

    /// This context runs now.
    pub fn set_context(&mut self, context: &Context) {
        if let Some(mmu) = &mut self.mmu {
            mmu.set_context(context);
        }
        if let Some(traces) = &mut self.traces {
            traces.tell(|recorder| recorder.set_context(context));
        }
    }

    /// An instruction invalidates.
    pub fn invalidate(&mut self, event: Event) {
        if let Some(mmu) = &mut self.mmu {
            mmu.invalidate(event);
        }
        if let Some(traces) = &mut self.traces {
            traces.tell(|recorder| recorder.invalidate(event));
        }
    }
}
