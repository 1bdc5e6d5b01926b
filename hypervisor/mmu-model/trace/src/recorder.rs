// SPDX-License-Identifier: MIT
//! Records what happens, with the page-table words that any replay can need.
//!
//! The rule that makes a trace enough: at every access, the image that the trace has built equals memory in every word
//! on the path of that access, whatever the recording machine's own TLB held. So for each (context, page, kind) the
//! path is walked once and new words are logged; it is walked again after any change. Changes are seen because page
//! tables are memory: a store to a page of which a word is known is compared at once, and a difference makes all
//! paths be walked anew. What changes memory otherwise (a device, a snapshot) must be told by
//! [`Recorder::memory_changed`].
//!
//! Accessed and dirty bits alone are set without a store. So a walk reads a known word from the image, but one in which
//! they may yet be set from memory. And a path on which the access would have to set one was taken by a TLB entry older
//! than the table: it is walked again at each access, until the emulator has set it.

use std::collections::HashMap;
use std::io::Write;

use mmu_model::address::{Machine, Virtual};
use mmu_model::context::Kind;
use mmu_model::memory::Memory;
use mmu_model::walk::{Place, Stop};
use mmu_model::x86::steps::{Access, Steps, Walker};
use mmu_model::x86::{Context, Event, bit};

use crate::error::TraceError;
use crate::format::{BLOCK, Encoder, Fetches, MAGIC, MARK_END, VERSION};
use crate::image::Image;
use crate::packer::Packer;

/// Paths known to be told; more would be walked again a little less often.
const FILTER: usize = 1 << 16;

/// A path that has been told: page, and packed generation, context and kind.
type Told = (u64, u64);

/// Writes a trace.
pub struct Recorder<W> {
    /// None after an error.
    packer: Option<Packer<W>>,
    encoder: Encoder,
    records: u64,
    accesses: u64,
    image: Image,
    contexts: HashMap<Context, u32>,
    current: Option<(Context, u32)>,
    processors: HashMap<u32, Option<(Context, u32)>>,
    processor: u32,
    told: Vec<Told>,
    generation: u32,
}

/// A walk that logs the words it reads.
struct Logged<'a, M> {
    memory: &'a mut M,
    image: &'a mut Image,
    encoder: &'a mut Encoder,
    records: &'a mut u64,
    changed: bool,
    /// The walk would have to set accessed or dirty bits.
    unset: bool,
}

impl<M: Memory> Logged<'_, M> {
    fn learn(&mut self, at: Machine) -> Result<u64, M::Error> {
        let value = self.memory.read(at)?;
        if self.image.get(at) != Some(value) {
            self.image.set(at, value);
            self.encoder.word(at, value);
            *self.records += 1;
            self.changed = true;
        }
        Ok(value)
    }
}

/// Whether no walk can change this entry: all bits are set that it would set.
const fn settled(level: u8, entry: u64) -> bool {
    let leaf = level == 1 || (level <= 3 && entry & bit::LARGE != 0);
    let set = bit::PRESENT | bit::ACCESSED | if leaf { bit::DIRTY } else { 0 };
    entry & set == set
}

impl<M: Memory> Steps for Logged<'_, M> {
    type Error = M::Error;

    fn read(&mut self, place: Place, at: Machine) -> Result<u64, M::Error> {
        match self.image.get(at) {
            Some(known) if settled(place.level, known) => Ok(known),
            _ => self.learn(at),
        }
    }

    fn set_bits(&mut self, _at: Machine, _bits: u64) -> Result<(), M::Error> {
        self.unset = true;
        Ok(())
    }
}

