// SPDX-License-Identifier: MIT
//! Feeds a trace to a model.

use std::fmt;
use std::io::Read;

use mmu_model::address::Virtual;
use mmu_model::counters::Counters;
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::organisation::Organisation;
use mmu_model::walk::Stop;
use mmu_model::x86::{Context, Event};

use crate::error::TraceError;
use crate::format::Record;
use crate::image::{Image, Missing};
use crate::reader::Reader;

/// Virtual processors that a trace may have.
const PROCESSORS: u64 = 1024;

/// Why a replay stopped.
#[derive(Debug)]
pub enum ReplayError {
    /// The trace is at fault.
    Trace(TraceError),
    /// The recorder is: a word is missing at this access (counted from 0).
    Missing {
        /// Which word.
        word: Missing,
        /// At which access.
        access: u64,
    },
    /// The organisation cannot map the address of this access.
    Unmapped {
        /// Which address.
        address: Virtual,
        /// At which access.
        access: u64,
    },
    /// A record refers to what there is not.
    Senseless(String),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Missing { word, access } => {
                write!(f, "{word}, which access {access} needs: the recorder failed to tell of a change")
            }
            Self::Unmapped { address, access } => {
                write!(
                    f,
                    "the organisation cannot map {address:#x}, which access {access} uses: take one of more bits"
                )
            }
            Self::Senseless(what) => write!(f, "the trace makes no sense: {what}"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<TraceError> for ReplayError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// One model at work on a trace.
struct Replay<O: Organisation> {
    mmus: Vec<Mmu<O>>,
    /// Makes another virtual processor's, with everything empty.
    fresh: Box<dyn Fn() -> Mmu<O>>,
    processor: usize,
    contexts: Vec<Context>,
    image: Image,
    accesses: u64,
    in_region: bool,
}

/// Replay a trace on a processor: the counters of all its virtual processors together.
pub fn replay<R: Read>(from: R, cpu: &Cpu, data_through_caches: bool) -> Result<Counters, ReplayError> {
    let mut fresh = Mmu::new(cpu);
    fresh.set_data_through_caches(data_through_caches);
    let mmus = replay_on(from, Box::new(move || fresh.clone()))?;
    let mut counters = Counters::default();
    mmus.iter().for_each(|mmu| counters.add(&mmu.counters()));
    Ok(counters)
}

/// Replay a trace on MMUs of any organisation that knows contexts and events of x86-64, which traces have: one for each
/// virtual processor. They are returned with what they have counted.
pub fn replay_on<R: Read, O: Organisation<Context = Context, Event = Event>>(
    from: R,
    fresh: Box<dyn Fn() -> Mmu<O>>,
) -> Result<Vec<Mmu<O>>, ReplayError> {
    let mut replay = Replay {
        mmus: vec![fresh()],
        fresh,
        processor: 0,
        contexts: vec![],
        image: Image::default(),
        accesses: 0,
        in_region: false,
    };
    Reader::new(from)?.for_each(|record| replay.step(record))?;
    Ok(replay.mmus)
}

impl<O: Organisation<Context = Context, Event = Event>> Replay<O> {
    #[inline]
    fn step(&mut self, record: Record) -> Result<(), ReplayError> {
        let mmu = &mut self.mmus[self.processor];
        match record {
            Record::Access(address, kind) => {
                self.accesses += 1;
                match mmu.access(&mut self.image, address, kind) {
                    Err(Stop::Memory(word)) => {
                        return Err(ReplayError::Missing { word, access: self.accesses - 1 });
                    }
                    Err(Stop::Software) => {
                        return Err(ReplayError::Unmapped { address, access: self.accesses - 1 });
                    }
                    _ => {}
                }
            }
            Record::Word(at, value) => self.image.set(at, value),
            Record::NewContext(context) => {
                self.contexts.push(context);
                mmu.set_context(&context);
            }
            Record::Context(number) => {
                let context = usize::try_from(number).ok().and_then(|n| self.contexts.get(n));
                let met = self.contexts.len();
                let missing = || ReplayError::Senseless(format!("context {number} is used, and {met} are known"));
                mmu.set_context(context.ok_or_else(missing)?);
            }
            Record::Region(on) => {
                self.in_region = on;
                mmu.set_region(on);
                let space = mmu.region_space();
                let others = self.mmus.iter_mut().enumerate().filter(|(i, _)| *i != self.processor);
                others.for_each(|(_, other)| other.join_region(on, space));
            }
            Record::Invalidate(event) => mmu.invalidate(event),
            Record::Tally(instructions, exits) => mmu.tally(instructions, exits),
            Record::Processor(number) => {
                if number >= PROCESSORS {
                    let what = format!("virtual processor {number} is named, expected fewer than {PROCESSORS}");
                    return Err(ReplayError::Senseless(what));
                }
                self.processor = number as usize;
                self.make_processors();
            }
        }
        Ok(())
    }

    /// Make those that have not run yet. Apart from [`Replay::step`], whose frame would have room for a whole MMU.
    #[cold]
    #[inline(never)]
    fn make_processors(&mut self) {
        let space = self.mmus[0].region_space();
        while self.mmus.len() <= self.processor {
            let mut mmu = (self.fresh)();
            mmu.join_region(self.in_region, space);
            self.mmus.push(mmu);
        }
    }
}
