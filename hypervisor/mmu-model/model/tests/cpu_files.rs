// SPDX-License-Identifier: MIT
//! CPU files: the built-in ones are right, and what is wrong with another is said.

use mmu_model::cpu::{BUILT_IN, Cpu};

const FILE: &str = r#"
name = "x"
events = "zen"
asid_tags = { holds = true, source = "made up" }
nested_root_tags = { holds = false, source = "made up" }
second_level_splits_1g = { holds = false, source = "made up" }
confirms_faults = { holds = false, source = "made up" }
[[tlb]]
name = "d"
level = 1
side = "data"
pages = ["4k", "2m"]
entries = 64
ways = 4
replacement = "lru"
source = "made up"
[cache.l3]
kib = 64
ways = 4
slices = { parity_of = [0x1040, 0x2080], source = "made up" }
source = "made up"
[cost]
l1_cycles = 4
l2_cycles = 12
l3_cycles = 30
memory_cycles = 200
second_level_tlb_cycles = 7
instruction_cycles = 0.5
exposed_share = 0.5
exposed_walk_share = [0.5, 1.0]
exit_cycles = 1000
source = "made up"
"#;

fn problem(from: &str, to: &str) -> String {
    assert!(FILE.contains(from));
    Cpu::parse("x.toml", &FILE.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn the_built_in_files_are_right() {
    for (name, _) in BUILT_IN {
        Cpu::built_in(name).unwrap().unwrap();
    }
    assert!(Cpu::built_in("8086").is_none());
}

#[test]
fn a_wrong_file_is_refused_by_name_of_what_is_wrong() {
    Cpu::parse("x.toml", FILE).unwrap();
    for (from, to, expected) in [
        ("ways = 4", "ways = 5", "tlb \"d\": 5 ways do not divide 64 entries"),
        ("ways = 4", "ways = 0", "0 ways do not divide"),
        ("entries = 64", "entries = 96", "24 sets (96 / 4), expected a power of two"),
        ("ways = 4", "ways = 4\ncolour = 3", "unknown field `colour`"),
        ("events = \"zen\"", "events = \"zen\"\nspeed = 3", "unknown field `speed`"),
        ("\"2m\"", "\"3m\"", "pages has \"3m\""),
        ("level = 1", "level = 3", "level is 3"),
        ("source = \"made up\"\n[cost]", "source = \" \"\n[cost]", "cache.l3: source is empty"),
        ("holds = true, source = \"made up\"", "holds = true, source = \"\"", "asid_tags: source is empty"),
        ("holds = true, source = \"made up\"", "holds = true", "missing field `source`"),
        ("[0x1040, 0x2080]", "[0x1040, 0x20]", "parity_of has 0x20"),
        ("[0x1040, 0x2080]", "[]", "0 bits of a slice's number"),
        ("kib = 64", "kib = 96", "and 384 sets"),
        ("[cache.l3]", "[cache.l2]", "a core's own cache is in one piece"),
        ("[0.5, 1.0]", "[1.0, 0.5]", "exposed_walk_share is [1, 0.5]"),
        ("exit_cycles = 1000", "", "missing field `exit_cycles`"),
        ("exposed_share = 0.5\n", "exposed_share = 5\n", "exposed_share must lie in"),
        ("replacement = \"lru\"", "replacement = \"oldest\"", "unknown variant `oldest`"),
    ] {
        let got = problem(from, to);
        assert!(got.contains(expected) && got.contains("x.toml"), "{got}");
    }
    let three_ways = FILE.replace("entries = 64", "entries = 48").replace("ways = 4", "ways = 3");
    let got = Cpu::parse("x.toml", &three_ways.replace("\"lru\"", "\"plru\"")).unwrap_err().to_string();
    assert!(got.contains("plru needs"), "{got}");
}

#[test]
fn one_size_twice_at_a_level_is_refused() {
    let (head, rest) = FILE.split_once("[[tlb]]").unwrap();
    let (tlb, _) = rest.split_once("[cache.l3]").unwrap();
    let second = tlb.replace("\"d\"", "\"e\"").replace("\"data\"", "\"both\"");
    let text = format!("{head}[[tlb]]{second}[[tlb]]{rest}");
    let got = Cpu::parse("x.toml", &text).unwrap_err().to_string();
    assert!(got.contains("both hold 4k pages at level 1"), "{got}");
}

#[test]
fn resize_keeps_the_rules() {
    let mut cpu = Cpu::parse("x.toml", FILE).unwrap();
    cpu.resize("d", 128).unwrap();
    assert!(cpu.resize("d", 130).unwrap_err().to_string().contains("do not divide"));
    assert!(cpu.resize("q", 8).unwrap_err().to_string().contains("there are d"));
}
