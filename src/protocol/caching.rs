//! HTTP caching (RFC 9111) as plain functions of values: what may be stored, how long it is fresh, which requests it
//! answers, and what an unsafe request invalidates.
//!
//! Every decision of a shared HTTP cache - RFC 9111, RFC 9110 §13 and §14, RFC 9213 (targeted fields) and RFC 5861
//! (stale content) - for two kinds of endpoint: the *known* ones of the mirrored API, where the operator's `ttl` stands
//! in for a lifetime that the origin does not state, and *unknown* paths, which follow the RFCs to the letter. Not a
//! store, a clock or a connection; `now` is an argument. Callers: mainly [`crate::edge::proxy`].

mod directives;
mod fields;
mod selecting;

use std::time::Duration;

use http::header::{
    AGE, AUTHORIZATION, CONTENT_LOCATION, COOKIE, DATE, ETAG, EXPIRES, HeaderMap, HeaderName, LAST_MODIFIED, LOCATION,
    SET_COOKIE,
};
use http::{Method, StatusCode};
use url::Url;

use super::freshness::{MAX_AGE_SECONDS, parse_age};
use super::grammar::date_in;
use super::target::path_below;
use crate::clock::WallTime;

pub use directives::{RequestDirectives, ResponseDirectives};
pub(crate) use fields::{
    Allowed, Purpose, end_to_end, freshen, generalise, has_same_validator, head_agrees, is_about, is_bare,
    is_never_onward, missed, onward, unnamed, validating_date,
};
pub(crate) use selecting::{OneLanguage, Selecting, Vary};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NotStored {
    /// Only answers to GET are stored.
    Method,
    /// The status is interim, or `must-understand` is set and we do not know it.
    Status,
    /// `no-store`, of the answer or of the request.
    NoStore,
    Private,
    /// The request was authorized, and the answer does not allow sharing (RFC 9111 §3.5).
    Authorization,
    /// The request carried cookies, as above.
    Cookie,
    /// The answer sets a cookie without `public`.
    SetCookie,
    /// No lifetime is stated and none may be guessed, or it can never be used.
    NoFreshness,
    /// The answer to a range or a condition.
    Partial,
    VaryStar,
}

/// Whether the answer may be stored for others. `request` is the request to the origin (on known endpoints without
/// client fields); `default_lifetime` is the operator's, for a known endpoint.
///
/// Our own rules, stricter than RFC 9111: a request with `Cookie` is treated like one with `Authorization`, unless
/// `Vary` names `Cookie` (much of the web sends no `private`); an answer with `Set-Cookie` must say `public` (RFC 9111
/// §7.3). On known endpoints the field is dropped.
pub(crate) fn may_store(
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
    directives: &ResponseDirectives,
    default_lifetime: Option<Duration>,
) -> Result<(), NotStored> {
    let explicit = directives.lifetime().is_some() || (!directives.targeted && response.contains_key(EXPIRES));
    let for_others = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    let vary = Vary::of(response);
    let reasons = [
        (NotStored::Method, *method != Method::GET),
        (NotStored::Partial, depends_on_request(status)),
        (NotStored::Status, status.is_informational() || (directives.must_understand && !is_understood(status))),
        // RFC 9111 §5.2.2.3: with must-understand, an understood status overrides no-store.
        (NotStored::NoStore, directives.no_store && !directives.must_understand),
        (NotStored::NoStore, RequestDirectives::of(request).no_store),
        (NotStored::Private, directives.private),
        (NotStored::Authorization, request.contains_key(AUTHORIZATION) && !for_others),
        // DEVIATION: stricter than RFC 9111 §3.5, which is about `Authorization` only.
        (NotStored::Cookie, request.contains_key(COOKIE) && !for_others && !vary.names(&COOKIE)),
        (NotStored::VaryStar, vary == Vary::Star),
    ];
    if let Some((reason, _)) = reasons.into_iter().find(|(_, forbids)| *forbids) {
        return Err(reason);
    }
    // DEVIATION: stricter than RFC 9111 §7.3, which only warns.
    if response.contains_key(SET_COOKIE) && !directives.public && default_lifetime.is_none() {
        return Err(NotStored::SetCookie);
    }
    let validator = response.contains_key(ETAG) || response.contains_key(LAST_MODIFIED);
    // Without lifetime and validator it is stale at once: it serves only waiting clients, and outages.
    let guessed = may_guess(status, directives);
    let reusable = validator || !directives.no_cache;
    if (explicit || guessed) && reusable { Ok(()) } else { Err(NotStored::NoFreshness) }
}

