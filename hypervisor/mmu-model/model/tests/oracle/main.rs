// SPDX-License-Identifier: MIT
//! The model counts what a naive MMU counts, exactly: over random machines whose tables change under it, on every
//! processor of cpus/, in one dimension and in two.

mod mmu;
mod naive;

use mmu_model::address::{GuestPhysical, Machine, PageSize, Virtual};
use mmu_model::context::{Kind, Layer};
use mmu_model::counters::Bank;
use mmu_model::cpu::{BUILT_IN, Cpu};
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Pages, Random};
use mmu_model::walk::Stop;
use mmu_model::x86::{Context, Control, Event, Levels, Tables, bit};

use crate::mmu::Oracle;

/// Guest-physical memory below this has tables; guests' data lies in the gigabytes above.
const GUEST_TABLES: u64 = 1 << 30;
/// Bytes of guests' data in each of three gigabytes above.
const DATA: u64 = 24 << 20;
/// Where a program's addresses begin.
const PROGRAM: u64 = 0x7f00_0000_0000;
/// Where guests' tables are in the machine.
const MOVED: u64 = 1 << 30;

/// Tables in memory, and what a test may do with them.
struct Machinery {
    memory: Pages,
    tables: Vec<Tables>,
    /// Entries of tables, as they were made, and whether they are leaves.
    entries: Vec<(Machine, u64, bool)>,
    /// Addresses that are mapped, or near.
    pages: Vec<u64>,
}

impl Machinery {
    fn new(random: &mut Random, nested: bool) -> Self {
        let mut new = Self { memory: Pages::default(), tables: vec![], entries: vec![], pages: vec![] };
        let hosts: Vec<Builder> = if nested { (0..2).map(|n| new.host(random, n)).collect() } else { vec![] };
        for n in 0..3 {
            let levels = if n == 2 { Levels::Five } else { Levels::Four };
            let moved = if nested { MOVED } else { 0 };
            let mut table = Builder::new(0x10_0000 * (n + 1), moved, levels);
            new.program(random, &mut table, nested);
            new.tables.extend(hosts.iter().map(|host| Tables::Nested {
                guest: Some((GuestPhysical::new(table.root), levels)),
                root: Machine::new(host.root),
                levels: host.levels,
                nxe: true,
            }));
            if !nested {
                new.tables.push(Tables::Flat { root: Machine::new(table.root), levels });
            }
        }
        new
    }

    fn map(&mut self, table: &mut Builder, address: u64, size: PageSize, frame: u64, bits: u64) {
        let at = table.map(&mut self.memory, address, size, frame, bits);
        self.entries.push((at, self.memory.get(at), true));
        if address & 0x1f_f000 == 0 {
            for above in PageSize::ALL.into_iter().filter(|above| *above > size) {
                let at = table.entry(&mut self.memory, address, above);
                self.entries.push((at, self.memory.get(at), false));
            }
        }
    }

    /// A host's tables: guests' tables in small pages; of guests' data one gigabyte is whole, one in pages of 2 MiB, one
    /// in small ones.
    fn host(&mut self, random: &mut Random, n: u64) -> Builder {
        let mut host = Builder::new(0x8000_0000 + n * 0x1000_0000, 0, Levels::Four);
        for page in (0..0x40_0000).step_by(4096) {
            host.map(&mut self.memory, page, PageSize::K4, MOVED + page, OPEN);
        }
        for (class, size) in (1..).zip([PageSize::G1, PageSize::M2, PageSize::K4]) {
            let end = if size == PageSize::G1 { 1 } else { DATA };
            for page in (class * GUEST_TABLES..class * GUEST_TABLES + end).step_by(size.bytes() as usize) {
                self.map(&mut host, page, size, random.below(1 << 37) & !size.offset_mask(), OPEN);
            }
        }
        host
    }

