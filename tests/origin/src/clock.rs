//! The origin's time: the system's, or the virtual time of tokio's runtime.
//!
//! Intervals are always tokio's. Callers: the server, the world.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the wall time comes from.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Option<(Instant, Timestamp)>);

impl Clock {
    /// The operating system's.
    pub const fn system() -> Self {
        Self(None)
    }

    /// Follows tokio's own, and shows so many milliseconds since 1970 now.
    pub fn of_runtime(millis: i64) -> Self {
        Self(Some((Instant::now(), Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX))))
    }

    pub(super) fn now(self) -> Timestamp {
        let Some((began, wall)) = self.0 else { return Timestamp::now() };
        let passed = SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::MAX);
        wall.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }
}
