//! From what was found to the head of the answer: preconditions, then headers.
//!
//! Bodies are only chosen here, never made. Callers: [`crate::serve`].

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AGE, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, LINK, RETRY_AFTER, VARY,
};
use http::{Method, StatusCode};

use crate::cache::entry::Entry;
use crate::cache::reply::Reply;
use crate::clock::{Monotonic, WallTime};
use crate::limit::Decision;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::freshness::{self, CacheControl};
use crate::semantics::precondition::{self, Precondition};
use crate::semantics::problem::{self, Problem, ProblemKind};
use crate::snapshot::live::Published;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const MIRROR_SNAPSHOT: HeaderName = HeaderName::from_static("mirror-snapshot");
const MIRROR_CONFIRMED: HeaderName = HeaderName::from_static("mirror-confirmed");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Link, Retry-After, RateLimit, RateLimit-Policy, Cache-Status, Mirror-Snapshot, Mirror-Confirmed",
);

/// What is the same in every answer.
#[derive(Clone, Debug)]
pub struct Standing {
    cache_control: HeaderValue,
    ttl: i64,
    /// Whether the origin confirms the data from time to time; offline it does not.
    ages: bool,
    /// `Allow` where unknown endpoints are passed through.
    passthrough_allow: HeaderValue,
}

/// The parts of a request that an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: &'a Method,
    /// The header.
    pub headers: &'a HeaderMap,
    /// What the limiter said.
    pub limit: Decision,
    /// The coding that the client likes best.
    pub coding: Coding,
    /// Whether the endpoint is one that is passed through.
    pub passes: bool,
}

/// An answer that is ready to be sent.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The header.
    pub headers: HeaderMap,
    /// The body; `None` for 304, 204 and HEAD.
    pub body: Option<Bytes>,
    /// The word for logs and metrics.
    pub outcome: &'static str,
}

