// SPDX-License-Identifier: MIT
//! A machine that runs live, and its trace replayed: the same counters, to the digit. And every broken trace is told.

use std::io::Write;

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::context::Kind;
use mmu_model::counters::Counters;
use mmu_model::cpu::{BUILT_IN, Cpu};
use mmu_model::estimate::Estimate;
use mmu_model::memory::Memory;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Observer, Pages, Random, World, user_on};
use mmu_model::x86::{Context, Event, Levels, bit};
use mmu_trace::error::TraceError;
use mmu_trace::format::{Fetches, VERSION};
use mmu_trace::recorder::Recorder;
use mmu_trace::replay::{ReplayError, replay};

/// Several live models, none of which the recorder knows of, and a recorder.
struct Live {
    mmus: Vec<Mmu>,
    recorder: Recorder<Vec<u8>>,
}

impl Observer for Live {
    fn context(&mut self, context: &Context) {
        self.mmus.iter_mut().for_each(|mmu| mmu.set_context(context));
        self.recorder.set_context(context).unwrap();
    }

    fn access(&mut self, memory: &mut Pages, address: Virtual, kind: Kind, machine: Machine) {
        for mmu in &mut self.mmus {
            // The checking mode: where the model finds the byte is where the machine has it.
            assert_eq!(mmu.access(memory, address, kind), Ok(machine), "{address:?} {kind:?} {:?}", mmu.context());
        }
        self.recorder.access(memory, address, kind, Some(machine)).unwrap();
    }

    fn invalidate(&mut self, event: Event) {
        self.mmus.iter_mut().for_each(|mmu| mmu.invalidate(event));
        self.recorder.invalidate(event).unwrap();
    }

    fn region(&mut self, on: bool) {
        self.mmus.iter_mut().for_each(|mmu| mmu.set_region(on));
        self.recorder.set_region(on).unwrap();
    }
}

fn cpus() -> Vec<Cpu> {
    BUILT_IN.iter().map(|(name, _)| Cpu::built_in(name).unwrap().unwrap()).chain([Cpu::bare()]).collect()
}

fn run(cpus: &[Cpu], seed: u64, accesses: u64) -> (Vec<Counters>, Vec<u8>) {
    let mmus = cpus.iter().map(Mmu::new).collect();
    let mut live = Live { mmus, recorder: Recorder::new(vec![], 1).unwrap() };
    World::new(seed).run(accesses, &mut live);
    live.mmus.iter_mut().for_each(|mmu| mmu.tally(12, 3));
    live.recorder.tally(12, 3).unwrap();
    (live.mmus.iter().map(Mmu::counters).collect(), live.recorder.finish().unwrap())
}

#[test]
fn live_equals_replay_on_every_processor() {
    let cpus = cpus();
    let (live, trace) = run(&cpus, 5, 400_000);
    for (cpu, live) in cpus.iter().zip(live) {
        let replayed = replay(&trace[..], cpu, true).unwrap();
        assert_eq!(replayed.to_json(), live.to_json(), "{}", cpu.name);
        assert_eq!(replayed, live, "{}", cpu.name);
        let estimate = Estimate::new(&replayed, cpu);
        assert_eq!(estimate, Estimate::new(&live, cpu), "{}", cpu.name);
        assert!(estimate.cycles() > Some(estimate.walks), "all its parts are known: {estimate:?}");
        let total = live.total();
        let flushes = total.flushes.iter().filter(|n| **n > 0).count();
        assert!(flushes >= 5, "the world flushes in several ways: {:?}", total.flushes);
        assert_eq!(total.faults, [0; 3]);
        let [small, large] = [PageSize::K4, PageSize::M2].map(PageSize::index);
        for pages in [total.fills_nested[small], total.fills_nested[large]] {
            assert!(pages[small] > 0 && pages[large] > 0, "{:?}", total.fills_nested);
        }
    }
}

/// Memory in which only the emulator sets bits.
struct Emulated(Pages);

impl Memory for Emulated {
    type Error = <Pages as Memory>::Error;

    fn read(&mut self, at: Machine) -> Result<u64, Self::Error> {
        self.0.read(at)
    }
}

