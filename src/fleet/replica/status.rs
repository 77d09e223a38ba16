//! The state of a replica and its object store, for `/status`, `/readyz` and metrics.
//!
//! Pure but for its memory. Callers: [`super`] writes, [`crate::server::admin`] reads.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::{Monotonic, WallTime};
use crate::telemetry::findings::{Finding, Kind};
use crate::words::{counted, named};

/// The object store that a replica follows, as `/status` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicaFacts {
    pub url: Option<String>,
    /// The proxy on the way to the object store; `None`: none.
    pub proxy: Option<String>,
    /// The highest head that was taken.
    pub sequence: Option<u64>,
    /// The trusted key that signed the last head that was read; `None`: no key is required, or none was read.
    pub signed_by: Option<String>,
    /// When the store last answered.
    pub last_poll: Option<String>,
    /// For how long something is missing that the store has, or the store is not known; 0: nothing is missing.
    pub behind_seconds: Option<u64>,
    /// Listings without an up-to-date detail: the publisher has not sent it yet; `None`: there is no snapshot.
    pub details_missing: Option<u64>,
    /// Why the data is not the newest, in plain words; `None`: nothing is wrong.
    pub why: Option<String>,
}

/// The state of a replica and its object store; cheap to clone.
pub(crate) type ReplicaStatus = Arc<Mutex<ReplicaState>>;

/// The same at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaState {
    pub(crate) facts: ReplicaFacts,
    /// When this replica last had everything that the newest head names.
    level: Option<Monotonic>,
    is_level: bool,
    /// The instants in the newest head, whether it is accepted or not.
    pub(super) head: Option<Stamps>,
    /// Why the last poll failed; `None`: it did not.
    failure: Option<Finding>,
    download: Option<DownloadProgress>,
    /// Polls by [`PollOutcome`].
    pub polls: [u64; 4],
    /// Bytes of bundles and journals that were received.
    pub received: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// When it was written, by the publisher's clock.
    pub written: WallTime,
    /// The instant for which the publisher's data is confirmed.
    pub confirmed: WallTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DownloadProgress {
    /// `the full bundle`, for example.
    pub what: String,
    pub done: u64,
    /// Bytes in all.
    pub of: u64,
}

impl std::fmt::Display for DownloadProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, done, of } = self;
        write!(f, "{what}: {done} of {} ({} %)", counted(*of, "byte"), done.saturating_mul(100) / (*of).max(1))
    }
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum PollOutcome, as_str {
        Unchanged = "unchanged",
        Taken = "taken",
        /// A head was refused: it is older, unsigned, or not a head.
        Refused = "refused",
        /// The object store or an object in it could not be read, or the disk could not be written.
        Failed = "failed",
    }
}

impl ReplicaState {
    /// A poll ended well: everything of head `sequence` is here.
    pub(crate) fn is_level(&mut self, sequence: u64, outcome: PollOutcome, now: Monotonic) {
        (self.facts.sequence, self.failure, self.download) = (Some(sequence), None, None);
        (self.is_level, self.level) = (true, Some(now));
        self.polls[outcome as usize] += 1;
    }

    /// A poll failed. The instant at which the replica last had everything stays, or of the first failure.
    pub(crate) fn failed(&mut self, why: Finding, outcome: PollOutcome, now: Monotonic) {
        (self.failure, self.is_level, self.download) = (Some(why), false, None);
        self.level.get_or_insert(now);
        self.polls[outcome as usize] += 1;
    }

    pub(crate) fn downloads(&mut self, download: DownloadProgress) {
        (self.download, self.is_level) = (Some(download), false);
    }

    pub(crate) fn received(&mut self, bytes: u64) {
        self.received += bytes;
        if let Some(download) = &mut self.download {
            download.done += bytes;
        }
    }

    /// For how long this replica has lacked what the newest head names, or not known the newest head. `None`: its first
    /// poll goes on.
    pub(crate) fn behind(&self, now: Monotonic) -> Option<Duration> {
        match self.level {
            Some(_) if self.is_level => Some(Duration::ZERO),
            Some(level) => Some(now.since(level)),
            None => None,
        }
    }

    /// The facts at this instant. `oldest`: how old a head and its data may be.
    pub(crate) fn facts(&self, mono: Monotonic, now: WallTime, oldest: Duration) -> ReplicaFacts {
        let behind_seconds = self.behind(mono).map(|behind| behind.as_secs());
        let why = self.finding(mono, now, oldest).map(|finding| finding.text);
        ReplicaFacts { behind_seconds, why, ..self.facts.clone() }
    }

