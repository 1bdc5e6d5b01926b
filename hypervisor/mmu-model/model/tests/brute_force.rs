// SPDX-License-Identifier: MIT
//! An independent walker, written from the manuals alone and sharing no code with the model's, agrees with it on
//! millions of random tables: addresses, faults, accessed and dirty bits, and the number of references.
//!
//! Memory is a function: every word anywhere is a page-table entry drawn from a hash of its address, so that each
//! seed is another machine full of tables, and each walk sees another mix of large pages, rights and reserved bits.

use std::collections::HashMap;
use std::convert::Infallible;

use mmu_model::address::{GuestPhysical, Machine, Virtual};
use mmu_model::context::{Kind, Layer};
use mmu_model::cpu::Cpu;
use mmu_model::memory::Memory;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::Random;
use mmu_model::walk::{Dimension, Reason, Stop};
use mmu_model::x86::{Context, Control, Levels, Tables};

/// Machine addresses of the host's tables have this bit, and their level in the three below it.
const HOST: u64 = 1 << 38;

#[derive(Clone, Default)]
struct Hashed {
    seed: u64,
    changed: HashMap<u64, u64>,
}

impl Hashed {
    fn word(&self, at: u64) -> u64 {
        self.changed.get(&at).copied().unwrap_or_else(|| self.drawn(at))
    }

    fn drawn(&self, at: u64) -> u64 {
        let mut random = Random::new(self.seed ^ at.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let random = &mut random;
        let host = at & HOST != 0;
        let level = at >> 35 & 7;
        let mut entry = random.next() & 0x0000_001f_ffff_f060; // 37 bits of frame; accessed and dirty at random
        let rare = if host { 128 } else { 24 };
        entry |= u64::from(!random.one_in(rare)); // present
        entry |= u64::from(!random.one_in(rare)) << 1; // writable
        entry |= u64::from(!random.one_in(rare / 2)) << 2; // user
        entry |= u64::from(random.one_in(3)) << 8; // global
        entry |= u64::from(random.one_in(rare)) << 63; // not executable
        entry |= u64::from(random.one_in(rare)) << (40 + random.below(12)); // beyond MAXPHYADDR
        let large = if host { (2..=3).contains(&level) && random.one_in(4) } else { random.one_in(6) };
        if large {
            entry |= 0x80;
            if !random.one_in(16) {
                entry &= !(((1 << (12 + 9 * [1, 2][random.below(2) as usize])) - 1) & !0x1fff);
            }
        }
        if host {
            let leaf = large || level == 1;
            entry &= !(HOST | 7 << 35);
            entry |= if leaf { 0 } else { HOST | (level - 1) << 35 };
        }
        entry
    }
}

impl Memory for Hashed {
    type Error = Infallible;

    fn read(&mut self, at: Machine) -> Result<u64, Infallible> {
        Ok(self.word(at.raw()))
    }

    fn set_bits(&mut self, at: Machine, bits: u64) -> Result<(), Infallible> {
        let value = self.word(at.raw()) | bits;
        self.changed.insert(at.raw(), value);
        Ok(())
    }
}

type Fail = (Reason, Dimension);

#[derive(Clone, Copy)]
struct Request {
    write: bool,
    fetch: bool,
    user: bool,
    control: Control,
}

/// The independent walker: it keeps lists and decides at the end, where the model decides on the way.
struct Brute<'a> {
    memory: &'a mut Hashed,
    references: u64,
    to_set: Vec<(u64, u64)>,
}

