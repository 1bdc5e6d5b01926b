// SPDX-License-Identifier: MIT
//! What the thesis counted of its small programs, and what it says of superpages under either walker. Its numbers are
//! measured on a machine with more on it; asserted is what a TLB of 128 entries, least recently used first, makes of the
//! same accesses.

mod kernel;

use itanium_mmu::config::{Config, SizeFrom};
use itanium_mmu::fault::Kind;
use itanium_mmu::walker::Abort;
use kernel::{BASE, Kernel};

const REGION: u64 = 1 << 61;
const PAGE: u64 = 1 << BASE;
const MIB: u64 = 1 << 20;

fn kernel(long: bool) -> Kernel {
    Kernel::new(long, Config::default())
}

/// Three times over 512 pages, 32 MiB and a bit from each other (thesis 4.3.1, figure 4.1).
fn sparse(long: bool, perturbation: u64) -> Kernel {
    let mut kernel = kernel(long);
    for _ in 0..3 {
        for area in 0..512 {
            kernel.touch(REGION + area * (32 * MIB + perturbation));
        }
    }
    kernel
}

#[test]
fn sparse_access_the_short_formats_walker_never_inserts() {
    let kernel = sparse(false, PAGE);
    assert_eq!(kernel.walked(), 0);
    assert!(kernel.faults(Kind::VhptData) >= 3 * 512, "each access misses the table's page");
}

#[test]
fn sparse_access_the_long_formats_walker_serves_two_passes_of_three() {
    let kernel = sparse(true, PAGE);
    assert_eq!((kernel.walked(), kernel.tables.overwritten), (1024, 0));
    assert_eq!(kernel.faults(Kind::VhptData), 0);
}

#[test]
fn sparse_access_unperturbed_shares_64_entries_of_the_hash_table() {
    let kernel = sparse(true, 0);
    assert_eq!(kernel.walked(), 0);
    assert!(kernel.tables.overwritten >= 3 * 512 - 64);
    assert_eq!(kernel.mmu.lines_touched(), 64);
}

/// A walk over a GiB that is there (thesis 4.3.2, table 4.2).
fn linear(long: bool) -> Kernel {
    let mut kernel = kernel(long);
    for page in 0..65_536 {
        kernel.populate(REGION + page * PAGE, BASE);
    }
    for page in 0..65_536 {
        kernel.touch(REGION + page * PAGE);
    }
    kernel
}

#[test]
fn linear_access_the_short_formats_walker_serves_all_but_the_first_of_32_mib() {
    let kernel = linear(false);
    assert_eq!((kernel.walked(), kernel.faults(Kind::VhptData), kernel.faults(Kind::DataTlb)), (65_504, 32, 0));
    assert_eq!(kernel.misses(), 65_536);
    let measured = [(kernel.misses(), 65_619), (kernel.walked(), 65_570)];
    assert!(
        measured.iter().all(|&(ours, theirs): &(u64, u64)| ours.abs_diff(theirs) * 500 <= theirs),
        "{measured:?}"
    );
}

#[test]
fn linear_access_the_long_formats_walker_serves_none() {
    let kernel = linear(true);
    assert_eq!((kernel.walked(), kernel.faults(Kind::DataTlb), kernel.misses()), (0, 65_536, 65_536));
    assert_eq!(kernel.faults(Kind::VhptData), 0);
}

#[test]
fn linear_access_the_long_format_reads_a_new_line_every_fourth_page() {
    assert_eq!((linear(true).mmu.lines_touched(), linear(false).mmu.lines_touched()), (16_384, 4096));
}

/// Misses of a pass over ten pages in each of so many processes, once all has been seen (thesis 4.3.3, figure 4.5).
fn processes(long: bool, count: u64) -> u64 {
    let mut kernel = kernel(long);
    let mut before = 0;
    for _ in 0..4 {
        before = kernel.misses();
        for process in 0..count {
            kernel.switch(1 + process << 8); // spread, so that their entries do not meet
            (0..10).for_each(|page| kernel.touch(REGION + page * PAGE));
        }
    }
    kernel.misses() - before
}

#[test]
fn processes_the_short_format_needs_a_translation_more_for_each() {
    assert_eq!([11, 12].map(|count| processes(false, count) > 0), [false, true], "11 entries a process");
    assert_eq!([12, 13].map(|count| processes(true, count) > 0), [false, true], "10 entries a process");
}

/// Two superpages of 1 MiB between base pages, all there.
fn mixed(long: bool, config: Config) -> Kernel {
    let mut kernel = Kernel::new(long, config);
    kernel.populate(REGION + MIB, 20);
    kernel.populate(REGION + 2 * MIB, 20);
    for page in (0..64).chain(192..256) {
        kernel.populate(REGION + page * PAGE, BASE);
    }
    kernel
}

