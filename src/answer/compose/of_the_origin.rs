//! The head of an origin's answer: its fields and ours, after the client's conditions and ranges.
//!
//! The second way to write a head: a map, which HTTP/1 sends as lines afterwards ([`Head::adopt`]). Any field may be in
//! it, any number of times, and the 304 and the part are made by taking fields away. Answers from the snapshot, which
//! are nearly all of a mirror's, are written as lines at once: that saved 6,600 of the 33,600 instructions of a 304
//! (`benches/runs/2026-11-21-peers.md`). Callers: [`crate::answer`].

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, EXPIRES, HeaderMap, HeaderName, HeaderValue, LINK, VARY,
};
use http::{Method, StatusCode};

use crate::answer::head as fields;
use crate::answer::head::Head;
use crate::api::edges::lesson::{Family, family};
use crate::cache::coded::Coded;
use crate::cache::reply::Stored;
use crate::clock::Monotonic;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::Precondition;
use crate::semantics::problem::Problem;
use crate::semantics::ranges::Ranged;
use crate::semantics::{precondition, ranges};

use super::{Answer, Asked, ConstantHeaders, NOSNIFF, Outcome, SANDBOX, common};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

impl ConstantHeaders {
    /// A complete answer of the origin.
    pub fn stored(&self, asked: Asked<'_>, stored: &Stored, outcome: CacheOutcome, now: Monotonic) -> Answer {
        let (mut head, age) = (stored.fields.clone(), stored.age(now));
        let (status, body) = match conditions(asked, stored.status, &head) {
            Precondition::Failed => {
                return self.problem(asked, &Problem::precondition_failed(), None, HeaderMap::new());
            }
            Precondition::NotModified => (not_modified(&mut head), None),
            Precondition::Proceed if asked.passes => part(&mut head, asked, stored),
            Precondition::Proceed => (stored.status, represent(&mut head, asked, &stored.body)),
        };
        if !asked.passes {
            self.of_a_known_endpoint(&mut head, stored, age);
        }
        head.insert(AGE, HeaderValue::from(age.as_secs()));
        of_the_origin(head, status, body, asked, outcome)
    }

    /// The fields that answers of known endpoints have from us.
    fn of_a_known_endpoint(&self, head: &mut HeaderMap, stored: &Stored, age: Duration) {
        // Ours where the origin sends neither.
        if !head.contains_key(CACHE_CONTROL) && !head.contains_key(EXPIRES) {
            head.insert(CACHE_CONTROL, self.cache_control.clone());
            let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
            head.put_number(&fields::X_ACCEL_EXPIRES, self.left(age));
        }
        if let Some(link) = &stored.link {
            head.append(LINK, link.clone());
        }
        confine(head);
        head.insert(VARY, HeaderValue::from_static("accept-encoding"));
        head.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
    }

    /// The head of an answer of an unknown path whose body is on its way; `None` for the body means that none is sent,
    /// `Some` of nothing that it follows.
    pub fn streamed(&self, asked: Asked<'_>, status: StatusCode, fields: &HeaderMap, outcome: CacheOutcome) -> Answer {
        let mut head = fields.clone();
        let (status, body) = match conditions(asked, status, &head) {
            Precondition::Failed => {
                return self.problem(asked, &Problem::precondition_failed(), None, HeaderMap::new());
            }
            Precondition::NotModified => (not_modified(&mut head), None),
            Precondition::Proceed => {
                let none = *asked.method == Method::HEAD
                    || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::RESET_CONTENT);
                (status, (!none).then(Bytes::new))
            }
        };
        of_the_origin(head, status, body, asked, outcome)
    }
}

/// Puts a body that browsers may run into a sandbox. Known endpoints answer with data; a page of theirs is an error,
/// which may repeat what a client asked for as markup, and it comes from our host.
fn confine(head: &mut HeaderMap) {
    let is_inert = |value: &HeaderValue| value.to_str().ok().and_then(family) == Some(Family::Inert);
    if !head.get_all(CONTENT_TYPE).iter().all(is_inert) {
        head.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    }
}

/// Completes the head of what the origin answered.
fn of_the_origin(
    mut head: HeaderMap,
    status: StatusCode,
    body: Option<Bytes>,
    asked: Asked<'_>,
    outcome: CacheOutcome,
) -> Answer {
    // Browsers must not guess what a body is, where there may be one.
    if !matches!(status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
        head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    }
    head.append(CACHE_STATUS, outcome.to_header_value());
    common(&mut head, asked.limit);
    Answer { status, head, body, outcome: Outcome::Cache(outcome) }
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
    if evaluated { precondition::evaluate_stored(asked.method, asked.headers, fields) } else { Precondition::Proceed }
}

/// The part of a cached body that is sent.
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
    match ranges::select(asked.headers, stored.status, head, whole.body.len() as u64) {
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
