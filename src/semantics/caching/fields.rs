//! Which fields pass the cache: those of the origin's answer, and those of a client's request on an unknown path.
//!
//! The two filters. Not the fields that this proxy adds, and not the check for answers that show an unkeyed field (`shown`).
//! Callers: the cache and the client of the origin.

use std::collections::HashSet;

use http::header::{ACCEPT_ENCODING, CONNECTION, COOKIE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE, VIA};

use crate::semantics::hops::CDN_LOOP;

use super::list;

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
/// Fields about the origin's listener or limits, not about the answer; and `X-Accel-Expires`, whose value is wrong by
/// the time the answer leaves here.
const OF_THE_ORIGIN: [&str; 9] = [
    "alt-svc",
    "nel",
    "ratelimit",
    "report-to",
    "strict-transport-security",
    "x-accel-expires",
    "x-lighttpd-send-file",
    "x-reproxy-url",
    "x-sendfile",
];
/// Request fields of this hop, or that a client must not choose: never forwarded.
const NEVER_ONWARD: [&str; 4] = ["host", "expect", "forwarded", "x-real-ip"];
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
pub(super) const OF_THE_CACHE: [&str; 6] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"];
/// Identifiers of one request: an answer for others must not carry them.
const TRACES: [&str; 9] = [
    "b3",
    "baggage",
    "traceparent",
    "tracestate",
    "uber-trace-id",
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-request-id",
];
/// The purpose of forwarding a request.
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
pub(super) struct HopByHop(HashSet<HeaderName>);

impl HopByHop {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        // Only fields of this header matter.
        let nominated = list::members(headers, CONNECTION).filter_map(|member| HeaderName::from_bytes(member).ok());
        Self(nominated.filter(|name| headers.contains_key(name)).collect())
    }

    pub(super) fn contains(&self, name: &HeaderName) -> bool {
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

#[cfg(test)]
mod tests {
    use super::super::testing::{any_headers, headers};
    use super::*;
    use proptest::prelude::*;

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
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
            "x-request-id",
            "x_host",
        ];
        assert_eq!(names(&all), keyed);
        let passed = onward(&client, Purpose::Pass, &Allowed::All, |_| false);
        assert!(
            ["if-none-match", "range", "accept-encoding", "user-agent"].iter().all(|name| passed.contains_key(*name))
        );
        let never = ["host", "connection", "nominated", "te", "forwarded", "x-forwarded-host"];
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
}
