// SPDX-License-Identifier: MIT
//! Kernels as they are built: ELF files of 64 bits for this architecture.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const MACHINE: u16 = 50;

/// A kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// Physical addresses, what is there, and how much memory it has, which may be more: until it is loaded.
    #[serde(skip)]
    pub segments: Vec<(u64, Vec<u8>, u64)>,
    /// The physical address where it begins.
    pub entry: u64,
    /// Names of its virtual addresses.
    pub names: BTreeMap<u64, String>,
}

struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    fn piece(&self, at: u64, length: u64) -> Result<&'a [u8], String> {
        let end = at.checked_add(length).ok_or("it is no file of its own size")?;
        self.0
            .get(at as usize..end as usize)
            .ok_or_else(|| format!("it is cut off: {} bytes, {end} wanted", self.0.len()))
    }

    fn number(&self, at: u64, length: u64) -> Result<u64, String> {
        let mut word = [0; 8];
        word[..length as usize].copy_from_slice(self.piece(at, length)?);
        Ok(u64::from_le_bytes(word))
    }

    /// An entry of a table, of which each has so many bytes.
    fn entry(&self, table: u64, bytes: u64, number: u64) -> Result<Self, String> {
        let at =
            number.checked_mul(bytes).and_then(|by| table.checked_add(by)).ok_or("it has a table beyond its end")?;
        Ok(Self(self.piece(at, bytes)?))
    }

    /// Up to the first zero from here on.
    fn text(&self, at: u64) -> Result<&'a [u8], String> {
        let text = self.piece(at, (self.0.len() as u64).saturating_sub(at))?;
        Ok(text.split(|&byte| byte == 0).next().unwrap_or_default())
    }
}

impl Kernel {
    /// What a file has; why it is no kernel that this machine can start.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("it is empty".into());
        }
        let file = File(bytes);
        if file.piece(0, 6)? != b"\x7fELF\x02\x01" {
            return Err("it is no ELF file of 64 bits, little-endian".into());
        }
        let machine = file.number(18, 2)? as u16;
        if machine != MACHINE {
            return Err(format!("it is for another architecture: number {machine}, {MACHINE} wanted"));
        }
        let (entry, headers, count) = (file.number(24, 8)?, file.number(32, 8)?, file.number(56, 2)?);
        let mut kernel = Self::default();
        let mut begins = None;
        for number in 0..count {
            let header = file.entry(headers, 56, number)?;
            let [at, from, physical, length, memory] = [8, 16, 24, 32, 40].map(|field| header.number(field, 8));
            let (at, from, physical, length, memory) = (at?, from?, physical?, length?, memory?);
            if header.number(0, 4)? != 1 || memory == 0 {
                continue;
            }
            if entry.wrapping_sub(from) < memory {
                begins = Some((entry - from).wrapping_add(physical));
            } else if entry.wrapping_sub(physical) < memory {
                begins = Some(entry);
            }
            kernel.segments.push((physical, file.piece(at, length)?.to_vec(), memory.max(length)));
        }
        kernel.entry = begins.ok_or("its first instruction is in none of its segments")?;
        // A kernel without names starts as well.
        kernel.names = names(&file).unwrap_or_default();
        Ok(kernel)
    }

    /// A virtual address by the name before it.
    pub fn name(&self, address: u64) -> Option<String> {
        let (&begin, name) = self.names.range(..=address).next_back()?;
        (address - begin < 1 << 20).then(|| format!("{name}+{:#x}", address - begin))
    }
}

/// Names of functions and of labels.
fn names(file: &File) -> Result<BTreeMap<u64, String>, String> {
    let (sections, count) = (file.number(40, 8)?, file.number(60, 2)?);
    let mut names = BTreeMap::new();
    for number in 0..count {
        let section = file.entry(sections, 64, number)?;
        if section.number(4, 4)? != 2 {
            continue;
        }
        let symbols = File(file.piece(section.number(24, 8)?, section.number(32, 8)?)?);
        let texts = file.entry(sections, 64, section.number(40, 4)?)?.number(24, 8)?;
        for number in 0..symbols.0.len() as u64 / 24 {
            let symbol = symbols.entry(0, 24, number)?;
            let text = file.text(texts.saturating_add(symbol.number(0, 4)?))?;
            if matches!(symbol.number(4, 1)? & 15, 0 | 2) && !text.is_empty() && symbol.number(6, 2)? != 0 {
                names.insert(symbol.number(8, 8)?, String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    Ok(names)
}
