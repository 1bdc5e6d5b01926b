// SPDX-License-Identifier: MIT
//! What the thesis's own formulas say: how guarded trees fill, what a page costs at worst, and when a second software TLB wins.

use mmu_model::synthetic::Random;

use super::{Count, Made, NODES};

/// Bits of an index that are left at a region's top, of 2^40 bytes in pairs of pages.
fn left_over(nodes: u64) -> u32 {
    (40 - 13) % nodes.trailing_zeros()
}

/// Table 4.4: a page costs a node and a leaf at worst. Each of these pages lies beside the path to all before it.
#[test]
fn a_page_costs_a_node_and_a_leaf_at_worst() {
    for (nodes, printed) in NODES.into_iter().zip([48, 80, 144, 272, 528, 1040, 2064, 4112]) {
        let mut made = Made::new(&format!("g{nodes}"));
        made.map(1, 0);
        let mut before = made.shape("bytes");
        for level in 0..(40 - 13) / nodes.trailing_zeros() {
            made.map(1, 1 << (13 + level * nodes.trailing_zeros()));
            assert_eq!(made.shape("bytes") - before, printed, "G{nodes}, node {level}");
            before = made.shape("bytes");
        }
    }
}

/// Table 4.7 by equation 4.1, S^n 2^((A' - P') mod S'), for 1, 2 and 3 levels: with so many pages, spaced equally, no entry below
/// the region's own node is empty. With twice as many (equation 4.2), each leaf has become a node with two entries in use.
#[test]
fn trees_are_full_where_the_table_says() {
    for (nodes, printed) in [
        (16_u64, [8, 128, 2048]),
        (32, [4, 128, 4096]),
        (64, [8, 512, 32_768]),
        (128, [64, 8192, 1_048_576]),
        (256, [8, 2048, 524_288]),
    ] {
        let first = 1 << left_over(nodes);
        assert_eq!([0, 1, 2].map(|n| nodes.pow(n) * first), printed, "G{nodes}");
        let empty = |pages: u64| {
            let mut made = Made::new(&format!("g{nodes}"));
            (0..pages).for_each(|i| made.map(1, i * ((1 << 40) / pages)));
            assert_eq!(made.shape("entries_leaf"), pages);
            // A root leads to the region's node, and nowhere else; of that the upper bits are outside.
            let root = 1 << (51 % nodes.trailing_zeros());
            made.shape("entries_null") - (root - 1) - (nodes - first)
        };
        for pages in printed {
            assert_eq!(empty(pages), 0, "G{nodes}, {pages} pages");
            if pages <= 8192 {
                assert_eq!(empty(2 * pages), pages * (nodes - 2), "G{nodes}, {} pages", 2 * pages);
            }
        }
    }
}

/// Equation 5.3: of a first design with hits R, a second whose hits take ΔH more can win only where R < P / (P + ΔH), P being what
/// a miss takes more than a hit; and by equation 5.2 it does where ΔR > R ΔH / P + (1 - R) ΔM / P. Of instructions, one way and two,
/// over working sets that fit and that do not.
#[test]
fn two_ways_win_where_the_equation_says() {
    let highest = |penalty: f64, hit: f64| penalty / (penalty + hit);
    assert!((highest(100.0, 11.0) - 0.90).abs() < 0.005, "the thesis's example");
    let (mut lost, mut won) = (0, 0);
    for (pairs, apart) in [(64, 1), (256, 1), (512, 1), (700, 1), (1024, 1), (2, 512), (32, 512), (400, 3)] {
        let told = ["g16-s8k", "g16-s2x4k"].map(|name| {
            let (mut made, mut random) = (Made::new(name), Random::new(1));
            let pages: Vec<u64> = (0..pairs).map(|i| (i * apart) << 13).collect();
            pages.iter().for_each(|page| made.map(1, *page));
            let (mut hits, mut misses) = (vec![], vec![]);
            for _ in 0..20_000 {
                let count: Count = made.refill(1, pages[random.below(pairs) as usize]);
                // A walk has at least one step of 8 instructions after the 38 that surround it.
                (if count.instructions < 38 { &mut hits } else { &mut misses }).push(count.instructions as f64);
            }
            let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
            let ratio = hits.len() as f64 / 20_000.0;
            (ratio, mean(&hits), mean(&misses), mean(&[hits, misses].concat()))
        });
        let [(ratio, hit, miss, all), (ratio_2, hit_2, miss_2, all_2)] = told;
        let (penalty, dearer) = (miss_2 - hit_2, hit_2 - hit);
        let enough = (ratio * dearer + (1.0 - ratio) * (miss_2 - miss)) / penalty;
        let wins = all_2 < all;
        assert_eq!(wins, ratio_2 - ratio > enough, "{pairs} pairs {apart} apart: {told:?}");
        if miss_2 >= miss && ratio >= highest(penalty, dearer) {
            assert!(!wins, "{told:?}");
        }
        *(if wins { &mut won } else { &mut lost }) += 1;
    }
    assert!(lost > 1 && won > 1, "{lost} lost, {won} won");
}
