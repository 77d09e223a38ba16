//! Encoding of stored values: compression with a recorded length, checksums bound to table and key, and a reader that
//! never trusts a length.
//!
//! Callers: the other modules of [`crate::data::store`].

use std::fmt::Display;

use parking_lot::Mutex;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zstd::bulk::{Compressor, Decompressor};

use super::error::StoreError;
use crate::api::hash::ContentHash;
use crate::data::fields::{Fields, Subject};

const SUM_LEN: usize = 8;

/// Appends a checksum over table, key and payload, which reveals flipped bits and values under another key.
pub(super) fn seal(table: &str, key: &[u8], mut payload: Vec<u8>) -> Vec<u8> {
    let sum = checksum(table, key, &payload);
    // Some payloads are tens of MiB, and would double.
    payload.reserve_exact(SUM_LEN);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

pub(super) fn unseal<'a>(table: &str, key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], StoreError> {
    let split = sealed.split_last_chunk::<SUM_LEN>();
    match split {
        Some((payload, sum)) if checksum(table, key, payload) == u64::from_le_bytes(*sum) => Ok(payload),
        _ => Err(damaged(table, "checksum")),
    }
}

fn checksum(table: &str, key: &[u8], payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, xxh3_64_with_seed(key, xxh3_64(table.as_bytes())))
}

/// Refuses what is too large to be stored.
pub(super) fn check_size(what: impl Fn() -> String, bytes: usize, most: usize) -> Result<(), StoreError> {
    if bytes <= most {
        return Ok(());
    }
    Err(StoreError::Refused(format!("{} is too large: {bytes} bytes", what())))
}

/// The error for a value of `table`, or a block of that kind, with a wrong `what`.
pub(super) fn damaged(table: &str, what: &str) -> StoreError {
    StoreError::Damaged(format!("{table}: wrong {what}"))
}

/// Fields of a payload of this table.
pub(super) type Reader<'a> = Fields<'a, &'static str>;

impl Subject for &'static str {
    type Error = StoreError;

    fn wrong(&self, what: &str) -> StoreError {
        damaged(self, what)
    }
}

impl<'a> Reader<'a> {
    pub(super) const fn new(table: &'static str, payload: &'a [u8]) -> Self {
        Self { rest: payload, of: table }
    }

    pub(super) fn u16(&mut self) -> Result<u16, StoreError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, StoreError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn hash(&mut self) -> Result<ContentHash, StoreError> {
        self.array().map(ContentHash::from_bytes)
    }

    /// A count of items of at least `least` bytes each: it cannot exceed the remaining bytes.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, StoreError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / least { Err(damaged(self.of, "count")) } else { Ok(count) }
    }

    /// The version byte with which an encoding begins.
    pub(super) fn version(&mut self, known: u8) -> Result<(), StoreError> {
        if self.u8()? == known { Ok(()) } else { Err(damaged(self.of, "version")) }
    }

    /// Checks that all bytes were read.
    pub(super) fn end(&self) -> Result<(), StoreError> {
        if self.rest.is_empty() { Ok(()) } else { Err(damaged(self.of, "length")) }
    }
}

const LEVEL: i32 = 3;
const LEN: usize = 4;

/// A compressor, worth keeping for a run of texts.
pub(super) struct Packer(Compressor<'static>);

/// Idle decompressors, about 150 KiB each: to set one up costs more than to unpack a short text.
static IDLE: Mutex<Vec<Decompressor<'static>>> = Mutex::new(Vec::new());
const MOST_IDLE: usize = 4;

impl Packer {
    pub(super) fn new() -> Result<Self, StoreError> {
        Compressor::new(LEVEL).map(Self).map_err(failed)
    }

    /// The length of `raw`, then its zstd frame. The caller has checked that `raw` is within the bound of the reader.
    pub(super) fn pack(&mut self, raw: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut out = vec![0; LEN + zstd::zstd_safe::compress_bound(raw.len())];
        out[..LEN].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        let len = self.0.compress_to_buffer(raw, &mut out[LEN..]).map_err(failed)?;
        out.truncate(LEN + len);
        out.shrink_to_fit();
        Ok(out)
    }
}

/// Undoes [`Packer::pack`]. Refuses a recorded length of more than `most` bytes.
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

fn failed(error: impl Display) -> StoreError {
    StoreError::Refused(format!("zstd: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_flipped_bit_and_any_other_key_is_noticed(payload in any::<Vec<u8>>(), key in any::<u64>(), at: usize) {
            let key = key.to_le_bytes();
            let mut sealed = seal("details", &key, payload.clone());
            prop_assert_eq!(unseal("details", &key, &sealed).unwrap(), payload.as_slice());
            prop_assert!(unseal("details", b"other", &sealed).is_err());
            prop_assert!(unseal("copies", &key, &sealed).is_err());
            let bit = at % (sealed.len() * 8);
            sealed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(unseal("details", &key, &sealed).is_err());
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            let mut reader = Reader::new("t", &bytes);
            while reader.optional_text().is_ok() && reader.count(4).is_ok() && reader.text().is_ok() {}
            let _ = reader.end();
        }
    }

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
