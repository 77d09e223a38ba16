//! One part: its kind, its head, its zstd frame, the memory that it takes, and the chain of hashes that ties the parts
//! together.
//!
//! Not the content of a part ([`super::records`]), nor the parts in turn ([`super::parts`]). Callers: the other modules
//! of [`crate::data::bundle`].

use std::fmt;
use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, find_frame_compressed_size};

use super::{MAGIC, MAX_PART};
use crate::api::hash::Digest;
use crate::words::named;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum PartKind, as_str {
        Manifest(1) = "manifest",
        /// The fields of every list.
        Envelope(2) = "envelope",
        Taxonomy(3) = "taxonomy",
        /// How the order follows from the base's.
        Order(4) = "order",
        Summaries(5) = "summaries",
        /// The origin's lists for terms.
        Evidence(6) = "evidence",
        Details(7) = "details",
        Validators(8) = "validators",
        End(9) = "end",
        /// What earlier versions learned of odd requests: it is skipped.
        Lessons(10) = "lessons",
    }
}

impl PartKind {
    /// The kind with that number; `None`: there is none.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The largest raw length of a part of this kind.
    pub const fn most_raw(self) -> usize {
        match self {
            // Lists of short texts take many times their length in memory.
            Self::Manifest => 1 << 20,
            Self::Envelope => 4 << 20,
            Self::Lessons => 16 << 20,
            Self::End => 64,
            _ => MAX_PART,
        }
    }

    /// The memory that a reader needs for a part, beside that for each of its records.
    ///
    /// A few bytes of a file can be a million records, which take more memory than their text. So the limit is on the
    /// records and indexes in memory, not on the raw length. Of details only the hashes count.
    pub(super) const fn memory(self, raw: u64, is_full: bool) -> u64 {
        match self {
            // The text and its terms, of which an honest index has 100,000 in a file that is small: slugs and counts pack
            // well. A delta has a script in its place.
            Self::Taxonomy if is_full => 4 * raw + 8 * raw.saturating_sub(8 << 20),
            Self::Manifest | Self::Envelope | Self::Taxonomy | Self::Order | Self::Summaries | Self::Evidence => raw,
            Self::Lessons | Self::Details | Self::Validators | Self::End => 0,
        }
    }

    /// The memory for each record, beside its text.
    pub(super) const fn record_memory(self) -> u64 {
        match self {
            // The record, its place in every index, its names.
            Self::Summaries => 512,
            Self::Evidence => 256,
            // Its id and its hash.
            Self::Details => 64,
            _ => 0,
        }
    }
}

/// The most memory for a file of so many bytes.
pub(super) const fn most_memory(file: u64) -> u64 {
    (32 << 20) + file.saturating_mul(32)
}

/// All parts of a file of so many bytes together may unpack to this.
pub(super) const fn most_unpacked(file: u64) -> u64 {
    (64 << 20) + file.saturating_mul(256)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPosition {
    /// Its number, from 1.
    pub part: u32,
    pub kind: PartKind,
    /// Where its head begins, in bytes from the start of the file.
    pub offset: u64,
}

impl fmt::Display for PartPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} ({}, at byte {})", self.part, self.kind.as_str(), self.offset)
    }
}

/// The first bytes of a file.
pub(crate) const START_LEN: usize = 10;

/// The first bytes of a file of a format.
pub(super) fn start(format: u16) -> [u8; START_LEN] {
    let mut start = [0; START_LEN];
    start[..8].copy_from_slice(&MAGIC);
    start[8..].copy_from_slice(&format.to_le_bytes());
    start
}

/// Where the chain begins.
pub(super) fn first(format: u16) -> Digest {
    blake3::hash(&start(format)).into()
}

pub(super) const HEAD_LEN: usize = LENGTHS + 32;
/// The bytes of a head before its hash.
const LENGTHS: usize = 12;

/// A head as in the file, not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartHead {
    pub kind: u8,
    pub flags: [u8; 3],
    pub raw: u32,
    pub packed: u32,
    /// A hash of the chain. The hash of the last part before the validators is the bundle's digest.
    pub hash: Digest,
}

impl PartHead {
    /// The head of a part that follows another.
    pub(super) fn following(before: &Digest, kind: PartKind, raw: u32, frame: &[u8]) -> Self {
        let mut head = Self { kind: kind as u8, flags: [0; 3], raw, packed: frame.len() as u32, hash: Digest([0; 32]) };
        head.hash = head.chained(before, frame);
        head
    }

    /// The hash that the part must have.
    pub(super) fn chained(&self, before: &Digest, frame: &[u8]) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&before.0).update(&self.to_bytes()[..LENGTHS]).update(frame);
        hasher.finalize().into()
    }

    pub(super) fn to_bytes(self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        bytes[0] = self.kind;
        bytes[1..4].copy_from_slice(&self.flags);
        bytes[4..8].copy_from_slice(&self.raw.to_le_bytes());
        bytes[8..LENGTHS].copy_from_slice(&self.packed.to_le_bytes());
        bytes[LENGTHS..].copy_from_slice(&self.hash.0);
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8; HEAD_LEN]) -> Self {
        let [kind, f0, f1, f2, r0, r1, r2, r3, p0, p1, p2, p3, hash @ ..] = *bytes;
        let (raw, packed) = (u32::from_le_bytes([r0, r1, r2, r3]), u32::from_le_bytes([p0, p1, p2, p3]));
        Self { kind, flags: [f0, f1, f2], raw, packed, hash: Digest(hash) }
    }
}

/// zstd's level. 5,000 listings of the sample origin with their details (`tests::size` measures it):
///
/// | level | 3 | 6 | 9 | 12 | 15 | 19 |
/// |---|---|---|---|---|---|---|
/// | kB | 1281 | 1147 | 1089 | 1043 | 981 | 931 |
/// | time | 1 | 1.3 | 1.5 | 1.8 | 4.7 | 28 |
pub(crate) const LEVEL: i32 = 12;

/// The size of the encoder's table, as a power of two. The level's own is 21: 11 MiB of memory in place of 1.8 MiB, for
/// bundles that are 1 % smaller.
const HASH_LOG: u32 = 18;

/// Makes frames, on one thread and with one set of parameters.
pub(super) fn packer(level: i32) -> io::Result<Compressor<'static>> {
    let mut packer = Compressor::new(level)?;
    packer.set_parameter(CParameter::ChecksumFlag(true))?;
    packer.set_parameter(CParameter::HashLog(HASH_LOG))?;
    Ok(packer)
}

/// Decompresses one frame; `None` if it is not one frame of exactly `len` bytes.
pub(super) fn unpack(unpacker: &mut Decompressor<'_>, frame: &[u8], len: usize) -> Option<Vec<u8>> {
    if find_frame_compressed_size(frame) != Ok(frame.len()) {
        return None;
    }
    unpacker.decompress(frame, len).ok().filter(|raw| raw.len() == len)
}
