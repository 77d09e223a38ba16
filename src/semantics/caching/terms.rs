//! The terms on which an answer is kept: its lifetime, its age on arrival, and what is allowed when it is stale
//! (RFC 9111 §4.2).
//!
//! What it is: what an answer's header means for its use, computed once when it arrives or is confirmed. What it is
//! not: the decision for a request (`reuse`). Who calls it: the cache.

use std::time::Duration;

use http::StatusCode;
use http::header::{AGE, EXPIRES, HeaderMap, LAST_MODIFIED};

use super::dates;
use super::directives::ResponseDirectives;
use crate::clock::WallTime;
use crate::semantics::freshness::{MAX_AGE_SECONDS, parse_age};

/// The longest lifetime that is ever guessed.
const MAX_GUESS: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest lifetime and the highest age that there are; they can be added without overflow.
const MAX: Duration = Duration::from_secs(MAX_AGE_SECONDS as u64);
/// By how much `Date` may lie in the past without adding to the age: it counts whole seconds, and clocks differ.
const DATE_TOLERANCE: Duration = Duration::from_secs(2);

/// When the origin was asked and when the header of its answer arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// When the request was sent.
    pub asked: WallTime,
    /// When the answer's header was received.
    pub received: WallTime,
}

/// What an answer's header means for its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own, and they combine freely")]
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
    /// The origin's window for using it stale while it is revalidated.
    pub stale_while_revalidate: Option<Duration>,
    /// The origin's window for using it stale when the origin fails.
    pub stale_if_error: Option<Duration>,
}

impl Terms {
    /// Reads the terms. `default_lifetime` is the operator's for a known endpoint (and status); it counts where the
    /// origin states no lifetime and a cache may guess one.
    pub fn of(
        status: StatusCode,
        headers: &HeaderMap,
        directives: &ResponseDirectives,
        exchange: Exchange,
        default_lifetime: Option<Duration>,
    ) -> Self {
        let date = dates::date_of(headers, exchange.received).unwrap_or(exchange.received);
        Self {
            lifetime: lifetime(status, headers, directives, date, default_lifetime).min(MAX),
            initial_age: initial_age(headers, date, exchange).min(MAX),
            always_validate: directives.no_cache,
            must_revalidate: directives.must_revalidate || directives.proxy_revalidate,
            s_maxage: directives.s_maxage.is_some(),
            stale_while_revalidate: directives.stale_while_revalidate,
            stale_if_error: directives.stale_if_error,
        }
    }

    /// Its age after it has been held for so long.
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
        // RFC 9111 §5.3: what is malformed has expired.
        return dates::single(headers, EXPIRES, date).map_or(Duration::ZERO, |expires| between(date, expires));
    }
    if !may_guess(status, directives) {
        return Duration::ZERO;
    }
    default_lifetime.unwrap_or_else(|| {
        // RFC 9111 §4.2.2: what has not changed for long will not change soon.
        let unchanged = dates::single(headers, LAST_MODIFIED, date).map_or(Duration::ZERO, |at| between(at, date));
        (unchanged / 10).min(MAX_GUESS)
    })
}

/// Whether a cache may choose a lifetime where the origin states none (RFC 9111 §4.2.2): `public` says so, and so do
/// the statuses that RFC 9110 §15.1 calls heuristically cacheable.
pub(super) fn may_guess(status: StatusCode, directives: &ResponseDirectives) -> bool {
    directives.public || matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// RFC 9111 §4.2.3.
fn initial_age(headers: &HeaderMap, date: WallTime, exchange: Exchange) -> Duration {
    let apparent = between(date, exchange.received);
    let apparent = if apparent < DATE_TOLERANCE { Duration::ZERO } else { apparent };
    // RFC 9111 §5.1: the first of several counts, and what is no number is as if absent.
    let stated = headers.get(AGE).and_then(|value| parse_age(value.as_bytes())).unwrap_or(0);
    let corrected = Duration::from_secs(stated.into()).saturating_add(between(exchange.asked, exchange.received));
    apparent.max(corrected)
}

/// The time from one instant to a later one; zero when it is not later.
fn between(earlier: WallTime, later: WallTime) -> Duration {
    Duration::from_millis(u64::try_from(later.millis_since(earlier)).unwrap_or(0))
}
