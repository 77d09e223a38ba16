//! Decisions of a replica about a head, and about a failure. Pure.
//!
//! A head is skipped, noted, followed by deltas, fetched as a whole, or refused. An object that is of no use - it is not
//! what the head names, or does not fit the data before it - is left alone for a while, longer each time: the same bytes
//! would come again. Callers: [`super`] and its parts.

use std::path::PathBuf;
use std::time::Duration;

use super::status::PollOutcome;
use crate::api::hash::Digest;
use crate::clock::backoff::{Jitter, doubled};
use crate::clock::{Monotonic, WallTime};
use crate::data::bundle::BundleError;
use crate::data::bundle::signature::SignatureError;
use crate::data::snapshots::SnapshotsError;
use crate::data::snapshots::follow::{Stand, Taken};
use crate::data::store::StoreError;
use crate::fleet::bundle_store::BundleStoreError;
use crate::fleet::head::{Head, HeadError, NamedBundle};
use crate::protocol::excerpt::Excerpt;
use crate::tasks::Aborted;
use crate::telemetry::findings::{Finding, Kind};

/// The publisher's clock may be this far ahead: such stamps count as now.
const AHEAD_MS: i64 = 60_000;

const UNSIGNED: &str =
    "If your publisher wrote it, set publish.sign_key there. If not, somebody else writes there: do not take it.";
const ALTERED: &str = "Find out who altered what the object store has: only a holder of a trusted key should write there. The \
                       publisher writes its head again by itself. What is stored here is served.";

/// What is to be done about a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeadDecision<'a> {
    /// It was taken before, and its data is still here.
    Nothing,
    /// It only confirms the data that is here.
    Renew,
    /// These deltas are missing, in this order.
    Deltas(&'a [NamedBundle]),
    /// Everything: the full bundle, then these deltas.
    Full(&'a NamedBundle, &'a [NamedBundle]),
    /// It is older than one that was taken, or another one of the same number.
    Refuse(HeadRefused),
}

/// Why a head is not taken. The data stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadRefused {
    /// An old copy of the object store was restored, or an attacker sends an old head.
    #[error(
        "the object store has head {found}, which is older than head {taken} that was taken here; an old copy of the object \
         store was restored, or somebody sends an old one; if the publisher began its numbers again, run \
         `grandstand refresh --forget-sequence` on this replica"
    )]
    Older {
        /// The number of the head in the object store.
        found: u64,
        /// The highest number that was taken.
        taken: u64,
    },
    /// Another head with the same number: there are two publishers, or it is forged.
    #[error(
        "head {0} in the object store differs from the head {0} that this replica took before; do two publishers write there?"
    )]
    Rival(u64),
}

pub(crate) fn taken(head: &Head) -> Taken {
    Taken { sequence: head.sequence, text: blake3::hash(head.text().as_bytes()).to_hex().to_string() }
}

/// What a replica at `stand` does about a head.
///
/// A head that was taken is taken again only where its data is missing, after an import by hand or a repair.
pub(crate) fn decide<'a>(stand: &Stand, head: &'a Head) -> HeadDecision<'a> {
    let (found, taken_before) = (head.sequence, stand.taken.sequence);
    if found < taken_before {
        return HeadDecision::Refuse(HeadRefused::Older { found, taken: taken_before });
    }
    let again = found == taken_before;
    if again && taken(head) != stand.taken {
        return HeadDecision::Refuse(HeadRefused::Rival(found));
    }
    let missing = stand.digest.as_deref().and_then(Digest::parse).and_then(|digest| head.after(&digest));
    match missing {
        Some([]) if again => HeadDecision::Nothing,
        Some([]) => HeadDecision::Renew,
        Some(deltas) => HeadDecision::Deltas(deltas),
        None => HeadDecision::Full(&head.full, &head.deltas),
    }
}

/// The instant of confirmation as it is believed here: a little ahead of our clock counts as now. Further ahead it
/// stays, and confirms nothing.
pub(crate) fn believed_ms(confirmed_ms: i64, now: WallTime) -> i64 {
    let now_ms = now.as_millis();
    if confirmed_ms > now_ms && confirmed_ms.saturating_sub(now_ms) <= AHEAD_MS { now_ms } else { confirmed_ms }
}

