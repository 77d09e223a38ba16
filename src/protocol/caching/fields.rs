//! Field filtering: which fields of the origin's answer pass the cache, and which of a client's request on an unknown
//! path.
//!
//! Also the update of a stored header by a confirmation, and the fields of a request that its answer may depend on without
//! saying so. Not the fields that this proxy adds. Callers: the cache and the client of the origin.

use std::collections::HashSet;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AGE, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING,
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, COOKIE, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED,
    PRAGMA, SET_COOKIE, VARY, VIA,
};

use super::selecting::Vary;
use crate::clock::WallTime;
use crate::protocol::freshness::parse_age;
use crate::protocol::grammar::{date_in, members};
use crate::protocol::hops::{CDN_LOOP, Trail};
use crate::protocol::precondition::{matches_strongly, matches_weakly};

/// Fields of one connection, or of one proxy (RFC 9110 §7.6.1, RFC 9111 §3.1).
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];
/// Fields about the origin's listener, its limits or one request, not about the answer; and `X-Accel-Expires`, whose
/// value is wrong by the time the answer leaves here.
const OF_THE_ORIGIN: [&str; 10] = [
    "alt-svc",
    "nel",
    "ratelimit",
    "report-to",
    "strict-transport-security",
    "x-accel-expires",
    "x-lighttpd-send-file",
    "x-request-id",
    "x-reproxy-url",
    "x-sendfile",
];
/// Request fields of this hop, or that a client must not choose: never forwarded.
const NEVER_ONWARD: [&str; 5] = ["host", "expect", "forwarded", "x-real-ip", "x-request-id"];
/// The proxies that a request came through: always sent on, with our name behind (RFC 9110 §7.6.3, RFC 8586), and not a
/// matter of configuration.
const HOPS: [HeaderName; 2] = [VIA, CDN_LOOP];
/// Fields that can change an answer without `Vary`: used for cache poisoning.
const POISONOUS: [&str; 25] = [
    "cf-connecting-ip",
    "client-ip",
    "early-data",
    "fastly-client-ip",
    "front-end-https",
    "origin",
    // Deprecated (RFC 9111 §5.4), and obeyed here.
    "pragma",
    "proxy",
    "referer",
    "true-client-ip",
    "user-agent",
    "x-backend-host",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-override-url",
    "x-requested-with",
    "x-scheme",
    "x-server-name",
    "x-url-scheme",
    "x-wap-profile",
];
/// Families of such fields.
const POISONOUS_FAMILIES: [&str; 4] = ["sec-", "x-middleware-", "x-original-", "x-rewrite-"];
/// Fields that the cache sets itself, for a complete answer or a revalidation.
const OF_THE_CACHE: [&str; 6] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"];
/// Identifiers of one request: an answer for others must not carry them.
const TRACES: [&str; 8] = [
    "b3",
    "baggage",
    "traceparent",
    "tracestate",
    "uber-trace-id",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
];
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// For an answer that may be cached for others.
    Store,
    /// For this client alone: nothing of the answer is stored.
    Pass,
}

/// Which fields of a client's GET or HEAD may reach the origin on an unknown path, beside conditions and ranges, which are
/// sent as this cache needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// All but the poisonous ones and those of this hop.
    All,
    /// These, except those of this hop.
    Only(Vec<HeaderName>),
}

impl Allowed {
    fn names(&self, name: &HeaderName) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// Whether an operator cannot allow this field: it is of this hop, a client must not choose it, or it is always
/// forwarded.
pub(crate) fn is_never_onward(name: &HeaderName) -> bool {
    let text = name.as_str();
    HOP_BY_HOP.contains(&text) || NEVER_ONWARD.contains(&text) || HOPS.contains(name) || text.starts_with("x-forwarded")
}

/// The fields of one connection in a header: by their names, or because its `Connection` nominates them.
///
/// Read once per header: a `Connection` with thousands of members must not be read again for each field.
struct HopByHop(HashSet<HeaderName>);

impl HopByHop {
    fn of(headers: &HeaderMap) -> Self {
        // Only fields of this header matter.
        let nominated = members(headers, CONNECTION).filter_map(|member| HeaderName::from_bytes(member).ok());
        Self(nominated.filter(|name| headers.contains_key(name)).collect())
    }

