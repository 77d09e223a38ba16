//! The part of `/status` and of the metrics about the store that a replica follows.
//!
//! Callers: [`super::status`], [`super::metrics`].

use std::time::Duration;

use serde::Serialize;

use crate::clock::{Monotonic, WallTime};
use crate::fleet::replica::status::Picture;

/// `replica` in `/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ReplicaReading {
    /// The highest head that was taken; `None`: none was.
    pub sequence: Option<u64>,
    /// When the store last answered.
    pub last_poll: Option<String>,
    /// For how long something is missing that the store has, or the store is not known; 0: nothing is.
    pub behind_seconds: Option<u64>,
    /// Why the data is not the newest; `None`: nothing is wrong.
    pub why: Option<String>,
}

impl ReplicaReading {
    /// `oldest`: how old a head and its data may be.
    pub(super) fn of(picture: &Picture, now: WallTime, mono: Monotonic, oldest: Duration) -> Self {
        Self {
            sequence: (picture.sequence > 0).then_some(picture.sequence),
            last_poll: picture.last_poll.and_then(WallTime::rfc3339),
            behind_seconds: picture.behind(mono).map(|behind| behind.as_secs()),
            why: picture.why(now, oldest),
        }
    }
}
