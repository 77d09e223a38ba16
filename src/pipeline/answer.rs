//! From what was found to the head of the answer: preconditions, then headers.
//!
//! Bodies are only chosen here, never made. Callers: [`crate::serve`].

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, AGE, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPIRES, HeaderMap, HeaderName, HeaderValue, LINK, RETRY_AFTER, VARY,
};
use http::{Method, StatusCode};

use crate::cache::coded::Coded;
use crate::cache::reply::Reply;
use crate::cache::stored::Stored;
use crate::clock::{Monotonic, WallTime};
use crate::limit::Decision;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::caching::{self, Ranged};
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
    /// How it came about; `None` for errors of ours and preflights.
    pub cache: Option<CacheOutcome>,
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
            Precondition::Proceed => {
                let mut head = HeaderMap::with_capacity(ROOM);
                head.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let body = represent(&mut head, asked, &reply.body);
                (StatusCode::OK, head, body)
            }
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
        Answer { status, headers: head, body, outcome: outcome.as_str(), cache: Some(outcome) }
    }

    /// Seconds since the instant for which the data is confirmed. A stamp from the future confirms nothing: how old the
    /// data is cannot be known then, so it is stale at once.
    fn age(&self, published: &Published, now: WallTime) -> u32 {
        let (confirmed, least) = (published.confirmed(), u32::try_from(self.ttl).unwrap_or(u32::MAX));
        if freshness::is_from_the_future(confirmed, now) { least } else { freshness::age_seconds(now, confirmed) }
    }

    /// An answer of a known endpoint, read through from the origin.
    pub fn through(&self, asked: Asked<'_>, stored: &Stored, outcome: CacheOutcome, now: Monotonic) -> Answer {
        let mut head = stored.fields.clone();
        let (status, body) = match conditions(asked, stored.status, &head) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => (not_modified(&mut head), None),
            Precondition::Proceed => (stored.status, represent(&mut head, asked, &stored.body)),
        };
        // Ours where the origin sends neither.
        if !head.contains_key(CACHE_CONTROL) && !head.contains_key(EXPIRES) {
            head.insert(CACHE_CONTROL, self.cache_control.clone());
        }
        if let Some(link) = &stored.link {
            head.append(LINK, link.clone());
        }
        head.insert(VARY, HeaderValue::from_static("accept-encoding"));
        head.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
        of_the_origin(head, status, body, asked, stored.age(now), outcome)
    }

    /// An answer of an unknown path that is kept.
    pub fn stored(&self, asked: Asked<'_>, stored: &Stored, outcome: CacheOutcome, now: Monotonic) -> Answer {
        let mut head = stored.fields.clone();
        let state = conditions(asked, stored.status, &head);
        let (status, body) = match state {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => (not_modified(&mut head), None),
            Precondition::Proceed => part(&mut head, asked, stored),
        };
        of_the_origin(head, status, body, asked, stored.age(now), outcome)
    }

    /// The head of an answer of an unknown path whose body is on its way; `None` for the body means that none is sent,
    /// `Some` of nothing that it follows.
    pub fn streamed(&self, asked: Asked<'_>, status: StatusCode, fields: &HeaderMap, outcome: CacheOutcome) -> Answer {
        let mut head = fields.clone();
        let (status, body) = match conditions(asked, status, &head) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => (not_modified(&mut head), None),
            Precondition::Proceed => {
                let none = *asked.method == Method::HEAD
                    || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::RESET_CONTENT);
                (status, (!none).then(Bytes::new))
            }
        };
        head.append(CACHE_STATUS, outcome.to_header_value());
        common(&mut head, asked.limit);
        Answer { status, headers: head, body, outcome: outcome.as_str(), cache: Some(outcome) }
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
        Answer { status: problem.status(), headers: head, body, outcome, cache: None }
    }

    /// The answer to a CORS preflight.
    pub fn preflight(&self, limit: Decision) -> Answer {
        let mut head = HeaderMap::with_capacity(ROOM);
        head.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
        head.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("If-None-Match, If-Match"));
        head.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        common(&mut head, limit);
        Answer { status: StatusCode::NO_CONTENT, headers: head, body: None, outcome: "preflight", cache: None }
    }
}

/// Completes the head of what the origin answered some time ago.
fn of_the_origin(
    mut head: HeaderMap,
    status: StatusCode,
    body: Option<Bytes>,
    asked: Asked<'_>,
    age: Duration,
    outcome: CacheOutcome,
) -> Answer {
    head.insert(AGE, HeaderValue::from(age.as_secs()));
    head.append(CACHE_STATUS, outcome.to_header_value());
    common(&mut head, asked.limit);
    Answer { status, headers: head, body, outcome: outcome.as_str(), cache: Some(outcome) }
}

/// The body in the coding that the client likes best, unless only the head was asked for; its length and coding go into
/// the head.
fn represent(head: &mut HeaderMap, asked: Asked<'_>, body: &Coded) -> Option<Bytes> {
    let (coding, variant) = body.variant(asked.coding);
    head.insert(CONTENT_LENGTH, variant.length.clone());
    if coding != Coding::Identity {
        head.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
    }
    (*asked.method != Method::HEAD).then(|| variant.body.clone())
}

/// Leaves in a head what a 304 may say.
fn not_modified(head: &mut HeaderMap) -> StatusCode {
    for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_RANGE] {
        head.remove(name);
    }
    StatusCode::NOT_MODIFIED
}

/// A client's conditions on an answer of the origin, by its tag or its date.
fn conditions(asked: Asked<'_>, status: StatusCode, fields: &HeaderMap) -> Precondition {
    let evaluated = status == StatusCode::OK && matches!(*asked.method, Method::GET | Method::HEAD);
    if evaluated { caching::evaluate(asked.method, asked.headers, fields) } else { Precondition::Proceed }
}

/// What of a kept body is sent.
fn part(head: &mut HeaderMap, asked: Asked<'_>, stored: &Stored) -> (StatusCode, Option<Bytes>) {
    if stored.status == StatusCode::NO_CONTENT {
        // RFC 9110 §8.6: such an answer has no length.
        head.remove(CONTENT_LENGTH);
        return (stored.status, None);
    }
    if stored.status == StatusCode::RESET_CONTENT {
        head.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        return (stored.status, None);
    }
    let whole = stored.body.identity();
    if *asked.method != Method::GET {
        head.insert(CONTENT_LENGTH, whole.length.clone());
        return (stored.status, None);
    }
    match caching::select(asked.headers, stored.status, head, whole.body.len() as u64) {
        Ranged::Whole => {
            head.insert(CONTENT_LENGTH, whole.length.clone());
            (stored.status, Some(whole.body.clone()))
        }
        Ranged::Part { first, last, content_range } => {
            let (first, last) = (first as usize, last as usize);
            let body = whole.body.get(first..=last).map_or_else(Bytes::new, |part| whole.body.slice_ref(part));
            head.insert(CONTENT_RANGE, content_range);
            head.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            (StatusCode::PARTIAL_CONTENT, Some(body))
        }
        Ranged::Unsatisfiable { content_range } => {
            head.insert(CONTENT_RANGE, content_range);
            head.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(Bytes::new()))
        }
    }
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
