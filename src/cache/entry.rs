//! An answer read through from the origin, with what its header says about its life.
//!
//! Freshness is computed here, purely; whether to fetch is decided by [`crate::origin::read_through`].

use std::time::Duration;

use http::header::{CACHE_CONTROL, EXPIRES, HeaderMap, HeaderValue};

use crate::clock::{Monotonic, WallTime};

use super::reply::Reply;

/// An answer of the origin.
#[derive(Debug)]
pub struct Entry {
    /// The answer, ready to be sent.
    pub reply: Reply,
    /// The origin's own validators, to revalidate with.
    pub etag: Option<String>,
    /// The origin's `Last-Modified`.
    pub last_modified: Option<String>,
    /// The origin's `Link`.
    pub link: Option<HeaderValue>,
    /// `Cache-Control` to send: the origin's, or `None` for ours.
    pub cache_control: Option<HeaderValue>,
    /// `Expires` to send.
    pub expires: Option<HeaderValue>,
    /// When it arrived or was last confirmed.
    pub arrived: Monotonic,
    /// How old it was then.
    pub initial_age: Duration,
    /// How long it is fresh, counted from its origin time.
    pub lifetime: Duration,
}

impl Entry {
    /// Its age now (RFC 9111 §4.2.3).
    pub fn age(&self, now: Monotonic) -> Duration {
        self.initial_age + now.since(self.arrived)
    }

    /// How much longer it is fresh; `None` when it is stale.
    pub fn fresh_for(&self, now: Monotonic) -> Option<Duration> {
        self.lifetime.checked_sub(self.age(now)).filter(|left| !left.is_zero())
    }

    /// How long it has been stale.
    pub fn stale_for(&self, now: Monotonic) -> Duration {
        self.age(now).saturating_sub(self.lifetime)
    }
}

/// How long an answer is fresh (RFC 9111 §4.2.1); `default` where the origin does not say.
pub fn lifetime(headers: &HeaderMap, date: WallTime, default: Duration) -> Duration {
    let directives = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directives: Vec<String> =
        directives.flat_map(|value| value.split(',')).map(|part| part.trim().to_ascii_lowercase()).collect();
    let seconds = |name: &str| {
        let value = directives.iter().find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
        Some(Duration::from_secs(value.trim_matches('"').parse().unwrap_or(0)))
    };
    if directives.iter().any(|part| matches!(part.as_str(), "no-cache" | "no-store" | "private")) {
        return Duration::ZERO;
    }
    if let Some(lifetime) = seconds("s-maxage").or_else(|| seconds("max-age")) {
        return lifetime;
    }
    match headers.get(EXPIRES) {
        Some(expires) => {
            let expires = expires.to_str().ok().and_then(WallTime::parse_http_date);
            let millis = expires.map_or(0, |expires| expires.millis_since(date));
            Duration::from_millis(u64::try_from(millis).unwrap_or(0))
        }
        None => default,
    }
}

/// Whether the origin forbids keeping the answer (RFC 9111 §5.2.2.5, §5.2.2.7).
pub fn may_store(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    !values.flat_map(|value| value.split(',')).any(|part| {
        let part = part.trim().to_ascii_lowercase();
        part == "no-store" || part == "private"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn lifetimes_follow_the_origin_and_default_to_the_ttl() {
        let date = WallTime::parse_http_date("Fri, 20 Nov 2026 12:00:00 GMT").unwrap();
        let default = Duration::from_secs(300);
        for (pairs, seconds) in [
            (&[][..], 300),
            (&[("cache-control", "public, max-age=60")], 60),
            (&[("cache-control", "max-age=60, s-maxage=\"10\"")], 10),
            (&[("cache-control", "no-cache, max-age=60")], 0),
            (&[("cache-control", "max-age=-5")], 0),
            (&[("expires", "Fri, 20 Nov 2026 12:00:30 GMT")], 30),
            (&[("expires", "0")], 0),
        ] {
            assert_eq!(lifetime(&headers(pairs), date, default), Duration::from_secs(seconds), "{pairs:?}");
        }
        assert!(!may_store(&headers(&[("cache-control", "max-age=5, private")])));
    }
}
