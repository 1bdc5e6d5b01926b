// SPDX-License-Identifier: MIT
//! A machine as a file: a line that says what it is, the state as JSON with its length before it, and each piece of memory
//! that is not all zeros, with its address before it.

use std::io::{Error, Read, Result, Write};

use crate::machine::Machine;

const HEAD: &[u8; 16] = b"abh itanium v1 \n";
const PIECE: usize = 16384;

/// The file is not a machine's.
fn wrong(what: &str) -> Error {
    Error::other(format!("this is no snapshot of an Itanium machine: {what}"))
}

fn word(from: &mut impl Read) -> Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

impl Machine {
    /// Writes all of it.
    pub fn save(&self, to: &mut impl Write) -> Result<()> {
        let state = serde_json::to_vec(self)?;
        to.write_all(HEAD)?;
        to.write_all(&self.board.memory().to_le_bytes())?;
        to.write_all(&(state.len() as u64).to_le_bytes())?;
        to.write_all(&state)?;
        for (index, piece) in self.board.all().chunks(PIECE).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                to.write_all(&((index * PIECE) as u64).to_le_bytes())?;
                to.write_all(piece)?;
            }
        }
        to.write_all(&u64::MAX.to_le_bytes())
    }

    /// Reads what was written: it goes on as the original would have.
    pub fn restore(from: &mut impl Read) -> Result<Self> {
        let mut head = [0; HEAD.len()];
        from.read_exact(&mut head)?;
        if &head != HEAD {
            return Err(wrong("another begin"));
        }
        let (memory, length) = (word(from)?, word(from)?);
        if !crate::map::MEMORY.contains(&memory) || memory % crate::map::GRANULE != 0 {
            return Err(wrong("a size of memory that there is not"));
        }
        let mut state = vec![];
        from.take(length).read_to_end(&mut state)?;
        let mut machine: Self = serde_json::from_slice(&state).map_err(|why| wrong(&why.to_string()))?;
        if let Some(part) = machine.unsound() {
            return Err(wrong(&format!("its {part} has a size or a value that there is not")));
        }
        let none = || Error::other(format!("this computer has no {} MiB for the machine's memory", memory >> 20));
        machine.board.resize(memory).ok_or_else(none)?;
        loop {
            match word(from)? {
                u64::MAX => return Ok(machine),
                at => from.read_exact(machine.board.piece(at, PIECE as u64).ok_or_else(|| wrong("an address"))?)?,
            }
        }
    }
}