    /// A program's pages of all sizes. What differs between programs is the frames: the size of a page, and of the host's
    /// page behind it, follow from its address. For what a processor does with two entries of different sizes for one
    /// address the manuals do not say; software must not let it happen, and does not here.
    fn program(&mut self, random: &mut Random, table: &mut Builder, nested: bool) {
        for gigabyte in 0..6 {
            for region in (0..if gigabyte < 3 { 8 } else { 1 }).map(|i| PROGRAM + (gigabyte << 30) + (i << 21)) {
                let (size, pages) = match (gigabyte, region >> 21 & 1) {
                    (3.., _) => (PageSize::G1, 1),
                    (_, 1) => (PageSize::M2, 1),
                    _ => (PageSize::K4, 300),
                };
                for page in (0..pages).map(|n| region + n * size.bytes()) {
                    let class = 1 + if size == PageSize::G1 { gigabyte } else { page >> 12 ^ page >> 22 } % 3;
                    let frame =
                        if nested { class * GUEST_TABLES + random.below(DATA) } else { random.below(1 << 37) };
                    let rights = if random.one_in(8) { bit::PRESENT | bit::USER } else { OPEN };
                    let global = if random.one_in(8) { bit::GLOBAL } else { 0 };
                    self.map(table, page, size, frame & !size.offset_mask(), rights | global);
                }
                // Of large pages, addresses in the part behind which a host has data.
                let (step, n) = if size == PageSize::K4 { (4096, pages) } else { (size.bytes().min(DATA) / 16, 16) };
                self.pages.extend((0..n).map(|n| region + n * step));
            }
        }
    }

    fn context(&self, random: &mut Random) -> Context {
        let control = Control {
            wp: !random.one_in(4),
            nxe: !random.one_in(16),
            smep: random.one_in(4),
            pge: !random.one_in(8),
            smap: random.one_in(8),
            physical_bits: 40,
        };
        Context {
            layer: Layer::GuestUser,
            space: 0,
            user: !random.one_in(4),
            control,
            asid: random.below(3) as u16,
            pcid: random.below(2) as u16,
            tables: self.tables[random.below(self.tables.len() as u64) as usize],
        }
    }

    fn address(&self, random: &mut Random) -> u64 {
        self.pages[random.below(self.pages.len() as u64) as usize]
    }
}

fn event(random: &mut Random, address: Virtual) -> Event {
    let (asid, pcid) = (random.below(3) as u16, random.below(2) as u16);
    match random.below(40) {
        0 => Event::Control,
        1 => Event::InvpcidAllAndGlobal,
        2 => Event::InvpcidAll,
        3 => Event::Vmrun { tlb_control: [1, 3, 7][random.below(3) as usize], asid },
        4 => Event::InvpcidContext { pcid },
        5..8 => Event::Cr3 { keep: false },
        8..12 => Event::Cr3 { keep: true },
        12..18 => Event::InvpcidAddress { pcid, address },
        18..24 => Event::Invlpga { address, asid },
        24..27 => Event::Vmrun { tlb_control: 0, asid },
        27 => Event::AsidChange { from: asid },
        _ => Event::Invlpg(address),
    }
}

