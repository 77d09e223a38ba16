//! Headers of a request, read in one pass; a bad host, size or body is refused.
//!
//! Not its path, and not its query. Callers: [`super`]; [`crate::edge::answer`] for requests that cannot be read.

use std::net::IpAddr;

use http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, HOST, HeaderMap, IF_MATCH, IF_NONE_MATCH, ORIGIN,
    TRANSFER_ENCODING, VIA,
};
use http::{HeaderValue, Method, Version};

use crate::clock::Monotonic;
use crate::edge::limit::{Decision, Wish};
use crate::protocol::hops::CDN_LOOP;
use crate::protocol::problem::Problem;
use crate::protocol::target;

use super::{Rules, View};

/// The most fields that a request may have.
pub(crate) const MOST_FIELDS: usize = 255;
/// How long a request line or a target may be, and how large all headers, in bytes.
pub(crate) const MOST_HEAD: usize = 48 << 10;

/// Facts about the headers of a request, found in one pass.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Noted<'a> {
    /// All names and values together, in bytes.
    pub size: usize,
    pub host: Option<&'a HeaderValue>,
    /// Whether a body is announced. `Content-Length: 0` announces none.
    pub body: bool,
    /// Whether there is `Accept-Encoding`.
    pub wishes: bool,
    pub conditional: bool,
    /// Whether there is `Via` or `CDN-Loop`.
    pub relayed: bool,
}

impl<'a> Noted<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut noted = Self::default();
        for (name, value) in headers {
            noted.size += name.as_str().len() + value.len();
            match *name {
                HOST => noted.host = Some(value),
                TRANSFER_ENCODING => noted.body = true,
                CONTENT_LENGTH => noted.body |= value.as_bytes().iter().any(|byte| *byte != b'0'),
                ACCEPT_ENCODING => noted.wishes = true,
                IF_MATCH | IF_NONE_MATCH => noted.conditional = true,
                VIA => noted.relayed = true,
                _ => noted.relayed |= *name == CDN_LOOP,
            }
        }
        noted
    }
}

/// RFC 9112 §3.2. pingora refuses a second `Host`.
pub(super) fn check_host(view: &View<'_>, noted: &Noted<'_>) -> Result<(), Problem> {
    match noted.host {
        Some(value) if target::is_host(value.as_bytes()) => Ok(()),
        Some(value) => Err(Problem::bad_host(Some(value))),
        None if view.version == Version::HTTP_11 => Err(Problem::bad_host(None::<&str>)),
        None => Ok(()),
    }
}

/// For HTTP/2; HTTP/1 heads that are too large never come here.
pub(super) fn check_size(view: &View<'_>, noted: &Noted<'_>) -> Result<(), Problem> {
    if view.target.len() > MOST_HEAD {
        return Err(Problem::uri_too_long(MOST_HEAD as u64));
    }
    if noted.size > MOST_HEAD {
        return Err(Problem::headers_too_large(MOST_HEAD as u64));
    }
    if view.headers.len() > MOST_FIELDS { Err(Problem::too_many_headers(MOST_FIELDS)) } else { Ok(()) }
}

/// Largest body that is forwarded, in bytes.
pub(crate) const MAX_REQUEST_BODY: u64 = 1 << 20;

/// GET and HEAD must have no body. Other methods need a bounded `Content-Length`, against request smuggling (RFC 9112
/// §11.2).
pub(super) fn check_body(view: &View<'_>, noted: &Noted<'_>) -> Result<(), Problem> {
    if !view.has_body && !noted.body {
        return Ok(());
    }
    if matches!(*view.method, Method::GET | Method::HEAD) || view.headers.contains_key(TRANSFER_ENCODING) {
        return Err(Problem::unexpected_body());
    }
    let length = view.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length <= MAX_REQUEST_BODY => Ok(()),
        _ => Err(Problem::content_too_large(MAX_REQUEST_BODY)),
    }
}

pub(super) fn is_preflight(view: &View<'_>, host: &Result<(), Problem>) -> bool {
    view.method == Method::OPTIONS
        && host.is_ok()
        && view.headers.contains_key(ORIGIN)
        && view.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What the limiter says of a request whose fields cannot be read: it counts as the peer's own, unless the peer speaks
/// for others.
pub(crate) async fn decide_unread(peer: IpAddr, wish: Wish, rules: &Rules, now: Monotonic) -> Decision {
    let peer = peer.to_canonical();
    match &rules.shared {
        _ if rules.client_ip.trusts(peer) => Decision::Unlimited,
        Some(shared) => Box::pin(shared.decide(peer, wish)).await,
        None => rules.limiter.decide(peer, wish, now),
    }
}
