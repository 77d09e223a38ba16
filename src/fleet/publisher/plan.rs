//! What a publisher writes next.
//!
//! Pure: facts in, a step out. Callers: [`super`] acts on it.

use crate::fleet::head::{Head, MOST_DELTAS};
use crate::fleet::keys::{Digest, Key};
use crate::snapshot::content::SnapshotId;
use crate::snapshot::meta::Certificate;

/// Without another snapshot, a bundle follows the one before it after this time, in milliseconds.
pub(super) const PAUSE_MS: i64 = 60_000;

/// The current snapshot, as the plan compares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// A hash of all that a bundle carries but details, confirmation and volatile values.
    pub content: Digest,
    /// How sure we are.
    pub certificate: Certificate,
    /// The instant for which it is confirmed; milliseconds since the epoch.
    pub confirmed_ms: i64,
    /// The hash of the journal's file.
    pub journal: Digest,
}

/// The chain of bundles in the object store, and the last head that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The head, which may not have reached the object store.
    pub head: Head,
    /// [`Offer::content`] at the end of the chain.
    pub content: Digest,
    /// When its full bundle was written, by our clock; milliseconds since the epoch.
    pub full_ms: i64,
    /// When its last bundle was written.
    pub last_ms: i64,
    /// The signatures of its bundles, in their order; empty: they are not signed.
    pub signatures: Vec<SignatureFile>,
}

impl Chain {
    /// Its signatures, with their keys.
    pub(super) fn signatures(&self) -> impl Iterator<Item = (Key, SignatureFile)> {
        let keys = self.head.chain().map(|bundle| Key::Signature(bundle.key()));
        keys.zip(self.signatures.iter().copied())
    }

    /// Its objects, each with its length and hash. The small ones are read back first.
    pub(super) fn objects(&self) -> impl Iterator<Item = (Key, u64, Digest)> {
        let journal = &self.head.journal;
        let journal = (Key::Journal(journal.key()), journal.bytes, journal.blake3);
        let signatures = self.signatures().map(|(key, file)| (key, file.bytes, file.blake3));
        let bundles = self.head.chain().rev().map(|bundle| (Key::Bundle(bundle.key()), bundle.bytes, bundle.blake3));
        std::iter::once(journal).chain(signatures).chain(bundles)
    }
}

/// The file of a signature. The head does not name its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignatureFile {
    pub bytes: u64,
    pub blake3: Digest,
}

impl SignatureFile {
    /// The file with this text.
    pub(super) fn of(text: &str) -> Self {
        Self { bytes: text.len() as u64, blake3: blake3::hash(text.as_bytes()).into() }
    }
}

/// The head in the object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// There is none.
    Missing,
    /// It is the one that we wrote last.
    Own,
    /// Another one: of another publisher, or an older one of ours.
    Other,
}

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// Milliseconds since the epoch.
    pub now_ms: i64,
    /// `publish.full_every` in milliseconds.
    pub full_every_ms: i64,
    pub offer: &'a Offer,
    /// `None`: there is no chain yet, or it cannot be continued.
    pub chain: Option<&'a Chain>,
    pub stored: Stored,
    /// Whether an object of the chain is lost.
    pub is_broken: bool,
    /// Whether there are details that the chain does not have.
    pub has_more_details: bool,
}

/// Why a full bundle is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// There is no chain.
    First,
    /// The object store has no head.
    NoHead,
    /// The object store has lost an object.
    Broken,
    /// The last one is older than `publish.full_every`.
    Age,
    /// There are as many deltas as a head may name.
    Deltas,
    /// The deltas together would be more than half of it.
    Size,
    /// The snapshot that the delta would build on is not kept any more.
    NoBase,
}

impl Why {
    /// The reason for the log.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::First => "there is no chain of bundles yet",
            Self::NoHead => "the object store has no head",
            Self::Broken => "the object store has lost a bundle",
            Self::Age => "the last full bundle is older than publish.full_every",
            Self::Deltas => "the head names as many deltas as it may",
            Self::Size => "the deltas would be more than half of the full bundle",
            Self::NoBase => "the snapshot that a delta would build on is no longer kept",
        }
    }
}

/// What to write next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The object store has everything.
    Nothing,
    /// Write something, but not before this instant; milliseconds since the epoch.
    Later(i64),
    /// Only a head.
    Head,
    /// A delta and a head.
    Delta,
    /// A full bundle and a head.
    Full(Why),
}

/// The next step.
pub(super) fn next(facts: &Facts<'_>) -> Step {
    let Some(chain) = facts.chain else { return Step::Full(Why::First) };
    if facts.stored == Stored::Missing {
        return Step::Full(Why::NoHead);
    }
    if facts.is_broken {
        return Step::Full(Why::Broken);
    }
    // A clock that jumps by more than the period has the same effect as the period.
    if facts.now_ms.abs_diff(chain.full_ms) >= facts.full_every_ms.unsigned_abs() {
        return Step::Full(Why::Age);
    }
    let bundle = if chain.head.deltas.len() < MOST_DELTAS { Step::Delta } else { Step::Full(Why::Deltas) };
    if chain.head.snapshot != facts.offer.snapshot {
        return bundle;
    }
    let waits = facts.has_more_details || chain.content != facts.offer.content;
    let is_early = facts.now_ms.abs_diff(chain.last_ms) < PAUSE_MS.unsigned_abs();
    if waits && !is_early {
        return bundle;
    }
    let Offer { certificate, confirmed_ms, journal, .. } = facts.offer;
    let head = &chain.head;
    let is_said = (head.certificate, head.confirmed_ms, head.journal.blake3) == (*certificate, *confirmed_ms, *journal);
    match facts.stored {
        Stored::Own if is_said && waits => Step::Later(chain.last_ms.saturating_add(PAUSE_MS)),
        Stored::Own if is_said => Step::Nothing,
        _ => Step::Head,
    }
}

/// Whether a delta of so many bytes may follow the chain; otherwise a full bundle takes its place.
pub(super) fn takes_delta(head: &Head, bytes: u64) -> bool {
    let together = head.deltas.iter().map(|delta| delta.bytes).fold(bytes, u64::saturating_add);
    together <= head.full.bytes / 2
}

/// The number of the next head: higher than that of the head in the object store, than our own last one, and than the
/// wall clock in milliseconds. All of them were checked to be at most a day ahead of the clock.
pub(super) fn next_sequence(stored: Option<u64>, own: Option<u64>, now_ms: i64) -> u64 {
    let clock = u64::try_from(now_ms).unwrap_or(0);
    stored.max(own).unwrap_or(0).max(clock).saturating_add(1)
}

#[cfg(test)]
mod tests;
