//! The state of the publisher, for `/status`, metrics and the log; and why an attempt failed.
//!
//! Callers: [`super`] writes it, [`crate::admin`] shows it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::bundle::signature::SignatureError;
use crate::clock::{Monotonic, WallTime};
use crate::fleet::head::timeless;
use crate::fleet::place::PlaceError;
use crate::snapshots::export::ExportError;
use crate::store::StoreError;
use crate::tasks::Aborted;
use crate::words::named;

/// The publisher, as `/status` shows it.
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
    /// Why the object store lacks something, or may lack something, as a sentence; `None`: it is being written, or
    /// nothing is missing.
    pub why: Option<String>,
}

/// How long another publisher is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);

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
    /// The last head of another program that came after ours, and when it was seen.
    rival: Option<(u64, Monotonic)>,
    /// Objects written, by [`ObjectKind`].
    pub written: [u64; 3],
    /// Bytes of bundles.
    pub bytes: u64,
    /// Failed attempts by the word for their reason.
    pub failures: Vec<(&'static str, u64)>,
}

named! {
    /// A kind of object that is written.
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
        let why = facts.why.or_else(|| self.broken.clone());
        PublishFacts { behind_seconds, details_missing: details.map(missing), why, ..facts }
    }

    /// Something is to be written, or the object store cannot be asked.
    pub(super) fn lacks(&mut self, now: Monotonic) {
        self.behind_since.get_or_insert(now);
    }

    /// An object was written.
    pub(super) fn wrote(&mut self, kind: ObjectKind, bytes: u64) {
        self.written[kind as usize] += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The object store has everything; returns whether it lacked something with a reason.
    pub(super) fn succeeded(&mut self, now: WallTime) -> bool {
        self.facts.last_success = now.rfc3339();
        self.behind_since = None;
        self.facts.why.take().is_some()
    }

    /// An attempt failed. Returns whether the reason is another one than before.
    pub(super) fn failed(&mut self, word: &'static str, why: String) -> bool {
        match self.failures.iter_mut().find(|(own, _)| *own == word) {
            Some((_, count)) => *count += 1,
            None => self.failures.push((word, 1)),
        }
        let is_news = self.facts.why.as_deref().map(timeless) != Some(timeless(&why));
        self.facts.why = Some(why);
        is_news
    }

    /// Another program wrote this head after ours; returns whether that is news.
    pub(super) fn saw_rival(&mut self, sequence: u64, now: Monotonic) -> bool {
        let is_news = self.rival(now).is_none();
        self.rival = Some((sequence, now));
        is_news
    }

    /// What another program wrote, as a sentence; `None`: nothing lately.
    pub(crate) fn rival(&self, now: Monotonic) -> Option<String> {
        let (sequence, _) = self.rival.filter(|(_, at)| now.since(*at) < REMEMBERED)?;
        let url = self.facts.url.as_deref().unwrap_or("the object store");
        Some(format!("another program writes head.json to {url}: head {sequence} in it is not this server's"))
    }
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    /// The object store fails.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The bundle cannot be written.
    #[error("the bundle cannot be written: {0}")]
    Export(#[from] ExportError),
    /// The key cannot be opened.
    #[error("{0}")]
    Signature(#[from] SignatureError),
    /// The key needs a password.
    #[error("the key needs a password: set publish.sign_password_file")]
    NoPassword,
    /// The data directory fails.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// A temporary file cannot be written or read.
    #[error("a temporary file in the data directory: {0}")]
    File(#[from] std::io::Error),
    /// The head was written by a newer version of this program.
    #[error("{0}; it is not replaced")]
    Newer(String),
    /// Replicas would refuse heads with a higher number.
    #[error(
        "the number of the last head that this server wrote ({sequence}) is more than a day ahead of this machine's clock ({clock}, \
         {} ms since 1970); set the clock if it is wrong, else run `grandstand snapshot release` to begin again at the clock",
        clock.as_millis()
    )]
    Ahead {
        sequence: u64,
        /// This machine's.
        clock: WallTime,
    },
    /// Other publishers write all the time.
    #[error("other publishers write to this prefix at the same time; use one publisher for each prefix")]
    Busy,
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

impl PublishError {
    /// The word for metrics.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Place(error) => error.as_str(),
            Self::Export(_) => "export",
            Self::Signature(_) | Self::NoPassword => "key",
            Self::Store(_) | Self::File(_) => "disk",
            Self::Newer(_) | Self::Ahead { .. } => "head",
            Self::Busy => "busy",
            Self::Aborted(_) => "internal",
        }
    }

    /// Whether a try costs seconds of work and a GiB of memory.
    pub(super) const fn is_costly(&self) -> bool {
        matches!(self, Self::Signature(SignatureError::WrongPassword(_)))
    }

    /// Whether another publisher has written the head meanwhile.
    pub(super) const fn is_conflict(&self) -> bool {
        matches!(self, Self::Place(PlaceError::Changed(_)))
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
        assert!(state.failed("full", "the store is full".to_owned()));
        assert!(!state.failed("full", "the store is full".to_owned()));
        assert_eq!((state.facts(at(20), None).behind_seconds, state.failures.clone()), (10, vec![("full", 2)]));
        assert!(state.succeeded(WallTime::from_seconds(5)));
        assert!(!state.succeeded(WallTime::from_seconds(6)));
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
    fn a_reason_that_stays_is_told_once_whatever_the_clock_shows() {
        let mut state = PublishState::default();
        let mut failed = |sequence, seconds| {
            let clock = WallTime::from_seconds(seconds);
            state.failed("head", PublishError::Ahead { sequence, clock }.to_string())
        };
        let told = [failed(7, 1), failed(7, 2), failed(7, 3), failed(8, 4)];
        assert_eq!(told, [true, false, false, true]);
    }

    #[test]
    fn another_publisher_is_news_once_and_forgotten_after_ten_minutes() {
        let (mut state, at) = (PublishState::default(), Monotonic::from_seconds);
        assert_eq!(state.rival(at(1)), None);
        assert!(state.saw_rival(7, at(1)) && !state.saw_rival(8, at(2)));
        assert!(state.rival(at(600)).unwrap().contains("head 8 in it is not this server's"));
        assert_eq!(state.rival(at(602)), None);
    }

    #[test]
    fn a_broken_store_is_told_until_everything_was_read_back() {
        let mut state = PublishState::default();
        let why = |state: &PublishState| state.facts(Monotonic::from_seconds(1), None).why;
        state.broken = Some("an object is missing".to_owned());
        assert_eq!(why(&state).as_deref(), Some("an object is missing"));
        state.failed("full", "the store is full".to_owned());
        assert_eq!(why(&state).as_deref(), Some("the store is full"), "the more urgent one");
        // It was written again, which proves nothing yet.
        assert!(state.succeeded(WallTime::from_seconds(5)));
        assert_eq!(why(&state).as_deref(), Some("an object is missing"));
        state.broken = None;
        assert_eq!(why(&state), None);
    }
}
