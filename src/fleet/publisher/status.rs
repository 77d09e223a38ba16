//! The state of the publisher, for `/status`, metrics and the log; and why an attempt failed.
//!
//! Callers: [`super`] writes it, [`crate::server::admin`] shows it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::{Monotonic, WallTime};
use crate::data::bundle::WriteError;
use crate::data::bundle::signature::SignatureError;
use crate::data::snapshots::SnapshotsError;
use crate::data::store::StoreError;
use crate::fleet::bundle_store::BundleStoreError;
use crate::protocol::excerpt::Excerpt;
use crate::tasks::Aborted;
use crate::telemetry::findings::{Finding, Kind};
use crate::words::named;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PublishFacts {
    pub url: Option<String>,
    /// The proxy on the way to the object store; `None`: none.
    pub proxy: Option<String>,
    /// The number of the last head in the object store.
    pub sequence: Option<u64>,
    /// The key that signs; `None`: nothing is signed, or the key is not open yet.
    pub signed_by: Option<String>,
    /// When the object store last had everything.
    pub last_success: Option<String>,
    /// For how long the object store has not been known to have everything.
    pub behind_seconds: u64,
    /// Details of the current snapshot that follow in a later bundle; `None`: there is no snapshot.
    pub details_missing: Option<u64>,
    /// Why the object store lacks something, or may lack something; `None`: it is being written, or nothing is missing.
    pub why: Option<String>,
}

/// The state of the publisher; cheap to clone.
pub(crate) type PublishStatus = Arc<Mutex<PublishState>>;

/// The same at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublishState {
    pub(super) facts: PublishFacts,
    /// Since when the object store lacks something, or cannot be asked; `None`: it has everything.
    pub behind_since: Option<Monotonic>,
    /// What was found missing or altered, as a sentence, until everything was read back; `None`: nothing.
    pub(super) broken: Option<String>,
    /// How many details the object store has of the snapshot there; `None`: no bundle was written since the start.
    pub(super) details: Option<u64>,
    /// Why the object store lacks something, or may lack something; `None`: it is being written, or nothing is missing.
    why: Option<Finding>,
    /// The number of another publisher's head, which took the place of ours.
    pub(super) rival: Option<u64>,
    pub(super) has_no_conditions: bool,
    /// Objects written, by [`ObjectKind`].
    pub written: [u64; 3],
    /// Bytes of bundles.
    pub bytes: u64,
    /// Failed attempts by the word for their reason.
    pub failures: Vec<(&'static str, u64)>,
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum ObjectKind, as_str {
        Full = "full",
        Delta = "delta",
        Head = "head",
    }
}

impl PublishState {
    /// The facts at this instant. `details`: how many are here, and how many there should be; `None` without a snapshot.
    pub(crate) fn facts(&self, now: Monotonic, details: Option<(u64, u64)>) -> PublishFacts {
        let facts = self.facts.clone();
        let missing = |(here, wanted): (u64, u64)| wanted.max(here).saturating_sub(self.details.unwrap_or(here));
        let behind_seconds = self.behind_since.map_or(Duration::ZERO, |since| now.since(since)).as_secs();
        let why = self.why().map(|finding| finding.text);
        PublishFacts { behind_seconds, details_missing: details.map(missing), why, ..facts }
    }

    /// Something is to be written, or the object store cannot be asked.
    pub(super) fn lacks(&mut self, now: Monotonic) {
        self.behind_since.get_or_insert(now);
    }

    pub(super) fn wrote(&mut self, kind: ObjectKind, bytes: u64) {
        self.written[kind as usize] += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn succeeded(&mut self, now: WallTime) {
        self.facts.last_success = now.rfc3339();
        (self.behind_since, self.why) = (None, None);
    }

    pub(super) fn failed(&mut self, word: &'static str, why: Finding) {
        match self.failures.iter_mut().find(|(own, _)| *own == word) {
            Some((_, count)) => *count += 1,
            None => self.failures.push((word, 1)),
        }
        self.why = Some(why);
    }

    fn why(&self) -> Option<Finding> {
        let broken = || self.broken.as_ref().map(|text| Finding::new(Kind::PublishFails, text));
        self.why.clone().or_else(broken)
    }

    /// Everything that is wrong with the object store.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let url = self.facts.url.as_deref().unwrap_or("the object store");
        let rival = self.rival.map(|sequence| {
            let text = format!("another publisher writes to {url}: head {sequence} in it is not this server's");
            Finding::new(Kind::PublishRival, text)
        });
        let ignores = self.has_no_conditions.then(|| {
            let text = format!("{url} ignores the conditions of writes");
            Finding::new(Kind::PublishUnconditional, text)
        });
        self.why().into_iter().chain(rival).chain(ignores).collect()
    }
}

/// Where a file that cannot be written lies.
const TEMPORARY: &str = "a temporary file in the data directory";

