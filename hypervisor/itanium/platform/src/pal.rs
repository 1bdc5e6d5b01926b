// SPDX-License-Identifier: MIT
//! PAL: what the processor says of itself (SDM vol. 2, chapter 11, from memory and as Linux reads it).

use itanium_mmu::config::Config;

use crate::sal::Answer;

/// How often the interval timer counts while the platform's clock beats once.
pub const TIMER_RATIO: u64 = 5;

/// A call that waits for an interrupt: the machine's to do.
pub const HALT_LIGHT: u64 = 29;

const UNIMPLEMENTED: Answer = [u64::MAX, 0, 0, 0];
const INVALID: Answer = [-2_i64 as u64, 0, 0, 0];
const WELL: Answer = [0; 4];

/// Page sizes of an Itanium 2 (thesis 3.1).
const SIZES: u64 = 1 << 12
    | 1 << 13
    | 1 << 14
    | 1 << 16
    | 1 << 18
    | 1 << 20
    | 1 << 22
    | 1 << 24
    | 1 << 26
    | 1 << 28
    | 1 << 30
    | 1 << 32;
/// Memory attributes: write back, not cacheable, exported, write coalescing, NaT page.
const ATTRIBUTES: u64 = 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;

/// Caches of the thesis' machine (3): size in KiB, ways, log2 of a line, unified. The machine has none: they decide what a
/// kernel steps by.
const CACHES: [(u64, u64, u64, u64); 3] = [(16, 4, 6, 0), (256, 8, 7, 1), (6144, 24, 7, 1)];

/// A call by its number and arguments.
pub fn call(config: &Config, function: u64, arguments: [u64; 3]) -> Answer {
    match function {
        1 | 3 | 12 | 16 | 18 | 21 | 22 | 23 | 27 | 32 | 41 => WELL,
        2 => cache(arguments),
        4 => [0, CACHES.len() as u64, CACHES.len() as u64 + 1, 0],
        5 => [0, ATTRIBUTES, 0, 0],
        // One ptc.e purges all.
        6 => [0, 0, 1 << 32 | 1, 0],
        7 => translation_cache(config, arguments),
        8 => summary(config),
        9 | 17 if arguments[1] == 0 => WELL,
        9 | 17 => [-8_i64 as u64, 0, 0, 0],
        // Pairs of breakpoints for instructions and for data.
        11 => [0, 4, 4, 0],
        14 => {
            let ratio = TIMER_RATIO << 32 | 1;
            [0, ratio, 1 << 32 | 1, ratio]
        }
        // Stacked registers; it stores and loads only what it must.
        19 => [0, 96, 0, 0],
        20 => [0, 1, 1, 0],
        34 => [0, SIZES, SIZES, 0],
        _ => UNIMPLEMENTED,
    }
}

/// PAL_CACHE_INFO.
fn cache([level, kind, _]: [u64; 3]) -> Answer {
    let Some(&(kib, ways, line, unified)) = CACHES.get(level as usize) else { return INVALID };
    if !matches!(kind, 1 | 2) || kind == 1 && unified == 1 {
        return INVALID;
    }
    [0, unified | 1 << 1 | ways << 8 | line << 16 | line << 24, kib << 10, 0]
}

/// PAL_VM_INFO.
fn translation_cache(config: &Config, [level, kind, _]: [u64; 3]) -> Answer {
    let entries = match level {
        0 if config.first_entries != 0 => config.first_entries,
        0 | 1 => config.cache_entries,
        _ => return INVALID,
    } as u64;
    if !matches!(kind, 1 | 2) {
        return INVALID;
    }
    let sizes = if level == 0 && config.first_entries != 0 { 1 << 12 } else { SIZES };
    // One set, all entries its ways.
    [0, 1 | (entries & 0xff) << 8 | entries << 16, sizes, 0]
}

/// PAL_VM_SUMMARY.
fn summary(config: &Config) -> Answer {
    let registers = config.registers as u64 - 1;
    let levels = 1 + u64::from(config.first_entries != 0);
    let keys = config.keys as u64 - 1;
    let first = 1 | u64::from(config.physical_bits) << 1 | 24 << 8 | keys << 16 | registers << 32 | registers << 40;
    // Identifiers of regions have 24 bits; one purge at a time.
    [0, first | 2 * levels << 48 | levels << 56, u64::from(config.virtual_msb) | 24 << 8 | 1 << 16, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_the_processor_is() {
        let [status, first, second, _] = call(&Config::default(), 8, [0; 3]);
        assert_eq!(status, 0);
        assert_eq!((first & 1, first >> 1 & 127, first >> 32 & 255, first >> 40 & 255), (1, 50, 7, 7));
        assert_eq!((second & 255, second >> 8 & 255, second >> 16 & 0xffff), (60, 24, 1));
    }

    #[test]
    fn there_is_no_fourth_cache() {
        assert_eq!(call(&Config::default(), 2, [2, 2, 0])[0], 0);
        assert_eq!(call(&Config::default(), 2, [3, 2, 0]), INVALID);
        assert_eq!(call(&Config::default(), 2, [1, 1, 0]), INVALID);
    }
}
