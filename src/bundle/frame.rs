//! zstd frames: one thread, one set of parameters, bounded output.
//!
//! Callers: `write`, `parts`.

use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, compress_bound, find_frame_compressed_size};

use super::MAX_PART;

/// zstd's level. 5,000 listings of the sample origin with their details (`tests::size` measures it):
///
/// | level | 3 | 6 | 9 | 12 | 15 | 19 |
/// |---|---|---|---|---|---|---|
/// | kB | 1281 | 1147 | 1089 | 1043 | 981 | 931 |
/// | time | 1 | 1.3 | 1.5 | 1.8 | 4.7 | 28 |
pub(super) const LEVEL: i32 = 12;

/// The size of the encoder's table, as a power of two. The level's own is 21: 11 MiB of memory in place of 1.8 MiB, for
/// bundles that are 1 % smaller.
const HASH_LOG: u32 = 18;

/// The largest window of a frame, in bytes: a streaming reader keeps so much. It is the longest part, rounded up to a
/// power of two.
const MAX_WINDOW: u64 = (MAX_PART as u64).next_power_of_two();

pub(super) struct Packer(Compressor<'static>);

impl Packer {
    pub(super) fn new(level: i32) -> io::Result<Self> {
        let mut compressor = Compressor::new(level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
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

    /// Decompresses one frame; `None` if it is not one frame of exactly `len` bytes, or its window is too large.
    pub(super) fn unpack(&mut self, frame: &[u8], len: usize) -> Option<Vec<u8>> {
        if find_frame_compressed_size(frame) != Ok(frame.len()) || window(frame)? > MAX_WINDOW {
            return None;
        }
        self.0.decompress(frame, len).ok().filter(|raw| raw.len() == len)
    }
}

/// The window of a frame in bytes (RFC 8878 §3.1.1.1.2); 0: the length of the content. `None`: not a frame.
fn window(frame: &[u8]) -> Option<u64> {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    let [_, _, _, _, descriptor, window, ..] = *frame else { return None };
    if descriptor & SINGLE_SEGMENT != 0 {
        return Some(0);
    }
    let base = 1_u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

/// The longest frame of so many bytes.
pub(super) fn longest(raw: usize) -> usize {
    compress_bound(raw)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A frame of a stream of unknown length, which names a window.
    fn streamed(raw: &[u8], window_log: u32) -> Vec<u8> {
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.set_parameter(CParameter::WindowLog(window_log)).unwrap();
        encoder.write_all(raw).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_window_that_no_part_needs_is_refused() {
        let raw = b"a".repeat(1000);
        let mut unpacker = Unpacker::new().unwrap();
        let packed = Packer::new(LEVEL).unwrap().pack(&raw).unwrap();
        assert_eq!((window(&packed), unpacker.unpack(&packed, 1000)), (Some(0), Some(raw.clone())));
        for (log, accepted) in [(20, true), (26, true), (27, false)] {
            let frame = streamed(&raw, log);
            assert_eq!(window(&frame), Some(1 << log));
            assert_eq!(unpacker.unpack(&frame, 1000).is_some(), accepted, "{log}");
        }
        assert_eq!(window(b"\x28\xb5\x2f\xfd\0\x0f"), Some((1 << 11) + 7 * (1 << 8)));
        assert!(window(b"short").is_none());
    }
}
