// SPDX-License-Identifier: MIT
//! All organisations by name.

use crate::base::Base;
use crate::guarded::Guarded;
use crate::hashed::Hashed;
use crate::inverted::Inverted;
use crate::linear::{Handlers, Linear, Mapped, Uses};
use crate::multilevel::{Cost, Leaf, Multilevel};
use crate::stlb::Stlb;
use crate::table::Table;

/// An organisation: its name, what it is, and how it is made for a TLB whose entries are pairs or not.
pub struct Organisation {
    /// As commands and results name it.
    pub name: &'static str,
    /// In a sentence.
    pub about: &'static str,
    make: fn(bool) -> Box<dyn Table>,
}

macro_rules! organisations {
    ($($name:literal: $about:literal => |$pairs:pat_param| $make:expr;)*) => {
        /// All of them, in the order of their sources.
        pub const ALL: &[Organisation] =
            &[$(Organisation { name: $name, about: $about, make: |$pairs| Box::new($make) },)*];
    };
}

organisations! {
    "g2": "guarded table, nodes of 2 entries (Elphinstone 1999)" => |pairs| Guarded::new(2, pairs);
    "g4": "guarded table, nodes of 4 entries" => |pairs| Guarded::new(4, pairs);
    "g8": "guarded table, nodes of 8 entries" => |pairs| Guarded::new(8, pairs);
    "g16": "guarded table, nodes of 16 entries" => |pairs| Guarded::new(16, pairs);
    "g32": "guarded table, nodes of 32 entries" => |pairs| Guarded::new(32, pairs);
    "g64": "guarded table, nodes of 64 entries" => |pairs| Guarded::new(64, pairs);
    "g128": "guarded table, nodes of 128 entries" => |pairs| Guarded::new(128, pairs);
    "g256": "guarded table, nodes of 256 entries" => |pairs| Guarded::new(256, pairs);
    "gv": "guarded table, nodes as large as what lies in them makes worth while (proposed in the thesis)" => |pairs| Guarded::of_any_size(pairs);
    "g16-s8k": "g16 behind a software TLB of 512 pairs, direct-mapped (the thesis's 1x8K)" => |pairs| stlb(512, 1, pairs);
    "g16-s128k": "g16 behind a software TLB of 8192 pairs, direct-mapped (1x128K)" => |pairs| stlb(8192, 1, pairs);
    "g16-s2x4k": "g16 behind a software TLB of 512 pairs in two ways (2x4K)" => |pairs| stlb(512, 2, pairs);
    "g16-s2x64k": "g16 behind a software TLB of 8192 pairs in two ways (2x64K)" => |pairs| stlb(8192, 2, pairs);
    "mpt": "six levels, top-down (the thesis's multi-level table)" => |pairs| mpt(pairs);
    "h512": "hashed table of 256 buckets of a pair for each task (the thesis's HPT)" => |pairs| Hashed::new(256, 2, true, HPT, pairs);
    "h8192": "hashed table of 4096 buckets of a pair for each task" => |pairs| Hashed::new(4096, 2, true, HPT, pairs);
    "c512-4": "clustered table of 128 buckets of 4 entries for each task (the thesis's C-4-512)" => |pairs| Hashed::new(128, 4, true, CPT, pairs);
    "c512-8": "clustered table of 64 buckets of 8 entries for each task" => |pairs| Hashed::new(64, 8, true, CPT, pairs);
    "c512-16": "clustered table of 32 buckets of 16 entries for each task" => |pairs| Hashed::new(32, 16, true, CPT, pairs);
    "c512-4-n": "c512-4 without promotion" => |pairs| Hashed::new(128, 4, false, CPT, pairs);
    "c512-8-n": "c512-8 without promotion" => |pairs| Hashed::new(64, 8, false, CPT, pairs);
    "c512-16-n": "c512-16 without promotion" => |pairs| Hashed::new(32, 16, false, CPT, pairs);
    "c8192": "clustered table of 2048 buckets of 4 entries for each task" => |pairs| Hashed::new(2048, 4, true, CPT, pairs);
    "lva": "linear virtual array of 64-bit addresses (proposed in the thesis)" => |pairs| linear(64, 4, Handlers::LVA, Uses::Tlb, pairs);
    "ultrix": "two arrays, bottom-up, of 31-bit addresses (Jacob & Mudge 1998)" => |pairs| linear(31, 4, Handlers::ULTRIX, Uses::Protected, pairs);
    "ultrix-48": "ultrix of 48-bit addresses and 8-byte entries, which makes four arrays" => |pairs| linear(48, 8, Handlers::ULTRIX, Uses::Protected, pairs);
    "mach": "three arrays, bottom-up, of 31-bit addresses (Jacob & Mudge 1998)" => |pairs| mach(31, 4, 32, pairs);
    "mach-48": "mach of 48-bit addresses and 8-byte entries, in a kernel's space of 57 bits" => |pairs| mach(48, 8, 57, pairs);
    "intel": "two levels, top-down, walked by hardware, of 32-bit addresses (Jacob & Mudge 1998)" => |_| Multilevel::new(&[10, 10], 4, Leaf::Single, Cost::Cycles(7), false);
    "intel-48": "intel of 48-bit addresses and 8-byte entries: four levels, and as many more cycles" => |_| Multilevel::new(&[9, 9, 9, 9], 8, Leaf::Single, Cost::Cycles(13), false);
    "radix": "four levels of 9 bits and 8-byte entries, walked by hardware that costs its references only: as x86-64 has it" => |_| Multilevel::new(&[9, 9, 9, 9], 8, Leaf::Single, Cost::Cycles(0), false);
    "pa-risc": "hashed table of 4096 entries for all tasks (Jacob & Mudge 1998)" => |pairs| Inverted::new(4096, pairs);
    "ipt": "inverted table behind 4096 anchors, one for all tasks (surveyed in the thesis)" => |pairs| Inverted::behind_anchors(4096, pairs);
    "notlb": "no TLB: ultrix asked by misses of virtual caches, of 31-bit addresses (Jacob & Mudge 1998)" => |pairs| linear(31, 4, Handlers::ULTRIX, Uses::Caches, pairs);
    "notlb-48": "notlb of 48-bit addresses and 8-byte entries" => |pairs| linear(48, 8, Handlers::ULTRIX, Uses::Caches, pairs);
    "base": "virtual caches, and no translation (Jacob & Mudge 1998)" => |_| Base;
}