impl Standing {
    /// For one configuration; `ages`: there is an origin that confirms the data.
    pub fn new(cache_control: CacheControl, ages: bool, passthrough: &[Method]) -> Self {
        let ttl = i64::try_from(cache_control.ttl.as_secs()).unwrap_or(i64::MAX);
        let text = cache_control.to_string();
        let cache_control = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("no-cache"));
        let methods: Vec<&str> = passthrough.iter().map(Method::as_str).collect();
        let allow = HeaderValue::from_str(&methods.join(", "));
        let passthrough_allow = allow.unwrap_or_else(|_| HeaderValue::from_static(super::admit::ALLOW));
        Self { cache_control, ttl, ages, passthrough_allow }
    }

    /// An answer from the snapshot. `forwarded`: the origin was asked for it just now. `pinned`: it does not age.
    pub fn snapshot(
        &self,
        asked: Asked<'_>,
        reply: &Reply,
        published: &Published,
        forwarded: Option<CacheOutcome>,
        pinned: bool,
        now: WallTime,
    ) -> Answer {
        let ages = self.ages && !pinned;
        let age = self.age(published, now);
        let ttl = ages.then(|| self.ttl - i64::from(age));
        let outcome = forwarded.unwrap_or(CacheOutcome::Hit { ttl });
        let state = precondition::evaluate(asked.method, asked.headers, reply.tag.as_ref());
        let (status, mut head, body) = match state {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => (StatusCode::NOT_MODIFIED, HeaderMap::with_capacity(ROOM), None),
            Precondition::Proceed => representation(asked, reply),
        };
        head.insert(CACHE_CONTROL, self.cache_control.clone());
        if ages {
            head.insert(AGE, HeaderValue::from(age));
        }
        if let Some(etag) = &reply.etag {
            head.insert(ETAG, etag.clone());
        }
        if let Some(link) = &reply.link {
            head.insert(LINK, link.clone());
        }
        head.insert(VARY, HeaderValue::from_static("accept-encoding"));
        head.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
        head.insert(MIRROR_SNAPSHOT, published.snapshot_header.clone());
        head.insert(MIRROR_CONFIRMED, published.confirmed_header.clone());
        head.insert(CACHE_STATUS, outcome.to_header_value());
        common(&mut head, asked.limit);
        Answer { status, headers: head, body, outcome: outcome.as_str() }
    }

    /// Seconds since the instant for which the data is confirmed. A stamp from the future confirms nothing: how old the
    /// data is cannot be known then, so it is stale at once.
    fn age(&self, published: &Published, now: WallTime) -> u32 {
        let (confirmed, least) = (published.confirmed(), u32::try_from(self.ttl).unwrap_or(u32::MAX));
        if freshness::is_from_the_future(confirmed, now) { least } else { freshness::age_seconds(now, confirmed) }
    }

    /// An answer read through from the origin.
    pub fn through(&self, asked: Asked<'_>, entry: &Entry, outcome: CacheOutcome, now: Monotonic) -> Answer {
        let reply = &entry.reply;
        let state = if reply.status == StatusCode::OK {
            precondition::evaluate(asked.method, asked.headers, reply.tag.as_ref())
        } else {
            Precondition::Proceed
        };
        let (status, mut head, body) = match state {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => (StatusCode::NOT_MODIFIED, HeaderMap::with_capacity(ROOM), None),
            Precondition::Proceed => representation(asked, reply),
        };
        // Ours where the origin sends neither `Cache-Control` nor `Expires`.
        let ours = || entry.expires.is_none().then(|| self.cache_control.clone());
        if let Some(value) = entry.cache_control.clone().or_else(ours) {
            head.insert(CACHE_CONTROL, value);
        }
        if let Some(expires) = &entry.expires {
            head.insert(EXPIRES, expires.clone());
        }
        head.insert(AGE, HeaderValue::from(entry.age(now).as_secs()));
        if let Some(link) = &entry.link {
            head.insert(LINK, link.clone());
        }
        if let Some(modified) = entry.last_modified.as_ref().and_then(|text| HeaderValue::from_str(text).ok()) {
            head.insert(LAST_MODIFIED, modified);
        }
        if let Some(etag) = &reply.etag {
            head.insert(ETAG, etag.clone());
        }
        head.insert(VARY, HeaderValue::from_static("accept-encoding"));
        head.insert(CACHE_STATUS, outcome.to_header_value());
        common(&mut head, asked.limit);
        Answer { status, headers: head, body, outcome: outcome.as_str() }
    }

    /// An error of our own.
    pub fn problem(&self, asked: Asked<'_>, problem: &Problem, retry_after: Option<u64>) -> Answer {
        let body = problem.to_json();
        let mut head = HeaderMap::with_capacity(ROOM);
        head.insert(CONTENT_TYPE, HeaderValue::from_static(problem::CONTENT_TYPE));
        head.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        head.insert(CACHE_CONTROL, HeaderValue::from_static(problem.cache_control()));
        let retry_after = match asked.limit {
            Decision::Refused { retry_after_seconds, .. } => Some(u64::from(retry_after_seconds)),
            _ => retry_after,
        };
        if let Some(seconds) = retry_after {
            head.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if problem.kind() == ProblemKind::MethodNotAllowed {
            let known = HeaderValue::from_static(super::admit::ALLOW);
            let passes = asked.passes;
            head.insert(ALLOW, if passes { self.passthrough_allow.clone() } else { known });
        }
        common(&mut head, asked.limit);
        let body = (*asked.method != Method::HEAD).then_some(body);
        let outcome = if asked.limit.is_admitted() { "problem" } else { "refused" };
        Answer { status: problem.status(), headers: head, body, outcome }
    }

    /// The answer to a CORS preflight.
    pub fn preflight(&self, limit: Decision) -> Answer {
        let mut head = HeaderMap::with_capacity(ROOM);
        head.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
        head.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("If-None-Match, If-Match"));
        head.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        common(&mut head, limit);
        Answer { status: StatusCode::NO_CONTENT, headers: head, body: None, outcome: "preflight" }
    }
}

/// Status, type, coding and length of a representation, and its body unless only the head was asked for.
fn representation(asked: Asked<'_>, reply: &Reply) -> (StatusCode, HeaderMap, Option<Bytes>) {
    let (coding, variant) = reply.variant(asked.coding);
    let mut head = HeaderMap::with_capacity(ROOM);
    head.insert(CONTENT_TYPE, reply.content_type.clone());
    head.insert(CONTENT_LENGTH, variant.length.clone());
    if coding != Coding::Identity {
        head.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
    }
    let body = (*asked.method != Method::HEAD).then(|| variant.body.clone());
    (reply.status, head, body)
}

/// CORS and the limit, which go with every answer.
pub fn common(head: &mut HeaderMap, limit: Decision) {
    head.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    head.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    let mut text = Vec::with_capacity(32);
    if limit.write_policy(&mut text) {
        head.insert(RATE_LIMIT_POLICY, HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(EMPTY));
        let mut text = Vec::with_capacity(32);
        limit.write_rate_limit(&mut text);
        head.insert(RATE_LIMIT, HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(EMPTY));
    }
}

/// Room for every field of an answer, so that the map is allocated once.
const ROOM: usize = 22;

const EMPTY: HeaderValue = HeaderValue::from_static("");
