// SPDX-License-Identifier: MIT
//! The thesis's programs, written anew: as many pages as it prints, and as many accesses as their algorithms make.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mmu_model::address::{Machine, Virtual};
use mmu_model::context::Kind;
use mmu_model::synthetic::{Observer, Pages, Random};
use mmu_model::x86::{Context, Event};
use mmu_organisations::operations::Kernel;
use mmu_organisations::programs;

/// What a program that was written anew does, page by page.
#[derive(Default)]
struct Touched {
    pages: BTreeMap<u64, u64>,
    kinds: [u64; 3],
}

impl Observer for Touched {
    fn context(&mut self, _: &Context) {}

    fn access(&mut self, _: &mut Pages, address: Virtual, kind: Kind, machine: Machine) {
        self.kinds[kind as usize] += 1;
        let frame = machine.raw() >> 12;
        let known = *self.pages.entry(address.raw() >> 12).or_insert(frame);
        assert_eq!(known, frame, "{address:?} stays where it is");
    }

    fn invalidate(&mut self, _: Event) {}

    fn region(&mut self, _: bool) {}
}

/// Pages as many as tables A.6 to A.13 print, each in a frame of its own within 64 MB, and all of them used; of the
/// matrices, which are 500 by 500, two less.
#[test]
fn programs_fill_as_many_pages_as_printed() {
    for program in programs::ALL {
        let mut touched = Touched::default();
        let mapped = programs::run(program.name, 20_000_000, &mut touched).unwrap();
        let less = if program.name == "mm" { 2 } else { 0 };
        assert_eq!((mapped, touched.pages.len() as u64), (program.pages - less, mapped), "{}", program.name);
        let frames: BTreeSet<_> = touched.pages.values().collect();
        assert!(frames.len() as u64 == mapped && **frames.last().unwrap() < 1 << 14, "{}", program.name);
        let data = touched.kinds[Kind::Load as usize] + touched.kinds[Kind::Store as usize];
        assert_eq!(touched.kinds[Kind::Fetch as usize], data.div_ceil(32), "{}", program.name);
        sizes_are_those_printed(program.name, touched.pages.keys().map(|page| page << 12));
    }
    assert!(programs::run("go", 1, &mut Touched::default()).is_none());
}

/// Tables A.7, A.9, A.13, A.45, A.46 and A.48: bytes with these pages mapped. Multi-level tables are met to the byte; the others
/// are up to a hundredth smaller, since the thesis's programs have sections that end within a pair or a block (table A.46: 3
/// to 7 halves of pairs are unused). Of compress it is not known how its memory was split.
fn sizes_are_those_printed(program: &str, pages: impl Iterator<Item = u64>) {
    let printed = match program {
        "nsieve" => [23520, 21360, 26496, 19936, 15072, 32800],
        "heapsort" => [19168, 17712, 24640, 16224, 12288, 32800],
        "mm" => [37136, 33824, 40496, 31552, 23808, 40992],
        "tfftdp" => [19616, 18176, 24832, 16640, 12576, 32800],
        _ => return,
    };
    let pages: Vec<u64> = pages.collect();
    for (name, printed) in ["g4", "g16", "g256", "h512", "c512-4", "mpt"].into_iter().zip(printed) {
        let mut kernel = Kernel::new(name).unwrap();
        kernel.set_counting(false);
        pages.iter().for_each(|page| kernel.map(1, *page));
        let bytes = kernel.shape("bytes");
        let least = if name == "mpt" { printed } else { printed - printed / 100 };
        assert!((least..=printed).contains(&bytes), "{program}, {name}: {bytes} bytes, {printed} are printed");
    }
}

/// Loads and stores of a program that runs to its end, or makes so many accesses.
fn kinds(name: &str, accesses: u64) -> [u64; 2] {
    let mut touched = Touched::default();
    programs::run(name, accesses, &mut touched).unwrap();
    [Kind::Load, Kind::Store].map(|kind| touched.kinds[kind as usize])
}

/// Pages of its own that a program uses once at its begin; the others are its arrays'.
const OWN: u64 = 11;

/// By hand: an inner product loads two elements a step and stores one at its end; a transform of 2^18 points has 18 stages
/// of as many butterflies as half the points, each with four loads and four stores, behind the exchange of all points whose
/// mirrored number is another.
#[test]
fn programs_do_what_their_algorithms_say() {
    let points = 1_u64 << 18;
    let exchanged = (points - (1 << 9)) / 2;
    let butterflies = 18 * points / 2;
    assert_eq!(
        kinds("tfftdp", u64::MAX),
        [OWN + 4 * exchanged + 4 * butterflies, 2 * points + 4 * exchanged + 4 * butterflies]
    );
    let (filled, product) = (4 * 500 * 500, 1001);
    assert_eq!(kinds("mm", OWN + filled + 100 * product), [OWN + 100 * 1000, filled + 100]);
}

