//! A client's request to the cache and the answer to it, what of the request is sent to the origin, and which clients may
//! wait for the same fetch.
//!
//! Values only; [`crate::protocol::caching::onward`] says which fields may be sent at all. A request for a known
//! endpoint has no fields. Callers: [`crate::edge::serve`] and [`crate::edge::answer`] ask, and send the answer; the
//! files beside this one.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, IF_MODIFIED_SINCE, IF_NONE_MATCH, PRAGMA, RANGE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};

use crate::clock::{Monotonic, WallTime};
use crate::data::cache::Key;
use crate::data::cache::reply::{Stored, Variants};
use crate::origin::client::{AskError, Asker};
use crate::origin::forward::{Arrived, Sending};
use crate::protocol::cache_status::{CacheOutcome, Forwarded};
use crate::protocol::caching::{
    Allowed, Purpose, RequestDirectives, Selecting, Vary, generalise, is_about, is_bare, onward,
};
use crate::protocol::hops::{CDN_LOOP, Caller, Trail};
use crate::tasks::single_flight::Leader;

use super::spool::{Reader, Tap};

#[derive(Clone, Debug)]
pub struct ProxyRequest {
    pub method: Method,
    /// Path and raw query: canonical for a known endpoint, else byte for byte.
    pub target: Bytes,
    /// The header as it came; empty for a known endpoint, so that no client field can poison an entry.
    pub fields: HeaderMap,
    /// The body, if the method has one.
    pub body: Bytes,
    pub client: IpAddr,
    /// Whether it is asked for many: by a trusted proxy that does not name its client, or in the background.
    pub for_many: bool,
    pub version: Version,
    pub endpoint: Endpoint,
}

#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A known endpoint: its answers are read whole and checked before clients get them.
    Known {
        /// Whether the document holds `api_url`s.
        rewrites: bool,
        /// The processes of this program that the request passed.
        trail: Trail,
        /// Whether the origin is asked only if that costs others nothing: the client chose the bytes.
        spare: bool,
        /// When newer data than before became known.
        after: Option<WallTime>,
    },
    /// Another path: its answers are passed on while they arrive.
    Unknown,
}

impl ProxyRequest {
    /// A GET of a canonical path and query of a known endpoint.
    pub(super) fn known(path: &str, rewrites: bool, spare: bool, after: Option<WallTime>, client: &Caller) -> Self {
        Self {
            method: Method::GET,
            target: Bytes::copy_from_slice(path.as_bytes()),
            fields: HeaderMap::new(),
            body: Bytes::new(),
            client: client.address,
            for_many: false,
            version: Version::HTTP_11,
            endpoint: Endpoint::Known { rewrites, trail: client.trail.clone(), spare, after },
        }
    }

    /// It as it is sent, with these fields.
    pub(super) fn sending(&self, fields: HeaderMap, asker: Asker) -> Sending {
        let (method, target, body) = (self.method.clone(), self.target.clone(), self.body.clone());
        Sending { method, target, fields, body, received: self.version, asker }
    }

    pub(super) const fn is_known(&self) -> bool {
        matches!(self.endpoint, Endpoint::Known { .. })
    }

    /// Whether the origin is asked only if that costs others nothing.
    pub(super) const fn is_spare(&self) -> bool {
        matches!(self.endpoint, Endpoint::Known { spare: true, .. })
    }
}

/// The head of an answer whose body is still on its way.
#[derive(Debug)]
pub struct Head {
    pub status: StatusCode,
    /// The end-to-end fields as they came.
    pub fields: HeaderMap,
}

#[derive(Debug)]
pub enum ProxyAnswer {
    /// One that is cached, or was read whole.
    Stored { stored: Arc<Stored>, outcome: CacheOutcome },
    /// One that still arrives.
    Streamed {
        head: Arc<Head>,
        /// Its body; `None` for none.
        body: Option<Reader>,
        outcome: CacheOutcome,
    },
}

