//! Offset of the origin's clock from ours: the smallest `received - Date` of the last hour.
//!
//! The smallest, because a cache that keeps the origin's `Date` makes that difference larger, never smaller. Callers:
//! [`super`], which passes the instants.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Monotonic, WallTime};

/// For how long a `Date` says something about the clocks.
const MEMORY: Duration = Duration::from_secs(3600);

/// Differences are kept by minute.
const MINUTE: Duration = Duration::from_secs(60);

/// A wall clock that moved so much against the monotonic one did not just drift. In milliseconds.
const JUMP_MS: i64 = 2000;

/// A `Date` further ahead of our clock than this is wrong, not another clock: one bad node must not make the answers
/// of all others look old. In milliseconds.
const FURTHEST_AHEAD_MS: i64 = 15 * 60 * 1000;

/// If every answer says that the clocks differ by more than this, one of them is wrong. In milliseconds.
pub(super) const WRONG_MS: i64 = 60 * 1000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Instants {
    pub wall: WallTime,
    pub mono: Monotonic,
}

impl Instants {
    /// How far the wall clock is ahead of the monotonic one, in milliseconds.
    fn base_ms(self) -> i64 {
        let mono = i64::try_from(self.mono.as_nanos() / 1_000_000).unwrap_or(i64::MAX);
        self.wall.as_millis().saturating_sub(mono)
    }
}

/// The origin's clock for all who ask. Every answer to a client reads it, so that reading takes no lock.
#[derive(Debug, Default)]
pub(super) struct OriginLag {
    lags: Mutex<DateLags>,
    /// [`DateLags::smallest_ms`], valid for this base and before this monotonic instant, in nanoseconds.
    least_ms: AtomicI64,
    base_ms: AtomicI64,
    until: AtomicU64,
}

impl OriginLag {
    pub(super) fn note(&self, now: Instants, received: WallTime, date: WallTime) {
        let mut lags = self.lags.lock();
        lags.note(now, received, date);
        // Under the lock, so that an older value does not replace a later one.
        self.publish(&mut lags, now);
    }

    pub(super) fn smallest_ms(&self, now: Instants) -> i64 {
        let moved_ms = now.base_ms().saturating_sub(self.base_ms.load(Ordering::Acquire)).saturating_abs();
        if moved_ms <= JUMP_MS && now.mono.as_nanos() < self.until.load(Ordering::Acquire) {
            return self.least_ms.load(Ordering::Acquire);
        }
        self.publish(&mut self.lags.lock(), now)
    }

    /// By how many milliseconds the origin's clock is ahead of ours, if by more than [`WRONG_MS`].
    pub(super) fn ahead_ms(&self, now: Instants) -> Option<i64> {
        let mut lags = self.lags.lock();
        lags.forget(now);
        let ahead_ms = lags.minutes.iter().map(|minute| -minute.largest_ms).min()?;
        (ahead_ms > WRONG_MS).then_some(ahead_ms)
    }

    fn publish(&self, lags: &mut DateLags, now: Instants) -> i64 {
        let least_ms = lags.smallest_ms(now);
        let oldest = lags.minutes.front().map(|minute| minute.began.plus(MEMORY).as_nanos());
        // `until` is last: a reader that sees it sees the others, too. One that still sees the old one uses a value
        // that was right a moment ago, and after a jump the old base sends it to the lock.
        self.least_ms.store(least_ms, Ordering::Release);
        self.base_ms.store(lags.base_ms, Ordering::Release);
        self.until.store(oldest.unwrap_or(u64::MAX), Ordering::Release);
        least_ms
    }
}

/// The differences of answers within a minute.
#[derive(Debug)]
struct Minute {
    began: Monotonic,
    /// The smallest that is believed.
    smallest_ms: Option<i64>,
    largest_ms: i64,
}

/// The differences of the last hour.
#[derive(Debug, Default)]
struct DateLags {
    /// [`Instants::base_ms`] of the latest use.
    base_ms: i64,
    /// At most 61.
    minutes: VecDeque<Minute>,
}

impl DateLags {
    /// An answer that no cache kept, as far as it says: it was received a moment ago and says `date`. By the time of the
    /// note, which may come late on a busy machine, an answer would seem older than it is.
    fn note(&mut self, now: Instants, received: WallTime, date: WallTime) {
        self.forget(now);
        let has_jumped = now.wall.millis_since(received).saturating_abs() > JUMP_MS;
        let lag_ms = if has_jumped { now.wall } else { received }.millis_since(date);
        let believed_ms = Some(lag_ms).filter(|lag_ms| *lag_ms >= -FURTHEST_AHEAD_MS);
        match self.minutes.back_mut() {
            Some(minute) if now.mono.since(minute.began) < MINUTE => {
                minute.smallest_ms = minute.smallest_ms.into_iter().chain(believed_ms).min();
                minute.largest_ms = minute.largest_ms.max(lag_ms);
            }
            _ => {
                let minute = Minute { began: now.mono, smallest_ms: believed_ms, largest_ms: lag_ms };
                self.minutes.push_back(minute);
            }
        }
    }

