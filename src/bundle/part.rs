//! The head of a part, its kind, and the chain of hashes that ties the parts together.
//!
//! Not the content of a part (`records`). Callers: `write`, `parts`.

use std::fmt;

use super::{MAGIC, MAX_PART};
use crate::api::hash::write_hex;

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// The description of the bundle.
    Manifest = 1,
    Envelope = 2,
    /// One of the three taxonomies.
    Taxonomy = 3,
    /// How the order follows from the base's.
    Order = 4,
    Summaries = 5,
    /// The origin's lists for terms.
    Evidence = 6,
    Details = 7,
    /// The origin's validators of details.
    Validators = 8,
    End = 9,
    /// What was learned of the origin's answers to odd requests; from format 2.
    Lessons = 10,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Manifest,
        Self::Envelope,
        Self::Taxonomy,
        Self::Order,
        Self::Summaries,
        Self::Evidence,
        Self::Details,
        Self::Validators,
        Self::End,
        Self::Lessons,
    ];

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

    /// The word for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Envelope => "envelope",
            Self::Taxonomy => "taxonomy",
            Self::Order => "order",
            Self::Summaries => "summaries",
            Self::Evidence => "evidence",
            Self::Details => "details",
            Self::Validators => "validators",
            Self::End => "end",
            Self::Lessons => "lessons",
        }
    }
}

/// Which part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPosition {
    /// Its number, from 1.
    pub part: u32,
    /// Its kind.
    pub kind: Kind,
    /// Where its head begins, in bytes from the start of the file.
    pub offset: u64,
}

impl fmt::Display for PartPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} ({}, at byte {})", self.part, self.kind.as_str(), self.offset)
    }
}

/// A hash of the chain. The hash of the last part before the validators is the bundle's digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub(super) [u8; 32]);

impl Digest {
    /// The hash as bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
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

pub(super) const HEAD_LEN: usize = LENGTHS + 32;
/// The bytes of a head before its hash.
const LENGTHS: usize = 12;

/// A head as in the file, not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub kind: u8,
    pub flags: [u8; 3],
    pub raw: u32,
    pub packed: u32,
    pub hash: Digest,
}

impl Head {
    /// The head of a part that follows another.
    pub(super) fn following(before: &Digest, kind: Kind, raw: u32, frame: &[u8]) -> Self {
        let mut head = Self { kind: kind as u8, flags: [0; 3], raw, packed: frame.len() as u32, hash: Digest([0; 32]) };
        head.hash = head.chained(before, frame);
        head
    }

    /// The hash that the part must have.
    pub(super) fn chained(&self, before: &Digest, frame: &[u8]) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&before.0);
        hasher.update(&self.to_bytes()[..LENGTHS]);
        hasher.update(frame);
        Digest(*hasher.finalize().as_bytes())
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

/// Where the chain begins.
pub(super) fn first(format: u16) -> Digest {
    Digest(*blake3::hash(&start(format)).as_bytes())
}
