//! Age, origin time and the headers that speak of them (RFC 9111).
//!
//! How old an answer is, which instant it speaks for, and the fields that say how long it may be kept. Not a decision
//! to refresh or to serve stale.
//! Callers: [`crate::edge::answer`] when it writes headers, [`crate::origin`] when it reads them.

use std::fmt;
use std::time::Duration;

use crate::clock::WallTime;

use super::grammar;

/// How far ahead of our clock a stamp may be and still count as "now": clocks differ, and headers say whole seconds.
pub(crate) const FUTURE_TOLERANCE: Duration = Duration::from_secs(5);
/// The largest number of seconds that `Age` means (RFC 9111 §1.2.2); larger values count as this.
pub(crate) const MAX_AGE_SECONDS: u32 = 1 << 31;
/// The longest accepted `Retry-After`, in seconds: a day. Longer ones are probably mistakes.
pub(crate) const MAX_RETRY_AFTER_SECONDS: u32 = 86_400;

/// Whether a stamp lies further ahead of `now` than clocks may differ. Such a stamp confirms nothing.
pub(crate) fn is_from_the_future(stamp: WallTime, now: WallTime) -> bool {
    stamp > now.plus(FUTURE_TOLERANCE)
}

/// Whole seconds since the instant for which the data is confirmed, rounded down; 0 when that lies ahead. Never
/// negative (RFC 9111 §5.1), and never more than [`MAX_AGE_SECONDS`].
pub(crate) fn age_seconds(now: WallTime, confirmed: WallTime) -> u32 {
    let seconds = now.seconds_since(confirmed).clamp(0, i64::from(MAX_AGE_SECONDS));
    u32::try_from(seconds).unwrap_or(MAX_AGE_SECONDS)
}

/// The stamps in the header of an answer of the origin; `None` if absent or malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamps {
    pub date: Option<WallTime>,
    /// `Age`, in seconds.
    pub age: Option<u32>,
}

/// The instant that an answer speaks for by its header, on the origin's clock: `received - max(received - Date, Age)`
/// (RFC 9111 §4.2.3).
///
/// Thus it does not matter whether a cache keeps the origin's `Date` or sets its own. An answer without `Date` is dated
/// when it was received (RFC 9110 §6.6.1), and no `Date` is later than that. With an `Age`, the time that the request
/// took counts as well. `lag_ms`: by how many milliseconds the origin's clock is behind ours, which says when the
/// answer was asked for and received; negative when it is ahead.
pub(crate) fn origin_time(stamps: Stamps, asked: WallTime, received: WallTime, lag_ms: i64) -> WallTime {
    let by_origin = |at: WallTime| WallTime::from_millis(at.as_millis().saturating_sub(lag_ms));
    let date = stamps.date.map_or(by_origin(received), |date| date.min(by_origin(received)));
    let by_age = |age| by_origin(asked.min(received)).plus_seconds(-i64::from(age));
    stamps.age.map_or(date, |age| date.min(by_age(age)))
}

/// Reads `Age` in seconds: the first member of a list, and at most [`MAX_AGE_SECONDS`] (RFC 9111 §5.1, §1.2.2). `None`
/// if it is not a number.
pub(crate) fn parse_age(value: &[u8]) -> Option<u32> {
    let first = value.split(|&byte| byte == b',').next()?;
    grammar::seconds(first, MAX_AGE_SECONDS)
}

/// Reads `Retry-After` (RFC 9110 §10.2.3), seconds or an HTTP-date, as seconds from `now`: 0 for a date that has
/// passed, [`MAX_RETRY_AFTER_SECONDS`] for anything longer, `None` if it is neither. A date is rounded up.
pub(crate) fn parse_retry_after(value: &[u8], now: WallTime) -> Option<u32> {
    if let Some(seconds) = grammar::seconds(value, MAX_RETRY_AFTER_SECONDS) {
        return Some(seconds);
    }
    let date = grammar::http_date(value, now)?;
    let millis = date.millis_since(now).clamp(0, i64::from(MAX_RETRY_AFTER_SECONDS) * 1000);
    u32::try_from(millis.unsigned_abs().div_ceil(1000)).ok()
}

/// `Cache-Control` of our answers; `Display` writes the value, in whole seconds. RFC 9111 §5.2.2 and RFC 5861; zero
/// grace periods are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheControl {
    /// `max-age`: how long it is fresh.
    pub ttl: Duration,
    pub stale_while_revalidate: Duration,
    pub stale_if_error: Duration,
}