    fn contains(&self, name: &HeaderName) -> bool {
        HOP_BY_HOP.contains(&name.as_str()) || self.0.contains(name)
    }
}

/// The fields of an answer that are cached and forwarded; on known endpoints without `Set-Cookie` and without another
/// mirror's fields about its snapshot.
pub(crate) fn end_to_end(headers: &HeaderMap, known: bool) -> HeaderMap {
    filtered(headers, |name| {
        let text = name.as_str();
        let ours = OF_THE_ORIGIN.contains(&text)
            || text.starts_with("ratelimit-")
            || text.starts_with("x-ratelimit-")
            || text.starts_with("access-control-")
            // Commands for the server in front of the origin, not of this one.
            || text.starts_with("x-accel-")
            || (known && (*name == SET_COOKIE || text == "set-cookie2" || text.starts_with("mirror-")));
        !ours
    })
}

/// The fields of a client's request that are forwarded on an unknown path. `keyed`: the fields that the stored `Vary`
/// names. If all fields are `allowed`, keyed ones are always forwarded, except those of this hop and of the cache
/// (`Accept-Encoding`, `Range`, conditions).
pub(crate) fn onward(
    client: &HeaderMap,
    purpose: Purpose,
    allowed: &Allowed,
    keyed: impl Fn(&HeaderName) -> bool,
) -> HeaderMap {
    // DEVIATION: RFC 9111 §5.2 and RFC 9110 §7.6 have a cache forward a client's directives and all end-to-end fields.
    // Here the operator lists them: one client's field must not change the answer for others.
    let mut fields = filtered(client, |name| {
        let text = name.as_str();
        if HOPS.contains(name) {
            return true;
        }
        if is_never_onward(name) {
            return false;
        }
        let own = OF_THE_CACHE.contains(&text);
        if purpose == Purpose::Pass {
            return own || allowed.names(name);
        }
        let is_listed = matches!(allowed, Allowed::Only(_));
        !own && *name != ACCEPT_ENCODING && allowed.names(name) && (is_listed || keyed(name) || !is_unkeyed(text))
    });
    // HTTP/2 splits it into lines; HTTP/1 needs one (RFC 9113 §8.2.3).
    if fields.get_all(COOKIE).iter().nth(1).is_some() {
        let lines: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
            fields.insert(COOKIE, joined);
        }
    }
    fields
}

fn is_unkeyed(name: &str) -> bool {
    POISONOUS.contains(&name)
        || POISONOUS_FAMILIES.iter().any(|family| name.starts_with(family))
        || TRACES.contains(&name)
        || name.starts_with("x-b3-")
        // Many servers take `x_host` for `x-host`.
        || name.contains('_')
}