impl Brute<'_> {
    /// Entries from the top to the leaf, each with its level, address and content.
    #[allow(clippy::too_many_arguments)]
    fn chain(
        &mut self,
        dimension: Dimension,
        root: u64,
        levels: u32,
        address: u64,
        nxe: bool,
        control: Control,
        locate: &mut dyn FnMut(&mut Self, u64) -> Result<u64, Fail>,
    ) -> Result<Vec<(u32, u64, u64)>, Fail> {
        let mut chain = vec![];
        let mut pointer = root;
        for level in (0..levels).rev() {
            let page = locate(self, pointer)?;
            let slot = page + ((address >> (12 + level * 9)) % 512) * 8;
            let entry = self.memory.word(slot);
            self.references += 1;
            if entry % 2 == 0 {
                return Err((Reason::NotPresent, dimension));
            }
            let large = entry >> 7 & 1 == 1;
            let ends = level == 0 || large;
            let mut forbidden: Vec<u32> = (u32::from(control.physical_bits)..52).collect();
            if !nxe {
                forbidden.push(63);
            }
            if level > 2 {
                forbidden.push(7);
            }
            if large && level > 0 {
                forbidden.extend(13..12 + 9 * level.min(2));
            }
            if forbidden.iter().any(|bit| entry >> bit & 1 == 1) {
                return Err((Reason::Reserved, dimension));
            }
            chain.push((level, slot, entry));
            if ends {
                break;
            }
            pointer = entry & 0x000f_ffff_ffff_f000;
        }
        Ok(chain)
    }

    fn mark(&mut self, chain: &[(u32, u64, u64)], write: bool) {
        for (i, (_, slot, _)) in chain.iter().enumerate() {
            let last = i == chain.len() - 1;
            self.to_set.push((*slot, if last && write { 0x60 } else { 0x20 }));
        }
    }

    fn host(&mut self, root: u64, levels: u32, nxe: bool, gpa: u64, request: Request) -> Result<u64, Fail> {
        let control = request.control;
        if gpa >= 1 << (12 + 9 * levels) {
            return Err((Reason::NonCanonical, Dimension::Host));
        }
        let chain = self.chain(Dimension::Host, root, levels, gpa, nxe, control, &mut |_, p| Ok(p))?;
        let every = |bit: u32| chain.iter().all(|(_, _, e)| e >> bit & 1 == 1);
        let any_nx = chain.iter().any(|(_, _, e)| e >> 63 == 1);
        if !every(2) || request.write && !every(1) || request.fetch && any_nx {
            return Err((Reason::Denied, Dimension::Host));
        }
        self.mark(&chain, request.write);
        Ok(place(&chain, gpa))
    }

    fn outer(&mut self, tables: Tables, address: u64, request: Request) -> Result<u64, Fail> {
        let control = request.control;
        let (dimension, root, levels, host) = match tables {
            Tables::Flat { root, levels } => (Dimension::Flat, root.raw(), levels, None),
            Tables::Nested { guest: Some((guest, guest_levels)), root, levels, nxe } => {
                (Dimension::Guest, guest.raw(), guest_levels, Some((root.raw(), levels as u32, nxe)))
            }
            _ => unreachable!(),
        };
        let levels = levels as u32;
        let sign = address >> (12 + 9 * levels - 1);
        if sign != 0 && sign != u64::MAX >> (12 + 9 * levels - 1) {
            return Err((Reason::NonCanonical, dimension));
        }
        let walk = Request { write: true, fetch: false, user: true, control };
        let mut locate = |me: &mut Self, pointer: u64| match host {
            None => Ok(pointer),
            Some((root, levels, nxe)) => me.host(root, levels, nxe, pointer, walk),
        };
        let chain = self.chain(dimension, root, levels, address, control.nxe, control, &mut locate)?;
        let every = |bit: u32| chain.iter().all(|(_, _, e)| e >> bit & 1 == 1);
        let any_nx = chain.iter().any(|(_, _, e)| e >> 63 == 1);
        let (user_page, writable) = (every(2), every(1));
        let denied = if request.user {
            !user_page || request.write && !writable || request.fetch && any_nx
        } else if request.fetch {
            any_nx || user_page && control.smep
        } else {
            user_page && control.smap || request.write && !writable && control.wp
        };
        if denied {
            return Err((Reason::Denied, dimension));
        }
        let found = place(&chain, address);
        let found = match host {
            None => found,
            Some((root, levels, nxe)) => self.host(root, levels, nxe, found, request)?,
        };
        self.mark(&chain, request.write);
        Ok(found)
    }
}

fn place(chain: &[(u32, u64, u64)], address: u64) -> u64 {
    let (level, _, entry) = chain.last().unwrap();
    let size = 1u64 << (12 + 9 * level);
    (entry & 0x000f_ffff_ffff_ffff) / size * size + address % size
}

struct Case {
    tables: Tables,
    control: Control,
    base: u64,
}

fn case(random: &mut Random, nested: bool) -> Case {
    let levels = |r: &mut Random| if r.one_in(4) { Levels::Five } else { Levels::Four };
    let level = levels(random);
    let host_level = levels(random);
    let host_root = Machine::new(HOST | (host_level as u64) << 35 | random.below(1 << 23) << 12);
    let tables = if nested {
        let root = GuestPhysical::new(random.below(1 << 24) << 12);
        let nxe = !random.one_in(16);
        Tables::Nested { guest: Some((root, level)), root: host_root, levels: host_level, nxe }
    } else {
        Tables::Flat { root: Machine::new(random.below(1 << 24) << 12), levels: level }
    };
    let control = Control {
        wp: !random.one_in(4),
        nxe: !random.one_in(16),
        smep: random.one_in(4),
        pge: true,
        smap: random.one_in(4),
        physical_bits: if random.one_in(64) { 36 } else { 40 },
    };
    let unused = 64 - (12 + 9 * level as u32);
    let raw = random.next();
    let base = if random.one_in(32) { raw } else { ((raw << unused) as i64 >> unused) as u64 };
    Case { tables, control, base }
}

