//! zstd frames: one thread, one set of parameters, bounded output.
//!
//! Callers: `write`, `parts`.

use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound, find_frame_compressed_size};

/// How hard zstd tries: see the table in `tests::size`.
pub(super) const LEVEL: i32 = 12;

pub(super) struct Packer(Compressor<'static>);

impl Packer {
    pub fn new(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self(compressor))
    }

    pub fn pack(&mut self, raw: &[u8]) -> io::Result<Vec<u8>> {
        self.0.compress(raw)
    }
}

pub(super) struct Unpacker(Decompressor<'static>);

impl Unpacker {
    pub fn new() -> io::Result<Self> {
        Ok(Self(Decompressor::new()?))
    }

    /// Unpacks one frame; `None` when it is not one frame of exactly `len` bytes.
    pub fn unpack(&mut self, frame: &[u8], len: usize) -> Option<Vec<u8>> {
        if find_frame_compressed_size(frame) != Ok(frame.len()) {
            return None;
        }
        self.0.decompress(frame, len).ok().filter(|raw| raw.len() == len)
    }
}

/// The longest frame of so many bytes.
pub(super) fn longest(raw: usize) -> usize {
    compress_bound(raw)
}