/// A kernel clears a dirty bit, and a store goes through the emulator's old TLB entry: the bit comes with a later
/// store, of a page whose path the recorder has seen before.
#[test]
fn a_dirty_bit_that_comes_late_is_recorded() {
    const PAGE: u64 = 0x7000_0000;
    let mut memory = Emulated(Pages::default());
    let mut tables = Builder::new(0x1000, 0, Levels::Four);
    let leaf = |bits| OPEN | bit::ACCESSED | bits;
    tables.map(&mut memory.0, PAGE, PageSize::K4, 0x50_0000, leaf(0));
    let context = user_on(&tables, None);
    let cpu = Cpu::built_in("i7-3770").unwrap().unwrap();
    let (mut mmu, mut recorder) = (Mmu::new(&cpu), Recorder::new(vec![], 1).unwrap());
    // The entries above the leaf have been walked.
    mmu.set_context(&context);
    mmu.access(&mut memory.0, Virtual::new(PAGE), Kind::Load).unwrap();
    mmu = Mmu::new(&cpu);
    mmu.set_region(true);
    recorder.set_region(true).unwrap();
    mmu.set_context(&context);
    recorder.set_context(&context).unwrap();
    let mut access = |memory: &mut Emulated, mmu: &mut Mmu, kind| {
        let machine = mmu.access(memory, Virtual::new(PAGE), kind).unwrap();
        recorder.access(memory, Virtual::new(PAGE), kind, Some(machine)).unwrap();
        let event = Event::Cr3 { keep: false };
        if kind == Kind::Store {
            mmu.invalidate(event);
            recorder.invalidate(event).unwrap();
        }
    };
    for kind in [Kind::Load, Kind::Store] {
        access(&mut memory, &mut mmu, kind);
    }
    tables.map(&mut memory.0, PAGE, PageSize::K4, 0x50_0000, leaf(bit::DIRTY));
    for kind in [Kind::Store, Kind::Load, Kind::Store] {
        access(&mut memory, &mut mmu, kind);
    }
    let replayed = replay(&recorder.finish().unwrap()[..], &cpu, true).unwrap();
    assert_eq!(mmu.counters().total().rewalks, 1, "of the first store");
    assert_eq!(replayed, mmu.counters());
}

#[test]
fn two_runs_agree_to_the_byte() {
    let cpus = [Cpu::built_in("zen5").unwrap().unwrap()];
    assert_eq!(run(&cpus, 9, 50_000), run(&cpus, 9, 50_000));
    assert_ne!(run(&cpus, 9, 50_000).1, run(&cpus, 10, 50_000).1);
}

/// A disk with room for so many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| std::io::Error::other("the disk is full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told() {
    for room in [13, 100, 10_000] {
        let mut recorder = Recorder::new(Full(room), 1).unwrap();
        // Random numbers do not compress. Whether a later block or the end tells of it is the thread's to decide.
        let told = (0..1 << 20).find_map(|n| recorder.tally(Random::new(n).next(), n).err());
        let told = told.unwrap_or_else(|| recorder.finish().err().unwrap());
        assert!(told.to_string().contains("the disk is full"), "{told}");
    }
}

fn error(trace: &[u8]) -> TraceError {
    match replay(trace, &Cpu::bare(), false) {
        Err(ReplayError::Trace(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_trace_of_another_kind_or_version_is_refused() {
    let (_, trace) = run(&[], 1, 1000);
    assert!(matches!(error(b""), TraceError::NotATrace));
    assert!(matches!(error(b"PNG"), TraceError::NotATrace));
    assert!(matches!(error(b"0123456789abcdef"), TraceError::NotATrace));
    for version in [VERSION as u8 - 1, 99] {
        let mut other = trace.clone();
        other[8] = version;
        assert!(matches!(error(&other), TraceError::Version(got) if got == u32::from(version)));
        assert!(error(&other).to_string().contains(&format!("version {version}, expected {VERSION}")));
    }
    let mut longer = trace;
    longer.push(0);
    assert!(matches!(error(&longer), TraceError::Corrupt { .. }));
}

#[test]
fn a_trace_cut_anywhere_is_truncated_at_that_offset() {
    let (_, trace) = run(&[], 1, 60_000);
    for length in (8..trace.len()).step_by(trace.len() / 200) {
        match error(&trace[..length]) {
            TraceError::Truncated { offset } => assert_eq!(offset, length as u64),
            other => panic!("cut at {length}: {other}"),
        }
    }
}

/// Any byte changed anywhere is an error, never a panic and never another result.
#[test]
fn a_changed_byte_is_told() {
    let (_, trace) = run(&[], 1, 20_000);
    let mut random = Random::new(3);
    for _ in 0..400 {
        let mut broken = trace.clone();
        let at = random.below(trace.len() as u64) as usize;
        broken[at] ^= 1 << random.below(8);
        assert!(replay(&broken[..], &Cpu::bare(), false).is_err(), "byte {at} of {}", trace.len());
    }
}

/// Records that no checksum protects, because the fuzz makes the checksum too: anything but a panic or a hang.
#[test]
fn a_fuzzed_trace_never_panics() {
    let mut random = Random::new(4);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..3000 {
        let length = 1 + random.below(400);
        let raw: Vec<u8> =
            (0..length).map(|_| random.next() as u8 & [0xff, 0x1f][random.below(2) as usize]).collect();
        let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
        compressor.include_checksum(true).unwrap();
        let packed = compressor.compress(&raw).unwrap();
        let mut trace = b"ABHMMU\r\n".to_vec();
        trace.extend(VERSION.to_le_bytes());
        trace.push(Fetches::Pages as u8);
        trace.push(b'B');
        trace.extend((packed.len() as u32).to_le_bytes());
        trace.extend((raw.len() as u32).to_le_bytes());
        trace.extend(packed);
        match replay(&trace[..], &Cpu::bare(), false) {
            // It ends without an end mark, so the best it can come to is this.
            Err(ReplayError::Trace(TraceError::Truncated { .. })) => good += 1,
            Err(_) => bad += 1,
            Ok(_) => panic!("a trace without an end was taken for whole"),
        }
    }
    assert!(good > 0 && bad > 100, "{good} {bad}");
}
