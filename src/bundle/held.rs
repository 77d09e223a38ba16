//! The memory that a reader needs for a bundle, and its limit.
//!
//! A few bytes of a file can be a million records, which take more memory than their text. So the limit is on the
//! records and indexes in memory, not on the raw length. Of details only the hashes count. Callers: `parts` and `open`,
//! in advance; `write`, so that every written bundle can be read.

use super::part::Kind;

/// For each summary beside its text: the record, its place in every index, its names.
pub(super) const SUMMARY: u64 = 512;

/// For each term of the evidence beside its record.
pub(super) const TERM: u64 = 256;

/// For each detail: its id and its hash.
pub(super) const DETAIL: u64 = 64;

/// For the terms of a taxonomy of so many bytes, beside its text, at most.
pub(super) const fn terms(text: u64) -> u64 {
    11 * text
}

/// The most for a file of so many bytes.
pub(super) const fn most(file: u64) -> u64 {
    (32 << 20) + file.saturating_mul(32)
}

/// The memory for a part, beside that for each of its records.
pub(super) const fn part(kind: Kind, raw: u64) -> u64 {
    match kind {
        Kind::Manifest | Kind::Envelope | Kind::Taxonomy | Kind::Order | Kind::Summaries | Kind::Evidence => raw,
        // Twice: as text, and as values.
        Kind::Lessons => 2 * raw,
        Kind::Details | Kind::Validators | Kind::End => 0,
    }
}
