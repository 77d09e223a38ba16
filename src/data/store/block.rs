//! The blocks of a snapshot: which listings share one, its bytes, and the hash that names and verifies it.
//!
//! | kind | bytes, integers little endian |
//! |---|---|
//! | envelope | `E`, JSON |
//! | taxonomy | `T`, the text |
//! | order | `O`, count u32, ids u64 |
//! | summaries | `S`, count u32, then per summary id u64, length u32, hash 16 B, then the texts |
//!
//! A sequence of listings is cut after ids that a hash picks, so that an insertion or a deletion changes one block only.
//! Callers: [`super::publish`], [`super::load`].

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::coding::{Reader, damaged, unpack};
use super::error::StoreError;
use crate::api::hash::write_hex;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;

/// Names a block: the first 16 bytes of the BLAKE3 hash of its uncompressed content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey([u8; 16]);

impl BlockKey {
    pub fn of(raw: &[u8]) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&blake3::hash(raw).as_bytes()[..16]);
        Self(key)
    }

    pub(super) const fn stored(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// The largest uncompressed block: a full one plus one summary of the largest size.
pub(super) const MAX_BLOCK: usize = 48 << 20;

const ENVELOPE: u8 = b'E';
const TAXONOMY: u8 = b'T';
const ORDER: u8 = b'O';
const SUMMARIES: u8 = b'S';

/// Bytes of one summary before its text.
const SUMMARY_HEAD: usize = 8 + 4 + 16;

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
pub(super) fn open(key: &BlockKey, packed: &[u8]) -> Result<Bytes, StoreError> {
    let raw = unpack(packed, MAX_BLOCK)?;
    if BlockKey::of(&raw) == *key { Ok(raw.into()) } else { Err(damaged("block", "hash")) }
}

pub(super) fn read_envelope(block: &[u8]) -> Result<Envelope, StoreError> {
    let mut reader = Reader::new("envelope", block);
    reader.version(ENVELOPE)?;
    serde_json::from_slice(reader.rest).map_err(|_| damaged("envelope", "JSON"))
}

pub(super) fn read_taxonomy(block: &[u8]) -> Result<&str, StoreError> {
    let mut reader = Reader::new("taxonomy", block);
    reader.version(TAXONOMY)?;
    std::str::from_utf8(reader.rest).map_err(|_| damaged("taxonomy", "text"))
}

pub(super) fn read_order(block: &[u8]) -> Result<Vec<ListingId>, StoreError> {
    let mut reader = Reader::new("order", block);
    reader.version(ORDER)?;
    let count = reader.count(8)?;
    let ids = (0..count).map(|_| reader.u64().map(ListingId)).collect::<Result<_, _>>()?;
    reader.end().map(|()| ids)
}

/// The summaries, whose texts are slices of the block.
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

/// When a block ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Cut after an id whose hash is divisible by this: the mean number of listings per block.
    pub mean: u64,
    /// After this many listings at the latest.
    pub most: usize,
    /// After this many bytes at the latest.
    pub most_bytes: usize,
}

/// Summaries by id. A block is about 80 kB: small enough to rewrite for one changed listing.
pub(super) const CUT_SUMMARIES: Rule = Rule { mean: 256, most: 1024, most_bytes: 4 << 20 };

/// Ids in the origin's order.
pub(super) const CUT_ORDER: Rule = Rule { mean: 512, most: 4096, most_bytes: usize::MAX };

/// The blocks of a sequence, given each listing's id and size in bytes.
pub(super) fn cut(sequence: impl Iterator<Item = (ListingId, usize)>, rule: Rule) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let (mut start, mut end, mut bytes) = (0, 0, 0_usize);
    for (id, size) in sequence {
        end += 1;
        bytes = bytes.saturating_add(size);
        let picked = xxh3_64(&id.0.to_le_bytes()).is_multiple_of(rule.mean);
        if picked || end - start >= rule.most || bytes >= rule.most_bytes {
            blocks.push(start..end);
            (start, bytes) = (end, 0);
        }
    }
    if start < end {
        blocks.push(start..end);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

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

    fn blocks(ids: &[u64], rule: Rule) -> Vec<Vec<u64>> {
        let sequence = ids.iter().map(|id| (ListingId(*id), 10));
        cut(sequence, rule).into_iter().map(|range| ids[range].to_vec()).collect()
    }

    #[test]
    fn an_insertion_changes_one_block() {
        let ids: Vec<u64> = (0..20_000).map(|n| n * 3).collect();
        let before = blocks(&ids, CUT_SUMMARIES);
        assert_eq!(before.concat(), ids);
        assert!(before.len() > 50 && before.iter().all(|block| block.len() <= 1024));
        let mut more = ids.clone();
        more.insert(10_000, 29_999);
        let known: HashSet<_> = before.into_iter().collect();
        let changed = blocks(&more, CUT_SUMMARIES).into_iter().filter(|block| !known.contains(block)).count();
        assert!((1..=2).contains(&changed), "{changed}");
    }

    #[test]
    fn a_block_is_bounded_in_listings_and_bytes() {
        let rule = Rule { mean: u64::MAX, most: 4, most_bytes: 30 };
        assert_eq!(blocks(&[1, 2, 3, 4, 5, 6, 7], rule), [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
        let rule = Rule { most_bytes: usize::MAX, ..rule };
        assert_eq!(blocks(&[1, 2, 3, 4, 5], rule), [vec![1, 2, 3, 4], vec![5]]);
        assert!(blocks(&[], rule).is_empty());
    }
}
