//! Dumps, and the records behind `/changes.json`: finds them, and writes the heads of their answers.
//!
//! [`crate::dumps`] writes them. Unlike snapshot answers, they have strong tags; a whole dump is sent from a file, so it has
//! ranges. Callers: [`super`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http::header::{ETAG, HeaderMap, RANGE};
use http::{Method, StatusCode};

use crate::api::links;
use crate::api::route::DumpKind;
use crate::dumps::{Built, CODINGS, DumpError, DumpPart, Freshness, NotSelected, Selected, Slugs};
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::{EntityTag, Precondition};
use crate::semantics::problem::Problem;
use crate::semantics::ranges::Ranged;
use crate::semantics::{coding, precondition, ranges};
use crate::snapshot::pointer::Snapshot;

use super::compose::{Answer, Asked, Body, ConstantHeaders, Outcome, about_body, of_snapshot};
use super::find::unselected;
use super::{Responder, head as fields};

/// How long a client waits while a dump is written; that goes on without it.
const PATIENCE: Duration = Duration::from_secs(30);

/// When to ask again: a mirror that has nothing yet, a dump that is being written, a disk that takes no more, in seconds.
const NO_SNAPSHOT: u64 = 30;
const STILL_WRITING: u64 = 5;
const FAILED: u64 = 60;

/// What an answer is sent from.
enum Source {
    File(Arc<Built>),
    /// Some listings, with the tag of what is sent.
    Selected(Selected, EntityTag),
}

/// `Content-Type` and `Content-Disposition`.
type Kind = (&'static str, &'static str);

/// The kind of `/changes.ndjson`.
const RECORDS: Kind = (DumpKind::Ndjson.media_type(), "attachment; filename=\"changes.ndjson\"");

impl Responder {
    /// The answer from a dump.
    pub(super) async fn dump(
        &self,
        constant_headers: &ConstantHeaders,
        mut asked: Asked<'_>,
        (kind, slugs): (DumpKind, Slugs),
        client: IpAddr,
    ) -> Result<Answer, Problem> {
        let dumps = self.dumps.as_ref().ok_or_else(|| Problem::unknown_path(kind.path()))?;
        let (coding, source, published) = if slugs.iter().any(Option::is_some) {
            let (selected, published, tag) = dumps.select(kind, slugs, client).await.map_err(not_selected)?;
            (Coding::Identity, Source::Selected(selected, tag), published)
        } else {
            // What decodes by itself decodes no part of a coded file.
            let coded = asked.coding != Coding::Identity && !asked.headers.contains_key(RANGE);
            let coding = if coded { coding::negotiate(asked.headers, &CODINGS) } else { Coding::Identity };
            match tokio::time::timeout(PATIENCE, dumps.get(kind, coding, Freshness::WithinTtl)).await {
                Ok(Ok((built, published))) => (coding, Source::File(built), published),
                Ok(Err(error)) => return Err(told(&error)),
                Err(_elapsed) => {
                    return Err(Problem::dump_unavailable("The dump is being written").after(STILL_WRITING));
                }
            }
        };
        asked.now = self.clock.now();
        let kind = (kind.media_type(), kind.disposition(matches!(source, Source::Selected(..))));
        Ok(constant_headers.file(asked, kind, coding, source, &published))
    }

    /// What has changed since a snapshot, with the records.
    pub(super) async fn change_records(
        &self,
        constant_headers: &ConstantHeaders,
        mut asked: Asked<'_>,
        since: Result<Box<str>, Problem>,
        client: IpAddr,
    ) -> Result<Answer, Problem> {
        let dumps = self.dumps.as_ref().filter(|_| self.finder.current.load().is_some());
        let dumps = dumps.ok_or_else(|| Problem::unknown_path("/changes.ndjson"))?;
        let (selected, published, tag) = dumps.changes(since?, client).await.map_err(unchanged)?;
        asked.now = self.clock.now();
        let source = Source::Selected(selected, tag);
        Ok(constant_headers.file(asked, RECORDS, Coding::Identity, source, &published))
    }
}

/// Why the changes cannot be told.
fn unchanged(why: NotSelected) -> Problem {
    let NotSelected::Dump(error) = why else { return not_selected(why) };
    tracing::warn!(%error, "the changes since a snapshot cannot be read");
    Problem::unavailable("The changes cannot be read; the server's log says why").after(FAILED)
}

