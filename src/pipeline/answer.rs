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
use pingora::http::ResponseHeader;

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
    /// The head.
    pub head: ResponseHeader,
    /// The body; `None` for 304, 204 and HEAD.
    pub body: Option<Bytes>,
    /// The word for logs and metrics.
    pub outcome: &'static str,
}

/// Why no head could be built: a header value that is none. It does not happen.
pub type HeadError = Box<pingora::Error>;

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
    ///
    /// # Errors
    /// See [`HeadError`].
    pub fn snapshot(
        &self,
        asked: Asked<'_>,
        reply: &Reply,
        published: &Published,
        forwarded: Option<CacheOutcome>,
        pinned: bool,
        now: WallTime,
    ) -> Result<Answer, HeadError> {
        let ages = self.ages && !pinned;
        let age = freshness::age_seconds(now, published.confirmed());
        let ttl = ages.then(|| self.ttl - i64::from(age));
        let outcome = forwarded.unwrap_or(CacheOutcome::Hit { ttl });
        let state = precondition::evaluate(asked.method, asked.headers, reply.tag.as_ref());
        let (mut head, body) = match state {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => (ResponseHeader::build_no_case(StatusCode::NOT_MODIFIED, Some(20))?, None),
            Precondition::Proceed => representation(asked, reply)?,
        };
        head.insert_header(CACHE_CONTROL, self.cache_control.clone())?;
        if ages {
            head.insert_header(AGE, HeaderValue::from(age))?;
        }
        if let Some(etag) = &reply.etag {
            head.insert_header(ETAG, etag.clone())?;
        }
        if let Some(link) = &reply.link {
            head.insert_header(LINK, link.clone())?;
        }
        head.insert_header(VARY, HeaderValue::from_static("accept-encoding"))?;
        head.insert_header(ACCEPT_RANGES, HeaderValue::from_static("none"))?;
        head.insert_header(MIRROR_SNAPSHOT, published.snapshot_header.clone())?;
        head.insert_header(MIRROR_CONFIRMED, published.confirmed_header.clone())?;
        head.insert_header(CACHE_STATUS, outcome.to_header_value())?;
        common(&mut head, asked.limit)?;
        Ok(Answer { head, body, outcome: outcome.as_str() })
    }

    /// An answer read through from the origin.
    ///
    /// # Errors
    /// See [`HeadError`].
    pub fn through(
        &self,
        asked: Asked<'_>,
        entry: &Entry,
        outcome: CacheOutcome,
        now: Monotonic,
    ) -> Result<Answer, HeadError> {
        let reply = &entry.reply;
        let state = if reply.status == StatusCode::OK {
            precondition::evaluate(asked.method, asked.headers, reply.tag.as_ref())
        } else {
            Precondition::Proceed
        };
        let (mut head, body) = match state {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => (ResponseHeader::build_no_case(StatusCode::NOT_MODIFIED, Some(20))?, None),
            Precondition::Proceed => representation(asked, reply)?,
        };
        match (&entry.cache_control, &entry.expires) {
            (Some(value), _) => head.insert_header(CACHE_CONTROL, value.clone())?,
            (None, Some(_)) => {}
            (None, None) => head.insert_header(CACHE_CONTROL, self.cache_control.clone())?,
        }
        if let Some(expires) = &entry.expires {
            head.insert_header(EXPIRES, expires.clone())?;
        }
        head.insert_header(AGE, HeaderValue::from(entry.age(now).as_secs()))?;
        if let Some(link) = &entry.link {
            head.insert_header(LINK, link.clone())?;
        }
        if let Some(modified) = entry.last_modified.as_ref().and_then(|text| HeaderValue::from_str(text).ok()) {
            head.insert_header(LAST_MODIFIED, modified)?;
        }
        if let Some(etag) = &reply.etag {
            head.insert_header(ETAG, etag.clone())?;
        }
        head.insert_header(VARY, HeaderValue::from_static("accept-encoding"))?;
        head.insert_header(CACHE_STATUS, outcome.to_header_value())?;
        common(&mut head, asked.limit)?;
        Ok(Answer { head, body, outcome: outcome.as_str() })
    }

    /// An error of our own.
    ///
    /// # Errors
    /// See [`HeadError`].
    pub fn problem(&self, asked: Asked<'_>, problem: &Problem, retry_after: Option<u64>) -> Result<Answer, HeadError> {
        let body = problem.to_json();
        let mut head = ResponseHeader::build_no_case(problem.status(), Some(16))?;
        head.insert_header(CONTENT_TYPE, HeaderValue::from_static(problem::CONTENT_TYPE))?;
        head.insert_header(CONTENT_LENGTH, HeaderValue::from(body.len()))?;
        head.insert_header(CACHE_CONTROL, HeaderValue::from_static(problem.cache_control()))?;
        let retry_after = match asked.limit {
            Decision::Refused { retry_after_seconds, .. } => Some(u64::from(retry_after_seconds)),
            _ => retry_after,
        };
        if let Some(seconds) = retry_after {
            head.insert_header(RETRY_AFTER, HeaderValue::from(seconds.max(1)))?;
        }
        if problem.kind() == ProblemKind::MethodNotAllowed {
            let known = HeaderValue::from_static(super::admit::ALLOW);
            let passes = asked.passes;
            head.insert_header(ALLOW, if passes { self.passthrough_allow.clone() } else { known })?;
        }
        common(&mut head, asked.limit)?;
        let body = (*asked.method != Method::HEAD).then_some(body);
        let outcome = if asked.limit.is_admitted() { "problem" } else { "refused" };
        Ok(Answer { head, body, outcome })
    }

    /// The answer to a CORS preflight.
    ///
    /// # Errors
    /// See [`HeadError`].
    pub fn preflight(&self, limit: Decision) -> Result<Answer, HeadError> {
        let mut head = ResponseHeader::build_no_case(StatusCode::NO_CONTENT, Some(10))?;
        head.insert_header(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"))?;
        head.insert_header(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("If-None-Match, If-Match"))?;
        head.insert_header(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"))?;
        common(&mut head, limit)?;
        Ok(Answer { head, body: None, outcome: "preflight" })
    }
}

/// Status, type, coding and length of a representation, and its body unless only the head was asked for.
fn representation(asked: Asked<'_>, reply: &Reply) -> Result<(ResponseHeader, Option<Bytes>), HeadError> {
    let (coding, variant) = reply.variant(asked.coding);
    let mut head = ResponseHeader::build_no_case(reply.status, Some(22))?;
    head.insert_header(CONTENT_TYPE, reply.content_type.clone())?;
    head.insert_header(CONTENT_LENGTH, variant.length.clone())?;
    if coding != Coding::Identity {
        head.insert_header(CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()))?;
    }
    let body = (*asked.method != Method::HEAD).then(|| variant.body.clone());
    Ok((head, body))
}

/// CORS and the limit, which go with every answer.
///
/// # Errors
/// See [`HeadError`].
pub fn common(head: &mut ResponseHeader, limit: Decision) -> Result<(), HeadError> {
    head.insert_header(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"))?;
    head.insert_header(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED)?;
    let mut text = Vec::with_capacity(32);
    if limit.write_policy(&mut text) {
        head.insert_header(RATE_LIMIT_POLICY, HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(EMPTY))?;
        let mut text = Vec::with_capacity(32);
        limit.write_rate_limit(&mut text);
        head.insert_header(RATE_LIMIT, HeaderValue::from_maybe_shared(Bytes::from(text)).unwrap_or(EMPTY))?;
    }
    Ok(())
}

const EMPTY: HeaderValue = HeaderValue::from_static("");
