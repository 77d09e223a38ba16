//! The head of an answer from a dump: conditions, then ranges, then headers.
//!
//! Unlike snapshot answers, a dump has a strong tag and is sent from a file, so it has ranges. Callers:
//! [`crate::answer::dump`].

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_RANGE, ETAG, HeaderMap};
use http::{Method, StatusCode};

use crate::api::links;
use crate::api::route::DumpKind;
use crate::clock::Now;
use crate::dumps::{Built, DumpPart};
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::{self, Precondition};
use crate::semantics::problem::Problem;
use crate::semantics::ranges::{self, Ranged};
use crate::snapshot::pointer::Snapshot;

use super::{Answer, Asked, ConstantHeaders, Head, NOSNIFF, Outcome, common, fields};

/// A dump that is at hand.
#[derive(Clone, Copy)]
pub(crate) struct FromDump<'a> {
    /// Which one.
    pub(crate) kind: DumpKind,
    /// In which coding.
    pub(crate) coding: Coding,
    /// The file.
    pub(crate) built: &'a Arc<Built>,
    /// Its snapshot.
    pub(crate) published: &'a Snapshot,
}

impl ConstantHeaders {
    /// An answer from a dump, and its body.
    pub(crate) fn dump(&self, asked: Asked<'_>, found: FromDump<'_>, now: Now) -> (Answer, Option<DumpPart>) {
        let FromDump { kind, coding, built, published } = found;
        let problem = |problem: &Problem| self.problem(asked, problem, None, HeaderMap::new());
        let state = precondition::evaluate(asked.method, asked.headers, Some(&built.tag));
        // RFC 9110 §13.2.2: the range counts after the conditions; §14.2: of GET only.
        let ranged = match state {
            Precondition::Failed => return (problem(&Problem::dump_changed()), None),
            Precondition::Proceed if *asked.method == Method::GET => {
                let tag = HeaderMap::from_iter([(ETAG, built.tag.to_header_value())]);
                ranges::select(asked.headers, StatusCode::OK, &tag, built.length)
            }
            Precondition::Proceed | Precondition::NotModified => Ranged::Whole,
        };
        let (status, from, to, content_range) = match (state, ranged) {
            (_, Ranged::Unsatisfiable { content_range }) => {
                let mut answer = problem(&Problem::range_not_satisfiable(built.length));
                answer.head.insert(CONTENT_RANGE, content_range);
                return (answer, None);
            }
            (Precondition::NotModified, _) => (StatusCode::NOT_MODIFIED, 0, 0, None),
            (_, Ranged::Whole) => (StatusCode::OK, 0, built.length, None),
            (_, Ranged::Part { first, last, content_range }) => {
                (StatusCode::PARTIAL_CONTENT, first, last + 1, Some(content_range))
            }
        };
        let mut head = HeaderMap::new();
        head.begin(status);
        if status != StatusCode::NOT_MODIFIED {
            head.put_static(&fields::CONTENT_TYPE, kind.media_type());
            head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
            head.put_static(&fields::CONTENT_DISPOSITION, kind.disposition());
            head.put_number(&fields::CONTENT_LENGTH, to - from);
            if coding != Coding::Identity {
                head.put_static(&fields::CONTENT_ENCODING, coding.as_str());
            }
            if let Some(content_range) = &content_range {
                head.put(&fields::CONTENT_RANGE, content_range);
            }
        }
        let age = self.age(published, now);
        head.put(&fields::CACHE_CONTROL, &self.cache_control);
        if self.ages {
            head.put_number(&fields::AGE, age);
            head.put_number(&fields::X_ACCEL_EXPIRES, self.left(i64::from(age)));
        }
        head.put(&fields::ETAG, &built.tag.to_header_value());
        if let Some(link) = links::license(published.license.as_deref()) {
            head.put(&fields::LINK, &link);
        }
        head.put_static(&fields::VARY, "accept-encoding");
        head.put_static(&fields::ACCEPT_RANGES, "bytes");
        head.put(&fields::MIRROR_SNAPSHOT, &published.snapshot_header);
        if let Some(confirmed) = published.confirmed_header.as_ref().filter(|_| !published.is_unconfirmed(now.wall)) {
            head.put(&fields::MIRROR_CONFIRMED, confirmed);
        }
        let outcome = CacheOutcome::Hit { ttl: self.ages.then(|| self.ttl - i64::from(age)) };
        head.put_with(&fields::CACHE_STATUS, |out| outcome.write_to(out));
        common(&mut head, asked.limit);
        let sends = *asked.method != Method::HEAD && status != StatusCode::NOT_MODIFIED;
        let part = sends.then(|| DumpPart::new(built.clone(), from, to));
        let body = sends.then(Bytes::new);
        (Answer { status, head, body, outcome: Outcome::Cache(outcome) }, part)
    }
}
