// SPDX-License-Identifier: MIT
//! Sizes, counts and lines that the two papers print or that follow from what they print, exactly; and means of random
//! layouts within bounds that follow from the printed deviations.

mod paper;
mod thesis;

use mmu_model::address::{Machine, PageSize};
use mmu_model::synthetic::Random;
use mmu_model::walk::Rights;
use mmu_organisations::catalogue;
use mmu_organisations::linear::{Handlers, Linear, Mapped, Uses};
use mmu_organisations::table::{InArray, Level, Page, Space, Store, Table, Visit};

/// Pages, and the mean number of internal entries with its normalised deviation.
type Printed = (u64, f64, f64);
/// Pages, and the bytes of their table.
type Sized = (u64, u64);

/// Counts a refill.
#[derive(Default, Debug)]
struct Count {
    instructions: u64,
    loads: Vec<(u64, u64)>,
    interrupts: Vec<Level>,
    held: Vec<InArray>,
    cycles: u64,
}

impl Visit for Count {
    fn interrupt(&mut self, level: Level) {
        self.interrupts.push(level);
    }
    fn run(&mut self, _level: Level, _from: u64, instructions: u64) {
        self.instructions += instructions;
    }
    fn spend(&mut self, cycles: u64) {
        self.cycles += cycles;
    }
    fn load(&mut self, _level: Level, at: Machine, bytes: u64) {
        self.loads.push((at.raw(), bytes));
    }
    fn translates(&mut self, at: InArray) -> bool {
        let page = InArray { offset: at.offset & !0xfff, ..at };
        self.held.contains(&page)
    }
    fn protect(&mut self, at: InArray, pages: [Option<Machine>; 2]) {
        assert!(pages[(at.offset >> 12 & 1) as usize].is_some());
        self.held.push(InArray { offset: at.offset & !0xfff, ..at });
    }
    fn load_virtual(&mut self, _level: Level, _at: InArray, machine: Machine, bytes: u64) -> bool {
        self.loads.push((machine.raw(), bytes));
        true
    }
    fn short_cut(&mut self) {}
}

/// A table with base pages mapped in it.
struct Made {
    table: Box<dyn Table>,
    store: Store,
}

impl Made {
    fn new(name: &str) -> Self {
        Self { table: catalogue::table(name, true).unwrap_or_else(|| panic!("{name}")), store: Store::default() }
    }

    fn map(&mut self, space: Space, address: u64) {
        let size = PageSize::K4;
        let machine = Machine::new(address & 0xffff_f000);
        let page = Page { machine, size, rights: Rights::USER, mask: u64::MAX, leaf: size };
        let entry = self.store.pages.entry(page);
        self.table.set(&mut self.store, space, address, size, entry);
    }

    fn shape(&self, name: &str) -> u64 {
        self.table.shape(&self.store)[name]
    }

    fn refill(&mut self, space: Space, address: u64) -> Count {
        let mut count = Count::default();
        assert!(self.table.refill(&mut self.store, space, address, &mut count).is_some(), "{address:#x}");
        count
    }
}