    /// Why the data here is not the newest, or old; `None`: nothing is wrong. `oldest` as in [`Self::facts`].
    pub(crate) fn finding(&self, mono: Monotonic, now: WallTime, oldest: Duration) -> Option<Finding> {
        let failing = i64::try_from(self.behind(mono).unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
        // A poll that fails now is not why the head was old before.
        let was_late = || self.late(now.plus_seconds(failing.saturating_neg()), oldest).is_some();
        let failure = self.failure.as_ref().filter(|failure| failure.kind != Kind::ReplicaFails || !was_late());
        let late = || self.late(now, oldest).map(|text| Finding::new(Kind::ReplicaFails, text));
        failure.cloned().or_else(late)
    }

    fn late(&self, now: WallTime, oldest: Duration) -> Option<String> {
        let head = self.head?;
        let oldest = i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX);
        let [unwritten, unconfirmed] = [head.written, head.confirmed].map(|at| now.seconds_since(at));
        let ago = |seconds: i64| counted(seconds.unsigned_abs(), "second");
        if unconfirmed <= oldest {
            return None;
        }
        if let Some(download) = &self.download {
            return Some(format!("the newest data is still being downloaded from the object store, {download}"));
        }
        // While the publisher confirms its data, it writes heads that were just confirmed.
        Some(if unwritten > oldest || unconfirmed.saturating_sub(unwritten) <= oldest / 2 {
            format!(
                "the newest head in the object store was written at {}, {} ago; either the publisher has nothing confirmed to \
                 write (its /status says why), or it does not write, or its clock differs from the one here, or the object \
                 store shows an old state",
                head.written,
                ago(unwritten)
            )
        } else {
            format!(
                "the publisher itself has not confirmed its data since {}, {} ago; its /status says why (a clock may differ)",
                head.confirmed,
                ago(unconfirmed)
            )
        })
    }

    /// Why there is no data yet.
    pub(crate) fn not_ready(&self) -> String {
        match (&self.download, &self.failure) {
            (Some(download), _) => format!("the first data is being downloaded from the object store, {download}"),
            (None, Some(_)) => "there is no data yet".to_owned(),
            (None, None) => "the object store has not been read yet".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(seconds: i64) -> WallTime {
        WallTime::from_seconds(1_000_000 + seconds)
    }

    #[test]
    fn a_replica_is_behind_since_it_was_last_level() {
        let (mut state, now) = (ReplicaState::default(), Monotonic::from_seconds);
        assert_eq!(state.behind(now(5)), None);
        let down = || Finding::new(Kind::ReplicaFails, "down");
        state.failed(down(), PollOutcome::Failed, now(6));
        assert_eq!(state.behind(now(9)), Some(Duration::from_secs(3)), "since the first failure");
        state.is_level(7, PollOutcome::Taken, now(10));
        assert_eq!(state.behind(now(30)), Some(Duration::ZERO));
        state.failed(down(), PollOutcome::Failed, now(31));
        assert_eq!(state.behind(now(40)), Some(Duration::from_secs(30)));
        assert_eq!(state.facts.sequence, Some(7));
        assert_eq!(state.polls, [0, 1, 0, 2]);
    }

    #[test]
    fn what_is_wrong_is_said_in_plain_words() {
        let mut state = ReplicaState::default();
        let mono = Monotonic::from_seconds;
        let why = |state: &ReplicaState, now| state.finding(mono(60), now, TTL).map(|finding| finding.text);
        assert_eq!(why(&state, at(0)), None);
        for (written, confirmed, said) in [
            (at(-3), at(-9), None),
            (at(0), at(50), None),
            (at(-3000), at(-9), None),
            (at(-3), at(-11), Some("the publisher itself has not confirmed its data since")),
            (at(-9), at(-11), Some("9 seconds ago; either the publisher has nothing confirmed to write")),
            (
                at(-12),
                at(-11),
                Some("12 seconds ago; either the publisher has nothing confirmed to write (its /status says why), or"),
            ),
        ] {
            state.head = Some(Stamps { written, confirmed });
            match said {
                None => assert_eq!(why(&state, at(0)), None, "{written} {confirmed}"),
                Some(said) => {
                    let why = why(&state, at(0));
                    assert!(why.as_ref().is_some_and(|why| why.contains(said)), "{why:?}");
                }
            }
        }
        let unreadable = Finding::new(Kind::ReplicaFails, "the store cannot be read");
        state.failed(unreadable.clone(), PollOutcome::Failed, mono(0));
        assert_eq!(why(&state, at(0)).as_deref(), Some("the store cannot be read"), "it was not late before");
        let mut state = ReplicaState { head: Some(Stamps { written: at(-3), confirmed: at(-3000) }), ..state };
        state.is_level(1, PollOutcome::Unchanged, mono(59));
        state.failed(unreadable, PollOutcome::Failed, mono(60));
        assert!(why(&state, at(0)).is_some_and(|why| why.starts_with("the publisher itself")), "one poll is not why");
    }

    #[test]
    fn before_the_first_data_the_progress_is_told() {
        let mut state = ReplicaState::default();
        assert_eq!(state.not_ready(), "the object store has not been read yet");
        state.downloads(DownloadProgress { what: "the full bundle".into(), done: 0, of: 200 });
        state.received(71);
        let told = "the first data is being downloaded from the object store, the full bundle: 71 of 200 bytes (35 %)";
        assert_eq!(state.not_ready(), told);
        state.failed(Finding::new(Kind::ReplicaFails, "no head"), PollOutcome::Failed, Monotonic::from_seconds(0));
        assert_eq!(state.not_ready(), "there is no data yet");
    }
}
