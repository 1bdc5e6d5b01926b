// SPDX-License-Identifier: MIT
//! The command as a user meets it: results on standard output, errors on standard error with a status that is not 0.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_abh-mmu")).args(arguments).output().unwrap()
}

fn out(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn error(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn trace(name: &str) -> String {
    let trace = path(name).to_str().unwrap().to_owned();
    out(&["synth", &trace, "--accesses", "30000"]);
    trace
}

#[test]
fn replay_prints_counters_of_every_processor_and_size() {
    let trace = trace("replay.mmu");
    let text = out(&["replay", &trace, "--cpu", "i7-3770", "--cpu", "icelake-sp", "--sweep", "stlb=128,512"]);
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    let misses = |i: usize| results[i]["counters"]["layers"]["total"]["tlb_misses"].as_u64().unwrap();
    assert_eq!(results.as_array().unwrap().len(), 4);
    assert_eq!(results[1]["sweep"]["entries"], 512);
    assert!(misses(0) > misses(1) && misses(1) > misses(3), "{} {} {}", misses(0), misses(1), misses(3));
    assert_eq!(results[0]["counters"]["kind"], "modelled");
    assert_eq!(results[0]["estimate"]["kind"], "estimate");
    assert!(results[0]["estimate"]["estimated_cycles_high"].is_null(), "instructions are not known");
    assert!(results[0]["estimate"]["of_data_stalls"].as_f64().unwrap() > 0.0);
    let without: serde_json::Value = serde_json::from_str(&out(&["replay", &trace, "--data", "off"])).unwrap();
    assert_eq!(without[0]["data_through_caches"], false);
    assert!(without[0]["estimate"]["of_data_stalls"].is_null(), "no data went through the caches");
    assert!(error(&["replay", &trace, "--data", "maybe"]).contains("expected on or off"));
    assert!(out(&["check", &trace]).contains("whole"));
}

#[test]
fn perf_lines_are_json_one_by_one() {
    let trace = trace("perf.mmu");
    for cpu in ["i7-3770", "icelake-sp", "zen2", "zen5"] {
        let text = out(&["replay", &trace, "--cpu", cpu, "--perf", "--layer", "guest_user"]);
        let counted = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["event"].as_str().unwrap().len() > 3 && line["counter-value"].as_str().unwrap().ends_with(".000000")
        };
        assert!(text.lines().count() > 5 && text.lines().all(counted), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let trace = trace("broken.mmu");
    let bytes = std::fs::read(&trace).unwrap();
    let cut = path("cut.mmu").to_str().unwrap().to_owned();
    std::fs::write(&cut, &bytes[..5000]).unwrap();
    for command in ["replay", "check"] {
        assert!(error(&[command, &cut]).contains("truncated at offset 5000"));
        assert!(error(&[command, "/nonexistent"]).contains("cannot be opened"));
    }
    assert!(error(&["replay", &trace, "--cpu", "i8"]).contains("none of the built-in processors (i7-3770"));
    assert!(error(&["replay", &trace, "--sweep", "stlb"]).contains("such as stlb=128"));
    assert!(error(&["replay", &trace, "--sweep", "stlb=500"]).contains("expected a power of two"));
    assert!(error(&["replay", &trace, "--sweep", "tlb=512"]).contains("there are dtlb-4k"));
    assert!(error(&["replay", &trace, "--perf", "--layer", "me"]).contains("expected guest_user"));
    assert!(error(&["replay", &trace, "--output", "/nonexistent/x"]).contains("cannot be written"));
}

#[test]
fn organisations_are_replayed_beside_each_other() {
    let trace = trace("organisations.mmu");
    let run = |more: &[&str]| -> serde_json::Value {
        let words = [&["organisations", &trace][..], more].concat();
        serde_json::from_str(&out(&words)).unwrap()
    };
    let results = run(&["--organisation", "g16", "--organisation", "mpt", "--machine", "r4700", "--machine", "zen2"]);
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        let total = &result["counters"]["layers"]["total"];
        assert_eq!((&result["counters"]["kind"], total["mismatches"].as_u64()), (&"modelled".into(), Some(0)));
        assert!(total["refills"].as_u64().unwrap() > 100 && total["refill_cycles"].as_u64().unwrap() > 1000);
        assert!(result["counters"]["table"]["bytes"].as_u64().unwrap() > 4096);
    }
    let misses = |results: &serde_json::Value| results[0]["counters"]["layers"]["total"]["refills"].as_u64().unwrap();
    assert!(misses(&run(&["--superpages", "on"])) < misses(&run(&[])), "large pages cover more");
    let text = out(&["organisations"]);
    for name in ["g256", "c512-16-n", "pa-risc", "base", "jacob-mudge", "zen2         machine: AMD"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}: {text}");
    }
}

/// Of a trace that has the first fetch of each page only, nothing can be said of organisations that caches ask.
#[test]
fn a_trace_without_every_fetch_is_refused_where_they_are_needed() {
    let trace = trace("fetches.mmu");
    let words = |trace: &str| {
        ["organisations", trace, "--machine", "jacob-mudge", "--organisation", "notlb-48", "--organisation", "base"]
            .map(str::to_owned)
    };
    let run = |trace: &str| Command::new(env!("CARGO_BIN_EXE_abh-mmu")).args(words(trace)).output().unwrap();
    assert!(run(&trace).status.success() && out(&["check", &trace]).contains("fetches by lines"));
    let mut bytes = std::fs::read(&trace).unwrap();
    for (kind, says) in [
        (
            b'P',
            "notlb-48 on jacob-mudge: it is asked by misses of caches, and the trace has one fetch of each page only; record",
        ),
        (9, "its fetches are of kind 9"),
    ] {
        bytes[12] = kind;
        let other = path("fetches-changed.mmu");
        std::fs::write(&other, &bytes).unwrap();
        let failed = run(other.to_str().unwrap());
        assert!(!failed.status.success() && String::from_utf8(failed.stderr).unwrap().contains(says), "{says}");
    }
    bytes[12] = b'P';
    std::fs::write(path("fetches-changed.mmu"), &bytes).unwrap();
    assert!(
        out(&["organisations", path("fetches-changed.mmu").to_str().unwrap()]).contains("\"fetches\": \"pages\"")
    );
}

#[test]
fn caches_are_swept_and_warmed_and_a_part_of_a_trace_is_heard() {
    let trace = path("swept.mmu").to_str().unwrap().to_owned();
    out(&["synth", &trace, "--accesses", "300000"]);
    let run = |more: &[&str]| -> Vec<serde_json::Value> {
        let words = [&["organisations", &trace, "--machine", "jacob-mudge", "--organisation", "ultrix-48"][..], more];
        serde_json::from_str(&out(&words.concat())).unwrap()
    };
    let said = |result: &serde_json::Value, name: &str| result["counters"]["layers"]["total"][name].as_u64().unwrap();
    let swept = run(&["--sweep", "l1=1,32,128", "--sweep", "l2=512,1024"]);
    let sizes: Vec<_> = swept.iter().map(|r| (&r["swept"]["l1"], &r["swept"]["l2"])).collect();
    assert_eq!((sizes.len(), sizes[0], sizes[5]), (6, (&1.into(), &512.into()), (&128.into(), &1024.into())));
    let hits: Vec<_> = swept.iter().map(|result| said(result, "data_refs_l1")).collect();
    assert!(hits[0] < hits[2] && hits[2] < hits[4] && hits[0] == hits[1], "{hits:?}");
    // What handlers execute is the TLB's doing: the same behind all caches (Jacob & Mudge, figures 8 and 9). Without a TLB it
    // is the last cache's.
    let handler = |result| (said(result, "handler_instructions_user"), said(result, "interrupts_user"));
    assert!(handler(&swept[0]).0 > 0 && swept.iter().all(|result| handler(result) == handler(&swept[0])));
    let without = run(&["--organisation", "notlb-48", "--sweep", "l2=64,512,2048"]);
    let entries: Vec<_> = without.iter().filter(|r| r["organisation"] == "notlb-48").map(handler).collect();
    assert!(entries.len() == 3 && entries[0] > entries[1] && entries[1] > entries[2], "{entries:?}");
    let plain = run(&[]);
    assert_eq!(said(&plain[0], "data_refs_l1"), said(&swept[3], "data_refs_l1"), "32 KiB are its own");
    let few = run(&["--sweep", "tlb=32,128,512"]);
    let misses: Vec<_> = few.iter().map(|result| said(result, "refills")).collect();
    assert!(misses[0] > misses[1] && misses[1] > misses[2], "{misses:?}");
    assert_eq!(misses[1], said(&plain[0], "refills"), "128 entries are its own");
    let lines = run(&["--sweep", "line=16,32,128"]);
    let hits: Vec<_> = lines.iter().map(|result| said(result, "data_refs_l1")).collect();
    assert!(hits[0] < hits[1] && hits[1] < hits[2], "{hits:?}: some data are used in order");
    let warm = run(&["--warm"]);
    assert_eq!(said(&plain[0], "loads"), said(&warm[0], "loads"), "the first time is not counted");
    assert!(said(&warm[0], "refills").abs_diff(said(&plain[0], "refills")) < said(&plain[0], "refills") / 20);
    assert!(said(&warm[0], "data_refs_memory") < said(&plain[0], "data_refs_memory"));
    assert!(said(&warm[0], "table_updates") < said(&plain[0], "table_updates"));
    let part = run(&["--first", "1000", "--speed"]);
    assert!(said(&part[0], "loads") < said(&plain[0], "loads"));
    assert!(part[0]["accesses_per_processor_second"].as_f64().unwrap() > 1000.0);
    assert!(plain[0]["accesses_per_processor_second"].is_null(), "what is not asked for would not repeat");
}

#[test]
fn tables_are_walked_within_tables() {
    let trace = trace("nested.mmu");
    let names = ["radix/radix", "radix/radix+ntlb", "h8192/h8192", "g16/radix+stlb"];
    let words: Vec<&str> = names.iter().flat_map(|name| ["--organisation", name]).collect();
    let words = [&["organisations", &trace, "--machine", "i7-3770"][..], &words].concat();
    let results: serde_json::Value = serde_json::from_str(&out(&words)).unwrap();
    let said = |i: usize, name: &str| results[i]["counters"]["layers"]["total"][name].as_u64().unwrap();
    assert_eq!(
        results.as_array().unwrap().iter().map(|r| r["organisation"].as_str().unwrap()).collect::<Vec<_>>(),
        names
    );
    assert_eq!(said(0, "references_most"), 24);
    let references = |i: usize| said(i, "references_guest") + said(i, "references_host");
    assert!(references(2) < references(0) / 3, "{} and {}", references(2), references(0));
    assert!(said(1, "references_host") < said(0, "references_host") && said(1, "nested_tlb_hits") > 0);
    assert!(said(3, "refills_short_cut") > 0 && said(0, "refills_short_cut") == 0);
    assert_eq!(said(0, "refills"), said(2, "refills"), "misses are the TLB's own");
}

#[test]
fn the_made_up_workloads_are_run() {
    let found: serde_json::Value = serde_json::from_str(&out(&["thesis", "--seeds", "1"])).unwrap();
    assert_eq!(found["kind"], "modelled");
    for workload in
        ["SPARSE-PAGE", "equal spacing", "SPARSE-FILE", "MAP1", "MAPN", "MAPS", "MAPS+64M", "unmap", "task"]
    {
        let lines = found["lines"].as_array().unwrap().iter().filter(|line| line["workload"] == workload);
        let zero = |line: &serde_json::Value| line["value"].as_f64().unwrap() <= 0.0 && line["quantity"] != "misses";
        assert!(lines.clone().count() >= 15 && !lines.clone().any(zero), "{workload}");
    }
    assert!(error(&["thesis", "--seeds", "0"]).contains("1..=1000"));
}

#[test]
fn what_no_organisation_can_do_is_said() {
    let trace = trace("unfit.mmu");
    let wrong = |more: &[&str]| error(&[&["organisations", &trace][..], more].concat());
    assert!(wrong(&["--organisation", "g3"]).contains("there is none of this name, expected g2, g4"));
    assert!(wrong(&["--machine", "vax"]).contains("none of the built-in machines (r4700"));
    assert!(wrong(&["--organisation", "ultrix", "--machine", "jacob-mudge"]).contains("take one of more bits"));
    assert!(wrong(&["--organisation", "base"]).contains("all caches must have virtual tags"));
    let large = wrong(&["--organisation", "radix", "--superpages", "on"]);
    assert!(
        large.contains("radix on r4700: it cannot map large pages here: its table has pages of 4k, 2m, 1g"),
        "{large}"
    );
    assert!(large.contains("Leave out --superpages on"), "{large}");
    assert!(wrong(&["--sweep", "l1"]).contains("such as l1=8"));
    assert!(wrong(&["--sweep", "l2=512"]).contains("has no cache 2, expected 1 to 1"));
    assert!(
        wrong(&["--sweep", "l1=8", "--sweep", "l1=32"]).contains("l1 is swept twice; give all its sizes at once")
    );
    assert!(wrong(&["--sweep", "line=24"]).contains("a line of 24 bytes, expected a power of two from 16"));
    assert!(wrong(&["--machine", "jacob-mudge", "--sweep", "tlb=16"]).contains("16 of 16 reserved, expected fewer"));
    assert!(wrong(&["--sweep", "tlb=0"]).contains("it holds nothing"));
    assert!(wrong(&["--first", "0"]).contains("0 is not in 1.."));
    assert!(wrong(&["--sweep", "l1=0"]).contains("which they do not fill"));
    let nested = |name: &str| wrong(&["--machine", "i7-3770", "--organisation", name]);
    assert!(nested("radix/g3").contains("there is none of this name, expected g2, g4"));
    assert!(nested("lva/radix").contains("the guest's table is not one that hardware can walk"));
    let swept = wrong(&["--machine", "i7-3770", "--organisation", "radix/radix", "--sweep", "l1=64"]);
    assert!(swept.contains("radix/radix on i7-3770: nothing is swept where hardware walks two tables"), "{swept}");
    assert!(nested("radix/radix+cache").contains("there is none of this name"));
    assert!(wrong(&["--organisation", "radix/radix"]).contains("a processor's of today; take i7-3770"));
    let text = include_str!("../../organisations/machines/r4700.toml");
    for (from, to, says) in [
        (
            "memory_cycles = 19\n",
            "",
            "missing field `memory_cycles`; hypervisor/mmu-model/organisations/machines/r4700.toml has",
        ),
        ("memory_cycles = 19", "memory_cycles = 19\nl2_cycles = 5", "there is no cache 2; leave it out"),
        ("ways = 2", "ways = 3", "lines in sets of 3, which they do not fill"),
        ("\"16m\"", "\"15m\"", "pages has \"15m\""),
        ("memory_cycles = 19", "memory_cycles = 0", "cost: 0 cycles stand behind 1"),
        ("\"random\"", "\"plru\"", "plru of 48 ways, expected a power of two up to 64"),
        ("\"4k\", ", "", "pages of 4k, as traces have them, are not among those of machine"),
        ("side = \"both\"", "side = \"data\"", "no tlb of level 1 serves side Instruction"),
    ] {
        let file = path("machine.toml");
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replace(from, to)).unwrap();
        let said = wrong(&["--machine", file.to_str().unwrap()]);
        assert!(said.contains(says), "{says}: {said}");
    }
}

/// A list that cannot be written ends with an error in words.
#[test]
fn what_cannot_be_printed_is_said() {
    for words in [&["organisations"][..], &["cpus"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_abh-mmu")).args(words).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.starts_with("abh-mmu: No space left"), "{said}");
    }
}

#[test]
fn programs_of_the_thesis_are_recorded_and_replayed() {
    let trace = path("mm.mmu");
    let recorded = out(&["synth", trace.to_str().unwrap(), "--program", "mm", "--accesses", "1100000"]);
    assert!(recorded.contains("1134375 accesses"), "{recorded}"); // a fetch for each 32 of data
    let said = out(&["organisations", trace.to_str().unwrap(), "--organisation", "h512"]);
    assert!(said.contains("\"mismatches\": 0") && said.contains("\"pages_mapped\": 1965"), "{said}");
    assert!(error(&["synth", "t", "--program", "mm", "--seed", "2"]).contains("cannot be used with"));
    assert!(error(&["synth", trace.to_str().unwrap(), "--program", "go"]).contains("expected nsieve, heapsort, mm"));
}