/// The statuses that a request field may have caused: any error, since firewalls and frameworks reject fields with any
/// status. Such an answer says nothing about requests without the field.
pub(crate) fn blames_the_request(status: StatusCode) -> bool {
    status.as_u16() >= 400
}

/// The statuses that a range or a condition causes: 206, 304, 412 and 416.
fn depends_on_request(status: StatusCode) -> bool {
    matches!(status.as_u16(), 206 | 304 | 412 | 416)
}

/// The statuses whose caching requirements this cache knows (RFC 9110 §15, RFC 6585, RFC 7725).
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451 | 500..=505
    )
}

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freshness {
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
    pub stale_while_revalidate: Option<Duration>,
    pub stale_if_error: Option<Duration>,
}

impl Freshness {
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
        let date = date_in(headers, DATE, exchange.received).unwrap_or(exchange.received);
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
        return date_in(headers, EXPIRES, date).map_or(Duration::ZERO, |expires| between(date, expires));
    }
    if !may_guess(status, directives) {
        return Duration::ZERO;
    }
    default_lifetime.unwrap_or_else(|| {
        // RFC 9111 §4.2.2: an answer that has not changed for long will not change soon.
        let unchanged = date_in(headers, LAST_MODIFIED, date).map_or(Duration::ZERO, |at| between(at, date));
        let missing = matches!(status.as_u16(), 404 | 410) && !headers.contains_key(LAST_MODIFIED);
        if missing { MISSING_GUESS } else { (unchanged / 10).min(MAX_GUESS) }
    })
}

/// Whether a cache may guess a lifetime (RFC 9111 §4.2.2): with `public`, or with a status that RFC 9110 §15.1 calls
/// heuristically cacheable.
fn may_guess(status: StatusCode, directives: &ResponseDirectives) -> bool {
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Whether it is an endpoint of the mirrored API: the operator's windows are the defaults, and directives of
    /// requests are ignored.
    pub known: bool,
    /// `cache.stale_while_revalidate`; known endpoints only.
    pub stale_while_revalidate: Duration,
    /// `cache.stale_if_error`.
    pub stale_if_error: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// It is fresh, or the request allows that it is stale (`max-stale`).
    Use,
    /// It is stale; use it and refresh it in the background.
    WhileRevalidating,
    /// The origin must be asked first.
    Validate,
    /// The same, because the request wants it.
    Requested,
}

impl Reuse {
    /// Whether the stored answer is used at once.
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Use | Self::WhileRevalidating)
    }
}

/// How an answer of this age serves the request.
///
/// A request's `no-store` does not matter here: it forbids storing, not using (RFC 9111 §5.2.1.5).
pub fn reuse(terms: &Freshness, age: Duration, request: &RequestDirectives, policy: &Policy) -> Reuse {
    let request = if policy.known { RequestDirectives::default() } else { *request };
    if terms.always_validate {
        return Reuse::Validate;
    }
    let too_old = request.max_age.is_some_and(|most| age > most || most.is_zero());
    if request.no_cache || too_old {
        return Reuse::Requested;
    }
    let left = terms.lifetime.saturating_sub(age);
    if !left.is_zero() {
        let enough = request.min_fresh.is_none_or(|least| left >= least);
        return if enough { Reuse::Use } else { Reuse::Requested };
    }
    let stale_for = age.saturating_sub(terms.lifetime);
    if terms.must_revalidate || terms.s_maxage {
        return Reuse::Validate;
    }
    // RFC 9111 §5.2.1.1, §5.2.1.3: a client that wants fresh answers wants no stale ones, unless it says so.
    let wants_fresh = request.min_fresh.is_some() || (request.max_age.is_some() && request.max_stale.is_none());
    // An answer that the origin never calls fresh must be revalidated each time.
    let own = if policy.known && !terms.lifetime.is_zero() { policy.stale_while_revalidate } else { Duration::ZERO };
    if !wants_fresh && stale_for < terms.stale_while_revalidate.unwrap_or(own) {
        return Reuse::WhileRevalidating;
    }
    let tolerated = request.min_fresh.is_none()
        && request.max_stale.is_some_and(|bound| bound.is_none_or(|most| stale_for <= most));
    if tolerated { Reuse::Use } else { Reuse::Validate }
}