fn filtered(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let hop_by_hop = HopByHop::of(headers);
    let lines = headers.iter().filter(|(name, _)| !hop_by_hop.contains(name) && passes(name));
    lines.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The fields that describe the stored bytes: a 304 does not change them (RFC 9111 §3.2).
const OF_THE_BYTES: [HeaderName; 4] = [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE];
/// The fields that belong to one message: without them in the confirmation, the stored ones must go.
const OF_THE_MESSAGE: [HeaderName; 2] = [AGE, DATE];

/// Updates a stored header by that of a 304, or of an answer to HEAD that [`head_agrees`] with it. Each field that the
/// newer one has replaces all lines of the stored one; others stay, except `Age` and `Date`, which belong to the
/// message (the newer one has a `Date`).
///
/// `Vary` stays as stored, because the selecting values were stored for it.
pub(crate) fn freshen(stored: &mut HeaderMap, validated: &HeaderMap) {
    for name in OF_THE_MESSAGE {
        stored.remove(name);
    }
    let hop_by_hop = HopByHop::of(validated);
    for name in validated.keys() {
        // DEVIATION: RFC 9111 §3.2 replaces `Vary`, too. The values that selected the stored answer belong to its own
        // one.
        if OF_THE_BYTES.contains(name) || *name == VARY || hop_by_hop.contains(name) {
            continue;
        }
        stored.remove(name);
        for value in validated.get_all(name) {
            stored.append(name.clone(), value.clone());
        }
    }
}

/// Whether two answers have one strong tag, or, without any tag, one date: then their bodies should be one.
pub(crate) fn has_same_validator(one: &HeaderMap, other: &HeaderMap) -> bool {
    match [one.get(ETAG), other.get(ETAG)] {
        [Some(one), Some(other)] => matches_strongly(one.as_bytes(), other.as_bytes()),
        [None, None] => one.get(LAST_MODIFIED).is_some_and(|date| other.get(LAST_MODIFIED) == Some(date)),
        _ => false,
    }
}

/// Whether an answer to HEAD confirms the stored answer to GET (RFC 9111 §4.3.5): its validators and length are equal.
/// Otherwise the stored answer is stale.
pub(crate) fn head_agrees(stored: &HeaderMap, head: &HeaderMap) -> bool {
    let validators =
        [ETAG, LAST_MODIFIED].iter().all(|name| head.get(name).is_none_or(|_| head.get(name) == stored.get(name)));
    // The stored answer may have been chunked.
    let lengths = [head, stored].map(|headers| headers.get(CONTENT_LENGTH));
    validators && !matches!(lengths, [Some(one), Some(other)] if one != other)
}

/// The values of some request fields that say nothing of the client that sends them: those of HTTP libraries and of
/// scripts on pages. The wishes of a browser for a page are not among them, because JSON is for everybody here.
const ORDINARY: [(HeaderName, &[&str]); 4] = [
    (
        ACCEPT,
        &[
            "*/*",
            "application/json",
            // axios and Angular, HTTPie, jQuery.
            "application/json, text/plain, */*",
            "application/json, */*;q=0.5",
            "application/json, text/javascript, */*; q=0.01",
        ],
    ),
    (ACCEPT_LANGUAGE, &["*"]),
    (CACHE_CONTROL, &["max-age=0", "no-cache", "no-store"]),
    (PRAGMA, &["no-cache"]),
];

/// Fields that reach the origin from any client by default, credentials aside.
const COMMON: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, VIA, CDN_LOOP];

fn is_ordinary(name: &HeaderName, value: &HeaderValue) -> bool {
    let values = ORDINARY.iter().find(|(known, _)| known == name);
    values.is_some_and(|(_, values)| values.iter().any(|ordinary| value == ordinary))
}

/// Whether no line of this field is one client's own.
fn is_ordinary_in(sent: &HeaderMap, name: &HeaderName) -> bool {
    OF_THE_CACHE.contains(&name.as_str()) || sent.get_all(name).iter().all(|value| is_ordinary(name, value))
}

/// Whether a request says nothing but what everybody says, and what `Vary` names: what the origin answers is due to the
/// resource, and to no field that one client chose. Conditions are the cache's own.
pub(crate) fn is_bare(sent: &HeaderMap, vary: &Vary) -> bool {
    sent.keys().all(|name| vary.names(name) || is_ordinary_in(sent, name))
}

/// The fields of a request on which its answer may depend, or which it may show in any form, although its `Vary` does not
/// name them: the answer is only for requests with the same values.
///
/// If all fields are `allowed`, the operator says that the origin's `Vary` names every uncommon one that matters. Of
/// credentials the answer says whether others may have it (RFC 9111 §3.5).
pub(crate) fn unnamed<'a>(sent: &'a HeaderMap, allowed: &Allowed) -> impl Iterator<Item = &'a HeaderName> {
    let all = *allowed == Allowed::All;
    let counts = move |name: &HeaderName| COMMON.contains(name) || !(all || [AUTHORIZATION, COOKIE].contains(name));
    sent.keys().filter(move |name| counts(name) && !is_ordinary_in(sent, name) && !is_ours(sent, name))
}