#[derive(Default, Debug)]
struct Seen {
    found: u64,
    faults: HashMap<(Reason, Dimension), u64>,
    bits_set: u64,
}

/// Walk many random tables; four accesses each, near each other, so that caches of half walks are used.
fn agree(nested: bool, machines: u64, cpu: Option<&str>) -> Seen {
    let mut random = Random::new(if nested { 11 } else { 7 });
    let mut seen = Seen::default();
    let spec = cpu.map_or_else(Cpu::bare, |name| Cpu::built_in(name).unwrap().unwrap());
    let fresh = Mmu::new(&spec);
    let mut mmu = fresh.clone();
    for machine in 0..machines {
        let Case { tables, control, base } = case(&mut random, nested);
        let mut model_memory = Hashed { seed: random.next(), ..Hashed::default() };
        let mut memory = model_memory.clone();
        // Another ASID stands for a fresh processor, until they run out.
        let asid = (machine % 4096) as u16;
        if asid == 0 {
            mmu = fresh.clone();
        }
        for _ in 0..4 {
            let reach = 12 + 9 * random.below(4);
            let address = base ^ random.below(1 << reach);
            let kind = Kind::ALL[random.below(3) as usize];
            let user = !random.one_in(3);
            let layer = Layer::GuestUser;
            mmu.set_context(&Context { layer, space: 0, user, control, asid, pcid: 0, tables });
            mmu.set_region(true);
            let before: u64 = mmu.counters().layer(layer).served.iter().sum();
            let got = mmu.access(&mut model_memory, Virtual::new(address), kind);
            let references = mmu.counters().layer(layer).served.iter().sum::<u64>() - before;

            let mut brute = Brute { memory: &mut memory, references: 0, to_set: vec![] };
            let request = Request { write: kind == Kind::Store, fetch: kind == Kind::Fetch, user, control };
            let expected = brute.outer(tables, address, request);
            let (all_references, to_set) = (brute.references, brute.to_set);
            for (slot, bits) in to_set {
                if memory.word(slot) & bits != bits {
                    seen.bits_set += 1;
                    memory.set_bits(Machine::new(slot), bits).unwrap();
                }
            }
            let what =
                format!("machine {machine}, address {address:#x}, {kind:?}, user {user}, {tables:?} {control:?}");
            let faulted = expected.is_err();
            match (got, expected) {
                (Ok(got), Ok(expected)) => {
                    assert_eq!(got, Machine::new(expected), "{what}");
                    seen.found += 1;
                }
                (Err(Stop::Fault(got)), Err(expected)) => {
                    assert_eq!((got.reason, got.dimension), expected, "{what}");
                    *seen.faults.entry(expected).or_default() += 1;
                }
                (got, expected) => panic!("{what}: model {got:x?}, brute force {expected:x?}"),
            }
            if cpu.is_none() {
                assert_eq!(references, all_references, "{what}");
            } else {
                // Exactly how many is what oracle.rs tells. A fault may be confirmed by another walk.
                let walks = if faulted { 2 } else { 1 };
                assert!(references <= walks * all_references, "{what}: {references} > {all_references}");
            }
            assert_eq!(model_memory.changed, memory.changed, "{what}: accessed and dirty bits");
        }
    }
    seen
}

/// Every kind of outcome must have been met often, or the agreement says little.
fn varied(seen: &Seen, dimensions: &[Dimension]) {
    assert!(seen.found > 10_000 && seen.bits_set > 10_000, "{seen:?}");
    for dimension in dimensions {
        for reason in [Reason::NotPresent, Reason::Reserved, Reason::Denied] {
            assert!(seen.faults[&(reason, *dimension)] > 1000, "{reason:?} {dimension:?}: {seen:?}");
        }
    }
}

#[test]
fn flat_tables() {
    varied(&agree(false, 350_000, None), &[Dimension::Flat]);
}

#[test]
fn nested_tables() {
    varied(&agree(true, 200_000, None), &[Dimension::Guest, Dimension::Host]);
}

#[test]
fn tables_through_the_caches_of_each_processor() {
    for name in ["i7-3770", "zen2"] {
        varied(&agree(false, 60_000, Some(name)), &[Dimension::Flat]);
        varied(&agree(true, 60_000, Some(name)), &[Dimension::Guest, Dimension::Host]);
    }
}
