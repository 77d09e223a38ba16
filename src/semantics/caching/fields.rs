//! Which fields pass the cache: those of the origin's answer, and those of a client's request on an unknown path.
//!
//! What it is: the two filters, and the check for answers that show an unkeyed field. What it is not: the fields that
//! this proxy adds. Who calls it: the cache and the client of the origin.

use http::header::{
    self, ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH,
    CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, PRAGMA, SET_COOKIE,
};

use super::list;
use super::selecting::Vary;

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
/// Fields that speak of the origin's listener, or of its limits, and not of the answer.
const OF_THE_ORIGIN: [&str; 7] =
    ["alt-svc", "strict-transport-security", "nel", "report-to", "ratelimit", "ratelimit-policy", "ratelimit-limit"];
/// Fields of a request that are of this hop or that a client must not choose: no purpose lets them through.
const NEVER_ONWARD: [&str; 5] = ["host", "expect", "forwarded", "x-real-ip", "via"];
/// Fields that can change an answer without `Vary` saying so: attacks on caches use them.
const POISONOUS: [&str; 27] = [
    "accept-encoding",
    "base-url",
    "client-ip",
    "fastly-client-ip",
    "front-end-https",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "profile",
    "proxy",
    "range",
    "referer",
    "true-client-ip",
    "user-agent",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-arbitrary",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-requested-with",
    "x-wap-profile",
];

/// What a request is sent on for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// For an answer that may be stored for others.
    Store,
    /// For this client alone: nothing of the answer is stored.
    Pass,
}

/// Whether the field is of one connection: by its name, or because `Connection` of the same header nominates it.
pub(super) fn is_hop_by_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(&name.as_str())
        || list::members(headers, CONNECTION).any(|nominated| nominated.eq_ignore_ascii_case(name.as_str().as_bytes()))
}

/// What of an origin's answer is kept and passed on; `Set-Cookie` of known endpoints is not.
pub fn end_to_end(headers: &HeaderMap, known: bool) -> HeaderMap {
    filtered(headers, |name| {
        let text = name.as_str();
        let ours = OF_THE_ORIGIN.contains(&text)
            || text.starts_with("ratelimit-")
            || text.starts_with("access-control-")
            || (known && (*name == SET_COOKIE || text == "set-cookie2"));
        !ours
    })
}

/// What of a client's request goes to the origin on an unknown path. `keyed` says which fields the stored `Vary` names:
/// these go, whatever they are, but for the ones of this hop and `Accept-Encoding`, which is ours.
pub fn onward(client: &HeaderMap, purpose: Purpose, keyed: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    filtered(client, |name| {
        let text = name.as_str();
        if NEVER_ONWARD.contains(&text) || text.starts_with("x-forwarded") {
            return false;
        }
        if purpose == Purpose::Pass {
            return true;
        }
        *name != ACCEPT_ENCODING && (keyed(name) || !is_poisonous(text))
    })
}

fn is_poisonous(name: &str) -> bool {
    POISONOUS.contains(&name) || ["sec-", "x-original-", "x-rewrite-"].iter().any(|prefix| name.starts_with(prefix))
}

fn filtered(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let lines = headers.iter().filter(|(name, _)| !is_hop_by_hop(headers, name) && passes(name));
    lines.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Fields whose values are ordinary, or whose answers are guarded otherwise.
const ORDINARY: [HeaderName; 10] = [
    ACCEPT,
    ACCEPT_ENCODING,
    ACCEPT_LANGUAGE,
    AUTHORIZATION,
    CACHE_CONTROL,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    COOKIE,
    PRAGMA,
    header::DNT,
];

/// Whether a request has nothing but ordinary fields, conditions and what `Vary` names: then its answer cannot show
/// anything of it that other requests have not.
pub fn is_plain(request: &HeaderMap, vary: &Vary) -> bool {
    let conditions = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];
    request.keys().all(|name| ORDINARY.contains(name) || conditions.contains(name) || vary.names(name))
}

/// Whether an answer shows a field of the request that `Vary` does not name: it must not be stored for others.
/// `request` is what was sent to the origin. Values shorter than 3 bytes are overlooked: they are everywhere.
pub fn reflects(request: &HeaderMap, vary: &Vary, response: &HeaderMap, body: &[u8]) -> bool {
    let unkeyed = request.iter().filter(|(name, _)| !ORDINARY.contains(name) && !vary.names(name));
    unkeyed.map(|(_, value)| value.as_bytes()).filter(|value| value.len() >= 3).any(|value| {
        let finder = memchr::memmem::Finder::new(value);
        response.values().any(|line| finder.find(line.as_bytes()).is_some()) || finder.find(body).is_some()
    })
}