/// Why a round ended without the newest data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    #[error(
        "there is no head.json in the object store: no publisher has written there, the head was removed, replica.url is wrong, or \
         its directory is not mounted"
    )]
    NoHead,
    #[error(transparent)]
    BundleStore(#[from] BundleStoreError),
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error(transparent)]
    Refused(#[from] HeadRefused),
    #[error("{key} in the object store is not what the head names: {why}")]
    Wrong { key: String, why: String },
    #[error("{}: {source}", path.display())]
    Disk { path: PathBuf, source: std::io::Error },
    #[error("the download was interrupted by a request to refresh")]
    Interrupted,
    /// An object is of no use; it is fetched again later.
    #[error("{0}")]
    Bad(String),
    /// A mirror does not begin with the data of another origin.
    #[error("the data in the object store comes from {0}, which is neither origin.url nor one of origin.aliases")]
    Foreign(String),
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Snapshots(#[from] SnapshotsError),
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

impl FollowError {
    pub(super) const fn outcome(&self) -> PollOutcome {
        match self {
            Self::Head(_) | Self::Refused(_) => PollOutcome::Refused,
            _ => PollOutcome::Failed,
        }
    }

    /// What is wrong. A disk that fails is the same thing, whatever it stops.
    pub(super) fn finding(&self) -> Finding {
        let disk = match self {
            Self::Store(error) | Self::Snapshots(SnapshotsError::Store(error)) => error.finding(),
            Self::Disk { path, source } => StoreError::of_io(&source.kind().into(), path, 0).finding(),
            _ => None,
        };
        let (kind, todo) = match self {
            Self::Head(HeadError::Signature(SignatureError::Wrong(_))) => (Kind::SignatureRefused, ALTERED),
            Self::Head(HeadError::Unsigned) => (Kind::SignatureRefused, UNSIGNED),
            Self::Head(HeadError::Signature(_)) => (Kind::SignatureRefused, Kind::SignatureRefused.todo()),
            _ => (Kind::ReplicaFails, Kind::ReplicaFails.todo()),
        };
        disk.unwrap_or_else(|| Finding::new(kind, Excerpt(self)).todo(todo).because(self.outcome().as_str()))
    }

    /// Whether the object store, or our own disk, is left alone for longer each time. A head that is refused, and an
    /// object that is fetched again later, cost nothing, and a better head may follow.
    pub(super) const fn backs_off(&self) -> bool {
        !matches!(
            self,
            Self::NoHead
                | Self::Head(_)
                | Self::Refused(_)
                | Self::Bad(_)
                | Self::BundleStore(BundleStoreError::TooLarge { .. })
        )
    }

    /// Which of several bundles does not fit the data before it, from 0, and why; `None`: that is not the failure.
    pub(super) const fn misfit(&self) -> Option<(usize, &BundleError)> {
        match self {
            Self::Snapshots(SnapshotsError::Bundle { at, why }) => Some((*at, why)),
            _ => None,
        }
    }

    /// Whether the same object will be as bad the next time. Then: for how long it is left alone at most, and what
    /// happened, to which object, and what helps.
    pub(super) fn of_bad_object(&self) -> Option<(Duration, String)> {
        let longest = match self {
            Self::BundleStore(BundleStoreError::Missing(_)) => LONGEST_MISSING,
            Self::Wrong { .. } => LONGEST,
            _ => return None,
        };
        let text = format!(
            "{self}; the publisher writes everything again after its next check of the objects; restart the publisher to \
             check at once"
        );
        Some((longest, text))
    }
}

/// The message about an object that is what the head names, and does not fit the data before it.
pub(super) fn misfit(key: &str, error: &BundleError) -> String {
    format!(
        "{key} does not fit the data before it ({error}); if this stays, remove head.json from the object store, and the \
         publisher writes a full bundle"
    )
}

/// The message about a bundle that takes too much memory beside those before it in a chain.
pub(super) fn heavy(key: &str, most: u64) -> String {
    format!(
        "{key} and the bundles before it would take more than {most} bytes of memory together, the limit for files of their \
         length; it is taken after them"
    )
}

/// The pause before the first further try of a bad object, doubled each time.
const FIRST: Duration = Duration::from_secs(2);
/// The longest pause where a try costs a download.
pub(super) const LONGEST: Duration = Duration::from_secs(600);
/// The longest pause where it costs one request.
const LONGEST_MISSING: Duration = Duration::from_secs(60);

/// What a replica tries: from the digest that it stands at to the last bundle of a chain.
pub(super) type Attempt = (Option<String>, Digest);

/// An object that is of no use.
#[derive(Debug)]
pub(super) struct BadObject {
    /// The hash that the head names.
    blake3: Digest,
    /// What is wrong, and what helps.
    pub why: String,
    times: u32,
    until: Monotonic,
    /// The attempt that ended there, with all that could be taken before.
    pub ended: Option<Attempt>,
}

impl BadObject {
    /// An object that failed now. `before`: the last bad object.
    pub(super) fn after(
        before: Option<&Self>,
        blake3: Digest,
        (longest, why): (Duration, String),
        now: Monotonic,
        jitter: &Jitter,
    ) -> Self {
        let times = before.filter(|before| before.blake3 == blake3).map_or(0, |before| before.times);
        let until = now.plus(jitter.jittered(doubled(FIRST, times, longest)));
        Self { blake3, why, times: times.saturating_add(1), until, ended: None }
    }

    /// Why an object is not fetched now; `None`: it is.
    pub(super) fn refuses(&self, blake3: &Digest, now: Monotonic) -> Option<&str> {
        (self.blake3 == *blake3 && now < self.until).then_some(&*self.why)
    }

    /// Why an attempt is not made now: it would end as before.
    pub(super) fn refuses_attempt(&self, attempt: &Attempt, now: Monotonic) -> Option<&str> {
        (self.ended.as_ref() == Some(attempt) && now < self.until).then_some(&*self.why)
    }
}

#[cfg(test)]
mod tests;
