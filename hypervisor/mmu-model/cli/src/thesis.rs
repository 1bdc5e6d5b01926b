// SPDX-License-Identifier: MIT
//! `thesis`: the made-up workloads of Elphinstone 1999 on each of its tables.

use std::io::{Write, stdout};

use clap::Args;
use mmu_organisations::thesis;

use crate::Failure;

#[derive(Args)]
pub struct Options {
    /// How many seeds of random numbers each mean is of
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
}

pub fn run(options: &Options) -> Result<(), Failure> {
    writeln!(stdout(), "{}", serde_json::to_string_pretty(&thesis::to_json(options.seeds))?)?;
    Ok(())
}