/// Let both see the same accesses, changes of tables and of context, and invalidations; the counts at the end.
fn agree(cpu: &str, seed: u64, nested: bool, steps: u32) -> Bank {
    let mut spec = Cpu::built_in(cpu).unwrap().unwrap();
    if seed % 2 == 1 {
        // So few accesses would never fill the caches as they are.
        for (cache, times) in [(&mut spec.cache.l1, 8), (&mut spec.cache.l2, 16), (&mut spec.cache.l3, 128)] {
            cache.as_mut().unwrap().kib /= times;
        }
    }
    let mut random = Random::new(seed);
    let machinery = Machinery::new(&mut random, nested);
    let mut memory = machinery.memory.clone();
    let context = machinery.context(&mut random);
    let mut model = Mmu::new(&spec);
    model.set_context(&context);
    model.set_region(true);
    let mut oracle = Oracle::new(&spec, memory.clone(), &context);
    let mut address = machinery.address(&mut random);
    for step in 0..steps {
        match random.below(256) {
            0 => {
                let context = machinery.context(&mut random);
                model.set_context(&context);
                oracle.set_context(&context);
            }
            1 => {
                let address = Virtual::new(machinery.address(&mut random));
                let event = event(&mut random, address);
                model.invalidate(event);
                oracle.invalidate(event);
            }
            2..6 => {
                // Tables change, and nobody need flush: what is remembered is then wrong in both alike.
                let (at, made, leaf) = machinery.entries[random.below(machinery.entries.len() as u64) as usize];
                let bits = [0, 1, 1, 2, 5, 6, 63, 8, 12, 13];
                let flip = 1 << bits[random.below(if leaf { 10 } else { 7 }) as usize];
                let value = if random.one_in(2) { made } else { memory.get(at) ^ flip };
                memory.write(at, value);
                oracle.memory.write(at, value);
            }
            _ => {
                address = match random.below(4) {
                    0 => machinery.address(&mut random) + (random.below(4096) & !7),
                    1 => address.wrapping_add(4096),
                    2 => address & !4095 | random.below(4096) & !7,
                    _ => address,
                };
                let kind = Kind::ALL[random.below(3) as usize];
                let found = model.access(&mut memory, Virtual::new(address), kind);
                let expected = oracle.access(address, kind);
                let what = format!("{cpu}, seed {seed}, step {step}: {kind:?} {address:#x}, {:?}", model.context());
                match (found, expected) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, Machine::new(expected), "{what}"),
                    (Err(Stop::Fault(f)), Err((reason, dimension, level, _))) => {
                        assert_eq!((f.reason, f.dimension, f.level), (reason, dimension, level), "{what}");
                    }
                    (found, expected) => panic!("{what}: the model {found:x?}, the oracle {expected:x?}"),
                }
            }
        }
        if step % 64 == 0 || step + 1 == steps {
            assert_eq!(model.counters().total(), oracle.bank, "{cpu}, seed {seed}, step {step}");
        }
    }
    assert!(machinery.entries.iter().all(|(at, ..)| memory.get(*at) == oracle.memory.get(*at)), "{cpu}, seed {seed}");
    oracle.bank
}

/// Agreement says little of what never happens.
fn varied(cpu: &str, nested: bool, bank: &Bank) {
    let some = |what: &str, counts: &[u64]| {
        assert!(counts.iter().all(|n| *n > 0), "{cpu}, nested {nested}: {what} {counts:?}");
    };
    some("faults", &bank.faults);
    some("reasons", &bank.fault_reasons[1..]);
    some("walked again", &[bank.rewalks, bank.flushed_entries]);
    some("half walks", &bank.partial_hits[1..3]);
    some("second-level hits", &bank.hits[1].map(|sizes| sizes.iter().sum()));
    some("served", &bank.served);
    some("data served", &bank.data_served);
    if nested {
        some("host's half walks", &bank.host_partial_hits[1..2]);
        some("nested TLB", &[bank.nested_hits, bank.nested_misses]);
        let sizes = |row: &[u64; PageSize::COUNT]| PageSize::ALL.map(|size| row[size.index()]);
        some("sizes", &PageSize::ALL.map(|guest| sizes(&bank.fills_nested[guest.index()])).concat());
    } else {
        some("sizes", &PageSize::ALL.map(|size| bank.fills_flat[size.index()]));
    }
}

fn on_every_processor(nested: bool) {
    for (cpu, _) in BUILT_IN {
        let mut all = Bank::default();
        for seed in 0..4 {
            all.add(&agree(cpu, seed, nested, 50_000));
        }
        varied(cpu, nested, &all);
    }
}

#[test]
fn the_model_counts_as_the_oracle_does_in_one_dimension() {
    on_every_processor(false);
}

#[test]
fn the_model_counts_as_the_oracle_does_in_two_dimensions() {
    on_every_processor(true);
}
