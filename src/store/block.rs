//! The blocks of a snapshot: their bytes, and the hash that names and verifies each.
//!
//! | kind | bytes, integers little endian |
//! |---|---|
//! | envelope | `E`, JSON |
//! | taxonomy | `T`, the text |
//! | order | `O`, count u32, ids u64 |
//! | summaries | `S`, count u32, then per summary id u64, length u32, hash 16 B, then the texts |
//!
//! [`super::chunk`] decides which listings share a block. Callers: [`super::publish`], [`super::load`].

use bytes::Bytes;

use super::coding::{Reader, damaged};
use super::error::StoreError;
use super::packing::unpack;
use super::record::BlockKey;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;

/// The largest uncompressed block: a full one plus one summary of the largest size.
pub(super) const MAX_BLOCK: usize = 48 << 20;

const ENVELOPE: u8 = b'E';
const TAXONOMY: u8 = b'T';
const ORDER: u8 = b'O';
const SUMMARIES: u8 = b'S';

/// Bytes of one summary before its text.
const SUMMARY_HEAD: usize = 8 + 4 + 16;

/// # Errors
/// When the envelope cannot be written as JSON, which no envelope causes.
pub(super) fn envelope(envelope: &Envelope) -> Result<Vec<u8>, StoreError> {
    let mut out = vec![ENVELOPE];
    serde_json::to_writer(&mut out, envelope).map_err(|_| damaged("envelope", "JSON"))?;
    Ok(out)
}

pub(super) fn taxonomy(text: &str) -> Vec<u8> {
    [&[TAXONOMY], text.as_bytes()].concat()
}

pub(super) fn order(ids: &[Summary]) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + 8 * ids.len());
    out.push(ORDER);
    out.extend_from_slice(&(ids.len() as u32).to_le_bytes());
    for summary in ids {
        out.extend_from_slice(&summary.id.0.to_le_bytes());
    }
    out
}

pub(super) fn summaries<'a>(block: impl ExactSizeIterator<Item = &'a Summary> + Clone) -> Vec<u8> {
    let texts: usize = block.clone().map(|summary| summary.raw.len()).sum();
    let mut out = Vec::with_capacity(5 + SUMMARY_HEAD * block.len() + texts);
    out.push(SUMMARIES);
    out.extend_from_slice(&(block.len() as u32).to_le_bytes());
    for summary in block.clone() {
        out.extend_from_slice(&summary.id.0.to_le_bytes());
        out.extend_from_slice(&(summary.raw.len() as u32).to_le_bytes());
        out.extend_from_slice(&summary.hash.to_bytes());
    }
    block.for_each(|summary| out.extend_from_slice(&summary.raw));
    out
}

/// Decompresses a block and verifies it against `key`.
///
/// # Errors
/// When it is not.
pub(super) fn open(key: &BlockKey, packed: &[u8]) -> Result<Bytes, StoreError> {
    let raw = unpack(packed, MAX_BLOCK)?;
    if BlockKey::of(&raw) == *key { Ok(raw.into()) } else { Err(damaged("block", "hash")) }
}

/// # Errors
/// When the block holds no envelope.
pub(super) fn read_envelope(block: &[u8]) -> Result<Envelope, StoreError> {
    let mut reader = Reader::new("envelope", block);
    reader.version(ENVELOPE)?;
    serde_json::from_slice(reader.rest()).map_err(|_| damaged("envelope", "JSON"))
}

/// # Errors
/// When the block holds no taxonomy.
pub(super) fn read_taxonomy(block: &[u8]) -> Result<&str, StoreError> {
    let mut reader = Reader::new("taxonomy", block);
    reader.version(TAXONOMY)?;
    std::str::from_utf8(reader.rest()).map_err(|_| damaged("taxonomy", "text"))
}

/// # Errors
/// When the block holds no ids.
pub(super) fn read_order(block: &[u8]) -> Result<Vec<ListingId>, StoreError> {
    let mut reader = Reader::new("order", block);
    reader.version(ORDER)?;
    let count = reader.count(8)?;
    let ids = (0..count).map(|_| reader.u64().map(ListingId)).collect::<Result<_, _>>()?;
    reader.end().map(|()| ids)
}

/// The summaries, whose texts are slices of the block.
///
/// # Errors
/// When the block holds no summaries.
pub(super) fn read_summaries(block: &Bytes) -> Result<Vec<Summary>, StoreError> {
    let mut reader = Reader::new("summaries", block);
    reader.version(SUMMARIES)?;
    let count = reader.count(SUMMARY_HEAD)?;
    let mut at = 5 + count * SUMMARY_HEAD;
    let mut summaries = Vec::with_capacity(count);
    for _ in 0..count {
        let id = ListingId(reader.u64()?);
        let len = reader.u32()? as usize;
        let hash = reader.hash()?;
        if len > block.len() - at {
            return Err(damaged("summaries", "length"));
        }
        summaries.push(Summary { id, hash, raw: block.slice(at..at + len) });
        at += len;
    }
    if at == block.len() { Ok(summaries) } else { Err(damaged("summaries", "length")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>(), kind in prop::sample::select(b"ETOS".as_slice()), count in 0_u8..9) {
            let mut block = vec![kind, count, 0, 0, 0];
            block.extend_from_slice(&bytes);
            let _ = (read_envelope(&block), read_taxonomy(&block), read_order(&block));
            let _ = read_summaries(&block.into());
            let _ = read_summaries(&bytes.into());
        }
    }
}
