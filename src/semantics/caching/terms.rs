//! The terms of an answer: its lifetime, its age on arrival, and its use when stale (RFC 9111 §4.2).
//!
//! Computed once when an answer arrives or is confirmed. Not the decision for a request (`reuse`). Callers: the cache.

use std::time::Duration;

use http::StatusCode;
use http::header::{AGE, EXPIRES, HeaderMap, LAST_MODIFIED};

use super::dates;
use super::directives::ResponseDirectives;
use crate::clock::WallTime;
use crate::semantics::freshness::{MAX_AGE_SECONDS, parse_age};

/// The longest guessed lifetime.
const MAX_GUESS: Duration = Duration::from_secs(24 * 60 * 60);
/// The guessed lifetime of a missing resource: long enough to protect the origin.
const MISSING_GUESS: Duration = Duration::from_secs(10);
/// The longest lifetime and the highest age; their sum does not overflow.
const MAX: Duration = Duration::from_secs(MAX_AGE_SECONDS as u64);
/// How far `Date` may lie in the past without adding to the age: it has whole seconds, and clocks differ.
const DATE_TOLERANCE: Duration = Duration::from_secs(2);

/// When the origin was asked and when the header of its answer arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// When the request was sent.
    pub asked: WallTime,
    /// When the answer's header was received.
    pub received: WallTime,
}

/// The terms of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// How long it is fresh, counted in age; at most 2^31 seconds.
    pub lifetime: Duration,
    /// Its age when it was received (`corrected_initial_age`, RFC 9111 §4.2.3); at most 2^31 seconds.
    pub initial_age: Duration,
    /// `no-cache`: never used without asking the origin.
    pub always_validate: bool,
    /// `must-revalidate` or `proxy-revalidate`: never used stale.
    pub must_revalidate: bool,
    /// `s-maxage` is given, which a shared cache must read as `proxy-revalidate`, too (RFC 9111 §5.2.2.10).
    pub s_maxage: bool,
    /// The origin's `stale-while-revalidate`.
    pub stale_while_revalidate: Option<Duration>,
    /// The origin's `stale-if-error`.
    pub stale_if_error: Option<Duration>,
}

impl Terms {
    /// Reads the terms. `default_lifetime` is the operator's for a known endpoint (and status); it counts if the origin
    /// states no lifetime and a cache may guess one.
    pub fn of(
        status: StatusCode,
        headers: &HeaderMap,
        directives: &ResponseDirectives,
        exchange: Exchange,
        default_lifetime: Option<Duration>,
    ) -> Self {
        // A stale error is useless, unless the origin allows it.
        let failed = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        let grace = |given: Option<Duration>| given.or(failed.then_some(Duration::ZERO));
        let date = dates::date_of(headers, exchange.received).unwrap_or(exchange.received);
        Self {
            lifetime: lifetime(status, headers, directives, date, default_lifetime).min(MAX),
            initial_age: initial_age(headers, date, exchange).min(MAX),
            always_validate: directives.no_cache,
            must_revalidate: directives.must_revalidate || directives.proxy_revalidate,
            s_maxage: directives.s_maxage.is_some(),
            stale_while_revalidate: grace(directives.stale_while_revalidate),
            stale_if_error: grace(directives.stale_if_error),
        }
    }

    /// Its age after it was stored for so long.
    pub fn age(&self, held: Duration) -> Duration {
        self.initial_age.saturating_add(held)
    }
}

/// RFC 9111 §4.2.1.
fn lifetime(
    status: StatusCode,
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    date: WallTime,
    default_lifetime: Option<Duration>,
) -> Duration {
    if let Some(lifetime) = directives.lifetime() {
        return lifetime;
    }
    if !directives.targeted && headers.contains_key(EXPIRES) {
        // RFC 9111 §5.3: malformed means expired.
        return dates::single(headers, EXPIRES, date).map_or(Duration::ZERO, |expires| between(date, expires));
    }
    if !may_guess(status, directives) {
        return Duration::ZERO;
    }
    default_lifetime.unwrap_or_else(|| {
        // RFC 9111 §4.2.2: an answer that has not changed for long will not change soon.
        let unchanged = dates::single(headers, LAST_MODIFIED, date).map_or(Duration::ZERO, |at| between(at, date));
        let missing = matches!(status.as_u16(), 404 | 410) && !headers.contains_key(LAST_MODIFIED);
        if missing { MISSING_GUESS } else { (unchanged / 10).min(MAX_GUESS) }
    })
}

