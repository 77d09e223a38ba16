//! Compression with a recorded length, which bounds the memory for decompression.
//!
//! Callers: [`super::block`], [`super::copies`], [`super::details`].

use parking_lot::Mutex;
use zstd::bulk::{Compressor, Decompressor};

use super::coding::damaged;
use super::error::StoreError;

const LEVEL: i32 = 3;
const LEN: usize = 4;

/// A compressor, worth keeping for a run of texts.
pub(super) struct Packer(Compressor<'static>);

/// Idle decompressors, about 150 KiB each: to set one up costs more than to unpack a short text.
static IDLE: Mutex<Vec<Decompressor<'static>>> = Mutex::new(Vec::new());
const MOST_IDLE: usize = 4;

impl Packer {
    /// # Errors
    /// When zstd cannot be set up.
    pub(super) fn new() -> Result<Self, StoreError> {
        Compressor::new(LEVEL).map(Self).map_err(failed)
    }

    /// The length of `raw`, then its zstd frame. The caller has checked that `raw` is within the bound of the reader.
    ///
    /// # Errors
    /// When zstd fails.
    pub(super) fn pack(&mut self, raw: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut out = vec![0; LEN + zstd::zstd_safe::compress_bound(raw.len())];
        out[..LEN].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        let len = self.0.compress_to_buffer(raw, &mut out[LEN..]).map_err(failed)?;
        out.truncate(LEN + len);
        out.shrink_to_fit();
        Ok(out)
    }
}

/// Undoes [`Packer::pack`].
///
/// # Errors
/// When the recorded length is above `most` or wrong, or zstd cannot be set up.
pub(super) fn unpack(packed: &[u8], most: usize) -> Result<Vec<u8>, StoreError> {
    let wrong = || damaged("compressed bytes", "length");
    let (len, frame) = packed.split_first_chunk::<LEN>().ok_or_else(wrong)?;
    let len = u32::from_le_bytes(*len) as usize;
    if len > most {
        return Err(wrong());
    }
    let idle = IDLE.lock().pop();
    let mut decompressor = idle.map_or_else(Decompressor::new, Ok).map_err(failed)?;
    let raw = decompressor.decompress(frame, len);
    let mut idle = IDLE.lock();
    if idle.len() < MOST_IDLE {
        idle.push(decompressor);
    }
    drop(idle);
    let raw = raw.map_err(|_| damaged("compressed bytes", "frame"))?;
    if raw.len() == len { Ok(raw) } else { Err(wrong()) }
}

fn failed(error: std::io::Error) -> StoreError {
    StoreError::Io { path: "zstd".into(), source: error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_back_and_nonsense_is_refused(raw in any::<Vec<u8>>(), at: usize, xor in 1_u8..) {
            let mut packed = Packer::new().unwrap().pack(&raw).unwrap();
            prop_assert_eq!(unpack(&packed, raw.len()).unwrap(), raw.clone());
            if !raw.is_empty() {
                prop_assert!(unpack(&packed, raw.len() - 1).is_err());
            }
            let at = at % packed.len();
            packed[at] ^= xor;
            let _ = unpack(&packed, 1 << 20);
        }
    }
}
