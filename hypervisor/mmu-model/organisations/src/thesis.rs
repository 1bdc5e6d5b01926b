// SPDX-License-Identifier: MIT
//! The made-up workloads of Elphinstone 1999 (sections 4.2 to 4.5, 5.3, 6.5 and 6.6), each on a table alone: SPARSE-PAGE,
//! equally spaced pages, SPARSE-FILE, MAP1, MAPN, MAPS, the unmap of a region, and tasks.
//!
//! Where random numbers are drawn they are of our generator, so the thesis's means are to be met within their deviations.

use mmu_model::synthetic::Random;
use serde_json::{Value, json};

use crate::operations::{Cost, Kernel};

/// All random pages and objects lie in this many bytes.
const SPACE: u64 = 1 << 40;
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Pages of the program that are mapped besides in SPARSE-PAGE: ten or eleven.
const PROGRAM: u64 = 11;
/// Where dense memory lies that has nothing to do with the region, where there is such.
const DENSE: u64 = 1 << 36;
/// Where regions lie that are mapped and unmapped.
const REGION: u64 = 1 << 32;

fn kernel(name: &str) -> Kernel {
    Kernel::new(name).unwrap_or_else(|| panic!("{name}: there is none of this name"))
}

/// The program's own pages, in two regions of 2 MB: the reading that gives the sizes that are printed.
fn program(kernel: &mut Kernel) {
    (0..6).for_each(|page| kernel.map(1, page * PAGE));
    (0..PROGRAM - 6).for_each(|page| kernel.map(1, 4 * MIB + page * PAGE));
}

/// Bytes a page where single pages lie at random in 2^40 bytes, or equally spaced.
pub fn sparse_page(name: &str, pages: u64, seed: Option<u64>) -> f64 {
    let (mut kernel, mut random) = (kernel(name), Random::new(seed.unwrap_or(0)));
    kernel.set_counting(false);
    program(&mut kernel);
    for i in 1..pages {
        kernel.map(1, if seed.is_some() { random.below(SPACE) & !(PAGE - 1) } else { i * (SPACE / pages) });
    }
    kernel.shape("bytes") as f64 / (pages + PROGRAM - 1) as f64
}

/// Pages of one object: two thirds have one, 3 % more than 32. The curve itself is not printed; between these points sizes
/// are spread evenly by their logarithm, up to what gives 7.6 pages on average, as table 4.5 does.
fn object(random: &mut Random) -> u64 {
    let between = |random: &mut Random, from: f64, to: f64| {
        let share = random.below(1 << 32) as f64 / f64::from(u32::MAX);
        (from * (to / from).powf(share)) as u64
    };
    match random.below(100) {
        0..66 => 1,
        66..97 => between(random, 2.0, 33.0),
        _ => between(random, 33.0, 295.0),
    }
}

/// Bytes a page, and pages, of so many objects at random places.
pub fn sparse_file(name: &str, objects: u64, seed: u64) -> (f64, u64) {
    let (mut kernel, mut random, mut pages) = (kernel(name), Random::new(seed), PROGRAM);
    kernel.set_counting(false);
    program(&mut kernel);
    for _ in 0..objects {
        let (begin, size) = (random.below(SPACE) & !(PAGE - 1), object(&mut random));
        (0..size).for_each(|page| kernel.map(1, begin + page * PAGE));
        pages += size;
    }
    (kernel.shape("bytes") as f64 / pages as f64, pages)
}

fn region(kernel: &mut Kernel, pages: u64) {
    (0..pages).for_each(|page| kernel.map(1, REGION + page * PAGE));
    kernel.cost();
}

/// Each of 4096 faults: another page is unmapped, the one that faults is mapped, and the TLB is refilled.
pub fn map1(name: &str, seed: u64) -> Cost {
    let (mut kernel, mut random) = (kernel(name), Random::new(seed));
    region(&mut kernel, 4096);
    let mut missing = REGION + random.below(4096) * PAGE;
    kernel.unmap(1, missing, PAGE);
    kernel.cost();
    for _ in 0..4096 {
        let others = std::iter::repeat_with(|| REGION + random.below(4096) * PAGE);
        let other = others.into_iter().find(|page| *page != missing).expect("there are others");
        kernel.unmap(1, other, PAGE);
        kernel.map(1, missing);
        assert!(kernel.refill(1, missing));
        missing = other;
    }
    kernel.cost()
}

/// One unmap of 16 MB, then a fault on each page in random order: it is mapped, and the TLB is refilled.
pub fn mapn(name: &str, seed: u64) -> Cost {
    let (mut kernel, mut random) = (kernel(name), Random::new(seed));
    region(&mut kernel, 4096);
    assert_eq!(kernel.unmap(1, REGION, 4096 * PAGE), 4096);
    let mut order: Vec<u64> = (0..4096).collect();
    (1..order.len()).for_each(|i| order.swap(i, random.below(i as u64 + 1) as usize));
    for page in order {
        kernel.map(1, REGION + page * PAGE);
        assert!(kernel.refill(1, REGION + page * PAGE));
    }
    kernel.cost()
}