/// Of the odd numbers from 3 on each is looked at once, and of each prime the odd multiples from its third on are struck out.
#[test]
fn a_sieve_strikes_out_odd_multiples_of_primes() {
    let size = (1243 - OWN) * 4096;
    let last = 2 * size + 1;
    let mut composite = vec![false; last as usize + 1];
    let mut struck = 0;
    for number in 2..=last {
        if composite[number as usize] {
            continue;
        }
        (2 * number..=last).step_by(number as usize).for_each(|multiple| composite[multiple as usize] = true);
        struck += if number > 2 { (last / number - 1) / 2 } else { 0 };
    }
    assert_eq!(kinds("nsieve", u64::MAX), [OWN + size, size + struck]);
}

/// Puts a value where it belongs below a place of a heap, and counts the elements that are looked at and those that move.
fn sifted(heap: &mut [u32], place: usize, end: usize, counted: &mut [u64; 2]) {
    let children = (2 * place + 1)..(2 * place + 3).min(end);
    counted[0] += children.len() as u64;
    let larger = children.rev().max_by_key(|child| heap[*child]).filter(|child| heap[*child] > heap[place]);
    counted[1] += 1;
    if let Some(child) = larger {
        heap.swap(place, child);
        sifted(heap, child, end, counted);
    }
}

#[test]
fn a_heap_is_made_and_taken_apart() {
    let size = (1010 - OWN) as usize * 1024;
    let mut random = Random::new(1);
    let mut heap: Vec<u32> = (0..size).map(|_| random.next() as u32).collect();
    let mut counted = [0; 2];
    (0..size / 2).rev().for_each(|root| sifted(&mut heap, root, size, &mut counted));
    for last in (1..size).rev() {
        heap.swap(0, last);
        sifted(&mut heap, 0, last, &mut counted);
    }
    assert!(heap.is_sorted());
    let (size, [looked_at, moved]) = (size as u64, counted);
    assert_eq!(kinds("heapsort", u64::MAX), [OWN + 2 * (size - 1) + looked_at, size + (size - 1) + moved]);
}

/// What is loaded from a range of addresses, and what is stored anywhere.
struct Watched {
    range: std::ops::Range<u64>,
    loads: usize,
    stores: u64,
}

impl Observer for Watched {
    fn context(&mut self, _: &Context) {}

    fn access(&mut self, _: &mut Pages, address: Virtual, kind: Kind, _: Machine) {
        self.loads += usize::from(kind == Kind::Load && self.range.contains(&address.raw()));
        self.stores += u64::from(kind == Kind::Store);
    }

    fn invalidate(&mut self, _: Event) {}

    fn region(&mut self, _: bool) {}
}

/// As much of the text as 20 million accesses come to, by a dictionary without a hash of its own: codes of two bytes, and
/// entries of two words, all cleared where no code is left.
#[test]
fn a_text_is_compressed_with_a_dictionary() {
    let (table, room): (u64, u64) = (69_001, (8931 - OWN) * 4096 - 6 * 69_001 - 64);
    let size = room / 100 * 64 & !7;
    // Behind the keys and the codes of the hash.
    let begin = (1 << 20) + 10 * 4096 + (4 * table).next_multiple_of(8) + (2 * table).next_multiple_of(8);
    let mut watched = Watched { range: begin..begin + size, loads: 0, stores: 0 };
    programs::run("compress", 20_000_000, &mut watched).unwrap();
    let mut random = Random::new(1);
    let letters: Vec<u64> = (0..size).map(|_| random.below(26).min(random.below(26)).min(random.below(26))).collect();
    let (mut dictionary, mut known, mut cleared) = (HashMap::new(), letters[0], 0);
    let mut stores = size.div_ceil(8) + (room - size).div_ceil(8);
    for letter in &letters[1..watched.loads] {
        if let Some(code) = dictionary.get(&(known, *letter)) {
            known = *code;
            continue;
        }
        let free = 257 + dictionary.len() as u64;
        if free == 1 << 16 {
            dictionary.clear();
            (stores, cleared) = (stores + 2 + table, cleared + 1);
        } else {
            dictionary.insert((known, *letter), free);
            stores += 4;
        }
        known = *letter;
    }
    assert!(watched.loads > 1_000_000 && cleared > 1, "{} letters, {cleared} times cleared", watched.loads);
    // It stops within a letter.
    assert!((stores..=stores + 4).contains(&watched.stores), "{} stores, {stores} by hand", watched.stores);
}