    /// By how many milliseconds the origin's clock is behind ours; negative when it is ahead, 0 while unknown.
    fn smallest_ms(&mut self, now: Instants) -> i64 {
        self.forget(now);
        self.minutes.iter().filter_map(|minute| minute.smallest_ms).min().unwrap_or(0)
    }

    /// Forgets what is too old, and everything if the wall clock has jumped.
    fn forget(&mut self, now: Instants) {
        let base_ms = now.base_ms();
        if base_ms.saturating_sub(self.base_ms).saturating_abs() > JUMP_MS {
            self.minutes.clear();
        }
        self.base_ms = base_ms;
        while self.minutes.front().is_some_and(|minute| now.mono.since(minute.began) > MEMORY) {
            self.minutes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, wall: i64) -> Instants {
        Instants { wall: WallTime::from_seconds(wall), mono: Monotonic::from_seconds(seconds) }
    }

    fn note(lags: &OriginLag, seconds: u64, lag: i64) {
        let wall = 1_000_000 + seconds.cast_signed();
        lags.note(at(seconds, wall), WallTime::from_seconds(wall), WallTime::from_seconds(wall - lag));
    }

    fn smallest(lags: &OriginLag, seconds: u64) -> i64 {
        lags.smallest_ms(at(seconds, 1_000_000 + seconds.cast_signed())) / 1000
    }

    #[test]
    fn the_smallest_difference_of_the_last_hour_counts() {
        let lags = OriginLag::default();
        assert_eq!(smallest(&lags, 0), 0, "nothing is known");
        note(&lags, 1, 300);
        assert_eq!(smallest(&lags, 1), 300);
        for (seconds, lag) in [(2, 120), (3, 240), (100, 250), (4000, 260)] {
            note(&lags, seconds, lag);
        }
        assert_eq!(smallest(&lags, 4000), 260, "what came more than an hour ago is forgotten");
        note(&lags, 4001, -90);
        assert_eq!(smallest(&lags, 7600), -90, "an origin that is ahead");
        assert_eq!(smallest(&lags, 7700), 0);
        assert!(lags.lags.lock().minutes.is_empty());
    }

    #[test]
    fn an_answer_that_is_looked_at_late_is_not_older_for_that() {
        let (lags, received) = (OriginLag::default(), WallTime::from_seconds(1_000_000));
        lags.note(at(1, 1_000_001), received, received);
        assert_eq!(lags.smallest_ms(at(1, 1_000_001)), 0);
        // The wall clock was set meanwhile.
        let (lags, now) = (OriginLag::default(), at(1, 1_000_600));
        lags.note(now, received, received);
        assert_eq!(lags.smallest_ms(now), 600_000);
    }

    #[test]
    fn a_jump_of_the_wall_clock_makes_it_unknown() {
        for jump in [-600, 600] {
            let lags = OriginLag::default();
            note(&lags, 1, 50);
            assert_eq!(lags.smallest_ms(at(2, 1_000_003)), 50_000, "a clock is disciplined");
            assert_eq!(lags.smallest_ms(at(3, 1_000_003 + jump)), 0, "{jump}");
        }
    }

    #[test]
    fn a_date_of_another_day_is_no_clock() {
        let lags = OriginLag::default();
        note(&lags, 1, -86_400);
        assert_eq!(smallest(&lags, 1), 0);
        note(&lags, 2, 86_400);
        assert_eq!(smallest(&lags, 2), 86_400, "an origin may be behind as far as it likes");
    }

    #[test]
    fn a_clock_that_is_behind_every_answer_is_told() {
        let told = |lags: &OriginLag, seconds: u64| lags.ahead_ms(at(seconds, 1_000_000 + seconds.cast_signed()));
        let lags = OriginLag::default();
        assert_eq!(told(&lags, 1), None);
        note(&lags, 1, -61);
        note(&lags, 2, -86_400);
        assert_eq!(told(&lags, 2), Some(61_000));
        // One of several machines has a clock like ours.
        note(&lags, 100, -59);
        assert_eq!(told(&lags, 100), None);
        note(&lags, 3600, -86_400);
        assert_eq!(told(&lags, 3701), Some(86_400_000), "what came more than an hour ago is forgotten");
        assert_eq!(lags.ahead_ms(at(3702, 1_090_102)), None, "the clock was set");
    }

    #[test]
    fn memory_stays_small_however_often_answers_come() {
        let lags = OriginLag::default();
        for tenth in 0..60_000 {
            let mono = Monotonic::from_nanos(tenth * 500_000_000);
            let wall = WallTime::from_millis(1_000_000_000 + (tenth * 500).cast_signed());
            lags.note(Instants { wall, mono }, wall, wall);
        }
        assert!(lags.lags.lock().minutes.len() <= 61, "{}", lags.lags.lock().minutes.len());
    }
}
