//! Lookup of dumps and of the records behind `/changes.json`, and the heads of their answers.
//!
//! [`crate::edge::dumps`] renders them while they are sent, so that they have neither a length nor ranges. Callers:
//! [`super`].

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::stream;
use http::{Method, StatusCode};

use crate::api::links;
use crate::api::query::file::FileQuery;
use crate::api::route::DumpKind;
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::dumps::{CODINGS, Download, DumpError, NotSelected};
use crate::protocol::cache_status::CacheOutcome;
use crate::protocol::coding::{self, Coding};
use crate::protocol::precondition::{self, EntityTag, Precondition};
use crate::protocol::problem::Problem;

use super::admit::FileTarget;
use super::compose::{Answer, Asked, Body, ConstantHeaders, Outcome, about_body, of_snapshot};
use super::find::{no_snapshot, unsearched, unselected};
use super::{Responder, head as fields};

/// When to ask again: a mirror that has nothing yet, other files that are being made, a file that cannot be made, in
/// seconds.
const NO_SNAPSHOT: u64 = 30;
const BUSY: u64 = 5;
const FAILED: u64 = 60;

/// `Content-Type` and `Content-Disposition`.
type Kind = (&'static str, &'static str);

const RECORDS: Kind = (DumpKind::Ndjson.media_type(), "attachment; filename=\"changes.ndjson\"");

/// What comes before the content of a file.
struct FileHead {
    kind: Kind,
    coding: Coding,
    /// Whether it might be sent in another coding.
    negotiates: bool,
    tag: EntityTag,
    published: Arc<Snapshot>,
    state: Precondition,
}

impl Responder {
    pub(super) async fn file(
        &self,
        constant_headers: &ConstantHeaders,
        asked: Asked<'_>,
        file: FileTarget,
        client: IpAddr,
    ) -> Result<Answer, Problem> {
        match file {
            FileTarget::Dump(kind, query) => self.dump(constant_headers, asked, (kind, query), client).await,
            FileTarget::ChangeRecords { since } => self.change_records(constant_headers, asked, since, client).await,
        }
    }

    async fn dump(
        &self,
        constant_headers: &ConstantHeaders,
        mut asked: Asked<'_>,
        (kind, query): (DumpKind, FileQuery),
        client: IpAddr,
    ) -> Result<Answer, Problem> {
        let dumps = self.dumps.as_ref().ok_or_else(|| Problem::unknown_path(kind.path()))?;
        let about = (kind.media_type(), kind.disposition(query.search.is_some()));
        let chosen = dumps.choose(kind, query, client).await.map_err(not_selected)?;
        let is_coded = asked.coding != Coding::Identity;
        let wanted = if is_coded { coding::negotiate(asked.headers, &CODINGS) } else { Coding::Identity };
        let judged = |coding| {
            let tag = chosen.tag(coding).map_err(|error| told(&error.into()))?;
            let state = precondition::evaluate(asked.method, asked.headers, Some(&tag));
            Ok::<_, Problem>((coding, tag, state))
        };
        let (mut coding, mut tag, mut state) = judged(wanted)?;
        // A client that has the file needs no encoder.
        let coded = (wanted != Coding::Identity && state == Precondition::Proceed).then(|| chosen.may_code()).flatten();
        if wanted != Coding::Identity && state == Precondition::Proceed && coded.is_none() {
            (coding, tag, state) = judged(Coding::Identity)?;
        }
        let head = FileHead { kind: about, coding, negotiates: true, tag, published: chosen.published.clone(), state };
        let selected = match state {
            Precondition::Proceed if *asked.method != Method::HEAD => {
                Some(chosen.open(coding, coded).await.map_err(not_selected)?)
            }
            _ => None,
        };
        asked.now = self.clock.now();
        Ok(constant_headers.file(asked, head, selected))
    }

