// SPDX-License-Identifier: MIT
//! Compresses and writes blocks in a thread of its own, so that the machine that is recorded need not wait.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use crate::error::TraceError;
use crate::format::MARK_BLOCK;

/// Blocks that may wait; then the machine does.
const WAITING: usize = 16;

/// The thread's other end.
pub struct Packer<W> {
    blocks: SyncSender<Vec<u8>>,
    /// Buffers to use again.
    spare: Receiver<Vec<u8>>,
    thread: JoinHandle<Result<W, TraceError>>,
}

impl<W: Write + Send + 'static> Packer<W> {
    /// Compression is zstd's level.
    pub fn new(out: W, compression: i32) -> Result<Self, TraceError> {
        let mut compressor = zstd::bulk::Compressor::new(compression)?;
        compressor.include_checksum(true)?;
        let (blocks, to_pack) = sync_channel(WAITING);
        let (done, spare) = channel();
        let thread =
            std::thread::Builder::new().name("trace".into()).spawn(move || pack(&to_pack, &done, compressor, out))?;
        Ok(Self { blocks, spare, thread })
    }

    /// Whether the block will be written, if nothing goes wrong: if something has, `end` tells what.
    #[must_use]
    pub fn put(&self, block: Vec<u8>) -> bool {
        self.blocks.send(block).is_ok()
    }

    /// An empty buffer.
    pub fn buffer(&self) -> Vec<u8> {
        self.spare.try_recv().unwrap_or_default()
    }

    /// Wait until all is written, and return what it was written to.
    pub fn end(self) -> Result<W, TraceError> {
        drop(self.blocks);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn pack<W: Write>(
    blocks: &Receiver<Vec<u8>>,
    done: &Sender<Vec<u8>>,
    mut compressor: zstd::bulk::Compressor<'_>,
    mut out: W,
) -> Result<W, TraceError> {
    for mut block in blocks {
        let packed = compressor.compress(&block)?;
        out.write_all(&[MARK_BLOCK])?;
        out.write_all(&(packed.len() as u32).to_le_bytes())?;
        out.write_all(&(block.len() as u32).to_le_bytes())?;
        out.write_all(&packed)?;
        block.clear();
        // The other end may be gone, and wants no more buffers then.
        let _ = done.send(block);
    }
    Ok(out)
}
