//! Encodes and decodes an entry of the journal.
//!
//! A format number, the packing of the rest (plain, or zstd if smaller), then: the ids of both snapshots, the instant,
//! three counts, and the listings' ids as distances. Numbers are in groups of seven bits, lowest first. No checksum:
//! the store has its own. Callers: [`crate::snapshots`].

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};

use crate::api::listing::ListingId;

use super::{Entry, MAX_WEIGHT, SnapshotId};

/// The number of this format.
const FORMAT: u8 = 1;
const PLAIN: u8 = 0;
const PACKED: u8 = 1;
/// zstd's level: near ids take about a byte each at any level.
const LEVEL: i32 = 3;
/// The longest number.
const NUMBER: usize = 10;
/// The longest entry, unpacked: more would be too much for a journal.
const MAX_BYTES: usize = MAX_WEIGHT * NUMBER;

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// Another format, which this program does not know.
    #[error("journal entries have the unknown format {0}")]
    Format(u8),
    /// It cannot be decompressed, or would be too large.
    #[error("a journal entry cannot be decompressed")]
    Packed,
    /// It is too short or too long.
    #[error("a journal entry has the wrong length")]
    Length,
    /// A number has no reading.
    #[error("a journal entry has a number of more than 64 bits")]
    Number,
    /// A snapshot's id is invalid.
    #[error("a journal entry has an invalid snapshot id")]
    Snapshot,
    /// A listing is named twice.
    #[error("a journal entry names a listing twice")]
    Repeated,
}

impl Entry {
    /// The entry as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut plain = Vec::with_capacity(96 + 2 * self.weight());
        for id in [&self.from, &self.to] {
            put(&mut plain, id.as_str().len() as u64);
            plain.extend_from_slice(id.as_str().as_bytes());
        }
        plain.extend_from_slice(&self.at_ms.to_le_bytes());
        let lists = [&self.added, &self.changed, &self.removed];
        for ids in lists {
            put(&mut plain, ids.len() as u64);
        }
        for ids in lists {
            let mut next = 0;
            for id in ids {
                put(&mut plain, id.0.wrapping_sub(next));
                next = id.0.wrapping_add(1);
            }
        }
        let packed = zstd::bulk::compress(&plain, LEVEL).ok().filter(|packed| packed.len() < plain.len());
        let (how, body) = packed.map_or((PLAIN, plain), |packed| (PACKED, packed));
        let mut out = Vec::with_capacity(2 + body.len());
        out.extend_from_slice(&[FORMAT, how]);
        out.extend_from_slice(&body);
        out
    }

    /// Reads the output of [`encode`](Self::encode). Safe for any bytes: memory is only reserved for existing bytes.
    ///
    /// # Errors
    /// For anything else; see [`BadEntry`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BadEntry> {
        let [format, how, body @ ..] = bytes else { return Err(BadEntry::Length) };
        if *format != FORMAT {
            return Err(BadEntry::Format(*format));
        }
        match *how {
            PLAIN => read(body),
            PACKED => read(&unpack(body)?),
            _ => Err(BadEntry::Packed),
        }
    }
}

/// Decompresses within the announced length.
fn unpack(body: &[u8]) -> Result<Vec<u8>, BadEntry> {
    let claimed = zstd::zstd_safe::get_frame_content_size(body).ok().flatten();
    let claimed = claimed.and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= MAX_BYTES);
    zstd::bulk::decompress(body, claimed.ok_or(BadEntry::Packed)?).map_err(|_| BadEntry::Packed)
}

fn read(mut body: &[u8]) -> Result<Entry, BadEntry> {
    let from = snapshot(&mut body)?;
    let to = snapshot(&mut body)?;
    let (at_ms, rest) = body.split_first_chunk().ok_or(BadEntry::Length)?;
    body = rest;
    let counts = [number(&mut body)?, number(&mut body)?, number(&mut body)?];
    let mut lists = [const { Vec::new() }; 3];
    for (count, ids) in counts.into_iter().zip(&mut lists) {
        // Each takes a byte at least.
        let count = usize::try_from(count).ok().filter(|count| *count <= body.len()).ok_or(BadEntry::Length)?;
        ids.reserve_exact(count);
        let mut next = Some(0_u64);
        for _ in 0..count {
            let distance = number(&mut body)?;
            let id = next.and_then(|next| next.checked_add(distance)).ok_or(BadEntry::Number)?;
            ids.push(ListingId(id));
            next = id.checked_add(1);
        }
    }
    if !body.is_empty() {
        return Err(BadEntry::Length);
    }
    let [added, changed, removed] = lists;
    if share(&added, &changed) || share(&added, &removed) || share(&changed, &removed) {
        return Err(BadEntry::Repeated);
    }
    Ok(Entry { from, to, at_ms: i64::from_le_bytes(*at_ms), added, changed, removed })
}

/// Whether two sorted lists have an id in common.
fn share(one: &[ListingId], other: &[ListingId]) -> bool {
    let (few, many) = if one.len() < other.len() { (one, other) } else { (other, one) };
    few.iter().any(|id| many.binary_search(id).is_ok())
}

fn snapshot(body: &mut &[u8]) -> Result<SnapshotId, BadEntry> {
    let len = usize::try_from(number(body)?).map_err(|_| BadEntry::Length)?;
    let (text, rest) = body.split_at_checked(len).ok_or(BadEntry::Length)?;
    *body = rest;
    let text = std::str::from_utf8(text).map_err(|_| BadEntry::Snapshot)?;
    let hexadecimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 32 || !hexadecimal {
        return Err(BadEntry::Snapshot);
    }
    let text: StrDeserializer<'_, ValueError> = text.into_deserializer();
    SnapshotId::deserialize(text).map_err(|_| BadEntry::Snapshot)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(body: &mut &[u8]) -> Result<u64, BadEntry> {
    let mut number = 0;
    for group in 0..NUMBER {
        let (byte, rest) = body.split_first().ok_or(BadEntry::Length)?;
        *body = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth group has one bit.
        if group == NUMBER - 1 && bits > 1 {
            return Err(BadEntry::Number);
        }
        number |= bits << (7 * group);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(BadEntry::Number)
}
