//! Head of an origin's answer: its fields and ours, after the client's conditions and ranges.
//!
//! Any field may be in it, any number of times, and the 304 and the part are made by taking fields away. Callers:
//! [`crate::edge::answer`].

use std::io;

use bytes::Bytes;
use futures_util::stream;
use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, EXPIRES, HeaderMap, HeaderValue, LINK, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};

use crate::clock::Monotonic;
use crate::data::cache::coded::Coded;
use crate::data::cache::reply::Stored;
use crate::edge::answer::head as fields;
use crate::edge::answer::head::Fields;
use crate::edge::proxy::spool::Reader;
use crate::protocol::cache_status::CacheOutcome;
use crate::protocol::coding::Coding;
use crate::protocol::precondition::Precondition;
use crate::protocol::problem::Problem;
use crate::protocol::ranges::Ranged;
use crate::protocol::{precondition, ranges};

use super::{Age, Answer, Asked, Body, ConstantHeaders, NOSNIFF, Outcome, SANDBOX};

impl ConstantHeaders {
    /// A complete answer of the origin. `now`: for its age.
    pub(crate) fn stored(&self, asked: Asked<'_>, stored: &Stored, outcome: CacheOutcome, now: Monotonic) -> Answer {
        let (mut head, seconds) = (stored.fields.clone(), stored.age(now).as_secs());
        let (status, body) = match conditions(asked, stored.status, &head) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed()),
            Precondition::NotModified => (not_modified(&mut head), None),
            Precondition::Proceed if asked.passes => part(&mut head, asked, stored),
            Precondition::Proceed => (stored.status, represent(&mut head, asked, &stored.body)),
        };
        let expires = if asked.passes { None } else { self.of_a_known_endpoint(&mut head, stored, seconds) };
        // Ours counts from now on.
        head.remove(AGE);
        let mut answer = of_the_origin(head, status, asked, outcome);
        answer.age = Some(Age { seconds, expires });
        answer.body = body.map_or(Body::None, Body::Whole);
        answer
    }

    /// The fields that answers of known endpoints have from us, and `X-Accel-Expires` if they say how long it may be
    /// kept.
    fn of_a_known_endpoint(&self, head: &mut HeaderMap, stored: &Stored, age: u64) -> Option<i64> {
        // Ours where the origin sends neither.
        let is_ours = !head.contains_key(CACHE_CONTROL) && !head.contains_key(EXPIRES);
        if is_ours {
            head.insert(CACHE_CONTROL, self.cache_control.clone());
            head.remove(fields::X_ACCEL_EXPIRES.name());
        }
        if let Some(link) = &stored.link {
            head.append(LINK, link.clone());
        }
        confine(head);
        head.insert(VARY, HeaderValue::from_static("accept-encoding"));
        head.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
        is_ours.then(|| self.left(i64::try_from(age).unwrap_or(i64::MAX)))
    }

    /// An answer of an unknown path whose body is on its way.
    pub(crate) fn streamed(
        &self,
        asked: Asked<'_>,
        status: StatusCode,
        fields: &HeaderMap,
        body: Option<Reader>,
        outcome: CacheOutcome,
    ) -> Answer {
        let mut head = fields.clone();
        match conditions(asked, status, &head) {
            Precondition::Failed => self.problem(asked, &Problem::precondition_failed()),
            Precondition::NotModified => {
                let status = not_modified(&mut head);
                of_the_origin(head, status, asked, outcome)
            }
            Precondition::Proceed => {
                let none = *asked.method == Method::HEAD
                    || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::RESET_CONTENT);
                let mut answer = of_the_origin(head, status, asked, outcome);
                answer.body = match body {
                    _ if none => Body::None,
                    Some(body) => Body::Rest(Box::pin(stream::unfold(body, |mut body| async {
                        let piece = body.next().await?;
                        Some((piece.map_err(io::Error::other), body))
                    }))),
                    None => Body::Whole(Bytes::new()),
                };
                answer
            }
        }
    }
}

/// Puts a body that browsers may run into a sandbox. Known endpoints answer with data; a page of theirs is an error,
/// which may repeat what a client asked for as markup, and it comes from our host.
fn confine(head: &mut HeaderMap) {
    let is_inert = |value: &HeaderValue| {
        let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        let essence = media_type.trim().to_ascii_lowercase();
        let is_json = essence.starts_with("application/") && essence.ends_with("+json");
        is_json || matches!(essence.as_str(), "application/json" | "text/plain")
    };
    if !head.get_all(CONTENT_TYPE).iter().all(is_inert) {
        head.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    }
}

/// An answer of the origin, without its body.
fn of_the_origin(mut head: HeaderMap, status: StatusCode, asked: Asked<'_>, outcome: CacheOutcome) -> Answer {
    let mut answer = Answer::new(status, asked, Outcome::Cache(outcome));
    // Browsers must not guess what a body is, where there may be one.
    if !matches!(status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
        head.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static(NOSNIFF));
    }
    // Ours replace the origin's, except in `Cache-Status`, which is a list.
    let limit: &[_] =
        if asked.limit.quota().is_some() { &[&fields::RATE_LIMIT, &fields::RATE_LIMIT_POLICY] } else { &[] };
    let id: &[_] = if answer.outcome.shows_id() { &[&fields::X_REQUEST_ID] } else { &[] };
    let cors = [&fields::ACCESS_CONTROL_ALLOW_ORIGIN, &fields::ACCESS_CONTROL_EXPOSE_HEADERS];
    for field in cors.iter().chain(limit).chain(id) {
        head.remove(field.name());
    }
    answer.fields = Fields::from(head);
    answer
}

/// The body in the coding that the client likes best, unless only the head was asked for; its length and coding go into
/// the head.
fn represent(head: &mut HeaderMap, asked: Asked<'_>, body: &Coded) -> Option<Bytes> {
    let (coding, body) = body.variant(asked.coding);
    head.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if coding != Coding::Identity {
        head.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
    }
    (*asked.method != Method::HEAD).then_some(body)
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
        head.insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
        return (stored.status, None);
    }
    match ranges::select(asked.headers, stored.status, head, whole.len() as u64) {
        Ranged::Whole => {
            head.insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
            (stored.status, Some(whole.clone()))
        }
        Ranged::Part { first, last, content_range } => {
            let (first, last) = (first as usize, last as usize);
            let body = whole.get(first..=last).map_or_else(Bytes::new, |part| whole.slice_ref(part));
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
