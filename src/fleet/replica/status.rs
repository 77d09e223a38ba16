//! The state of a replica and its object store, for `/status`, `/readyz` and metrics.
//!
//! Pure but for its memory. Callers: [`super`] and [`super::seed`] write, [`crate::admin`] reads.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Monotonic, WallTime};
use crate::words::counted;

/// The state of a replica and its object store; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaStatus(Arc<Mutex<Picture>>);

/// The same at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// The highest head that was taken; 0: none.
    pub sequence: u64,
    /// When the object store last answered.
    pub last_poll: Option<WallTime>,
    /// When this replica last had everything that the newest head names.
    level: Option<Monotonic>,
    /// Whether it has everything now.
    is_level: bool,
    /// The instants in the newest head.
    head: Option<Stamps>,
    /// Why the newest head, or any, could not be taken; `None`: it was.
    failure: Option<String>,
    /// What is being downloaded.
    download: Option<Download>,
    /// Polls by outcome.
    pub polls: Polls,
    /// Bytes of bundles and journals that were received.
    pub received: u64,
}

/// The instants in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// When it was written, by the publisher's clock.
    pub written: WallTime,
    /// The instant for which the publisher's data is confirmed.
    pub confirmed: WallTime,
}

/// What is being downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Download {
    /// `the full bundle`, for example.
    pub what: String,
    /// Bytes that are here.
    pub done: u64,
    /// Bytes in all.
    pub of: u64,
}

impl std::fmt::Display for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, done, of } = self;
        write!(f, "{what}: {done} of {} ({} %)", counted(*of, "byte"), done.saturating_mul(100) / (*of).max(1))
    }
}

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There is nothing new.
    Unchanged,
    /// A head was taken.
    Taken,
    /// A head was refused: it is older, unsigned, or not a head.
    Refused,
    /// The object store or an object in it could not be read, or the disk could not be written.
    Failed,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Unchanged, Self::Taken, Self::Refused, Self::Failed];

    /// The word for metrics.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Taken => "taken",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// Polls by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Polls([u64; 4]);

impl Polls {
    /// The number of each.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Outcome::ALL.map(Outcome::as_str).into_iter().zip(self.0)
    }
}

impl ReplicaStatus {
    /// The state now.
    pub(crate) fn picture(&self) -> Picture {
        self.0.lock().clone()
    }

    /// The highest head that was taken, as the data directory says at start.
    pub(crate) fn starts_at(&self, sequence: u64) {
        self.0.lock().sequence = sequence;
    }

    /// The object store answered.
    pub(crate) fn answered(&self, now: WallTime) {
        self.0.lock().last_poll = Some(now);
    }

    /// A head was read, whether it is accepted or not.
    pub(crate) fn saw(&self, stamps: Stamps) {
        self.0.lock().head = Some(stamps);
    }

    /// A poll ended well: everything of head `sequence` is here.
    pub(crate) fn is_level(&self, sequence: u64, outcome: Outcome, now: Monotonic) {
        let mut picture = self.0.lock();
        (picture.sequence, picture.failure, picture.download) = (sequence, None, None);
        (picture.is_level, picture.level) = (true, Some(now));
        picture.polls.0[outcome as usize] += 1;
    }

    /// A poll failed. The instant at which the replica last had everything stays.
    pub(crate) fn failed(&self, why: String, outcome: Outcome) {
        let mut picture = self.0.lock();
        (picture.failure, picture.is_level, picture.download) = (Some(why), false, None);
        picture.polls.0[outcome as usize] += 1;
    }

    /// What is being downloaded, and how far it is.
    pub(crate) fn downloads(&self, download: Download) {
        let mut picture = self.0.lock();
        (picture.download, picture.is_level) = (Some(download), false);
    }

    /// Bytes arrived.
    pub(crate) fn received(&self, bytes: u64) {
        let mut picture = self.0.lock();
        picture.received += bytes;
        if let Some(download) = &mut picture.download {
            download.done += bytes;
        }
    }
}