#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    #[error(transparent)]
    BundleStore(#[from] BundleStoreError),
    #[error("the bundle cannot be written: {0}")]
    Export(#[from] SnapshotsError),
    #[error("{0}")]
    Signature(#[from] SignatureError),
    #[error("the key needs a password: set publish.sign_password_file")]
    NoPassword,
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    #[error("a temporary file in the data directory: {0}")]
    File(#[from] std::io::Error),
    #[error("{0}; it is not replaced")]
    Newer(String),
    /// Replicas would refuse heads with a higher number.
    #[error(
        "the number of the last head that this server wrote ({sequence}) is more than a day ahead of this machine's clock ({clock}, \
         {} ms since 1970); set the clock if it is wrong, else run `grandstand snapshot release` to begin again at the clock",
        clock.as_millis()
    )]
    Ahead { sequence: u64, clock: WallTime },
    #[error(
        "the object store has confirmed head {0}, but does not show it; see whether it loses writes, or whether something on \
         the way to it keeps old answers"
    )]
    Unkept(u64),
    #[error(
        "the head in the object store was another one each time it should be replaced: other publishers write to this prefix at \
         the same time (use one publisher for each prefix), or something on the way to the store keeps old answers"
    )]
    Busy,
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

/// What to do about a key that cannot be used.
const KEY: &str = "Correct publish.sign_key and publish.sign_password_file, and restart: they are read at the start. Until then \
                   the replicas get older data.";

impl PublishError {
    /// The word for metrics.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::BundleStore(error) => error.as_str(),
            Self::Export(_) => "export",
            Self::Signature(_) | Self::NoPassword => "key",
            Self::Store(_) | Self::File(_) => "disk",
            Self::Newer(_) | Self::Ahead { .. } | Self::Unkept(_) => "head",
            Self::Busy => "busy",
            Self::Aborted(_) => "internal",
        }
    }

    /// What is wrong. A disk that fails is the same thing, whatever it stops.
    pub(super) fn finding(&self, url: &str) -> Finding {
        let disk = match self {
            Self::Store(error) | Self::Export(SnapshotsError::Store(error)) => error.finding(),
            Self::File(error) | Self::Export(SnapshotsError::Write(WriteError::Io(error))) => {
                StoreError::of_io(&error.kind().into(), TEMPORARY.as_ref(), 0).finding()
            }
            _ => None,
        };
        let fails = || {
            let found = Finding::new(Kind::PublishFails, Excerpt(format!("publishing to {url} fails: {self}")));
            let found = found.because(self.as_str());
            if matches!(self, Self::Signature(_) | Self::NoPassword) { found.todo(KEY) } else { found }
        };
        disk.unwrap_or_else(fails)
    }

    /// Whether another publisher has written the head meanwhile.
    pub(super) const fn is_conflict(&self) -> bool {
        matches!(self, Self::BundleStore(BundleStoreError::Changed(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_behind_from_the_first_lack_to_the_success() {
        let mut state = PublishState::default();
        let at = Monotonic::from_seconds;
        assert_eq!(state.facts(at(9), None).behind_seconds, 0);
        state.lacks(at(10));
        state.lacks(at(15));
        let full = || Finding::new(Kind::PublishFails, "the store is full");
        state.failed("full", full());
        state.failed("full", full());
        assert_eq!((state.facts(at(20), None).behind_seconds, state.failures.clone()), (10, vec![("full", 2)]));
        assert_eq!(state.findings(), [full()]);
        state.succeeded(WallTime::from_seconds(6));
        let facts = state.facts(at(30), None);
        assert_eq!((facts.behind_seconds, facts.why), (0, None));
        assert_eq!(facts.last_success, WallTime::from_seconds(6).rfc3339());
    }

    #[test]
    fn details_are_missing_until_a_bundle_has_them() {
        let mut state = PublishState::default();
        let missing = |state: &PublishState, details| state.facts(Monotonic::from_seconds(1), details).details_missing;
        assert_eq!(missing(&state, None), None);
        // What a process before this one sent is not known.
        assert_eq!((missing(&state, Some((7, 7))), missing(&state, Some((5, 7)))), (Some(0), Some(2)));
        state.details = Some(3);
        for (here, wanted, left) in [(3, 0, 0), (5, 0, 2), (5, 7, 4), (7, 7, 4), (2, 2, 0)] {
            assert_eq!(missing(&state, Some((here, wanted))), Some(left), "{here} {wanted}");
        }
    }

    #[test]
    fn another_publisher_and_a_store_without_conditions_are_findings() {
        let mut state = PublishState::default();
        assert_eq!(state.findings(), []);
        (state.rival, state.has_no_conditions) = (Some(8), true);
        let found = state.findings();
        assert!(found[0].kind == Kind::PublishRival && found[0].text.contains("head 8 in it is not this server's"));
        assert_eq!((found.len(), found[1].kind), (2, Kind::PublishUnconditional));
    }

    #[test]
    fn a_broken_store_is_told_until_everything_was_read_back() {
        let mut state = PublishState::default();
        let why = |state: &PublishState| state.facts(Monotonic::from_seconds(1), None).why;
        state.broken = Some("an object is missing".to_owned());
        assert_eq!(why(&state).as_deref(), Some("an object is missing"));
        state.failed("full", Finding::new(Kind::PublishFails, "the store is full"));
        assert_eq!(why(&state).as_deref(), Some("the store is full"), "the more urgent one");
        // It was written again, which proves nothing yet.
        state.succeeded(WallTime::from_seconds(5));
        assert_eq!(why(&state).as_deref(), Some("an object is missing"));
        state.broken = None;
        assert_eq!(why(&state), None);
    }
}
