// SPDX-License-Identifier: MIT
//! What can be wrong with a trace.

use std::fmt;
use std::io;

use crate::format::VERSION;

/// What is wrong with a trace, and where: offsets count bytes from the beginning of the file.
#[derive(Debug)]
pub enum TraceError {
    /// The operating system refused.
    Io(io::Error),
    /// The file does not begin as a trace does.
    NotATrace,
    /// Another version wrote it.
    Version(u32),
    /// It ends before its end mark.
    Truncated {
        /// Where it ends, or where the part that is cut begins.
        offset: u64,
    },
    /// Its content cannot be what was written.
    Corrupt {
        /// Where the block with the fault begins.
        offset: u64,
        /// What cannot be.
        what: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the trace cannot be read or written: {error}"),
            Self::NotATrace => {
                write!(f, "this is no trace: it does not begin with the magic of one; name another file")
            }
            Self::Version(got) => {
                write!(f, "the trace is of version {got}, expected {VERSION}; record it anew with this version")
            }
            Self::Truncated { offset } => {
                write!(f, "the trace is truncated at offset {offset}: it has no end mark; record it anew")
            }
            Self::Corrupt { offset, what } => {
                write!(f, "the trace is corrupt in what begins at offset {offset}: {what}; record it anew")
            }
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