/// Whether this field has only names of processes of this program, as [`generalise`] leaves them.
fn is_ours(sent: &HeaderMap, name: &HeaderName) -> bool {
    let mut ours = HeaderMap::new();
    if HOPS.contains(name) {
        Trail::of(sent).write(&mut ours);
    }
    ours.contains_key(name) && ours.get_all(name) == sent.get_all(name)
}

/// Takes out of a request what one client says in common fields, except `keyed` ones: the answers of this resource are
/// known not to depend on it. The names of processes of this program stay, because they show loops.
pub(crate) fn generalise(sent: &mut HeaderMap, keyed: impl Fn(&HeaderName) -> bool) {
    let trail = Trail::of(sent);
    for name in COMMON.iter().filter(|name| !keyed(name)) {
        if !is_ordinary_in(sent, name) {
            sent.remove(name);
        }
    }
    if !HOPS.iter().any(|name| sent.contains_key(name)) {
        trail.write(sent);
    }
}

/// The common fields that [`generalise`] took out of a request, although its answer depends on them.
pub(crate) fn missed(whole: &HeaderMap, sent: &HeaderMap, vary: &Vary) -> Vec<HeaderName> {
    let is_missed = |name: &HeaderName| vary.names(name) && whole.contains_key(name) && !sent.contains_key(name);
    COMMON.into_iter().filter(is_missed).collect()
}

/// Whether a 304 is about the stored answer with these validators (RFC 9111 §4.3.4): it does not name another tag, or,
/// without one, another date.
///
/// DEVIATION: a weak and a strong tag can be equal, because nginx weakens the tag of an answer that it compresses, and
/// not that of the 304.
pub(crate) fn is_about(validated: &HeaderMap, etag: Option<&[u8]>, last_modified: Option<&[u8]>) -> bool {
    match (etag, validated.get(ETAG)) {
        (Some(stored), Some(tag)) => matches_weakly(stored, tag.as_bytes()),
        _ => match (last_modified, validated.get(LAST_MODIFIED)) {
            (Some(stored), Some(date)) => stored == date.as_bytes(),
            _ => true,
        },
    }
}