/// Whether a cache may guess a lifetime (RFC 9111 §4.2.2): with `public`, or with a status that RFC 9110 §15.1 calls
/// heuristically cacheable.
pub(super) fn may_guess(status: StatusCode, directives: &ResponseDirectives) -> bool {
    directives.public || matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// RFC 9111 §4.2.3.
fn initial_age(headers: &HeaderMap, date: WallTime, exchange: Exchange) -> Duration {
    let apparent = between(date, exchange.received);
    let apparent = if apparent < DATE_TOLERANCE { Duration::ZERO } else { apparent };
    // RFC 9111 §5.1: the first of several counts, and an invalid value counts as absent.
    let stated = headers.get(AGE).and_then(|value| parse_age(value.as_bytes())).unwrap_or(0);
    let corrected = Duration::from_secs(stated.into()).saturating_add(between(exchange.asked, exchange.received));
    apparent.max(corrected)
}

/// The time from one instant to a later one; zero when it is not later.
fn between(earlier: WallTime, later: WallTime) -> Duration {
    Duration::from_millis(u64::try_from(later.millis_since(earlier)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, any_headers, date, headers};
    use super::*;
    use proptest::prelude::*;

    const AT_ONCE: Exchange = Exchange { asked: NOW, received: NOW };

    fn of(status: u16, pairs: &[(&str, &str)], default: Option<u64>) -> Terms {
        let headers = headers(pairs);
        let status = StatusCode::from_u16(status).unwrap();
        Terms::of(status, &headers, &ResponseDirectives::of(&headers), AT_ONCE, default.map(Duration::from_secs))
    }

    #[test]
    fn the_lifetime_is_what_the_origin_states_most_precisely() {
        let (now, soon, past, later) = (date(0), date(10), date(-7200), date(3600));
        for (pairs, seconds) in [
            (&[("cache-control", "max-age=1, s-maxage=3600"), ("expires", &past)][..], 3600),
            (&[("cache-control", "max-age=3600"), ("expires", &past), ("date", &now)], 3600),
            (&[("cache-control", "max-age=3600"), ("expires", "0")], 3600),
            (&[("cache-control", "max-age=0"), ("expires", &later)], 0),
            (&[("expires", &soon), ("date", &now)], 10),
            (&[("expires", &soon), ("date", "foo")], 10),
            (&[("expires", &soon)], 10),
            (&[("expires", &now), ("date", &now)], 0),
            (&[("expires", &soon), ("date", &later)], 0),
            (&[("expires", "0")], 0),
            (&[("expires", "Thu, 18 Aug 2050 02:01:18 UTC")], 0),
            (&[("expires", &soon), ("expires", &later)], 0),
            (&[("expires", "Sun, 21 Nov 9286 04:46:39 GMT")], 1 << 31),
            (&[("cdn-cache-control", "max-age=60"), ("cache-control", "max-age=1"), ("expires", &past)], 60),
            (&[("cdn-cache-control", "foo"), ("expires", &soon)], 0),
            (&[], 0),
        ] {
            assert_eq!(of(200, pairs, None).lifetime, Duration::from_secs(seconds), "{pairs:?}");
        }
    }

    #[test]
    fn a_lifetime_is_guessed_only_where_none_is_stated_and_the_status_allows_it() {
        let (day, year) = (date(-86_400), date(-365 * 86_400));
        for (status, control, modified, default, seconds) in [
            (200, "", &day, None, 8640),
            (404, "", &day, None, 8640),
            (200, "", &year, None, 86_400),
            (200, "", &date(5), None, 0),
            (200, "", &day, Some(300), 300),
            (404, "", &day, Some(30), 30),
            (201, "", &day, None, 0),
            (201, "", &day, Some(300), 0),
            (503, "", &day, Some(300), 0),
            (599, "public", &day, None, 8640),
            (200, "max-age=5", &day, Some(300), 5),
            (200, "max-age=x", &day, Some(300), 0),
        ] {
            let terms = of(status, &[("cache-control", control), ("last-modified", modified)], default);
            assert_eq!(terms.lifetime, Duration::from_secs(seconds), "{status} {control:?} {modified} {default:?}");
        }
        for (status, control, seconds) in [(404, "", 10), (410, "", 10), (200, "", 0), (404, "max-age=0", 0)] {
            let lifetime = of(status, &[("cache-control", control)], None).lifetime;
            assert_eq!(lifetime, Duration::from_secs(seconds), "{status} {control:?}");
        }
    }

    #[test]
    fn the_age_is_the_larger_of_what_is_stated_and_what_the_date_shows() {
        for (age, sent, seconds) in [
            (None, 0, 0),
            (None, -1, 0),
            (None, -7200, 7200),
            (None, 7200, 0),
            (Some("7200"), 0, 7200),
            (Some("15"), 10, 15),
            (Some("25"), -10, 25),
            (Some("5"), -10, 10),
            (Some("2147483649"), 0, 1 << 31),
            (Some("7200, 0"), 0, 7200),
            (Some("0, 7200"), 0, 0),
            (Some("abc"), 0, 0),
            (Some("-7200"), 0, 0),
            (Some("7200.0"), 0, 0),
        ] {
            let mut pairs = vec![("date", date(sent))];
            pairs.extend(age.map(|age| ("age", age.to_owned())));
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(of(200, &pairs, None).initial_age, Duration::from_secs(seconds), "{pairs:?}");
        }
        let lines = [("age", "0"), ("age", "7200")];
        assert_eq!(of(200, &lines, None).initial_age, Duration::ZERO);
    }

    #[test]
    fn waiting_for_the_answer_counts_as_age() {
        let headers = headers(&[("age", "10")]);
        let waited = Exchange { asked: NOW.plus_seconds(-4), received: NOW };
        let back = Exchange { asked: NOW.plus_seconds(4), received: NOW };
        for (exchange, seconds) in [(waited, 14), (back, 10)] {
            let terms = Terms::of(StatusCode::OK, &headers, &ResponseDirectives::default(), exchange, None);
            assert_eq!(terms.initial_age, Duration::from_secs(seconds));
        }
    }

    #[test]
    fn a_stale_error_is_of_use_only_where_the_origin_says_so() {
        let sixty = Some(Duration::from_secs(60));
        assert_eq!(of(200, &[], None).stale_if_error, None);
        for status in [429, 500, 503] {
            let terms = of(status, &[], None);
            assert_eq!(
                (terms.stale_if_error, terms.stale_while_revalidate),
                (Some(Duration::ZERO), Some(Duration::ZERO))
            );
            assert_eq!(of(status, &[("cache-control", "stale-if-error=60")], None).stale_if_error, sixty, "{status}");
        }
    }

    proptest! {
        #[test]
        fn terms_are_total_and_bounded(
            headers in any_headers(), asked: i64, received: i64, default: Option<u64>, status in 100_u16..1000,
        ) {
            let exchange = Exchange { asked: WallTime::from_millis(asked), received: WallTime::from_millis(received) };
            let status = StatusCode::from_u16(status).unwrap();
            let default = default.map(Duration::from_secs);
            let terms = Terms::of(status, &headers, &ResponseDirectives::of(&headers), exchange, default);
            prop_assert!(terms.lifetime <= MAX && terms.initial_age <= MAX);
            prop_assert!(terms.age(Duration::MAX) == Duration::MAX);
        }
    }
}