impl Picture {
    /// For how long this replica has lacked what the newest head names, or not known the newest head. `None`: it has not
    /// followed any since it runs.
    pub(crate) fn behind(&self, now: Monotonic) -> Option<Duration> {
        match self.level {
            Some(_) if self.is_level => Some(Duration::ZERO),
            Some(level) => Some(now.since(level)),
            None => None,
        }
    }

    /// Why the data is not the newest, in plain words; `None`: nothing is wrong. `oldest`: how old a head and its data may
    /// be.
    pub(crate) fn why(&self, now: WallTime, oldest: Duration) -> Option<String> {
        if let Some(failure) = &self.failure {
            return Some(failure.clone());
        }
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
        Some(if unwritten > oldest {
            format!(
                "the newest head in the object store was written at {}, {} ago; either the publisher does not write, or the \
                 object store shows an old state",
                head.written,
                ago(unwritten)
            )
        } else {
            format!(
                "the publisher itself has not confirmed its data since {}, {} ago; look at its /status",
                head.confirmed,
                ago(unconfirmed)
            )
        })
    }

    /// Why there is no data yet.
    pub(crate) fn not_ready(&self) -> String {
        match (&self.download, &self.failure) {
            (Some(download), _) => format!("the first data is being downloaded from the object store, {download}"),
            (None, Some(failure)) => format!("there is no data yet: {failure}"),
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
        let (status, now) = (ReplicaStatus::default(), Monotonic::from_seconds);
        assert_eq!(status.picture().behind(now(5)), None);
        status.failed("down".into(), Outcome::Failed);
        assert_eq!(status.picture().behind(now(6)), None);
        status.is_level(7, Outcome::Taken, now(10));
        assert_eq!(status.picture().behind(now(30)), Some(Duration::ZERO));
        status.failed("down".into(), Outcome::Failed);
        assert_eq!(status.picture().behind(now(40)), Some(Duration::from_secs(30)));
        assert_eq!(status.picture().sequence, 7);
        let polls: Vec<_> = status.picture().polls.counts().collect();
        assert_eq!(polls, [("unchanged", 0), ("taken", 1), ("refused", 0), ("failed", 2)]);
    }

    #[test]
    fn what_is_wrong_is_said_in_plain_words() {
        let status = ReplicaStatus::default();
        let why = |now| status.picture().why(now, TTL);
        assert_eq!(why(at(0)), None);
        for (written, confirmed, said) in [
            (at(-3), at(-9), None),
            (at(0), at(50), None),
            (at(-3000), at(-9), None),
            (at(-3), at(-11), Some("the publisher itself has not confirmed its data since")),
            (
                at(-12),
                at(-11),
                Some("12 seconds ago; either the publisher does not write, or the object store shows an old state"),
            ),
        ] {
            status.saw(Stamps { written, confirmed });
            match said {
                None => assert_eq!(why(at(0)), None, "{written} {confirmed}"),
                Some(said) => assert!(why(at(0)).is_some_and(|why| why.contains(said)), "{:?}", why(at(0))),
            }
        }
        status.failed("the store cannot be read".into(), Outcome::Failed);
        assert_eq!(why(at(0)).as_deref(), Some("the store cannot be read"));
    }

    #[test]
    fn before_the_first_data_the_progress_is_told() {
        let status = ReplicaStatus::default();
        assert_eq!(status.picture().not_ready(), "the object store has not been read yet");
        status.downloads(Download { what: "the full bundle".into(), done: 0, of: 200 });
        status.received(71);
        let told = "the first data is being downloaded from the object store, the full bundle: 71 of 200 bytes (35 %)";
        assert_eq!(status.picture().not_ready(), told);
        status.failed("no head".into(), Outcome::Failed);
        assert_eq!(status.picture().not_ready(), "there is no data yet: no head");
    }
}
