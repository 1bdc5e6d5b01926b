// SPDX-License-Identifier: MIT
//! Traces for the MMU model: what happened, and the page-table words that it needs, so that a replay needs no machine.
//!
//! A file is a header (magic, version), blocks (each a zstd frame with checksum, behind its two lengths) and an end
//! mark with totals; [`format`] has the details. [`recorder::Recorder`] writes, [`reader::Reader`] reads, and
//! [`replay::Replay`] feeds what is read to a model.

pub mod decoded;
pub mod error;
pub mod format;
pub mod image;
mod packer;
pub mod reader;
pub mod recorder;
pub mod replay;
