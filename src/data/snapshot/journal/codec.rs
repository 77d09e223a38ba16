//! Entries of the journal as bytes: one entry in the store, all of them in an object store. See *The journal* in
//! [the format of the object store](crate::fleet).
//!
//! The store has checksums of its own, and a head has the hash of the file. Pure. Callers: [`crate::data::snapshots`],
//! [`crate::fleet`].

use super::{Entry, MAX_WEIGHT};
use crate::api::listing::ListingId;
use crate::data::snapshot::content::SnapshotId;

const MAGIC: [u8; 8] = *b"\x89GSJ\r\n\x1a\n";
const FORMAT: u16 = 2;
/// Magic, format number and length.
const BEGINNING: usize = 14;
/// The longest frame, unpacked.
const MOST_RAW: usize = 32 << 20;
/// The longest file: zstd makes nothing longer by more than this.
pub(crate) const MOST_BYTES: u64 = (MOST_RAW + (MOST_RAW >> 7) + 1024) as u64;
/// zstd's level: near ids take about a byte each at any level, and snapshot ids do not compress.
const LEVEL: i32 = 3;
const NUMBER: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadJournal {
    #[error("the journal has format {0}, which this version does not know")]
    Format(u16),
    #[error("the journal has too many entries")]
    TooLarge,
    #[error("the bytes are no journal")]
    Malformed,
}

/// Entries as bytes, oldest first. Where they are too long, the oldest are left out.
pub fn encode<'a>(entries: impl DoubleEndedIterator<Item = &'a Entry>) -> Vec<u8> {
    let mut room = MOST_RAW;
    let fits = |entry: &Vec<u8>| {
        let left = room.checked_sub(entry.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let mut newest_first: Vec<Vec<u8>> = entries.rev().map(plain).take_while(fits).collect();
    newest_first.reverse();
    let raw = newest_first.concat();
    let mut out = Vec::with_capacity(BEGINNING + raw.len() / 2);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    // Compression into memory cannot fail.
    out.extend_from_slice(&zstd::bulk::compress(&raw, LEVEL).unwrap_or_default());
    out
}

/// Both snapshots, the instant, three counts, and the listings' ids as distances.
fn plain(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(96 + 2 * entry.weight());
    for id in [&entry.from, &entry.to] {
        put(&mut out, id.as_str().len() as u64);
        out.extend_from_slice(id.as_str().as_bytes());
    }
    out.extend_from_slice(&entry.at_ms.to_le_bytes());
    let lists = [&entry.added, &entry.changed, &entry.removed];
    for ids in lists {
        put(&mut out, ids.len() as u64);
    }
    for ids in lists {
        let mut next = 0;
        for id in ids {
            put(&mut out, id.0.wrapping_sub(next));
            next = id.0.wrapping_add(1);
        }
    }
    out
}

/// Groups of seven bits, the lowest first.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads the output of [`encode`]. Safe for any bytes: memory is only reserved for existing bytes.
pub fn decode(bytes: &[u8]) -> Result<Vec<Entry>, BadJournal> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(BadJournal::Malformed)?;
    let (format, rest) = rest.split_first_chunk::<2>().ok_or(BadJournal::Malformed)?;
    let format = u16::from_le_bytes(*format);
    if format != FORMAT {
        return Err(BadJournal::Format(format));
    }
    let (length, frame) = rest.split_first_chunk::<4>().ok_or(BadJournal::Malformed)?;
    let length = u32::from_le_bytes(*length) as usize;
    let claimed = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    if length > MOST_RAW || claimed != Some(length as u64) {
        return Err(BadJournal::Malformed);
    }
    let raw = zstd::bulk::decompress(frame, length).map_err(|_| BadJournal::Malformed)?;
    let (mut rest, mut entries, mut weight) = (&raw[..], Vec::new(), 0);
    while !rest.is_empty() {
        let entry = read(&mut rest).ok_or(BadJournal::Malformed)?;
        weight += entry.weight();
        if weight > MAX_WEIGHT {
            return Err(BadJournal::TooLarge);
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// One entry, off the front.
fn read(bytes: &mut &[u8]) -> Option<Entry> {
    let (from, to) = (snapshot(bytes)?, snapshot(bytes)?);
    let (at_ms, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    let counts = [number(bytes)?, number(bytes)?, number(bytes)?];
    let mut lists = [const { Vec::new() }; 3];
    for (count, ids) in counts.into_iter().zip(&mut lists) {
        // Each takes a byte at least.
        let count = usize::try_from(count).ok().filter(|count| *count <= bytes.len())?;
        ids.reserve_exact(count);
        let mut next = Some(0_u64);
        for _ in 0..count {
            let distance = number(bytes)?;
            let id = next.and_then(|next| next.checked_add(distance))?;
            ids.push(ListingId(id));
            next = id.checked_add(1);
        }
    }
    let [added, changed, removed] = lists;
    if share(&added, &changed) || share(&added, &removed) || share(&changed, &removed) {
        return None;
    }
    Some(Entry { from, to, at_ms: i64::from_le_bytes(*at_ms), added, changed, removed })
}

/// Whether two sorted lists have an id in common.
fn share(one: &[ListingId], other: &[ListingId]) -> bool {
    let (few, many) = if one.len() < other.len() { (one, other) } else { (other, one) };
    few.iter().any(|id| many.binary_search(id).is_ok())
}

fn snapshot(bytes: &mut &[u8]) -> Option<SnapshotId> {
    let len = usize::try_from(number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    std::str::from_utf8(text).ok().and_then(SnapshotId::parse)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for group in 0..NUMBER {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth group has one bit.
        if group == NUMBER - 1 && bits > 1 {
            return None;
        }
        number |= bits << (7 * group);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