/// Instructions of a refill from the first bucket (the thesis's table 6.4).
const HPT: u64 = 19;
const CPT: u64 = 27;

fn stlb(entries: u64, ways: u64, pairs: bool) -> Stlb {
    Stlb::new(entries, ways, Box::new(Guarded::new(16, pairs)))
}

/// Indices of bits 61 to 63, 51 to 60, 41 to 50, 31 to 40, 21 to 30 and 13 to 20; 34 instructions (table 6.4; section 6.3.1
/// says 41). The text has a root of 4 bits, but sizes are printed that have 3.
fn mpt(pairs: bool) -> Multilevel {
    Multilevel::new(&[3, 10, 10, 10, 10, 8], 4, Leaf::Pairs, Cost::Instructions(34), pairs)
}

fn linear(bits: u32, bytes: u64, handlers: Handlers, uses: Uses, pairs: bool) -> Linear {
    Linear::new(bits, bytes, handlers, Mapped::EachSpace, uses, pairs)
}

fn mach(bits: u32, bytes: u64, kernel: u32, pairs: bool) -> Linear {
    Linear::new(bits, bytes, Handlers::MACH, Mapped::Kernel(kernel), Uses::Protected, pairs)
}

/// A guest's table and a host's, walked by hardware in two dimensions: GUEST/HOST, then what stands before them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The guest's, by name.
    pub guest: String,
    /// The host's.
    pub host: String,
    /// Whether the processor's nested TLB is used: +ntlb.
    pub nested_tlb: bool,
    /// Entries of a software TLB before both: 8192 with +stlb, else 0.
    pub front: u64,
}

impl Pair {
    /// The pair of such a name; none: it is not one of two tables.
    pub fn parse(name: &str) -> Option<Self> {
        let mut words = name.split('+');
        let (guest, host) = words.next()?.split_once('/')?;
        let mut pair = Self { guest: guest.into(), host: host.into(), nested_tlb: false, front: 0 };
        for word in words {
            match word {
                "ntlb" => pair.nested_tlb = true,
                "stlb" => pair.front = 8192,
                _ => return None,
            }
        }
        Some(pair)
    }
}

/// The organisation of this name, empty, for a TLB whose entries are pairs or not.
pub fn table(name: &str, pairs: bool) -> Option<Box<dyn Table>> {
    ALL.iter().find(|one| one.name == name).map(|one| (one.make)(pairs))
}
