// SPDX-License-Identifier: MIT
//! Five of the programs that Elphinstone 1999 ran (table 4.1), written anew: nsieve, heapsort, mm and tfftdp after Aburto's
//! suite, compress after SPEC95's. They do what their algorithms do to memory, element by element, with arrays that fill as
//! many pages as the thesis prints (tables A.6 to A.13).
//!
//! What they are not: the original sources, whose passes, stacks and system calls differ. Their loops fit into a page, so
//! of instructions a fetch of that page is told now and then, as a TLB for both sides would see it.

use mmu_model::address::{Machine, PageSize, Virtual};
use mmu_model::context::Kind;
use mmu_model::synthetic::{Builder, OPEN, Observer, Pages, Random, user_on};
use mmu_model::x86::steps::{Access, Plain, Walker};
use mmu_model::x86::{Context, Levels};

const PAGE: u64 = 4096;
/// Where the program's own pages lie, its arrays behind the first of them. Printed sizes and depths say so: multi-level
/// tables have leaves for all from 1 MB on and one more (table A.45); nodes of G64 and G16 are one deeper than what lies low
/// alone would make them, and those of G128 and G256 are not, so that something lies between 2^25 and 2^27.
const TEXT: (u64, u64) = (1 << 20, 10);
const STACK: (u64, u64) = (64 << 20, 1);
/// Frames of the R4700's memory, 64 MB, which a program's pages are strewn over.
const FRAMES: u64 = 1 << 14;
/// An odd number: each page another frame.
const STREWN: u64 = 6_151;
/// Accesses of data between two fetches.
const FETCHED: u64 = 32;

/// A program: its name, how many pages the thesis's had in all, and what it does until all accesses are made.
pub struct Program {
    /// As the thesis names it.
    pub name: &'static str,
    /// Table A.6.
    pub pages: u64,
    run: fn(&mut Process) -> Option<()>,
}

/// All of them.
pub const ALL: [Program; 5] = [
    Program { name: "nsieve", pages: 1243, run: nsieve },
    Program { name: "heapsort", pages: 1010, run: heapsort },
    Program { name: "mm", pages: 1967, run: mm },
    Program { name: "tfftdp", pages: 1035, run: tfftdp },
    Program { name: "compress", pages: 8931, run: compress },
];

/// Elements of so many bytes each, one behind the other.
#[derive(Clone, Copy)]
struct Array {
    begin: u64,
    bytes: u64,
}

/// A program while it runs, and who hears of it.
struct Process<'a> {
    observer: &'a mut dyn FnMut(&mut Pages, Virtual, Kind, Machine),
    memory: Pages,
    table: Builder,
    context: Context,
    next: u64,
    mapped: u64,
    made: u64,
    most: u64,
}

impl Process<'_> {
    /// An array behind the last, and its pages.
    fn array(&mut self, elements: u64, bytes: u64) -> Array {
        let begin = self.next;
        self.next += (elements * bytes).next_multiple_of(8);
        (begin.next_multiple_of(PAGE)..self.next).step_by(PAGE as usize).for_each(|page| self.map(page));
        Array { begin, bytes }
    }

    fn map(&mut self, page: u64) {
        let frame = self.mapped * STREWN % FRAMES * PAGE;
        self.mapped += 1;
        self.table.map(&mut self.memory, page, PageSize::K4, frame, OPEN);
    }

    /// None: it has made as many as it was to.
    fn access(&mut self, address: u64, kind: Kind) -> Option<()> {
        self.made += 1;
        if self.made % FETCHED == 1 {
            self.tell(TEXT.0, Kind::Fetch);
        }
        self.tell(address, kind);
        (self.made < self.most).then_some(())
    }

    fn tell(&mut self, address: u64, kind: Kind) {
        let Context { user, control, tables, .. } = self.context;
        let (address, access) = (Virtual::new(address), Access { kind, user, control });
        let leaf = tables.walk(address, access, &mut Plain(&mut self.memory)).expect("it is mapped");
        let machine = leaf.machine.plus(address.raw() & leaf.size.offset_mask());
        (self.observer)(&mut self.memory, address, kind, machine);
    }

    fn load(&mut self, array: Array, element: u64) -> Option<()> {
        self.access(array.begin + element * array.bytes, Kind::Load)
    }

    fn store(&mut self, array: Array, element: u64) -> Option<()> {
        self.access(array.begin + element * array.bytes, Kind::Store)
    }

    /// Bytes that are left for arrays, of so many pages in all.
    const fn room(pages: u64) -> u64 {
        (pages - TEXT.1 - STACK.1) * PAGE
    }
}