/// Reads all 256 of its base pages once.
fn pass(kernel: &mut Kernel) {
    (0..256).for_each(|page| kernel.touch(REGION + page * PAGE));
}

#[test]
fn superpages_take_the_short_format_its_walker() {
    let mut kernel = mixed(false, Config::default());
    pass(&mut kernel);
    // 128 base pages, of which the first has the handler insert the table's page.
    assert_eq!((kernel.walked(), kernel.faults(Kind::VhptData)), (127, 1));
    // Two superpages: each ends a walk, and software inserts it.
    assert_eq!((kernel.faults(Kind::DataTlb), kernel.mmu.counters().aborts_for(Abort::Attribute)), (2, 2));
    assert_eq!(kernel.misses(), 130);
    let sizes = kernel.mmu.tlb(itanium_mmu::tlb::Side::Data).all().map(|each| each.range.size.shift());
    assert_eq!(sizes.filter(|&shift| shift == 20).count(), 2, "they cover more with less");
}

#[test]
fn a_walker_that_reads_the_size_serves_superpages_too() {
    let mut kernel = mixed(false, Config { size_from: SizeFrom::Ignored, ..Config::default() });
    pass(&mut kernel);
    assert_eq!((kernel.walked(), kernel.faults(Kind::VhptData), kernel.faults(Kind::DataTlb)), (129, 1, 0));
    assert_eq!(kernel.misses(), 130, "as many misses, and no software for superpages");
}

#[test]
fn the_long_format_serves_a_superpage_where_the_page_that_was_inserted_is_met() {
    // Faults at one page of a superpage; when all of the TLB is gone, the walker finds the superpage by that page only.
    for (first, then, walked) in [(0, 0, 1), (17, 17, 1), (17, 0, 0), (0, 17, 0)] {
        let mut kernel = mixed(true, Config::default());
        kernel.touch(REGION + MIB + first * PAGE);
        assert_eq!((kernel.walked(), kernel.faults(Kind::DataTlb)), (0, 1));
        kernel.mmu.ptc_e();
        kernel.touch(REGION + MIB + then * PAGE);
        assert_eq!((kernel.walked(), kernel.faults(Kind::DataTlb)), (walked, 2 - walked), "{first} then {then}");
        kernel.touch(REGION + MIB + 63 * PAGE);
        assert_eq!(kernel.misses(), 2, "either way all of it is there");
    }
}

#[test]
fn neither_nested_nor_vhpt_faults_come_with_the_long_format() {
    let mut kernel = mixed(true, Config::default());
    pass(&mut kernel);
    kernel.mmu.ptc_e();
    pass(&mut kernel);
    assert_eq!((kernel.faults(Kind::VhptData), kernel.faults(Kind::DataNested)), (0, 0));
    assert_eq!(kernel.walked(), 130, "each by the page that it was met at first");
}

#[test]
fn identifiers_with_their_low_bytes_swapped_do_not_meet() {
    let entry = |rid: u64, page: u64| {
        let mut kernel = kernel(true);
        kernel.switch(rid);
        kernel.mmu.thash(REGION + page * PAGE)
    };
    let swapped = |rid: u64| rid & 0x00ff_0000 | (rid & 0xff) << 8 | rid >> 8 & 0xff;
    assert_eq!(entry(0x100, 0x1000), entry(0x101, 0x1001));
    assert_ne!(entry(swapped(0x100), 0x1000), entry(swapped(0x101), 0x1001));
}

#[test]
fn a_page_of_the_linear_table_reaches_32_mib_and_of_64_kib_pages_512() {
    for (shift, reach) in [(14, 32 * MIB), (16, 512 * MIB)] {
        let mut kernel = kernel(false);
        kernel.mmu.set_region(1, 7 << 8 | shift << 2 | 1).expect("a good word");
        let page = |va: u64| kernel.mmu.thash(REGION + va) >> shift;
        assert_eq!((page(reach - 1), page(reach)), (page(0), page(0) + 1), "{shift}");
    }
}

#[test]
fn a_hash_table_of_4_mib_meets_itself_every_2_gib() {
    let kernel = kernel(true);
    let entry = |va: u64| kernel.mmu.thash(REGION + va);
    assert_eq!(entry(2048 * MIB), entry(0));
    let nearer = (BASE..31).filter(|&shift| entry(1 << shift) == entry(0));
    assert_eq!(nearer.count(), 0, "and no nearer");
    assert_eq!((4 * MIB / 32, 2048 * MIB / PAGE), (1 << 17, 1 << 17), "an entry for each page of that");
}