impl<W: Write + Send + 'static> Recorder<W> {
    /// Begin a trace of which fetches from a page are told once. Compression is zstd's level, 1 being fast enough to
    /// record while a machine runs.
    pub fn new(out: W, compression: i32) -> Result<Self, TraceError> {
        Self::with_fetches(out, compression, Fetches::Pages)
    }

    /// Begin a trace that has these fetches: whoever records tells of them.
    pub fn with_fetches(mut out: W, compression: i32, fetches: Fetches) -> Result<Self, TraceError> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&[fetches as u8])?;
        Ok(Self {
            packer: Some(Packer::new(out, compression)?),
            encoder: Encoder::default(),
            records: 0,
            accesses: 0,
            image: Image::default(),
            contexts: HashMap::new(),
            current: None,
            processors: HashMap::new(),
            processor: 0,
            told: vec![(u64::MAX, 0); FILTER],
            generation: 1,
        })
    }

    fn logged<'a, M>(&'a mut self, memory: &'a mut M) -> Logged<'a, M> {
        let Self { image, encoder, records, .. } = self;
        Logged { memory, image, encoder, records, changed: false, unset: false }
    }

    /// What follows happens on this virtual processor; 0 to begin with.
    pub fn set_processor(&mut self, number: u32) -> Result<(), TraceError> {
        if number == self.processor {
            return Ok(());
        }
        self.processors.insert(self.processor, self.current.take());
        self.processor = number;
        self.current = self.processors.remove(&number).flatten();
        self.encoder.processor(number);
        self.written()
    }

    /// This context runs now.
    pub fn set_context(&mut self, context: &Context) -> Result<(), TraceError> {
        let next = self.contexts.len() as u32;
        if let Some(&number) = self.contexts.get(context) {
            self.encoder.context(number);
            self.current = Some((*context, number));
        } else {
            self.contexts.insert(*context, next);
            self.encoder.new_context(context);
            self.current = Some((*context, next));
        }
        self.written()
    }

    /// An access that has happened, and where, if that is known: without it, a store is taken to have changed any
    /// table. An access must not cross a page; a context must have been set.
    pub fn access<M: Memory>(
        &mut self,
        memory: &mut M,
        address: Virtual,
        kind: Kind,
        machine: Option<Machine>,
    ) -> Result<(), RecordError<M::Error>> {
        if kind == Kind::Store {
            match machine {
                Some(machine) if !self.image.has_page(machine) => {}
                Some(machine) => self.stored(memory, machine).map_err(RecordError::Memory)?,
                None => self.memory_changed(memory).map_err(RecordError::Memory)?,
            }
        }
        let Some((context, number)) = self.current else { return Err(RecordError::NoContext) };
        let page = address.raw() >> 12;
        let what = u64::from(self.generation) << 32 | u64::from(number) << 2 | kind as u64;
        let slot = (page ^ page >> 16 ^ u64::from(number) << 7 ^ (kind as u64) << 14) as usize % FILTER;
        if self.told[slot] != (page, what) {
            let access = Access { kind, user: context.user, control: context.control };
            let mut logged = self.logged(memory);
            let outcome = context.tables.walk(address, access, &mut logged);
            let unset = logged.unset;
            match outcome {
                Ok(_) if unset => {}
                Ok(_) => self.told[slot] = (page, what),
                Err(Stop::Memory(error)) => return Err(RecordError::Memory(error)),
                Err(_) => {}
            }
        }
        self.encoder.access(address, kind);
        self.accesses += 1;
        self.written().map_err(RecordError::Trace)
    }

    /// Something was stored to a page of which words are known: compare those that the store can have reached.
    fn stored<M: Memory>(&mut self, memory: &mut M, machine: Machine) -> Result<(), M::Error> {
        let first = machine.raw() & !7;
        // The largest store has 64 bytes, and need not be aligned.
        let last = (first + 64).min(first | 0xff8);
        self.compare(memory, (first..=last).step_by(8).map(Machine::new))
    }

    /// Any table may have changed otherwise than by an access told of here: compare all that is known.
    pub fn memory_changed<M: Memory>(&mut self, memory: &mut M) -> Result<(), M::Error> {
        let known: Vec<_> = self.image.words().collect();
        self.compare(memory, known)
    }

    fn compare<M: Memory>(
        &mut self,
        memory: &mut M,
        words: impl IntoIterator<Item = Machine>,
    ) -> Result<(), M::Error> {
        let mut logged = self.logged(memory);
        for at in words {
            if logged.image.get(at).is_some() {
                logged.learn(at)?;
            }
        }
        let changed = logged.changed;
        self.generation += u32::from(changed);
        Ok(())
    }

    /// An instruction invalidates.
    pub fn invalidate(&mut self, event: Event) -> Result<(), TraceError> {
        self.encoder.invalidate(event);
        self.written()
    }

    /// The region begins or ends.
    pub fn set_region(&mut self, on: bool) -> Result<(), TraceError> {
        self.encoder.region(on);
        self.written()
    }

    /// Instructions and VM entries counted in the region.
    pub fn tally(&mut self, instructions: u64, exits: u64) -> Result<(), TraceError> {
        self.encoder.tally(instructions, exits);
        self.written()
    }

    fn written(&mut self) -> Result<(), TraceError> {
        self.records += 1;
        if self.encoder.bytes.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let Some(packer) = self.packer.take() else { return Err(given_up()) };
        let block = std::mem::replace(&mut self.encoder.bytes, packer.buffer());
        if block.is_empty() || packer.put(block) {
            self.packer = Some(packer);
            return Ok(());
        }
        packer.end().and_then(|_| Err(given_up()))
    }

    /// Write the end mark: without it a trace counts as truncated. Returns what was written to.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.flush()?;
        let mut out = self.packer.take().ok_or_else(given_up)?.end()?;
        out.write_all(&[MARK_END])?;
        out.write_all(&self.records.to_le_bytes())?;
        out.write_all(&self.accesses.to_le_bytes())?;
        out.flush()?;
        Ok(out)
    }

    /// Accesses recorded so far.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}

fn given_up() -> TraceError {
    std::io::Error::other("an error has ended the trace before").into()
}

/// Why an access could not be recorded.
#[derive(Debug)]
pub enum RecordError<E> {
    /// The trace could not be written.
    Trace(TraceError),
    /// Memory could not be read.
    Memory(E),
    /// No context has been set on this virtual processor.
    NoContext,
}

impl<E: std::fmt::Display> std::fmt::Display for RecordError<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::NoContext => write!(f, "an access was told of before any context; call set_context first"),
        }
    }
}

impl<E: std::error::Error> std::error::Error for RecordError<E> {}
