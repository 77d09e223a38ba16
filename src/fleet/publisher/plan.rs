//! Plan of a publisher: what it writes next.
//!
//! Pure: facts in, a step out; but making the offer hashes evidence and journal, and blocks. Callers: [`super`] acts on
//! it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::api::hash::Digest;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::journal::codec;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::Certificate;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::verdicts::told::Told;
use crate::data::snapshots::Snapshots;
use crate::data::snapshots::export::Unsent;
use crate::data::store::ChangePosition;
use crate::fleet::head::{FORMAT, FileHash, Head, MOST_DELTAS, NamedBundle, NamedJournal};
use crate::fleet::keys::ObjectKey;

/// Without another snapshot, a bundle follows the one before it after this time, in milliseconds.
pub(super) const PAUSE_MS: i64 = 60_000;
/// The same for a bundle with details that replicas wait for: these go out within 5 s of their arrival.
pub(super) const SHORT_PAUSE_MS: i64 = 3_000;
/// The same for new evidence of terms, of which several may come one after the other.
const EVIDENCE_PAUSE_MS: i64 = 10_000;

/// A full bundle is written at least this often, in milliseconds: every 7 days.
pub(super) const FULL_EVERY_MS: i64 = 7 * 86_400_000;

/// The current snapshot, as the plan compares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub snapshot: SnapshotId,
    /// A hash of all that a bundle carries but details, confirmation and volatile values.
    pub content: Digest,
    /// A hash of the evidence, whatever its snapshot.
    pub evidence: Digest,
    /// How sure we are.
    pub certificate: Certificate,
    /// The instant for which it is confirmed; milliseconds since the epoch.
    pub confirmed_ms: i64,
    /// Length and hash of the journal's file.
    pub journal: FileHash,
}

impl Offer {
    /// The current snapshot, and the file of its journal.
    pub(super) fn of(snapshots: &Snapshots, served: &Snapshot) -> (Self, Bytes) {
        let snapshot = served.dataset.id.clone();
        let journal = codec::encode(snapshots.journal().until(snapshot.as_str()));
        let evidence = evidence_hash(&served.dataset.evidence());
        let offer = Self {
            snapshot,
            content: content(served, &evidence, &snapshots.verdicts().table().told()),
            evidence,
            certificate: served.meta.certificate,
            confirmed_ms: served.meta.confirmed_ms,
            journal: FileHash::of(&journal),
        };
        (offer, journal.into())
    }

    /// A head that names these bundles, and says the rest.
    fn head(&self, sequence: u64, written_ms: i64, full: NamedBundle, deltas: Vec<NamedBundle>) -> Head {
        Head {
            format: FORMAT,
            sequence,
            written_ms,
            confirmed_ms: self.confirmed_ms,
            certificate: self.certificate,
            snapshot: self.snapshot.clone(),
            full,
            deltas,
            journal: NamedJournal::new(self.journal),
        }
    }
}

/// A hash of what a bundle of this snapshot carries: not details, which are compared one by one; not the confirmation,
/// which the head carries; not the last values of volatile fields, which go along with the next bundle.
fn content(served: &Snapshot, evidence: &Digest, told: &Told) -> Digest {
    let meta = &served.meta;
    let told = (&meta.volatile, &meta.left_out, &meta.open_points, told, &meta.form, &meta.origin);
    // Texts always have a JSON form.
    let told = serde_json::to_vec(&told).unwrap_or_default();
    hash_of([served.dataset.id.as_str().as_bytes(), &told, &evidence.0])
}

/// All evidence of a data set is for its own snapshot.
fn evidence_hash(evidence: &Evidence) -> Digest {
    let terms = evidence.iter().map(|((taxonomy, slug), listed)| {
        let ids: Vec<u8> = listed.ids.iter().flat_map(|id| id.0.to_le_bytes()).collect();
        hash_of([&[taxonomy.index() as u8][..], slug.as_bytes(), &listed.fingerprint, &ids]).0
    });
    hash_of([&terms.flatten().collect::<Vec<u8>>()[..]])
}