    /// What has changed since a snapshot, with the records.
    async fn change_records(
        &self,
        constant_headers: &ConstantHeaders,
        mut asked: Asked<'_>,
        since: Result<Box<str>, Problem>,
        client: IpAddr,
    ) -> Result<Answer, Problem> {
        // A wrong parameter is an error only where there is a snapshot.
        let dumps = self.dumps.as_ref().ok_or_else(|| Problem::unknown_path("/changes.ndjson"))?;
        self.finder.current.get().ok_or_else(no_snapshot)?;
        let (selected, published, tag) = dumps.changes(since?, client).await.map_err(unchanged)?;
        let state = precondition::evaluate(asked.method, asked.headers, Some(&tag));
        asked.now = self.clock.now();
        let head = FileHead { kind: RECORDS, coding: Coding::Identity, negotiates: false, tag, published, state };
        Ok(constant_headers.file(asked, head, Some(selected)))
    }
}

fn unchanged(why: NotSelected) -> Problem {
    let NotSelected::Dump(error) = why else { return not_selected(why) };
    tracing::warn!(%error, "the changes since a snapshot cannot be read");
    Problem::unavailable("The changes cannot be read; the server's log says why").after(FAILED)
}

fn not_selected(why: NotSelected) -> Problem {
    match why {
        NotSelected::Dump(error) => told(&error),
        NotSelected::Unselected(why) => unselected(&why, Problem::dump_unavailable),
        NotSelected::Searched(why) => unsearched(why),
        NotSelected::Ignored(word) => Problem::bad_parameter(
            "q",
            word.as_bytes(),
            "must be words that venues have: a search leaves others out, a file does not",
        ),
        NotSelected::Unknown { since, current } => Problem::changes_unknown(&*since, current.as_str()),
        NotSelected::Many => Problem::unavailable("Other downloads of this client go on").after(BUSY),
        NotSelected::Busy => Problem::dump_unavailable("Other files are being made").after(BUSY),
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
        DumpError::Shared(error) => told(error),
        DumpError::Summary { .. } | DumpError::Store(_) | DumpError::Io(_) | DumpError::Aborted(_) => {
            tracing::warn!(%error, "a dump cannot be made");
            Problem::dump_unavailable("The dump cannot be made; the server's log says why").after(FAILED)
        }
    }
}

impl ConstantHeaders {
    /// An answer that a client saves as a file.
    fn file(&self, asked: Asked<'_>, head: FileHead, selected: Option<Download>) -> Answer {
        let FileHead { kind, coding, negotiates, tag, published, state } = head;
        let status = match state {
            Precondition::Failed => return self.problem(asked, &Problem::file_changed()),
            Precondition::NotModified => StatusCode::NOT_MODIFIED,
            Precondition::Proceed => StatusCode::OK,
        };
        let age = self.age(&published, asked.now);
        let outcome = CacheOutcome::Hit { ttl: self.ages.then(|| self.ttl - i64::from(age)) };
        let mut answer = Answer::new(status, asked, Outcome::Cache(outcome));
        answer.age = self.lifetime(self.ages.then_some(age), false);
        let fields = &mut answer.fields;
        if status == StatusCode::OK {
            about_body(fields, kind.0, coding);
            fields.put_static(&fields::CONTENT_DISPOSITION, kind.1);
        }
        fields.put(&fields::CACHE_CONTROL, self.cache_control.clone());
        fields.put(&fields::ETAG, tag.to_header_value());
        if let Some(link) = links::license(published.license.as_deref()) {
            fields.put(&fields::LINK, link);
        }
        if negotiates {
            fields.put_static(&fields::VARY, "accept-encoding");
        }
        fields.put_static(&fields::ACCEPT_RANGES, "none");
        for (field, value) in of_snapshot(&published, asked.now.wall) {
            fields.put(field, value.clone());
        }
        if let Some(selected) = selected.filter(|_| status == StatusCode::OK && *asked.method != Method::HEAD) {
            answer.body = Body::Rest(Box::pin(stream::unfold(selected, |mut selected| async {
                Some((selected.next().await?, selected))
            })));
        }
        answer
    }
}