impl ProxyAnswer {
    pub(super) fn hit(stored: Arc<Stored>, now: Monotonic) -> Self {
        let outcome = CacheOutcome::Hit { ttl: Some(stored.ttl(now)) };
        Self::Stored { stored, outcome }
    }

    /// The cached answer, in place of an origin's answer that failed with this status, or of none.
    pub(super) const fn stale(stored: Arc<Stored>, fwd_status: Option<u16>) -> Self {
        Self::Stored { stored, outcome: CacheOutcome::StaleIfError { fwd_status } }
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum ProxyError {
    /// The origin gives no answer, and no cached answer may be served.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The client wants a cached answer only (RFC 9111 §5.2.1.7), and there is none.
    #[error("nothing usable is cached, and the request forbids asking the origin")]
    OnlyIfCached,
}

/// One fetch at a time for a resource and the values of the fields it varies by.
pub(super) type Flight = (Key, Selecting);

/// The result of a fetch for the clients that joined it.
#[derive(Clone, Debug)]
pub(super) enum FetchOutcome {
    /// A whole answer for all that wait: a cached one, or one of a known endpoint, whose requests are all the same.
    Whole(Arc<Stored>, Forwarded),
    /// An answer to be cached, while it arrives.
    Arriving { head: Arc<Head>, selecting: Selecting, tap: Tap },
    /// An answer for one client alone, because of its request or of the answer itself: other clients may share another one.
    Personal,
    /// An answer that must not be cached, for example `private`: each client asks for itself.
    Private,
    /// No answer, whatever the request.
    Failed(AskError),
    /// No answer, perhaps because of these request fields: clients with other fields ask again.
    FailedFor(AskError, Arc<HeaderMap>),
}

/// The clients that wait for a fetch; `None` when it is for one client alone.
pub(super) type Waiting = Option<Leader<Flight, FetchOutcome>>;

/// The flight of requests with these values in the fields that answers vary by.
pub(super) fn flight(key: &Key, names: &[HeaderName], selectable: &HeaderMap) -> Flight {
    (key.clone(), Selecting::of(&Vary::Fields(names.to_vec()), selectable))
}

/// A failure for waiting clients: that of a request with fields of its own may be due to them.
pub(super) fn failed_for(said: impl FnOnce() -> HeaderMap, error: AskError, bare: bool) -> FetchOutcome {
    if bare || matches!(error, AskError::Spent(_)) {
        return FetchOutcome::Failed(error);
    }
    FetchOutcome::FailedFor(error, Arc::new(said()))
}

/// Whether the origin failed, so that a stale answer may stand in.
pub(super) fn is_failure(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

/// The request fields that may select an answer: the origin gets them if it varies by them.
pub(super) fn selectable(question: &ProxyRequest, allowed: &Allowed) -> HeaderMap {
    onward(&question.fields, Purpose::Store, allowed, |_| true)
}

/// Whether to ask for a part: no stored answer could be confirmed and cut.
pub(super) fn wants_part(question: &ProxyRequest, kept: Option<&Stored>) -> bool {
    question.method == Method::GET && question.fields.contains_key(RANGE) && !kept.is_some_and(Stored::has_validator)
}

/// The client fields that the origin gets when the answer is for all. `names`: what the answers vary by.
pub(super) fn told(question: &ProxyRequest, allowed: &Allowed, names: &[HeaderName]) -> HeaderMap {
    onward(&question.fields, Purpose::Store, allowed, |name| names.contains(name))
}

/// Whether the answer can be for others, too.
pub(super) fn purpose(question: &ProxyRequest, kept: Option<&Stored>) -> Purpose {
    if wants_part(question, kept) || RequestDirectives::of(&question.fields).no_store {
        Purpose::Pass
    } else {
        Purpose::Store
    }
}

/// Whether the result of a fetch says something about the resource for others: only that of a GET whose fields are
/// ordinary. Another method, or a field of one client, may have caused any other result. `sent`: the fields that were
/// sent.
pub(super) fn tells_of_the_resource(question: &ProxyRequest, sent: &HeaderMap, kept: Option<&Stored>) -> bool {
    question.method == Method::GET && purpose(question, kept) == Purpose::Store && is_bare(sent, &Vary::NOTHING)
}

/// The fields that are sent. A stored answer is revalidated with its own validators, for all clients that it answers.
/// `names`: what the answers are known to vary by; if one `is_seen`, these are all.
pub(super) fn sent(
    question: &ProxyRequest,
    allowed: &Allowed,
    names: &[HeaderName],
    is_seen: bool,
    kept: Option<&Stored>,
) -> HeaderMap {
    let purpose = purpose(question, kept);
    let keyed = |name: &HeaderName| names.contains(name);
    let mut fields = onward(&question.fields, purpose, allowed, keyed);
    if is_seen && purpose == Purpose::Store && question.method == Method::GET {
        generalise(&mut fields, keyed);
    }
    if let Some(stored) = kept.filter(|_| question.method == Method::GET && purpose == Purpose::Store) {
        for (name, value) in [(IF_NONE_MATCH, &stored.etag), (IF_MODIFIED_SINCE, &stored.last_modified)] {
            if let Some(value) = value {
                fields.insert(name, value.clone());
            }
        }
    }
    fields
}

/// An error for what the request did not ask for: a 304 without conditions, a part without a range (RFC 9110 §15.4.5,
/// §15.3.7).
pub(super) fn asked_for(arrived: Arrived, sent: &HeaderMap) -> Result<Arrived, AskError> {
    let has = |name: HeaderName| sent.contains_key(name);
    let unasked = match arrived.status {
        StatusCode::NOT_MODIFIED if !has(IF_NONE_MATCH) && !has(IF_MODIFIED_SINCE) => "a 304 without conditions",
        StatusCode::PARTIAL_CONTENT if !has(RANGE) => "a part without a range",
        _ => return Ok(arrived),
    };
    Err(AskError::nonsense("the request", unasked))
}

/// Whether a 304 is about another answer than the stored one, which then must be asked for without conditions (RFC 9111
/// §4.3.4).
pub(super) fn is_of_another(question: &ProxyRequest, kept: Option<&Stored>, arrived: &Arrived) -> bool {
    let revalidates = question.method == Method::GET && purpose(question, kept) == Purpose::Store;
    let about = |kept: &Stored| {
        let [etag, date] = [&kept.etag, &kept.last_modified].map(|value| value.as_ref().map(HeaderValue::as_bytes));
        is_about(&arrived.headers, etag, date)
    };
    arrived.status == StatusCode::NOT_MODIFIED && kept.filter(|_| revalidates).is_some_and(|kept| !about(kept))
}

/// One client's request as sent in the background, for all: without what makes it that client's own, except fields
/// that the answers vary by.
pub(super) fn for_everybody(question: &ProxyRequest, names: &[HeaderName]) -> ProxyRequest {
    let mut question = ProxyRequest { method: Method::GET, for_many: true, ..question.clone() };
    for name in
        [AUTHORIZATION, COOKIE, RANGE, CACHE_CONTROL, PRAGMA, VIA, CDN_LOOP].iter().filter(|name| !names.contains(name))
    {
        question.fields.remove(name);
    }
    question
}

/// The fields that a resource's answers are known to vary by.
pub(super) fn names(variants: Option<&Variants>) -> Vec<HeaderName> {
    let stored = variants.into_iter().flat_map(Variants::iter);
    sorted(stored.flat_map(|stored| stored.selecting.names().cloned()).collect())
}

/// Those names and these, each once.
pub(super) fn and_these(names: Vec<HeaderName>, more: impl IntoIterator<Item = HeaderName>) -> Vec<HeaderName> {
    sorted(names.into_iter().chain(more).collect())
}

fn sorted(mut names: Vec<HeaderName>) -> Vec<HeaderName> {
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    names
}