/// Run a program until it ends or has made so many accesses of data. Returns how many pages were mapped; none: there is
/// no program of this name.
pub fn run(name: &str, accesses: u64, observer: &mut impl Observer) -> Option<u64> {
    let program = ALL.iter().find(|one| one.name == name)?;
    let mut memory = Pages::default();
    let table = Builder::new(1 << 30, 0, Levels::Four);
    let context = user_on(&table, None);
    observer.context(&context);
    observer.region(true);
    let mut tell = |memory: &mut Pages, address, kind, machine| observer.access(memory, address, kind, machine);
    let mut process = Process {
        observer: &mut tell,
        memory: std::mem::take(&mut memory),
        table,
        context,
        next: TEXT.0 + TEXT.1 * PAGE,
        mapped: 0,
        made: 0,
        most: accesses,
    };
    for (begin, pages) in [TEXT, STACK] {
        (0..pages).for_each(|page| process.map(begin + page * PAGE));
    }
    // Its own pages are used once at least: a table holds what is touched.
    let own = [TEXT, STACK].into_iter().flat_map(|(begin, pages)| (0..pages).map(move |page| begin + page * PAGE));
    if own.map(|page| process.access(page, Kind::Load)).all(|went| went.is_some()) {
        (program.run)(&mut process);
    }
    let mapped = process.mapped;
    observer.region(false);
    Some(mapped)
}

/// Primes by Eratosthenes: a byte for each odd number.
fn nsieve(process: &mut Process) -> Option<()> {
    let size = Process::room(1243);
    let flags = process.array(size, 1);
    let mut prime = vec![true; size as usize];
    (0..size).try_for_each(|i| process.store(flags, i))?;
    for i in 0..size {
        process.load(flags, i)?;
        if prime[i as usize] {
            let step = 2 * i + 3;
            for multiple in (i + step..size).step_by(step as usize) {
                prime[multiple as usize] = false;
                process.store(flags, multiple)?;
            }
        }
    }
    Some(())
}

/// Williams's sort by a heap, of numbers of four bytes.
fn heapsort(process: &mut Process) -> Option<()> {
    let size = Process::room(1010) / 4;
    let (numbers, mut random) = (process.array(size, 4), Random::new(1));
    let mut values: Vec<u32> = (0..size).map(|_| random.next() as u32).collect();
    (0..size).try_for_each(|i| process.store(numbers, i))?;
    for root in (0..size / 2).rev() {
        sift(process, numbers, &mut values, root, size)?;
    }
    for last in (1..size).rev() {
        process.load(numbers, last)?;
        process.load(numbers, 0)?;
        process.store(numbers, last)?;
        values.swap(0, last as usize);
        sift(process, numbers, &mut values, 0, last)?;
    }
    assert!(values.is_sorted(), "it sorts");
    Some(())
}

fn sift(process: &mut Process, numbers: Array, values: &mut [u32], root: u64, end: u64) -> Option<()> {
    let (mut hole, value) = (root, values[root as usize]);
    loop {
        let mut child = 2 * hole + 1;
        if child >= end {
            break;
        }
        process.load(numbers, child)?;
        if child + 1 < end {
            process.load(numbers, child + 1)?;
            child += u64::from(values[child as usize + 1] > values[child as usize]);
        }
        if values[child as usize] <= value {
            break;
        }
        process.store(numbers, hole)?;
        values[hole as usize] = values[child as usize];
        hole = child;
    }
    values[hole as usize] = value;
    process.store(numbers, hole)
}