/// `Last-Modified`, if the content surely did not change again within its second (RFC 9110 §8.8.2.2): it lies at least a
/// second before `Date`, without which clocks may differ, and before the time for which a cache kept the answer.
pub(crate) fn validating_date(headers: &HeaderMap, received: WallTime) -> Option<&HeaderValue> {
    const SECOND: i64 = 1000;
    let (made, apart) = date_in(headers, DATE, received).map_or((received, 60 * SECOND), |date| (date, SECOND));
    let age = headers.get(AGE).and_then(|age| parse_age(age.as_bytes())).unwrap_or(0);
    let since = made.millis_since(date_in(headers, LAST_MODIFIED, received)?);
    headers.get(LAST_MODIFIED).filter(|_| since >= apart + i64::from(age) * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{NOW, any_headers, date, headers};
    use proptest::prelude::*;
    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_date_of_the_second_of_the_answer_validates_nothing() {
        let (now, before, minute) = (date(0), date(-1), date(-60));
        for (modified, fields, validates) in [
            (&before, &[("date", &*now)][..], true),
            (&now, &[("date", &now)], false),
            (&now, &[("date", &before)], false),
            // From the same second, and kept since.
            (&minute, &[("date", &now), ("age", "60")], false),
            (&minute, &[("date", &now), ("age", "59")], true),
            (&minute, &[], true),
            (&date(-59), &[], false),
            (&"yesterday".to_owned(), &[("date", &now)], false),
        ] {
            let fields = headers(&[&[("last-modified", &**modified)], fields].concat());
            assert_eq!(validating_date(&fields, NOW).is_some(), validates, "{fields:?}");
        }
    }

    #[test]
    fn lines_of_a_cookie_are_one_for_the_origin() {
        let client = headers(&[("cookie", "a=1"), ("accept", "x"), ("cookie", "b=2")]);
        let sent = onward(&client, Purpose::Pass, &Allowed::All, |_| false);
        assert_eq!(sent.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2"]);
    }

    #[test]
    fn words_for_the_servers_in_front_are_dropped_from_answers() {
        for known in [true, false] {
            let answer = headers(&[("x-accel-redirect", "/x"), ("x-sendfile", "/x"), ("etag", "e")]);
            assert_eq!(end_to_end(&answer, known).keys().collect::<Vec<_>>(), ["etag"]);
        }
    }

    #[test]
    fn fields_of_the_connection_and_of_the_origins_listener_are_dropped_from_answers() {
        let dropped: Vec<_> = HOP_BY_HOP
            .iter()
            .chain(&OF_THE_ORIGIN)
            .chain(&["ratelimit-policy", "x-ratelimit-remaining", "access-control-allow-origin", "a", "b"])
            .map(|name| (*name, if *name == "connection" { "a, B" } else { "x" }))
            .chain([
                ("c", "1"),
                ("c", "2"),
                ("clear-site-data", "x"),
                ("public-key-pins", "x"),
                ("set-cookie", "a=b"),
                ("mirror-snapshot", "x"),
            ])
            .collect();
        let answer = headers(&dropped);
        let passed = end_to_end(&answer, false);
        assert_eq!(names(&passed), ["c", "clear-site-data", "mirror-snapshot", "public-key-pins", "set-cookie"]);
        assert_eq!(passed.get_all("c").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(names(&end_to_end(&answer, true)), ["c", "clear-site-data", "public-key-pins"]);
    }

    #[test]
    fn a_request_goes_on_without_what_could_poison_an_answer_for_others() {
        let client = headers(&[
            ("host", "x"),
            ("connection", "nominated"),
            ("nominated", "x"),
            ("te", "trailers"),
            ("forwarded", "for=x"),
            ("x-forwarded-host", "evil"),
            ("x-original-url", "/admin"),
            ("sec-fetch-mode", "cors"),
            ("user-agent", "x"),
            ("origin", "x"),
            ("x-request-id", "x"),
            ("x-b3-traceid", "x"),
            ("x_host", "x"),
            ("if-none-match", "x"),
            ("range", "bytes=0-1"),
            ("accept-encoding", "gzip"),
            ("accept", "x"),
            ("authorization", "x"),
            ("cookie", "x"),
            ("custom", "x"),
        ]);
        let none = onward(&client, Purpose::Store, &Allowed::All, |_| false);
        assert_eq!(names(&none), ["accept", "authorization", "cookie", "custom"]);
        let all = onward(&client, Purpose::Store, &Allowed::All, |_| true);
        let keyed = [
            "accept",
            "authorization",
            "cookie",
            "custom",
            "origin",
            "sec-fetch-mode",
            "user-agent",
            "x-b3-traceid",
            "x-original-url",
            "x_host",
        ];
        assert_eq!(names(&all), keyed);
        let passed = onward(&client, Purpose::Pass, &Allowed::All, |_| false);
        assert!(
            ["if-none-match", "range", "accept-encoding", "user-agent"].iter().all(|name| passed.contains_key(*name))
        );
        let never = ["host", "connection", "nominated", "te", "forwarded", "x-forwarded-host", "x-request-id"];
        assert!(never.iter().all(|name| !passed.contains_key(*name)));
    }

    #[test]
    fn only_what_is_allowed_goes_on() {
        let client = headers(&[
            ("host", "x"),
            ("connection", "cookie"),
            ("cookie", "a=b"),
            ("via", "1.1 x"),
            ("accept", "x"),
            ("accept-encoding", "gzip"),
            ("user-agent", "x"),
            ("x-tenant", "x"),
            ("cache-control", "no-cache"),
            ("if-none-match", "x"),
            ("range", "bytes=0-1"),
        ]);
        let only =
            |names: &[&'static str]| Allowed::Only(names.iter().map(|name| HeaderName::from_static(name)).collect());
        let all = only(&["accept", "accept-encoding", "cookie", "host", "user-agent", "via"]);
        for keyed in [true, false] {
            assert_eq!(names(&onward(&client, Purpose::Store, &all, |_| keyed)), ["accept", "user-agent", "via"]);
            assert_eq!(names(&onward(&client, Purpose::Store, &only(&[]), |_| keyed)), ["via"]);
            let passed = onward(&client, Purpose::Pass, &all, |_| keyed);
            assert_eq!(names(&passed), ["accept", "accept-encoding", "if-none-match", "range", "user-agent", "via"]);
        }
    }

    proptest! {
        #[test]
        fn nothing_of_one_hop_passes_either_way(headers in any_headers(), keyed: bool, known: bool) {
            for passed in [
                end_to_end(&headers, known),
                onward(&headers, Purpose::Pass, &Allowed::All, |_| keyed),
                onward(&headers, Purpose::Store, &Allowed::All, |_| keyed),
            ] {
                let hop_by_hop = HopByHop::of(&headers);
                prop_assert!(passed.keys().all(|name| !hop_by_hop.contains(name)));
                let as_it_was = |name: &HeaderName| passed.get_all(name).iter().eq(headers.get_all(name).iter());
                prop_assert!(passed.keys().all(|name| *name == COOKIE || as_it_was(name)));
            }
        }
    }

    #[test]
    fn a_confirmation_replaces_what_it_names_but_for_what_describes_the_stored_bytes() {
        let mut stored = headers(&[
            ("test-header", "A"),
            ("x-content-foo", "A"),
            ("cache-control", "max-age=1"),
            ("cache-control", "public"),
            ("kept", "A"),
            ("content-length", "36"),
            ("content-type", "text/plain"),
            ("content-encoding", "gzip"),
            ("vary", "foo"),
            ("age", "50"),
            ("date", "then"),
        ]);
        let validated = headers(&[
            ("test-header", "B"),
            ("x-content-foo", "B"),
            ("x-content-foo", "C"),
            ("cache-control", "max-age=3600"),
            ("content-length", "10"),
            ("content-type", "text/html"),
            ("content-encoding", "br"),
            ("content-range", "bytes 0-1/2"),
            ("vary", "*"),
            ("connection", "x-nominated"),
            ("x-nominated", "B"),
            ("keep-alive", "B"),
            ("date", "now"),
        ]);
        freshen(&mut stored, &validated);
        let expected = headers(&[
            ("test-header", "B"),
            ("x-content-foo", "B"),
            ("x-content-foo", "C"),
            ("cache-control", "max-age=3600"),
            ("kept", "A"),
            ("content-length", "36"),
            ("content-type", "text/plain"),
            ("content-encoding", "gzip"),
            ("vary", "foo"),
            ("date", "now"),
        ]);
        assert_eq!(stored, expected);
    }

    #[test]
    fn an_answer_to_head_agrees_when_its_validators_and_length_are_those_stored() {
        let stored = [("etag", "\"a\""), ("content-length", "5")];
        for (stored, head, expected) in [
            (&stored[..], &[][..], true),
            (&stored, &[("etag", "\"a\""), ("content-length", "5")], true),
            (&stored, &[("etag", "\"b\"")], false),
            (&stored, &[("content-length", "6")], false),
            (&stored, &[("last-modified", "x")], false),
            (&[("etag", "\"a\"")], &[("content-length", "6")], true),
        ] {
            assert_eq!(head_agrees(&headers(stored), &headers(head)), expected, "{stored:?} {head:?}");
        }
    }

    proptest! {
        #[test]
        fn what_describes_the_stored_bytes_never_changes(stored in any_headers(), validated in any_headers()) {
            let mut fresh = stored.clone();
            freshen(&mut fresh, &validated);
            for name in OF_THE_BYTES {
                prop_assert!(fresh.get_all(&name).iter().eq(stored.get_all(&name).iter()));
            }
            let once = fresh.clone();
            freshen(&mut fresh, &validated);
            prop_assert_eq!(fresh, once);
        }
    }

    #[test]
    fn what_one_client_says_beside_the_ordinary_is_unnamed() {
        let some = Allowed::Only(vec![]);
        for (sent, allowed, expected) in [
            (&[("accept", "*/*"), ("accept-language", "*")][..], &some, &[][..]),
            (&[("accept", "application/json, text/plain, */*")], &some, &[]),
            (&[("if-none-match", "x"), ("range", "x"), ("authorization", "x"), ("cookie", "x")], &some, &[]),
            (&[("accept", "*/*"), ("accept", "evil")], &some, &["accept"]),
            (&[("accept", "text/html"), ("accept-language", "de")], &some, &["accept", "accept-language"]),
            (&[("via", "1.1 x"), ("cdn-loop", "x"), ("x-tenant", "x")], &some, &["via", "cdn-loop", "x-tenant"]),
            (&[("via", "1.1 x"), ("x-tenant", "x")], &Allowed::All, &["via"]),
        ] {
            let sent = headers(sent);
            assert_eq!(unnamed(&sent, allowed).collect::<Vec<_>>(), expected, "{sent:?}");
        }
    }

    #[test]
    fn a_general_request_has_nothing_of_one_client_in_common_fields() {
        let name = "grandstand-0123456789abcdef";
        let all = [("accept", "evil"), ("accept-language", "de"), ("via", "1.1 evil"), ("x-odd", "x"), ("cookie", "x")];
        let sent = headers(&[&all[..], &[("cdn-loop", name)]].concat());
        let general = |keyed: &[&str]| {
            let mut fields = sent.clone();
            generalise(&mut fields, |name| keyed.contains(&name.as_str()));
            fields
        };
        let fields = general(&[]);
        assert_eq!(names(&fields), ["cdn-loop", "cookie", "via", "x-odd"]);
        assert_eq!(fields[VIA], format!("1.1 {name}"));
        assert_eq!(fields[CDN_LOOP], name);
        assert_eq!(general(&["accept"])[ACCEPT], "evil");
        assert_eq!(
            unnamed(&fields, &Allowed::Only(vec![])).collect::<Vec<_>>(),
            ["x-odd"],
            "our names are nobody's own"
        );
        let vary = Vary::of(&headers(&[("vary", "Accept, Via")]));
        assert_eq!(missed(&sent, &fields, &vary), [ACCEPT]);
        assert!(missed(&sent, &general(&["accept"]), &vary).is_empty());
    }

    #[test]
    fn a_304_is_about_the_answer_with_its_tag() {
        for (validated, etag, date, expected) in [
            (&[][..], Some("\"a\""), Some("x"), true),
            (&[("etag", "\"a\"")], Some("\"a\""), None, true),
            (&[("etag", "\"a\"")], Some("W/\"a\""), None, true),
            (&[("etag", "\"b\"")], Some("\"a\""), Some("x"), false),
            (&[("etag", "\"b\""), ("last-modified", "x")], None, Some("x"), true),
            (&[("etag", "\"a\""), ("last-modified", "y")], Some("\"a\""), Some("x"), true),
            (&[("last-modified", "y")], None, Some("x"), false),
            (&[("last-modified", "y")], None, None, true),
        ] {
            let about = is_about(&headers(validated), etag.map(str::as_bytes), date.map(str::as_bytes));
            assert_eq!(about, expected, "{validated:?} {etag:?} {date:?}");
        }
    }
}