impl fmt::Display for CacheControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "public, max-age={}", self.ttl.as_secs())?;
        let graces = [("stale-while-revalidate", self.stale_while_revalidate), ("stale-if-error", self.stale_if_error)];
        for (name, grace) in graces.into_iter().filter(|(_, grace)| grace.as_secs() > 0) {
            write!(f, ", {name}={}", grace.as_secs())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64) -> WallTime {
        WallTime::from_seconds(seconds)
    }

    #[test]
    fn age_is_never_negative() {
        assert_eq!(age_seconds(WallTime::from_millis(10_999), at(8)), 2);
        assert_eq!(age_seconds(at(8), at(10)), 0);
        assert_eq!(age_seconds(WallTime::from_millis(i64::MAX), WallTime::from_millis(i64::MIN)), MAX_AGE_SECONDS);
    }

    /// Received at 1000 by our clock, and asked for a second before.
    fn speaks_for(date: Option<i64>, age: Option<u32>, lag: i64) -> i64 {
        origin_time(Stamps { date: date.map(at), age }, at(999), at(1000), lag * 1000).as_seconds()
    }

    #[test]
    fn an_answer_is_as_old_as_its_date_or_its_age_says_and_not_as_both() {
        for (date, age, expected, case) in [
            (Some(1000), None, 1000, "no cache"),
            (None, None, 1000, "no cache, and no date"),
            (Some(1000), Some(0), 999, "a cache that had no copy"),
            (Some(940), Some(60), 939, "a cache that keeps the origin's date"),
            (Some(1000), Some(60), 939, "a cache that sets its own"),
            (Some(940), None, 940, "a cache that keeps the date and says no age"),
            (Some(600), Some(60), 600, "the larger of both"),
            (None, Some(60), 939, "an age alone"),
            (Some(1005), Some(60), 939, "a date a little ahead"),
            (Some(9999), None, 1000, "a date from the future"),
        ] {
            assert_eq!(speaks_for(date, age, 0), expected, "{case}");
        }
    }

    #[test]
    fn an_origin_whose_clock_is_behind_or_ahead_counts_by_its_own() {
        for lag in [-120, 300] {
            let date = |age: i64| Some(1000 - lag - age);
            for (date, age, expected, case) in [
                (date(0), None, 0, "no cache"),
                (date(60), Some(60), -61, "a cache that keeps the origin's date"),
                (date(0), Some(60), -61, "a cache that sets its own"),
                (date(60), None, -60, "a cache that keeps the date and says no age"),
            ] {
                assert_eq!(speaks_for(date, age, lag) - (1000 - lag), expected, "{lag}: {case}");
            }
        }
    }

    #[test]
    fn age_and_retry_after_are_read_within_bounds() {
        for (value, expected) in [
            ("0", Some(0)),
            (" 17 ", Some(17)),
            ("17, 99", Some(17)),
            ("99999999999999999999", Some(MAX_AGE_SECONDS)),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("", None),
            (", 5", None),
        ] {
            assert_eq!(parse_age(value.as_bytes()), expected, "{value:?}");
        }
        let now = WallTime::from_millis(784_111_777_250);
        for (value, expected) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("999999", Some(MAX_RETRY_AFTER_SECONDS)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(MAX_RETRY_AFTER_SECONDS)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(value.as_bytes(), now), expected, "{value:?}");
        }
    }

    #[test]
    fn cache_control_says_the_grace_periods_that_there_are() {
        let mut control = CacheControl {
            ttl: Duration::from_secs(300),
            stale_while_revalidate: Duration::from_secs(60),
            stale_if_error: Duration::from_secs(86_400),
        };
        assert_eq!(control.to_string(), "public, max-age=300, stale-while-revalidate=60, stale-if-error=86400");
        control.stale_while_revalidate = Duration::ZERO;
        assert_eq!(control.to_string(), "public, max-age=300, stale-if-error=86400");
    }

    proptest! {
        #[test]
        fn the_parsers_are_total(bytes: Vec<u8>, now: i64) {
            let _ = (parse_age(&bytes), parse_retry_after(&bytes, WallTime::from_millis(now)));
        }

        #[test]
        fn origin_time_is_never_after_arrival(
            date: Option<i64>, age: Option<u32>, asked: i64, received: i64, lag_ms: i64,
        ) {
            let stamps = Stamps { date: date.map(WallTime::from_millis), age };
            let (asked, received) = (WallTime::from_millis(asked), WallTime::from_millis(received));
            let at = origin_time(stamps, asked, received, lag_ms);
            prop_assert!(at.as_millis() <= received.as_millis().saturating_sub(lag_ms));
        }
    }
}