/// The product of two matrices of 500 by 500 by the "normal" way, by inner products; four matrices are there.
fn mm(process: &mut Process) -> Option<()> {
    const N: u64 = 500;
    let [a, b, product, exact] = [(); 4].map(|()| process.array(N * N, 8));
    for matrix in [a, b, product, exact] {
        (0..N * N).try_for_each(|i| process.store(matrix, i))?;
    }
    for (row, column) in (0..N * N).map(|i| (i / N, i % N)) {
        for k in 0..N {
            process.load(a, row * N + k)?;
            process.load(b, k * N + column)?;
        }
        process.store(product, row * N + column)?;
    }
    Some(())
}

/// A fast Fourier transform of 2^18 points in doubles, real and imaginary parts apart.
fn tfftdp(process: &mut Process) -> Option<()> {
    const BITS: u32 = 18;
    let n = 1 << BITS;
    let parts = [(); 2].map(|()| process.array(n, 8));
    for i in 0..n {
        parts.into_iter().try_for_each(|part| process.store(part, i))?;
    }
    for i in 0..n {
        let other = i.reverse_bits() >> (64 - BITS);
        if i < other {
            for part in parts {
                process.load(part, i)?;
                process.load(part, other)?;
                process.store(part, i)?;
                process.store(part, other)?;
            }
        }
    }
    for half in (0..BITS).map(|stage| 1 << stage) {
        for first in (0..n).step_by(2 * half as usize) {
            for i in first..first + half {
                for part in parts {
                    process.load(part, i)?;
                    process.load(part, i + half)?;
                }
                for part in parts {
                    process.store(part, i)?;
                    process.store(part, i + half)?;
                }
            }
        }
    }
    Some(())
}

/// Lempel, Ziv and Welch's way with a hash of 69,001 entries, as compress has it; the text is letters by chance, some more
/// often than others. A full dictionary is begun anew, as compress does where its ratio falls.
fn compress(process: &mut Process) -> Option<()> {
    const TABLE: u64 = 69_001;
    let (keys, codes) = (process.array(TABLE, 4), process.array(TABLE, 2));
    // What is written is half as long as what is read, and a little longer.
    let room = Process::room(8931) - 6 * TABLE - 64;
    let size = room / 100 * 64 & !7;
    let (text, out) = (process.array(size, 1), process.array(room - size, 1));
    let (mut random, mut table) = (Random::new(1), vec![None; TABLE as usize]);
    let letters: Vec<u64> = (0..size).map(|_| random.below(26).min(random.below(26)).min(random.below(26))).collect();
    // Both buffers have been used by an earlier round, of which the original makes many.
    for (buffer, bytes) in [(text, size), (out, room - size)] {
        (0..bytes).step_by(8).try_for_each(|i| process.store(buffer, i))?;
    }
    let (mut known, mut free, mut written) = (letters[0], 257, 0);
    for (i, letter) in (1..size).zip(&letters[1..]) {
        process.load(text, i)?;
        let key = letter << 16 | known;
        let mut at = (letter << 8 ^ known) % TABLE;
        let step = if at == 0 { 1 } else { TABLE - at };
        let found = loop {
            process.load(keys, at)?;
            let entry: Option<(u64, _)> = table[at as usize];
            match entry {
                Some((other, code)) if other == key => break Some(code),
                None => break None,
                Some(_) => at = (at + TABLE - step) % TABLE,
            }
        };
        if let Some(code) = found {
            process.load(codes, at)?;
            known = code;
            continue;
        }
        for byte in [written, written + 1] {
            process.store(out, byte % (room - size))?;
        }
        written += 2;
        if free == 1 << 16 {
            (0..TABLE).try_for_each(|entry| process.store(keys, entry))?;
            (free, table) = (257, vec![None; TABLE as usize]);
        } else {
            table[at as usize] = Some((key, free));
            free += 1;
            process.store(codes, at)?;
            process.store(keys, at)?;
        }
        known = *letter;
    }
    Some(())
}