/// Why a part of the snapshot cannot be sent.
fn not_selected(why: NotSelected) -> Problem {
    match why {
        NotSelected::Dump(error) => told(&error),
        NotSelected::Unselected(why) => unselected(&why, Problem::dump_unavailable),
        NotSelected::Unknown { since, current } => Problem::changes_unknown(&*since, current.as_str()),
        NotSelected::Many => {
            Problem::unavailable("Other downloads of changes by this client go on").after(STILL_WRITING)
        }
    }
}

/// The error for the client; the log has the details.
fn told(error: &DumpError) -> Problem {
    match error {
        DumpError::Nothing => Problem::dump_unavailable("There is no snapshot yet").after(NO_SNAPSHOT),
        DumpError::Columns(most) => {
            let why = format!(
                "The listings have more than {most} different fields, too many for a table; /dumps/listings.ndjson has all"
            );
            Problem::dump_unavailable(&why).after(86_400)
        }
        DumpError::Summary { .. } | DumpError::Store(_) | DumpError::Io(_) | DumpError::Aborted(_) => {
            Problem::dump_unavailable("The dump cannot be written; the server's log says why").after(FAILED)
        }
    }
}

impl ConstantHeaders {
    /// An answer that a client saves as a file.
    fn file(&self, asked: Asked<'_>, kind: Kind, coding: Coding, source: Source, published: &Snapshot) -> Answer {
        let (tag, length) = match &source {
            Source::File(built) => (&built.tag, Some(built.length)),
            Source::Selected(_, tag) => (tag, None),
        };
        let state = precondition::evaluate(asked.method, asked.headers, Some(tag));
        // RFC 9110 §13.2.2: the range counts after the conditions; §14.2: of GET only.
        let ranged = match state {
            Precondition::Failed => return self.problem(asked, &Problem::file_changed()),
            Precondition::Proceed if *asked.method == Method::GET => length.map_or(Ranged::Whole, |length| {
                let tag = HeaderMap::from_iter([(ETAG, tag.to_header_value())]);
                ranges::select(asked.headers, StatusCode::OK, &tag, length)
            }),
            Precondition::Proceed | Precondition::NotModified => Ranged::Whole,
        };
        let all = length.unwrap_or(0);
        let (status, from, to, content_range) = match (state, ranged) {
            (_, Ranged::Unsatisfiable { content_range }) => {
                let mut answer = self.problem(asked, &Problem::range_not_satisfiable(all));
                answer.fields.put(&fields::CONTENT_RANGE, content_range);
                return answer;
            }
            (Precondition::NotModified, _) => (StatusCode::NOT_MODIFIED, 0, 0, None),
            (_, Ranged::Whole) => (StatusCode::OK, 0, all, None),
            (_, Ranged::Part { first, last, content_range }) => {
                (StatusCode::PARTIAL_CONTENT, first, last + 1, Some(content_range))
            }
        };
        let age = self.age(published, asked.now);
        let outcome = CacheOutcome::Hit { ttl: self.ages.then(|| self.ttl - i64::from(age)) };
        let mut answer = Answer::new(status, asked, Outcome::Cache(outcome));
        answer.age = self.lifetime(self.ages.then_some(age), false);
        let fields = &mut answer.fields;
        if status != StatusCode::NOT_MODIFIED {
            about_body(fields, kind.0, coding);
            fields.put_static(&fields::CONTENT_DISPOSITION, kind.1);
            if length.is_some() {
                fields.put_number(&fields::CONTENT_LENGTH, to - from);
            }
            if let Some(content_range) = content_range {
                fields.put(&fields::CONTENT_RANGE, content_range);
            }
        }
        fields.put(&fields::CACHE_CONTROL, self.cache_control.clone());
        fields.put(&fields::ETAG, tag.to_header_value());
        if let Some(link) = links::license(published.license.as_deref()) {
            fields.put(&fields::LINK, link);
        }
        if length.is_some() {
            fields.put_static(&fields::VARY, "accept-encoding");
        }
        fields.put_static(&fields::ACCEPT_RANGES, if length.is_some() { "bytes" } else { "none" });
        for (field, value) in of_snapshot(published, asked.now.wall) {
            fields.put(field, value.clone());
        }
        if *asked.method != Method::HEAD && status != StatusCode::NOT_MODIFIED {
            answer.body = Body::Rest(match source {
                Source::File(built) => Box::pin(stream::unfold(DumpPart::new(built, from, to), |mut part| async {
                    Some((part.next().await?, part))
                })),
                Source::Selected(selected, _) => Box::pin(stream::unfold(selected, |mut selected| async {
                    Some((selected.next().await?, selected))
                })),
            });
        }
        answer
    }
}