/// Whether an answer of this age may be served when the origin fails: 5xx, 429 or no answer.
///
/// DEVIATION: on known endpoints `s-maxage` does not forbid it, although RFC 9111 §5.2.2.10 gives it the meaning of
/// `proxy-revalidate`: origins use it as a lifetime for CDNs, and an API that is down helps nobody.
pub(crate) fn may_stand_in(terms: &Freshness, age: Duration, policy: &Policy) -> bool {
    if terms.always_validate {
        return false;
    }
    if age < terms.lifetime {
        return true;
    }
    let forbidden = terms.must_revalidate || (terms.s_maxage && !policy.known);
    !forbidden && age.saturating_sub(terms.lifetime) < terms.stale_if_error.unwrap_or(policy.stale_if_error)
}

/// The targets (path and query, as clients ask for them) whose stored answers this answer invalidates: none for a safe
/// method or an error; else the request's own, and those that `Location` and `Content-Location` name.
///
/// `bases` are the addresses under which clients and the origin name the resources; the first is the one that relative
/// references resolve against. Targets outside them stay: one origin must not invalidate another's answers.
pub(crate) fn invalidated(
    method: &Method,
    status: StatusCode,
    target: &str,
    response: &HeaderMap,
    bases: &[Url],
) -> Vec<String> {
    if method.is_safe() || !(status.is_success() || status.is_redirection()) {
        return Vec::new();
    }
    let mut targets = vec![target.to_owned()];
    for name in [LOCATION, CONTENT_LOCATION] {
        if let Some(named) = named(response, &name, target, bases)
            && !targets.contains(&named)
        {
            targets.push(named);
        }
    }
    targets
}