const NODES: [u64; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

/// Table 4.4: 16 (S + 1) bytes a page at worst; theorem 1: S (k - 1) entries at most; and lemma 1: no node but the root
/// has fewer than two entries that lead somewhere.
#[test]
fn a_guarded_table_is_never_larger_than_its_worst_case() {
    for nodes in NODES {
        for seed in 0..3 {
            let (mut made, mut random) = (Made::new(&format!("g{nodes}")), Random::new(seed));
            for _ in 0..500 {
                made.map(1, random.below(1 << 47) & !0xfff);
            }
            let [leaves, null, inner] =
                ["entries_leaf", "entries_null", "entries_internal"].map(|name| made.shape(name));
            let root = if 51 % nodes.trailing_zeros() == 0 { nodes } else { 1 << (51 % nodes.trailing_zeros()) };
            assert_eq!(leaves + null + inner, nodes * inner + root, "every entry is of one kind");
            assert!(nodes * inner <= nodes * (leaves - 1));
            assert_eq!(made.shape("bytes"), 16 * (nodes * inner + root) + 16 * leaves);
            assert!(made.shape("bytes") <= 16 * (nodes + 1) * leaves + 16 * root);
            assert!(leaves > inner, "two entries a node: lemma 1");
        }
    }
}

/// Table A.14: a tree of binary nodes over LF leaves has LF - 2 internal entries and none that is empty, however
/// they lie, if the root has both its entries. 48 bytes a pair.
#[test]
fn binary_nodes_waste_nothing() {
    let (mut made, mut random) = (Made::new("g2"), Random::new(7));
    made.map(1, 0xffff_8000_0000_0000);
    (0..1000).for_each(|_| made.map(1, random.below(1 << 40) & !0xfff));
    let leaves = made.shape("entries_leaf");
    assert_eq!((made.shape("entries_internal"), made.shape("entries_null")), (leaves - 2, 0));
    assert_eq!(made.shape("bytes"), 48 * leaves - 32);
}

/// Roots have 2^(51 mod log2 S) entries, or S: what printed sizes imply.
#[test]
fn roots_have_what_is_left_at_the_top() {
    let entries = NODES.map(|nodes| {
        let mut made = Made::new(&format!("g{nodes}"));
        made.map(1, 0);
        (made.shape("bytes") - 16) / 16
    });
    assert_eq!(entries, [2, 2, 8, 8, 2, 8, 4, 8]);
}

/// Table 4.7 and equation 4.2: with equally spaced pages, trees over a region of 2^40 bytes are full at S^n 2^(27 mod S')
/// nodes below the region's root, and wasteful just above: the peaks are at twice that.
#[test]
fn spill_over_peaks_where_the_equation_says() {
    for (nodes, peaks) in [
        (16, vec![16, 256, 4096]),
        (32, vec![8, 256, 8192]),
        (64, vec![16, 1024]),
        (128, vec![128]),
        (256, vec![16, 4096]),
    ] {
        let bytes = |pages: u64| {
            let mut made = Made::new(&format!("g{nodes}"));
            (0..pages).for_each(|i| made.map(1, i * (1 << 40) / pages));
            made.shape("bytes") as f64 / pages as f64
        };
        let sizes: Vec<(u64, f64)> = (2..=13).map(|n| 1 << n).map(|pages| (pages, bytes(pages))).collect();
        let found: Vec<u64> =
            sizes.windows(3).filter(|w| w[1].1 > w[0].1 && w[1].1 > w[2].1).map(|w| w[1].0).collect();
        let inside: Vec<u64> = peaks.iter().copied().filter(|peak| (8..8192).contains(peak)).collect();
        assert_eq!(found, inside, "G{nodes}: {sizes:?}");
    }
}

/// Tables A.14 to A.21, internal entries for 512 to 8192 random pages in 2^40 bytes, means of ten seeds. The bound: the
/// printed deviation of the mean (NSTD / sqrt 10, twice, for theirs and ours), four times, and ten nodes for the eleven
/// pages of the program that are not described.
#[test]
fn random_pages_make_as_many_nodes_as_printed() {
    let printed: [(u64, [Printed; 3]); 8] = [
        (2, [(512, 523.0, 0.0), (2048, 2059.0, 0.0), (8192, 8202.0, 6e-5)]),
        (4, [(512, 331.0, 0.02), (2048, 1288.0, 0.009), (8192, 5114.0, 0.003)]),
        (8, [(512, 232.0, 0.02), (2048, 926.0, 0.01), (8192, 3747.0, 0.009)]),
        (16, [(512, 181.0, 0.03), (2048, 722.0, 0.02), (8192, 2869.0, 0.008)]),
        (32, [(512, 156.0, 0.05), (2048, 515.0, 0.02), (8192, 2784.0, 0.009)]),
        (64, [(512, 150.0, 0.03), (2048, 540.0, 0.02), (8192, 1386.0, 0.02)]),
        (128, [(512, 87.0, 0.07), (2048, 280.0, 0.06), (8192, 2253.0, 0.02)]),
        (256, [(512, 68.0, 0.08), (2048, 558.0, 0.02), (8192, 1930.0, 0.008)]),
    ];
    for (nodes, rows) in printed {
        for (pages, printed, deviation) in rows {
            let mut sum = 0;
            for seed in 0..10 {
                let (mut made, mut random) = (Made::new(&format!("g{nodes}")), Random::new(seed));
                (0..pages).for_each(|_| made.map(1, random.below(1 << 40) & !0xfff));
                sum += made.shape("entries_internal");
            }
            let mean = sum as f64 / 10.0;
            let bound = 4.0 * printed * deviation * (2.0_f64 / 10.0).sqrt() + 13.0;
            assert!((mean - printed).abs() <= bound, "G{nodes}, {pages} pages: {mean}, printed {printed} ± {bound}");
        }
    }
}

/// Nodes that grow: over pages that lie close they are wide, so that a walk is as short as of nodes of 256; over pages that
/// lie apart they are narrow, and no larger than of nodes of 16. When pages go, they shrink.
#[test]
fn nodes_that_change_their_size_are_wide_where_pages_lie_close_only() {
    let made = |name: &str, pages: &[u64]| {
        let mut made = Made::new(name);
        pages.iter().for_each(|page| made.map(1, *page));
        (
            made.shape("bytes") as f64 / pages.len() as f64,
            made.shape("depths") as f64 / made.shape("entries_leaf") as f64,
        )
    };
    let mut random = Random::new(5);
    let close: Vec<u64> = (0..4096).map(|i| (1 << 40) + (i << 12)).collect();
    let apart: Vec<u64> = (0..4096).map(|_| random.below(1 << 40) & !0xfff).collect();
    let ((bytes, depth), (_, of_256)) = (made("gv", &close), made("g256", &close));
    assert!(bytes < 20.0 && depth <= of_256 + 1.0, "{bytes} bytes, {depth} steps, and {of_256}");
    let ((bytes, depth), (of_2, deep), (of_16, _)) = (made("gv", &apart), made("g2", &apart), made("g16", &apart));
    assert!(bytes < of_16 && bytes < 2.0 * of_2 && depth < deep / 2.0, "{bytes} bytes, {depth} steps");
    let mut made = Made::new("gv");
    close.iter().chain(&apart).for_each(|page| made.map(1, *page));
    close.iter().for_each(|page| _ = made.table.set(&mut made.store, 1, *page, PageSize::K4, 0));
    let left = made.shape("bytes") as f64 / apart.len() as f64;
    assert!(left < 2.0 * of_2, "{left} bytes a page are left, and nodes of 2 have {of_2}");
    // Of wide nodes few entries stay: a node is halved while less than an eighth of it leads somewhere.
    for apart in [256, 512] {
        let mut made = Made::new("gv");
        close.iter().for_each(|page| made.map(1, *page));
        let gone = close.iter().filter(|page| **page >> 12 & (apart - 1) != 0);
        gone.for_each(|page| _ = made.table.set(&mut made.store, 1, *page, PageSize::K4, 0));
        let (bytes, leaves) = (made.shape("bytes"), made.shape("entries_leaf"));
        let used = leaves + made.shape("entries_internal");
        assert!(
            leaves == 4096 / apart && bytes <= 16 * (8 * used + leaves),
            "{bytes} bytes for {used} entries in use"
        );
    }
}

/// A refill of a guarded table takes 8 instructions and one line a step, and a leaf's line: as deep as the page lies.
#[test]
fn a_step_is_eight_instructions_and_sixteen_bytes() {
    let (mut made, mut random) = (Made::new("g16"), Random::new(3));
    let pages: Vec<u64> = (0..300).map(|_| random.below(1 << 40) & !0xfff).collect();
    pages.iter().for_each(|page| made.map(1, *page));
    let counts: Vec<Count> = pages.iter().map(|page| made.refill(1, *page)).collect();
    let steps: u64 = counts.iter().map(|count| count.loads.len() as u64 - 1).sum();
    for count in &counts {
        let steps = count.loads.len() as u64 - 1;
        assert_eq!(count.instructions, 38 + 8 * steps);
        assert!(count.loads[..steps as usize].iter().all(|(at, bytes)| at % 16 == 0 && *bytes == 16));
    }
    // The mean over pages is the mean over leaves, where no two share one: depths are told by the shape as well.
    assert_eq!(steps, made.shape("depths"));
}

/// ULTRIX: 2 MB and 2 KB. MACH: 2 MB, 4 MB, 4 KB. LVA of 64 bits: 2^54, 2^44, 2^34, 2^24, 2^14 and 2^4 bytes.
#[test]
fn linear_tables_are_as_large_as_printed() {
    let arrays = |bits, mapped| Linear::new(bits, 4, Handlers::ULTRIX, mapped, Uses::Tlb, false).arrays();
    assert_eq!(arrays(31, Mapped::EachSpace), [21, 11]);
    assert_eq!(arrays(31, Mapped::Kernel(32)), [21, 22, 12]);
    assert_eq!(arrays(64, Mapped::EachSpace), [54, 44, 34, 24, 14, 4]);
}

/// The eleven pages that the thesis's program has besides, in two regions of 2 MB below the first of those that are spaced
/// equally: the only reading that gives the printed sizes. The first of the N pages is one of them.
fn equally_spaced(name: &str, pages: u64) -> Made {
    let mut made = Made::new(name);
    (0..6).for_each(|page| made.map(1, page << 12));
    (0..5).for_each(|page| made.map(1, (4 << 20) + (page << 12)));
    (1..pages).for_each(|i| made.map(1, i * (1 << 40) / pages));
    made
}

/// Table A.50, all six rows: min(N, 512) + N + 4 nodes of 4096 bytes and a root of 32.
#[test]
fn multi_level_tables_are_as_large_as_printed() {
    let printed =
        [(64, 540_704), (128, 1_064_992), (256, 2_113_568), (512, 4_210_720), (1024, 6_307_872), (2048, 10_502_176)];
    for (pages, bytes) in printed {
        let mut made = equally_spaced("mpt", pages);
        assert_eq!(made.shape("bytes"), bytes, "{pages} pages");
        let count = made.refill(1, (1 << 40) / pages);
        assert_eq!((count.instructions, count.loads.len()), (34, 6));
    }
}

/// Tables A.51 to A.54 and the sizes that empty tables begin with. Equally spaced pages fall into one bucket; but the
/// program's pages, which are not described, fall into others, and how many share theirs is not said. So its bytes are
/// compared, and only N - 2 pages must be chained: of all eight N, of which the sizes of four are here as printed.
#[test]
fn hashed_tables_are_as_large_as_printed() {
    let printed: [(&str, u64, [Sized; 4]); 4] = [
        ("h512", 8192, [(64, 10_176), (256, 16_320), (1024, 40_896), (8192, 270_272)]),
        ("h8192", 131_072, [(64, 133_056), (256, 139_200), (1024, 163_776), (8192, 393_152)]),
        ("c512-4", 6144, [(64, 9120), (256, 18_336), (1024, 55_200), (8192, 399_264)]),
        ("c8192", 98_304, [(64, 101_280), (256, 110_496), (1024, 147_360), (8192, 491_424)]),
    ];
    for (name, empty, rows) in printed {
        let mut made = Made::new(name);
        made.map(1, 0x40_0000);
        assert_eq!(made.shape("bytes"), empty, "{name}");
        let bucket = if name.starts_with('h') { 32 } else { 48 };
        assert!(rows.iter().all(|(pages, bytes)| *bytes == empty + (pages - 2) * bucket), "{name}");
        for pages in (6..=13).map(|shift| 1 << shift) {
            let mut made = Made::new(name);
            // Where the program's pages hash elsewhere, of N - 1 spaced pages all but the first are chained.
            (1..12).for_each(|page| made.map(1, 0x40_0000 + (page << 16)));
            let alone = made.shape("bytes");
            (1..pages).for_each(|i| made.map(1, i * (1 << 40) / pages));
            assert_eq!(made.shape("bytes") - alone, (pages - 2) * bucket, "{name}, {pages} pages");
        }
    }
}

/// Table 6.1: bytes of a bucket; and table 6.2: lines that a refill touches, over all pairs and both places of a bucket in
/// lines of 32 bytes: 1, 1.25, 1.5 and 1.75.
#[test]
fn buckets_are_as_large_as_printed_and_touch_as_many_lines() {
    for (name, bytes, quarters) in [("h512", 32, 4), ("c512-4", 48, 5), ("c512-8", 80, 6), ("c512-16", 144, 7)] {
        let block = (bytes - 16) / 8;
        let (mut lines, mut refills) = (0, 0);
        let mut made = Made::new(name);
        // Buckets beside each other begin at both places, but those of 32 bytes, which begin at one.
        for bucket in 0..2 {
            (0..block).for_each(|page| made.map(1, (bucket * block + page) << 12));
        }
        for pair in 0..block {
            let count = made.refill(1, pair << 13);
            let mut touched: Vec<u64> = count.loads.iter().flat_map(|(at, n)| [at / 32, (at + n - 1) / 32]).collect();
            touched.sort_unstable();
            touched.dedup();
            lines += touched.len() as u64;
            refills += 1;
        }
        assert_eq!(made.shape("bytes") % bytes, 0);
        assert_eq!((lines * 4, refills), (quarters * refills, block), "{name}");
    }
}

/// A large page stands in each slot of its base pages: in as many buckets as it has blocks, of which one is found at once. Two
/// that lie a gigabyte apart meet in every bucket.
#[test]
fn a_large_page_takes_a_bucket_for_each_block() {
    for (name, blocks) in [("h512", 256), ("h8192", 256), ("c512-4", 128), ("c512-16", 32), ("c8192", 128)] {
        let mut made = Made { table: catalogue::table(name, false).unwrap(), store: Store::default() };
        let size = PageSize::M2;
        let mut chained = vec![];
        for begin in [1 << 21, 1 << 30 | 1 << 21] {
            let page = Page { machine: Machine::new(begin), size, rights: Rights::USER, mask: u64::MAX, leaf: size };
            let entry = made.store.pages.entry(page);
            made.table.set(&mut made.store, 1, begin, size, entry);
            chained.push(made.shape("buckets_chained"));
        }
        assert_eq!(chained, [0, blocks], "{name}");
        let found = made.refill(1, (1 << 22) - 1);
        assert_eq!((found.loads.len(), made.table.get(&made.store, 1, 1 << 21).1), (2, size), "{name}");
        assert_eq!(made.table.within(&made.store, 1, 0, 1 << 22), [(1 << 21, size)], "{name}");
        made.table.set(&mut made.store, 1, 1 << 21, size, 0);
        assert_eq!(made.shape("buckets_chained"), 0, "{name}");
    }
}

/// A hit in a chain is promoted: the next refill finds it first. Without promotion it stays where it is.
#[test]
fn promotion_moves_what_is_found_to_the_front() {
    for (name, loads) in [("c512-4", 2), ("c512-4-n", 4), ("h512", 2)] {
        let mut made = Made::new(name);
        let apart = 1 << 30;
        [0, apart].into_iter().for_each(|page| made.map(1, page));
        assert_eq!(made.shape("buckets_chained"), 1);
        made.refill(1, apart);
        assert_eq!(made.refill(1, apart).loads.len(), loads, "{name}");
    }
}

/// The last pages of the address space end at 2^64.
#[test]
fn a_software_tlb_forgets_what_lies_at_the_end_of_the_address_space() {
    let page = |machine, size| Page {
        machine: Machine::new(machine),
        size,
        rights: Rights::USER,
        mask: u64::MAX,
        leaf: size,
    };
    // The second has more pairs than any of these has entries: then all are looked through.
    for (name, shift) in ["g16-s8k", "g16-s128k", "g16-s2x4k"].into_iter().flat_map(|name| [(name, 21), (name, 26)]) {
        let (mut table, mut store) = (catalogue::table(name, false).unwrap(), Store::default());
        let address = 0xffff_ffff_ffff_c000;
        let (small, large) = (page(1 << 20, PageSize::K4), page(1 << 30, PageSize::of_shift(shift)));
        for (at, page) in [(address, small), (u64::MAX << shift, large)] {
            let entry = store.pages.entry(page);
            let gone = table.set(&mut store, 1, at, page.size, entry);
            gone.into_iter().for_each(|gone| store.pages.drop(gone));
            table.changed(&mut store, 1, at, page.size);
            let found = table.refill(&mut store, 1, address, &mut Count::default()).unwrap();
            assert_eq!(store.pages.get(found[0]), Some(&page), "{name}");
        }
    }
}

/// Software TLBs: 19 instructions from a direct-mapped one, 20 or 22 from two ways, whose set is one line.
#[test]
fn a_software_tlb_serves_what_its_table_has_served_before() {
    for (name, instructions) in [("g16-s8k", [19, 19]), ("g16-s2x4k", [20, 22])] {
        let mut made = Made::new(name);
        // Two pairs that meet in a set of the two-way one only.
        let other = if name == "g16-s8k" { 1 << 13 } else { 1 << 21 };
        [0, other].into_iter().for_each(|page| made.map(1, page));
        [0, other].into_iter().for_each(|page| assert!(made.refill(1, page).instructions > 30));
        let counts = [other, 0].map(|page| made.refill(1, page));
        assert_eq!(counts.each_ref().map(|count| count.instructions), instructions, "{name}");
        assert!(counts.iter().all(|c| c.loads.iter().all(|(at, n)| at / 32 == c.loads[0].0 / 32 && *n == 8)));
        // What changes is forgotten.
        made.map(1, 0);
        made.table.changed(&mut made.store, 1, 0, PageSize::K4);
        assert!(made.refill(1, 0).instructions > 30);
    }
}

/// An inverted table behind anchors takes two references at least: 4 bytes, then entries of 16.
#[test]
fn an_anchored_table_is_read_twice_at_least() {
    let mut made = Made::new("ipt");
    // Two that meet: their pages differ in a bit of the index and the one above it that is folded on it.
    let (page, other) = (0x1234_5000, 0x1234_5000 ^ (1 << 24 | 1 << 12));
    [page, other].into_iter().for_each(|page| made.map(1, page));
    assert_eq!((made.shape("entries_chained"), made.shape("bytes")), (1, 4 * 4096 + 2 * 16));
    let sizes = |count: Count| count.loads.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>();
    assert_eq!(sizes(made.refill(1, page)), [4, 16]);
    assert_eq!(sizes(made.refill(1, other)), [4, 16, 16]);
    for (gone, chained, bytes) in [(page, 0, 4 * 4096 + 16), (other, 0, 4 * 4096)] {
        made.table.set(&mut made.store, 1, gone, PageSize::K4, 0);
        assert_eq!((made.shape("entries_chained"), made.shape("bytes")), (chained, bytes));
    }
}
