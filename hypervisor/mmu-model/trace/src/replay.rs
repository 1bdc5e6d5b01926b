// SPDX-License-Identifier: MIT
//! Feeds a trace to a model.

use std::fmt;
use std::io::Read;

use mmu_model::address::Virtual;
use mmu_model::context::Kind;
use mmu_model::counters::Counters;
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::organisation::Organisation;
use mmu_model::walk::Stop;
use mmu_model::x86::{Context, Event, X86};

use crate::decoded::{Decoded, Piece, unpack};
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

/// A model that hears a trace block by block, beside others.
pub trait Hears: Send {
    /// Hear a block.
    fn hear(&mut self, block: &Decoded) -> Result<(), ReplayError>;
}

impl<O: Organisation<Context = Context, Event = Event>> Hears for Replay<O>
where
    Self: Send,
{
    fn hear(&mut self, block: &Decoded) -> Result<(), ReplayError> {
        for piece in block.pieces() {
            match piece {
                Piece::Accesses(accesses) => {
                    for packed in accesses {
                        let (address, kind) = unpack(*packed);
                        self.access(address, kind)?;
                    }
                }
                Piece::Other(record) => self.step(record)?,
            }
        }
        Ok(())
    }
}

/// Let models hear a trace, each block decoded once for all of them. `together` lets each hear a block, side by side or
/// one after the other.
pub fn replay_together<R: Read, H, E: From<TraceError>>(
    mut from: Reader<R>,
    models: &mut [H],
    together: impl Fn(&mut [H], &Decoded) -> Result<(), E>,
) -> Result<(), E> {
    let mut block = Decoded::default();
    while from.decode(&mut block)? {
        together(models, &block)?;
    }
    Ok(())
}

/// One model at work on a trace: of any organisation that knows contexts and events of x86-64, which traces have.
pub struct Replay<O: Organisation> {
    mmus: Vec<Mmu<O>>,
    /// Makes another virtual processor's, with everything empty.
    fresh: Box<dyn Fn() -> Mmu<O> + Send>,
    processor: usize,
    contexts: Vec<Context>,
    image: Image,
    accesses: u64,
    in_region: bool,
}

/// A replay on a processor, of which nothing has been heard yet.
pub fn x86(cpu: &Cpu, data_through_caches: bool) -> Replay<X86> {
    let mut fresh = Mmu::new(cpu);
    fresh.set_data_through_caches(data_through_caches);
    Replay::new(Box::new(move || fresh.clone()))
}

/// Replay a trace on a processor: the counters of all its virtual processors together.
pub fn replay<R: Read>(from: R, cpu: &Cpu, data_through_caches: bool) -> Result<Counters, ReplayError> {
    let mut models = [x86(cpu, data_through_caches)];
    replay_together(Reader::new(from)?, &mut models, |models, block| models[0].hear(block))?;
    Ok(models[0].counters())
}

impl<O: Organisation<Context = Context, Event = Event>> Replay<O> {
    /// Of MMUs that `fresh` makes, one for each virtual processor.
    pub fn new(fresh: Box<dyn Fn() -> Mmu<O> + Send>) -> Self {
        Self {
            mmus: vec![fresh()],
            fresh,
            processor: 0,
            contexts: vec![],
            image: Image::default(),
            accesses: 0,
            in_region: false,
        }
    }

    /// The counters of all virtual processors together.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.mmus.iter().for_each(|mmu| counters.add(&mmu.counters()));
        counters
    }

    /// Hear the trace again from its beginning: what was counted is forgotten, and what the TLBs held; caches and tables
    /// are as they are.
    pub fn again(&mut self) {
        self.mmus.iter_mut().for_each(Mmu::again);
        (self.processor, self.accesses, self.in_region) = (0, 0, false);
        self.contexts.clear();
        self.image = Image::default();
    }

    /// The MMUs, with what they have counted.
    pub fn mmus(&self) -> &[Mmu<O>] {
        &self.mmus
    }

    #[inline]
    fn access(&mut self, address: Virtual, kind: Kind) -> Result<(), ReplayError> {
        self.accesses += 1;
        match self.mmus[self.processor].access(&mut self.image, address, kind) {
            Err(Stop::Memory(word)) => Err(ReplayError::Missing { word, access: self.accesses - 1 }),
            Err(Stop::Software) => Err(ReplayError::Unmapped { address, access: self.accesses - 1 }),
            _ => Ok(()),
        }
    }

    #[inline]
    fn step(&mut self, record: Record) -> Result<(), ReplayError> {
        let mmu = &mut self.mmus[self.processor];
        match record {
            Record::Access(address, kind) => self.access(address, kind)?,
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