/// The target that a field names, as clients ask for it.
fn named(response: &HeaderMap, name: &HeaderName, target: &str, bases: &[Url]) -> Option<String> {
    let reference = response.get(name)?.to_str().ok()?;
    let url = absolute(bases.first()?, target).join(reference).ok()?;
    let path = bases.iter().find_map(|base| path_below(&url, base)).filter(|path| path.starts_with('/'))?;
    Some(url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}

fn absolute(base: &Url, target: &str) -> Url {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url.set_query(query);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{NOW, any_headers, date, headers};
    use Reuse::{Requested, Use, Validate, WhileRevalidating};
    use proptest::prelude::*;
    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn stored(request: Pairs<'_>, status: u16, response: Pairs<'_>) -> Result<(), NotStored> {
        decide(&Method::GET, request, status, response, None)
    }

    fn decide(
        method: &Method,
        request: Pairs<'_>,
        status: u16,
        response: Pairs<'_>,
        default: Option<Duration>,
    ) -> Result<(), NotStored> {
        let (request, response) = (headers(request), headers(response));
        let status = StatusCode::from_u16(status).unwrap();
        may_store(method, &request, status, &response, &ResponseDirectives::of(&response), default)
    }

    #[test]
    fn the_directives_of_an_answer_decide() {
        for (control, expected) in [
            ("max-age=3600", Ok(())),
            ("s-maxage=3600", Ok(())),
            ("max-age=0", Ok(())),
            ("max-age=10000, no-store", Err(NotStored::NoStore)),
            ("private, max-age=3600", Err(NotStored::Private)),
            ("private=\"set-cookie\", max-age=3600", Err(NotStored::Private)),
            ("no-cache, max-age=3600", Err(NotStored::NoFreshness)),
            ("no-store, must-understand, max-age=3600", Ok(())),
            ("no-cache", Err(NotStored::NoFreshness)),
            ("public", Ok(())),
            ("", Ok(())),
        ] {
            assert_eq!(stored(&[], 200, &[("cache-control", control)]), expected, "{control:?}");
        }
        assert_eq!(stored(&[], 200, &[("cache-control", "no-cache"), ("etag", "\"a\"")]), Ok(()));
        let targeted = [("cache-control", "no-store"), ("cdn-cache-control", "max-age=5")];
        assert_eq!(stored(&[], 200, &targeted), Ok(()));
        let targeted = [("cache-control", "max-age=5"), ("cdn-cache-control", "private")];
        assert_eq!(stored(&[], 200, &targeted), Err(NotStored::Private));
    }

    #[test]
    fn any_final_status_is_stored_with_a_lifetime_and_few_without() {
        for status in [200, 201, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
            assert_eq!(stored(&[], status, &[("cache-control", "max-age=5")]), Ok(()), "{status}");
            assert_eq!(stored(&[], status, &[("expires", "0")]), Ok(()), "{status}");
        }
        for (status, expected) in [
            (200, Ok(())),
            (404, Ok(())),
            (501, Ok(())),
            (201, Err(NotStored::NoFreshness)),
            (302, Err(NotStored::NoFreshness)),
            (403, Err(NotStored::NoFreshness)),
            (503, Err(NotStored::NoFreshness)),
            (599, Err(NotStored::NoFreshness)),
        ] {
            assert_eq!(stored(&[], status, &[("etag", "\"a\"")]), expected, "{status}");
            assert_eq!(decide(&Method::GET, &[], status, &[], Some(Duration::from_secs(5))), expected, "{status}");
        }
        assert_eq!(stored(&[], 599, &[("cache-control", "public"), ("last-modified", "x")]), Ok(()));
        let unknown = [("cache-control", "max-age=3600, no-store, must-understand")];
        assert_eq!(stored(&[], 599, &unknown), Err(NotStored::Status));
        assert_eq!(stored(&[], 103, &[("cache-control", "max-age=5")]), Err(NotStored::Status));
    }

    #[test]
    fn answers_to_ranges_conditions_and_other_methods_are_never_stored() {
        for status in [206, 304, 412, 416] {
            assert_eq!(stored(&[], status, &[("cache-control", "max-age=5")]), Err(NotStored::Partial), "{status}");
        }
        for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let refused = decide(&method, &[], 200, &[("cache-control", "max-age=5")], None);
            assert_eq!(refused, Err(NotStored::Method), "{method}");
        }
    }

    #[test]
    fn what_one_client_was_given_is_others_only_where_the_origin_says_so() {
        for (request, response, expected) in [
            (("authorization", "FOO"), ("cache-control", "max-age=3600"), Err(NotStored::Authorization)),
            (("authorization", "FOO"), ("cache-control", "max-age=3600, public"), Ok(())),
            (("authorization", "FOO"), ("cache-control", "max-age=3600, must-revalidate"), Ok(())),
            (("authorization", "FOO"), ("cache-control", "s-maxage=3600"), Ok(())),
            (("cookie", "a=b"), ("cache-control", "max-age=3600"), Err(NotStored::Cookie)),
            (("cookie", "a=b"), ("cache-control", "max-age=3600, public"), Ok(())),
            (("cache-control", "no-store"), ("cache-control", "max-age=3600"), Err(NotStored::NoStore)),
        ] {
            assert_eq!(stored(&[request], 200, &[response]), expected, "{request:?} {response:?}");
        }
        let keyed = [("cache-control", "max-age=3600"), ("vary", "foo, Cookie")];
        assert_eq!(stored(&[("cookie", "a=b")], 200, &keyed), Ok(()));
        assert_eq!(stored(&[("authorization", "x")], 200, &keyed), Err(NotStored::Authorization));
        assert_eq!(stored(&[], 200, &[("cache-control", "max-age=5"), ("vary", "a, *")]), Err(NotStored::VaryStar));
        assert_eq!(stored(&[], 200, &[("etag", "\"a\""), ("set-cookie", "a=b")]), Err(NotStored::SetCookie));
        for control in ["max-age=5", "s-maxage=5", "max-age=5, must-revalidate"] {
            let answer = [("cache-control", control), ("set-cookie", "a=b")];
            assert_eq!(stored(&[], 200, &answer), Err(NotStored::SetCookie), "{control}");
        }
        assert_eq!(stored(&[], 200, &[("cache-control", "public, max-age=5"), ("set-cookie", "a=b")]), Ok(()));
    }

    proptest! {
        #[test]
        fn nothing_is_stored_against_its_directives(
            request in any_headers(), response in any_headers(), status in 100_u16..600, known: bool,
        ) {
            let directives = ResponseDirectives::of(&response);
            let status = StatusCode::from_u16(status).unwrap();
            let default = known.then_some(Duration::from_secs(300));
            if may_store(&Method::GET, &request, status, &response, &directives, default).is_ok() {
                prop_assert!(!directives.private);
                prop_assert!(!directives.no_store || directives.must_understand);
                prop_assert!(Vary::of(&response) != Vary::Star);
                prop_assert!(!request.contains_key(AUTHORIZATION)
                    || directives.public || directives.must_revalidate || directives.s_maxage.is_some());
            }
        }
    }

    const AT_ONCE: Exchange = Exchange { asked: NOW, received: NOW };

    fn of(status: u16, pairs: &[(&str, &str)], default: Option<u64>) -> Freshness {
        let headers = headers(pairs);
        let status = StatusCode::from_u16(status).unwrap();
        Freshness::of(status, &headers, &ResponseDirectives::of(&headers), AT_ONCE, default.map(Duration::from_secs))
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
            let terms = Freshness::of(StatusCode::OK, &headers, &ResponseDirectives::default(), exchange, None);
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
            let terms = Freshness::of(status, &headers, &ResponseDirectives::of(&headers), exchange, default);
            prop_assert!(terms.lifetime <= MAX && terms.initial_age <= MAX);
        }
    }

    const KNOWN: Policy = Policy {
        known: true,
        stale_while_revalidate: Duration::from_secs(60),
        stale_if_error: Duration::from_secs(86_400),
    };
    const UNKNOWN: Policy = Policy { known: false, ..KNOWN };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn terms(control: &str) -> Freshness {
        let headers = headers(&[("cache-control", control)]);
        let exchange = Exchange { asked: NOW, received: NOW };
        Freshness::of(StatusCode::OK, &headers, &ResponseDirectives::of(&headers), exchange, None)
    }

    fn reusing(control: &str, age: u64, request: &str, policy: &Policy) -> Reuse {
        let request = RequestDirectives::of(&headers(&[("cache-control", request)]));
        reuse(&terms(control), seconds(age), &request, policy)
    }

    #[test]
    fn a_fresh_answer_is_used_and_a_stale_one_validated() {
        for policy in [KNOWN, UNKNOWN] {
            assert_eq!(reusing("max-age=100", 40, "", &policy), Use);
            assert_eq!(reusing("max-age=100, must-revalidate", 40, "", &policy), Use);
            assert_eq!(reusing("max-age=100, no-cache", 0, "", &policy), Validate);
            assert_eq!(reusing("max-age=100", 160, "", &policy), Validate);
            assert_eq!(reusing("max-age=0", 60, "", &policy), Validate);
        }
    }

    #[test]
    fn stale_while_revalidate_is_the_origins_or_for_known_endpoints_the_operators() {
        for (control, age, known, unknown) in [
            ("max-age=100", 100, WhileRevalidating, Validate),
            ("max-age=100", 159, WhileRevalidating, Validate),
            ("max-age=100", 160, Validate, Validate),
            ("max-age=1, stale-while-revalidate=4", 3, WhileRevalidating, WhileRevalidating),
            ("max-age=1, stale-while-revalidate=4", 5, Validate, Validate),
            ("max-age=1, stale-while-revalidate=0", 1, Validate, Validate),
        ] {
            assert_eq!(reusing(control, age, "", &KNOWN), known, "{control} {age}");
            assert_eq!(reusing(control, age, "", &UNKNOWN), unknown, "{control} {age}");
        }
        for forbids in ["must-revalidate", "proxy-revalidate", "s-maxage=1", "no-cache"] {
            let control = format!("max-age=1, stale-while-revalidate=3600, {forbids}");
            assert!(!reusing(&control, 2, "", &KNOWN).is_usable(), "{control}");
            assert!(!reusing(&control, 2, "max-stale", &UNKNOWN).is_usable(), "{control}");
        }
    }

    #[test]
    fn requests_are_heard_on_unknown_paths_only() {
        for (control, age, request, expected) in [
            ("max-age=100000", 3, "max-age=0", Requested),
            ("max-age=100000", 3, "max-age=1", Requested),
            ("max-age=100000", 0, "max-age=0", Requested),
            ("max-age=100000", 1800, "max-age=600", Requested),
            ("max-age=100", 40, "max-age=600", Use),
            ("max-age=1500", 0, "min-fresh=2000", Requested),
            ("max-age=1500", 1000, "min-fresh=1000", Requested),
            ("max-age=1500", 1000, "min-fresh=100", Use),
            ("max-age=3600", 0, "no-cache", Requested),
            ("max-age=3600", 600, "no-store", Use),
            ("max-age=2", 5, "max-stale=1000", Use),
            ("max-age=2", 5, "max-stale", Use),
            ("max-age=2", 5, "max-stale=2", Validate),
            ("max-age=2", 5, "max-stale, no-cache", Requested),
            ("max-age=2", 5, "max-stale, min-fresh=1", Validate),
            ("max-age=2, stale-while-revalidate=9", 5, "max-age=60", Validate),
            ("max-age=2, stale-while-revalidate=9", 5, "max-age=60, max-stale", WhileRevalidating),
            ("max-age=2, must-revalidate", 5, "max-stale", Validate),
        ] {
            assert_eq!(reusing(control, age, request, &UNKNOWN), expected, "{control} {age} {request}");
            assert_eq!(
                reusing(control, age, request, &KNOWN),
                reusing(control, age, "", &KNOWN),
                "{control} {request}"
            );
        }
    }

    #[test]
    fn a_stored_answer_stands_in_for_a_day_or_as_long_as_the_origin_says() {
        for (control, age, known, unknown) in [
            ("max-age=2", 5, true, true),
            ("max-age=2", 86_401, true, true),
            ("max-age=2", 86_402, false, false),
            ("max-age=2, stale-if-error=60", 61, true, true),
            ("max-age=2, stale-if-error=60", 62, false, false),
            ("max-age=2, s-maxage=2", 5, true, false),
            ("s-maxage=20", 5, true, true),
            ("max-age=2, must-revalidate", 5, false, false),
            ("max-age=2, must-revalidate", 1, true, true),
            ("max-age=2, proxy-revalidate, stale-if-error=60", 5, false, false),
            ("max-age=2, no-cache", 1, false, false),
        ] {
            assert_eq!(may_stand_in(&terms(control), seconds(age), &KNOWN), known, "{control} {age}");
            assert_eq!(may_stand_in(&terms(control), seconds(age), &UNKNOWN), unknown, "{control} {age}");
        }
    }

    prop_compose! {
        fn any_terms()(
            times in any::<[u16; 2]>(), flags in any::<[bool; 3]>(), graces in any::<[Option<u16>; 2]>(),
        ) -> Freshness {
            Freshness {
                lifetime: seconds(times[0].into()),
                initial_age: seconds(times[1].into()),
                always_validate: flags[0],
                must_revalidate: flags[1],
                s_maxage: flags[2],
                stale_while_revalidate: graces[0].map(|grace| seconds(grace.into())),
                stale_if_error: graces[1].map(|grace| seconds(grace.into())),
            }
        }
    }

    prop_compose! {
        fn any_request()(flags in any::<[bool; 3]>(), values in any::<[Option<u16>; 2]>(), stale: Option<Option<u16>>)
            -> RequestDirectives {
            RequestDirectives {
                no_cache: flags[0],
                no_store: flags[1],
                only_if_cached: flags[2],
                max_age: values[0].map(|value| seconds(value.into())),
                min_fresh: values[1].map(|value| seconds(value.into())),
                max_stale: stale.map(|bound| bound.map(|bound| seconds(bound.into()))),
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_stale_is_used_where_the_origin_forbids_it(
            terms in any_terms(), age: u16, request in any_request(), known: bool,
        ) {
            let (policy, age) = (Policy { known, ..KNOWN }, seconds(age.into()));
            let (decision, stands_in) = (reuse(&terms, age, &request, &policy), may_stand_in(&terms, age, &policy));
            if terms.always_validate {
                prop_assert!(!decision.is_usable() && !stands_in);
            }
            if terms.must_revalidate && age >= terms.lifetime {
                prop_assert!(!decision.is_usable() && !stands_in);
            }
            if terms.s_maxage && age >= terms.lifetime {
                prop_assert!(!decision.is_usable() && (known || !stands_in));
            }
        }

        #[test]
        fn fresh_means_younger_than_the_lifetime_and_what_is_older_never_gets_better(
            terms in any_terms(), age: u16, more: u16, request in any_request(), known: bool,
        ) {
            let (policy, age) = (Policy { known, ..KNOWN }, seconds(age.into()));
            let (now, later) = (reuse(&terms, age, &request, &policy), reuse(&terms, age + seconds(more.into()), &request, &policy));
            prop_assert!(now.is_usable() || !later.is_usable());
            match now {
                Use => prop_assert!(age < terms.lifetime || (!known && request.max_stale.is_some())),
                WhileRevalidating => prop_assert!(age >= terms.lifetime),
                Validate | Requested => {}
            }
        }

        #[test]
        fn on_known_endpoints_no_request_changes_anything(terms in any_terms(), age: u16, request in any_request()) {
            let age = seconds(age.into());
            let quiet = RequestDirectives::default();
            prop_assert_eq!(reuse(&terms, age, &request, &KNOWN), reuse(&terms, age, &quiet, &KNOWN));
        }
    }

    fn bases() -> Vec<Url> {
        ["https://api.example.org/v1", "http://mirror.example"].map(|base| Url::parse(base).unwrap()).to_vec()
    }

    fn after(method: &str, status: u16, pairs: &[(&str, &str)]) -> Vec<String> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        invalidated(&method, StatusCode::from_u16(status).unwrap(), "/api/a?b=c", &headers(pairs), &bases())
    }

    #[test]
    fn an_unsafe_request_that_succeeds_voids_its_target() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
            assert_eq!(after(method, 200, &[]), ["/api/a?b=c"], "{method}");
            assert_eq!(after(method, 303, &[]), ["/api/a?b=c"], "{method}");
            for status in [100, 404, 500] {
                assert!(after(method, status, &[]).is_empty(), "{method} {status}");
            }
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert!(after(method, 200, &[("location", "/v1/x")]).is_empty(), "{method}");
        }
    }

    #[test]
    fn what_the_answer_names_is_void_too_on_the_same_origin() {
        for (location, expected) in [
            ("/v1/api/x?y#z", Some("/api/x?y")),
            ("x", Some("/api/x")),
            ("", None),
            ("https://api.example.org/v1/x", Some("/x")),
            ("http://api.example.org/v1/x", Some("/x")),
            ("https://api.example.org:443/v1/x", Some("/x")),
            ("http://mirror.example/api/x", Some("/api/x")),
            ("https://api.example.org:8443/v1/x", None),
            ("https://api.example.org/v2/x", None),
            ("https://api.example.org/v10/x", None),
            ("https://evil.example/v1/x", None),
            ("//evil.example/v1/x", None),
            ("ftp://api.example.org/v1/x", None),
            ("http://[", None),
        ] {
            for field in ["location", "content-location"] {
                let mut targets = vec!["/api/a?b=c"];
                targets.extend(expected);
                assert_eq!(after("POST", 201, &[(field, location)]), targets, "{field} {location:?}");
            }
        }
        let both = [("location", "x"), ("content-location", "x")];
        assert_eq!(after("POST", 201, &both), ["/api/a?b=c", "/api/x"]);
        assert_eq!(invalidated(&Method::PUT, StatusCode::OK, "/a", &headers(&both), &[]), ["/a"]);
    }

    proptest! {
        #[test]
        fn targets_are_paths_of_ours_and_the_requests_own_is_first(response in any_headers(), path in "/[a-z/%.?]{0,9}") {
            let targets = invalidated(&Method::POST, StatusCode::OK, &path, &response, &bases());
            prop_assert_eq!(&targets[0], &path);
            prop_assert!(targets.len() <= 3 && targets.iter().all(|target| target.starts_with('/')));
        }
    }
}
