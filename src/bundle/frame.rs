//! zstd frames: one thread, one set of parameters, bounded output.
//!
//! Callers: `write`, `parts`.

use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound, find_frame_compressed_size};

/// How hard zstd tries. 5,000 listings of the sample origin with their details (`tests::size` measures it):
///
/// | level | 3 | 6 | 9 | 12 | 15 | 19 |
/// |---|---|---|---|---|---|---|
/// | kB | 1282 | 1146 | 1084 | 1035 | 981 | 931 |
/// | time | 1 | 1.4 | 2.0 | 2.2 | 6.9 | 51 |
pub(super) const LEVEL: i32 = 12;

pub(super) struct Packer(Compressor<'static>);

impl Packer {
    pub(super) fn new(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        Ok(Self(compressor))
    }

    pub(super) fn pack(&mut self, raw: &[u8]) -> io::Result<Vec<u8>> {
        self.0.compress(raw)
    }
}

pub(super) struct Unpacker(Decompressor<'static>);

impl Unpacker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(Decompressor::new()?))
    }

    /// Unpacks one frame; `None` when it is not one frame of exactly `len` bytes.
    pub(super) fn unpack(&mut self, frame: &[u8], len: usize) -> Option<Vec<u8>> {
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