fn hash_of<const N: usize>(parts: [&[u8]; N]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The chain of bundles in the object store, and the last head that names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chain {
    /// The head, which may not have reached the object store.
    #[serde(with = "super::ledger::head_file")]
    pub head: Head,
    /// [`Offer::content`] at the end of the chain.
    pub content: Digest,
    /// [`Offer::evidence`] there; `None`: not known.
    #[serde(default)]
    pub evidence: Option<Digest>,
    /// Details that have changed since come with the next bundle. `None`: all.
    #[serde(default, rename = "place")]
    pub position: Option<ChangePosition>,
    /// When its full bundle was written, by our clock; milliseconds since the epoch.
    pub full_ms: i64,
    pub last_ms: i64,
    /// The signatures of its bundles, in their order; empty: they are not signed.
    #[serde(default)]
    pub signatures: Vec<FileHash>,
}

impl Chain {
    /// The same chain with another head, and with a bundle more: a delta after the others, or a new full bundle.
    pub(super) fn with(
        before: Option<&Self>,
        bundle: Option<(NamedBundle, Option<FileHash>, Option<ChangePosition>)>,
        offer: &Offer,
        sequence: u64,
        now_ms: i64,
    ) -> Option<Self> {
        let head = |full, deltas| offer.head(sequence, now_ms, full, deltas);
        let (content, evidence) = (offer.content, Some(offer.evidence));
        match (before.cloned(), bundle) {
            (
                Some(Self { head: Head { full, mut deltas, .. }, mut signatures, full_ms, .. }),
                Some((named, signature, position)),
            ) if named.base.is_some() => {
                deltas.push(named);
                signatures.extend(signature);
                Some(Self {
                    head: head(full, deltas),
                    content,
                    evidence,
                    position,
                    full_ms,
                    last_ms: now_ms,
                    signatures,
                })
            }
            (_, Some((named, signature, position))) => Some(Self {
                head: head(named, Vec::new()),
                content,
                evidence,
                position,
                full_ms: now_ms,
                last_ms: now_ms,
                signatures: signature.into_iter().collect(),
            }),
            (Some(before), None) => {
                let (full, deltas) = (before.head.full.clone(), before.head.deltas.clone());
                Some(Self { head: head(full, deltas), ..before })
            }
            (None, None) => None,
        }
    }

    /// How long after its last bundle something else than details follows. Without new evidence, replicas refuse queries that
    /// this server answers.
    pub(super) fn pause_ms(&self, offer: &Offer) -> i64 {
        if self.evidence.is_some_and(|known| known != offer.evidence) { EVIDENCE_PAUSE_MS } else { PAUSE_MS }
    }

    /// Its objects, each with its length and hash. The small ones are read back first.
    pub(super) fn objects(&self) -> impl Iterator<Item = (ObjectKey, FileHash)> {
        let bundles = || self.head.chain();
        let journal = &self.head.journal;
        let journal = (journal.key(), FileHash { bytes: journal.bytes, blake3: journal.blake3 });
        let keys = bundles().map(|bundle| bundle.key().signature());
        let signatures = keys.zip(self.signatures.iter().copied());
        let file = |bundle: &NamedBundle| FileHash { bytes: bundle.bytes, blake3: bundle.blake3 };
        let bundles = bundles().rev().map(move |bundle| (bundle.key(), file(bundle)));
        std::iter::once(journal).chain(signatures).chain(bundles)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Missing,
    /// It is the one that we wrote last.
    Own,
    /// Another one: of another publisher, or an older one of ours.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// Milliseconds since the epoch.
    pub now_ms: i64,
    pub offer: &'a Offer,
    /// `None`: there is no chain yet, or it cannot be continued.
    pub chain: Option<&'a Chain>,
    pub stored: Stored,
    /// Whether an object of the chain is lost.
    pub is_broken: bool,
    /// The details that the chain does not have.
    pub unsent: Unsent,
}

/// Why the first bundle is a full one.
pub(super) const FIRST: &str = "there is no chain of bundles to go on with";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextWrite {
    /// The object store has everything that is due.
    Nothing,
    Head,
    Delta,
    /// Why, in words for the log.
    Full(&'static str),
}

pub(super) fn next(facts: &Facts<'_>) -> NextWrite {
    let Some(chain) = facts.chain else { return NextWrite::Full(FIRST) };
    if facts.stored == Stored::Missing {
        return NextWrite::Full("the object store has no head");
    }
    if facts.is_broken {
        return NextWrite::Full("the object store has lost a bundle");
    }
    // A clock that jumps by more than the period has the same effect as the period.
    if facts.now_ms.abs_diff(chain.full_ms) >= FULL_EVERY_MS.unsigned_abs() {
        return NextWrite::Full("the last full bundle is older than 7 days");
    }
    let bundle = if chain.head.deltas.len() < MOST_DELTAS {
        NextWrite::Delta
    } else {
        NextWrite::Full("the head names as many deltas as it may")
    };
    if chain.head.snapshot != facts.offer.snapshot {
        return bundle;
    }
    let waits = facts.unsent != Unsent::Nothing || chain.content != facts.offer.content;
    let pause = if facts.unsent == Unsent::Awaited { SHORT_PAUSE_MS } else { chain.pause_ms(facts.offer) };
    let is_early = facts.now_ms.abs_diff(chain.last_ms) < pause.unsigned_abs();
    if waits && !is_early {
        return bundle;
    }
    let Offer { certificate, confirmed_ms, journal, .. } = facts.offer;
    let head = &chain.head;
    let is_said =
        (head.certificate, head.confirmed_ms, head.journal.blake3) == (*certificate, *confirmed_ms, journal.blake3);
    match facts.stored {
        Stored::Own if is_said => NextWrite::Nothing,
        _ => NextWrite::Head,
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
