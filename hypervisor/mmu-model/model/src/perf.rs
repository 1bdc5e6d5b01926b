// SPDX-License-Identifier: MIT
//! The counts under the names that `perf` gives them on the processor modelled, where they mean the same.
//!
//! Linux's generic names mean different things by vendor, and so they do here: on Intel dTLB-load-misses are walks
//! for loads; on AMD dTLB-loads are misses of the first level, of loads and stores (arch/x86/events).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::address::PageSize;
use crate::context::{Kind, Layer};
use crate::counters::{Bank, Counters};
use crate::cpu::Events;
use crate::invalidate::Cause;

/// All layers' events by name, and the total's; instructions are known in total only.
pub fn to_json(counters: &Counters, family: Events) -> Value {
    let named = |events: Vec<(String, u64)>| events.into_iter().collect::<BTreeMap<_, _>>();
    let mut layers: BTreeMap<_, _> =
        Layer::ALL.map(|layer| (layer.name(), named(events(counters.layer(layer), family)))).into();
    layers.insert("total", named(total(counters, family)));
    serde_json::json!(layers)
}

/// The total's events and their counts; of instructions only if they were counted.
pub fn total(counters: &Counters, family: Events) -> Vec<(String, u64)> {
    let known = (counters.instructions > 0).then(|| ("instructions".to_owned(), counters.instructions));
    known.into_iter().chain(events(&counters.total(), family)).collect()
}

/// Events and their counts, for one layer.
pub fn events(bank: &Bank, family: Events) -> Vec<(String, u64)> {
    match family {
        Events::Ivybridge => intel(bank, true),
        Events::Icelake => intel(bank, false),
        Events::Zen => amd(bank),
    }
}

fn hits(bank: &Bank, level: usize, kind: Kind) -> u64 {
    bank.hits[level][kind as usize].iter().sum()
}

fn walked(bank: &Bank, kind: Kind) -> u64 {
    bank.fills[kind as usize].iter().sum()
}

fn intel(bank: &Bank, ivybridge: bool) -> Vec<(String, u64)> {
    let misses = |kind| if ivybridge { bank.misses(kind) } else { walked(bank, kind) };
    let mut out: Vec<(String, u64)> = [
        ("dTLB-loads", bank.accesses(Kind::Load)),
        ("dTLB-load-misses", misses(Kind::Load)),
        ("dTLB-stores", bank.accesses(Kind::Store)),
        ("dTLB-store-misses", misses(Kind::Store)),
        ("iTLB-load-misses", misses(Kind::Fetch)),
    ]
    .map(|(name, n)| (name.to_owned(), n))
    .into();
    for (kind, prefix) in Kind::ALL.into_iter().zip(["dtlb_load_misses", "dtlb_store_misses", "itlb_misses"]) {
        let [small, large, huge] = PageSize::ALL.map(|size| bank.fills[kind as usize][size.index()]);
        let mut put = |name: &str, n| out.push((format!("{prefix}.{name}"), n));
        put("stlb_hit", hits(bank, 1, kind));
        put("walk_completed", small + large + huge);
        if ivybridge {
            put("miss_causes_a_walk", bank.misses(kind));
            put("walk_duration", bank.walk_cycles[kind as usize]);
            put("large_page_walk_completed", large + huge);
        } else {
            put("walk_completed_4k", small);
            put("walk_completed_2m_4m", large);
            // The instruction side has no event of its own for 1 GiB pages.
            if kind != Kind::Fetch {
                put("walk_completed_1g", huge);
            }
            put("walk_active", bank.walk_cycles[kind as usize]);
        }
    }
    if ivybridge {
        out.push(("ept.walk_cycles".into(), bank.host_walk_cycles));
    }
    // Attempts to flush the thread's entries: what flushes a whole context, not INVLPG's single addresses.
    let single = [Cause::Invlpg, Cause::Invlpga, Cause::Cr3Keep, Cause::NestedRoot];
    let whole = Cause::ALL.into_iter().filter(|c| !single.contains(c));
    out.push(("tlb_flush.dtlb_thread".into(), whole.map(|c| bank.flushes[c as usize]).sum()));
    out
}

fn amd(bank: &Bank) -> Vec<(String, u64)> {
    let data = |table: &[[u64; PageSize::COUNT]; Kind::COUNT], size: PageSize| {
        table[Kind::Load as usize][size.index()] + table[Kind::Store as usize][size.index()]
    };
    let second = hits(bank, 1, Kind::Load) + hits(bank, 1, Kind::Store);
    let walks = walked(bank, Kind::Load) + walked(bank, Kind::Store);
    let mut out = vec![
        ("dTLB-loads".to_owned(), second + walks),
        ("dTLB-load-misses".into(), walks),
        ("iTLB-loads".into(), hits(bank, 1, Kind::Fetch)),
        ("iTLB-load-misses".into(), walked(bank, Kind::Fetch)),
        ("ls_l1_d_tlb_miss.all".into(), second + walks),
        ("bp_l1_tlb_miss_l2_tlb_hit".into(), hits(bank, 1, Kind::Fetch)),
    ];
    for size in PageSize::ALL {
        let name = size.name();
        out.push((format!("ls_l1_d_tlb_miss.tlb_reload_{name}_l2_hit"), data(&bank.hits[1], size)));
        out.push((format!("ls_l1_d_tlb_miss.tlb_reload_{name}_l2_miss"), data(&bank.fills, size)));
        let fetches = bank.fills[Kind::Fetch as usize][size.index()];
        out.push((format!("bp_l1_tlb_miss_l2_tlb_miss.if{name}"), fetches));
    }
    out
}

/// One line as `perf stat -j` prints it.
pub fn json_line(event: &str, count: u64) -> String {
    format!(
        "{{\"counter-value\" : \"{count}.000000\", \"unit\" : \"\", \"event\" : \"{event}\", \
         \"event-runtime\" : 0, \"pcnt-running\" : 100.00}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_perf_prints() {
        let line = json_line("dTLB-loads", 42);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "dTLB-loads");
        assert_eq!(value["counter-value"].as_str().unwrap().parse::<f64>().unwrap() as u64, 42);
    }

    #[test]
    fn generic_names_follow_the_vendor() {
        let mut bank = Bank::default();
        bank.hits[0][0][0] = 100;
        bank.hits[1][0][0] = 10;
        for (kind, size, n) in
            [(0, PageSize::K4, 1), (0, PageSize::M2, 2), (0, PageSize::G1, 4), (1, PageSize::K4, 8)]
        {
            bank.fills[kind][size.index()] = n;
        }
        bank.faults = [16, 0, 0];
        let named = |family, name: &str| events(&bank, family).into_iter().find(|(n, _)| n == name).map(|(_, n)| n);
        assert_eq!(named(Events::Ivybridge, "dTLB-loads"), Some(133));
        assert_eq!(named(Events::Ivybridge, "dTLB-load-misses"), Some(23));
        assert_eq!(named(Events::Icelake, "dTLB-load-misses"), Some(7));
        assert_eq!(named(Events::Zen, "dTLB-loads"), Some(25));
        assert_eq!(named(Events::Zen, "dTLB-load-misses"), Some(15));
        assert_eq!(named(Events::Zen, "ls_l1_d_tlb_miss.tlb_reload_4k_l2_miss"), Some(9));
        assert_eq!(named(Events::Icelake, "dtlb_load_misses.walk_completed_2m_4m"), Some(2));
    }
}