/// The unmap of 16 random pages in a region of this many bytes, beside 64 MB of dense pages or not.
pub fn maps(name: &str, bytes: u64, dense: bool, seed: u64) -> Cost {
    let (mut kernel, mut random) = (kernel(name), Random::new(seed));
    kernel.set_counting(false);
    program(&mut kernel);
    (0..if dense { 64 * MIB / PAGE } else { 0 }).for_each(|page| kernel.map(1, DENSE + page * PAGE));
    let (mut mapped, pages) = (std::collections::BTreeSet::new(), bytes / PAGE);
    while (mapped.len() as u64) < 16.min(pages) {
        mapped.insert(random.below(pages));
    }
    mapped.iter().for_each(|page| kernel.map(1, REGION + page * PAGE));
    kernel.set_counting(true);
    assert_eq!(kernel.unmap(1, REGION, bytes), mapped.len());
    kernel.cost()
}

/// The unmap of a region all of whose pages are mapped, and have been refilled.
pub fn unmap(name: &str, bytes: u64) -> Cost {
    let mut kernel = kernel(name);
    region(&mut kernel, bytes / PAGE);
    (0..bytes / PAGE).for_each(|page| assert!(kernel.refill(1, REGION + page * PAGE)));
    kernel.cost();
    assert_eq!(kernel.unmap(1, REGION, bytes) as u64, bytes / PAGE);
    kernel.cost()
}

/// A task with two pages is made, runs on each, and ends; a hundred times.
pub fn task(name: &str) -> Cost {
    let mut kernel = kernel(name);
    program(&mut kernel);
    kernel.cost();
    for _ in 0..100 {
        for page in [0x40_0000, 0x7fff_f000] {
            kernel.map(2, page);
            assert!(kernel.refill(2, page));
        }
        kernel.end(2);
    }
    kernel.cost()
}

/// Structures whose sizes and operations are shown: the thesis's, in its order.
pub const GUARDED: [&str; 8] = ["g2", "g4", "g8", "g16", "g32", "g64", "g128", "g256"];
/// Those of its chapter 6.
pub const COMPARED: [&str; 7] = ["g16-s128k", "g16-s8k", "mpt", "h512", "h8192", "c512-4", "c8192"];

fn mean(seeds: u64, each: impl Fn(u64) -> f64) -> f64 {
    (0..seeds).map(each).sum::<f64>() / seeds as f64
}

/// Everything as JSON: lines of workload, organisation, what was varied, and numbers.
pub fn to_json(seeds: u64) -> Value {
    let mut lines = vec![];
    let mut put = |workload: &str, organisation: &str, at: u64, quantity: &str, unit: &str, value: f64| {
        lines.push(json!({"workload": workload, "organisation": organisation, "at": at, "quantity": quantity,
            "unit": unit, "value": value}));
    };
    let cost = |cost: Cost, per: f64| [cost.cycles as f64 / per, cost.words as f64 / per, cost.misses as f64 / per];
    let mut costs = |workload: &str, name: &str, at: u64, numbers: [f64; 3]| {
        for (quantity, value) in ["cycles", "words", "misses"].into_iter().zip(numbers) {
            put(workload, name, at, quantity, quantity, value);
        }
    };
    let all = || GUARDED.into_iter().chain(COMPARED);
    let means = |each: &dyn Fn(u64) -> [f64; 3]| {
        (0..seeds).map(each).fold([0.0; 3], |sums, one| [0, 1, 2].map(|i| sums[i] + one[i] / seeds as f64))
    };
    for name in all() {
        costs("MAP1", name, 4096, means(&|seed| cost(map1(name, seed), 4096.0)));
        costs("MAPN", name, 4096, means(&|seed| cost(mapn(name, seed), 4096.0)));
        costs("task", name, 2, cost(task(name), 100.0));
        for shift in 16..=29 {
            costs("MAPS", name, 1 << shift, means(&|seed| cost(maps(name, 1 << shift, false, seed), 1.0)));
        }
        for shift in (16..=24).step_by(2) {
            costs("MAPS+64M", name, 1 << shift, means(&|seed| cost(maps(name, 1 << shift, true, seed), 1.0)));
        }
        for shift in (12..=24).step_by(2) {
            costs("unmap", name, 1 << shift, cost(unmap(name, 1 << shift), 1.0));
        }
    }
    for name in all() {
        for pages in (6..=13).map(|shift| 1 << shift) {
            let random = mean(seeds, |seed| sparse_page(name, pages, Some(seed)));
            put("SPARSE-PAGE", name, pages, "bytes a page", "bytes", random);
            put("equal spacing", name, pages, "bytes a page", "bytes", sparse_page(name, pages, None));
        }
        for objects in (6..=11).map(|shift| 1 << shift) {
            let sizes = mean(seeds, |seed| sparse_file(name, objects, seed).0);
            put("SPARSE-FILE", name, objects, "bytes a page", "bytes", sizes);
        }
    }
    json!({"kind": "modelled", "machine": "r4700", "seeds": seeds, "lines": lines})
}
