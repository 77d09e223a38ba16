//! Documents of this server and dumps: finds them, and writes the heads of their answers.
//!
//! [`crate::pages`] makes documents, [`crate::dumps`] writes dumps. Unlike snapshot answers, a dump has a strong tag and is
//! sent from a file, so it has ranges. Callers: [`super`], [`super::find`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_RANGE, ETAG, HeaderMap, RANGE};
use http::{HeaderValue, Method, StatusCode};
use memchr::memmem;

use crate::api::links;
use crate::api::listing::ListingId;
use crate::api::route::{DumpKind, HealthCheck, WantedDocument};
use crate::cache::Key;
use crate::cache::reply::{Confinement, Lifetime, Rendered};
use crate::clock::{Now, WallTime};
use crate::dumps::{Built, CODINGS, DumpBody, DumpError, DumpPart, Freshness, NotSelected, Selected, Slugs};
use crate::limit::Decision;
use crate::mirror::details::Details;
use crate::pages::{DetailShown, Unrendered};
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::{EntityTag, Precondition};
use crate::semantics::problem::Problem;
use crate::semantics::ranges::Ranged;
use crate::semantics::{coding, precondition, problem, ranges};
use crate::snapshot::pointer::Snapshot;
use crate::store::DetailState;

use super::compose::{Answer, Asked, ConstantHeaders, NO_STORE, NOSNIFF, Outcome, about_body, common};
use super::find::{Finder, Found, unselected};
use super::head::Head;
use super::{Responder, head as fields};

/// A page loads nothing but what is ours, and nobody may frame it.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                           base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The same for the viewer of the API's description, which styles itself and brings its images along.
const VIEWER_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                             connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// For what changes with the program only.
const A_DAY: &str = "public, max-age=86400";

/// After how many seconds a client may ask again for what shows the first snapshot.
const NO_SNAPSHOT_FOR: u64 = 30;

/// Makes pages of errors.
#[derive(Clone, Copy)]
pub struct ErrorPages<'a> {
    finder: &'a Finder,
    target: &'a [u8],
}

impl std::fmt::Debug for ErrorPages<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ErrorPages").field("target", &self.target.escape_ascii()).finish_non_exhaustive()
    }
}

impl<'a> ErrorPages<'a> {
    /// For a request with this target.
    pub(super) fn of(finder: &'a Finder, target: &'a [u8]) -> Self {
        Self { finder, target }
    }

    fn path(&self) -> &'a [u8] {
        self.target.split(|byte| *byte == b'?').next().unwrap_or_default()
    }

    /// Whether a browser may get a page here: not below `/api/`.
    pub(super) fn are_offered(&self) -> bool {
        self.finder.settings.load().pages.enabled && memmem::find(self.path(), b"/api/").is_none()
    }

    /// The body of an error, with its type in `head`; `again`: the seconds of `Retry-After`.
    pub(super) fn problem(
        &self,
        headers: &HeaderMap,
        problem: &Problem,
        again: Option<u64>,
        head: &mut impl Head,
    ) -> Bytes {
        head.put_static(&fields::VARY, "accept");
        if !coding::prefers_html(headers) {
            head.put_static(&fields::CONTENT_TYPE, problem::CONTENT_TYPE);
            return problem.to_json();
        }
        head.put_static(&fields::CONTENT_TYPE, "text/html; charset=utf-8");
        head.put_static(&fields::REFERRER_POLICY, "same-origin");
        head.put_static(&fields::CONTENT_SECURITY_POLICY, PAGE_POLICY);
        if let Some(seconds) = again {
            head.put_number(&fields::REFRESH, seconds);
        }
        let is_missing = problem.status() == StatusCode::SERVICE_UNAVAILABLE
            && self.finder.details.is_some()
            && self.finder.current.load().is_none();
        let first_copy = self.finder.origin.as_ref().filter(|_| is_missing).and_then(|origin| origin.picture().pass);
        self.finder.pages.load().problem(problem, self.path(), again, first_copy).into()
    }
}

impl Finder {
    /// Finds a document for a client that likes `coding` best.
    pub(super) async fn document(&self, mut wanted: WantedDocument, coding: Coding) -> Found {
        let pages = self.pages.load_full();
        if let WantedDocument::Asset(name) = &wanted
            && let Some(packed) = pages.packed(name, coding)
        {
            return Found::Document { document: packed, published: None };
        }
        let published = if wanted.shows_data() { self.current.get() } else { None };
        if let (WantedDocument::Explore(query), Some(published)) = (&mut wanted, &published)
            && query.page > 1
        {
            // All pages beyond the last one are the last one: clients choose any number.
            let total = published.dataset.find(query).map_or(0, |found| found.total);
            query.page = query.page.min(query.total_pages(total).max(1));
        }
        let epoch = published.as_ref().map_or(0, |published| published.epoch);
        let key = Key::Document(wanted.clone());
        let kept = self.cache.rendered(&key);
        if let Some(document) = kept.clone().filter(|kept| kept.epoch() == epoch) {
            document.prepare(coding).await;
            return Found::Document { document, published };
        }
        let revision = self.details.as_ref().map(Details::revision);
        let detail = match (&wanted, &published) {
            (WantedDocument::Venue(id), Some(_)) => self.detail_shown(*id).await,
            _ => DetailShown::Missing,
        };
        // Rendering takes a millisecond, the map of a large snapshot longer: other clients of this thread must not
        // wait.
        let (renderer, shown) = (pages.clone(), published.clone());
        // Never closed.
        let turn = self.rendering.acquire().await;
        let rendering = tokio::task::spawn_blocking(move || renderer.render(&wanted, shown.as_deref(), &detail));
        let rendered = rendering.await;
        drop(turn);
        match rendered {
            Ok(Ok(made)) => {
                let document = self.cache.keep_rendered(key.clone(), kept.as_ref(), made);
                let is_venue = matches!(&key, Key::Document(WantedDocument::Venue(_)));
                let is_outdated = is_venue && self.details.as_ref().map(Details::revision) != revision;
                if is_outdated || !Arc::ptr_eq(&pages, &self.pages.load()) {
                    // A detail or a reload came in between.
                    self.cache.forget(&key);
                }
                document.prepare(coding).await;
                Found::Document { document, published }
            }
            Ok(Err(Unrendered::NoSuchAsset(name))) => Problem::unknown_path(&*name).into(),
            Ok(Err(Unrendered::UnknownVenue(id))) => Problem::unknown_listing(id.to_string()).into(),
            Ok(Err(Unrendered::NoSnapshot)) => {
                let (why, retry_after) = match &self.details {
                    Some(_) => ("There is no snapshot yet", NO_SNAPSHOT_FOR),
                    None => ("A shield keeps no snapshot", 86_400),
                };
                Found::Problem { problem: Problem::unavailable(why), retry_after: Some(retry_after) }
            }
            Err(error) => {
                tracing::error!(%error, "a page could not be rendered");
                Problem::internal().into()
            }
        }
    }
}

impl Finder {
    /// The mirrored detail of a listing, for its page; the origin is not asked.
    async fn detail_shown(&self, id: ListingId) -> DetailShown {
        let Some(details) = &self.details else { return DetailShown::Missing };
        match details.read(id).await {
            Ok(Some(record)) if record.meta.state == DetailState::Gone => DetailShown::Gone,
            Ok(Some(record)) => DetailShown::Mirrored(record.body),
            Ok(None) => DetailShown::Missing,
            Err(error) => {
                tracing::error!(%error, %id, "a stored detail cannot be read");
                DetailShown::Missing
            }
        }
    }

    /// What a probe hears, and whether all is well.
    pub(super) fn probed(&self, probe: HealthCheck) -> (StatusCode, &'static str) {
        match probe {
            HealthCheck::Live => (StatusCode::OK, "alive\n"),
            // A shield has no snapshots, and no details of them.
            HealthCheck::Ready if self.details.is_none() || self.current.load().is_some() => {
                (StatusCode::OK, "ready\n")
            }
            HealthCheck::Ready => (StatusCode::SERVICE_UNAVAILABLE, "unready\n"),
        }
    }
}

/// The answer to a request for what has another path, in `head`.
pub(super) fn moved<H: Head>(asked: Asked<'_>, to: &HeaderValue, mut head: H) -> Answer<H> {
    let status = StatusCode::MOVED_PERMANENTLY;
    head.begin(status);
    head.put(&fields::LOCATION, to);
    head.put_number(&fields::CONTENT_LENGTH, 0);
    head.put_static(&fields::CACHE_CONTROL, A_DAY);
    common(&mut head, asked.limit);
    Answer { status, head, body: None, outcome: Outcome::Document }
}

/// The answer to a probe, in `head`.
pub(super) fn probe<H: Head>(method: &Method, (status, word): (StatusCode, &'static str), mut head: H) -> Answer<H> {
    head.begin(status);
    head.put_static(&fields::CONTENT_TYPE, "text/plain; charset=utf-8");
    head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    head.put_number(&fields::CONTENT_LENGTH, word.len());
    head.put_static(&fields::CACHE_CONTROL, NO_STORE);
    common(&mut head, Decision::Unlimited);
    let body = (*method != Method::HEAD).then_some(Bytes::from_static(word.as_bytes()));
    Answer { status, head, body, outcome: Outcome::Document }
}

impl ConstantHeaders {
    /// A document of this server, in `head`.
    pub(super) fn document<H: Head>(
        &self,
        asked: Asked<'_>,
        document: &Rendered,
        published: Option<&Arc<Snapshot>>,
        now: WallTime,
        mut head: H,
    ) -> Answer<H> {
        let (coding, variant, tag) = document.variant(asked.coding);
        let status = match asked.precondition(tag) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None, head),
            Precondition::NotModified => StatusCode::NOT_MODIFIED,
            Precondition::Proceed => StatusCode::OK,
        };
        let whole = status == StatusCode::OK;
        head.begin(status);
        if whole {
            let policy =
                |policy| [(&fields::REFERRER_POLICY, "same-origin"), (&fields::CONTENT_SECURITY_POLICY, policy)];
            let more = match document.kind.confinement {
                Confinement::None => &policy("")[..1],
                Confinement::Page => &policy(PAGE_POLICY)[..],
                Confinement::Viewer => &policy(VIEWER_POLICY)[..],
            };
            about_body(&mut head, document.kind.content_type, more, Some(&variant.length), coding);
        }
        match document.kind.lifetime {
            Lifetime::Revalidated => head.put_static(&fields::CACHE_CONTROL, "public, no-cache"),
            Lifetime::OfAnswers => head.put(&fields::CACHE_CONTROL, &self.cache_control),
            Lifetime::Day => head.put_static(&fields::CACHE_CONTROL, A_DAY),
            Lifetime::Immutable => head.put_static(&fields::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        }
        if let Some(tag) = tag {
            head.put(&fields::ETAG, &tag.to_header_value());
        }
        let vary = if document.kind.varies_by_accept { "Accept, Accept-Encoding" } else { "Accept-Encoding" };
        head.put_static(&fields::VARY, vary);
        head.put_static(&fields::ACCEPT_RANGES, "none");
        if let Some(published) = published {
            Self::of_snapshot(published, now, &mut head);
        }
        common(&mut head, asked.limit);
        let body = (whole && *asked.method != Method::HEAD).then(|| variant.body.clone());
        Answer { status, head, body, outcome: Outcome::Document }
    }
}

/// How long a client waits while a dump is written; that goes on without it.
const PATIENCE: Duration = Duration::from_secs(30);

/// When to ask again: a mirror that has nothing yet, a dump that is being written, a disk that takes no more, in seconds.
const NO_SNAPSHOT: u64 = 30;
const STILL_WRITING: u64 = 5;
const FAILED: u64 = 60;

/// What a dump is sent from.
enum Source {
    File(Arc<Built>),
    /// Some listings, with the tag of what is sent.
    Selected(Selected, EntityTag),
}

impl Responder {
    /// The answer from a dump, or the problem with the seconds after which another try makes sense.
    pub(super) async fn dump(
        &self,
        asked: Asked<'_>,
        kind: DumpKind,
        slugs: Slugs,
    ) -> Result<(Answer, Option<DumpBody>), (Problem, Option<u64>)> {
        let Some(dumps) = &self.dumps else { return Err((Problem::unknown_path(kind.path()), None)) };
        if slugs.iter().any(Option::is_some) {
            let (selected, published, tag) = dumps.select(kind, slugs).await.map_err(not_selected)?;
            let source = Source::Selected(selected, tag);
            let coding = Coding::Identity;
            return Ok(self.constant_headers.load().dump(asked, kind, coding, source, &published, self.clock.now()));
        }
        // What decodes by itself decodes no part of a coded file.
        let coded = asked.coding != Coding::Identity && !asked.headers.contains_key(RANGE);
        let coding = if coded { coding::negotiate(asked.headers, &CODINGS) } else { Coding::Identity };
        let ready = tokio::time::timeout(PATIENCE, dumps.get(kind, coding, Freshness::WithinTtl)).await;
        let (built, published) = match ready {
            Ok(Ok(ready)) => ready,
            Ok(Err(error)) => return Err(told(&error)),
            Err(_elapsed) => return Err((Problem::dump_unavailable("The dump is being written"), Some(STILL_WRITING))),
        };
        let source = Source::File(built);
        Ok(self.constant_headers.load().dump(asked, kind, coding, source, &published, self.clock.now()))
    }
}

/// Why a part of the snapshot cannot be sent.
fn not_selected(why: NotSelected) -> (Problem, Option<u64>) {
    match why {
        NotSelected::Dump(error) => told(&error),
        NotSelected::Unselected(why) => unselected(&why, Problem::dump_unavailable),
    }
}

/// The error for the client; the log has the details.
fn told(error: &DumpError) -> (Problem, Option<u64>) {
    let (problem, after) = match error {
        DumpError::Nothing => (Problem::dump_unavailable("There is no snapshot yet"), NO_SNAPSHOT),
        DumpError::Columns(most) => {
            let why = format!(
                "The listings have more than {most} different fields, too many for a table; /dumps/listings.ndjson has all"
            );
            (Problem::dump_unavailable(&why), 86_400)
        }
        DumpError::Summary { .. } | DumpError::Store(_) | DumpError::Io(_) | DumpError::Aborted(_) => {
            (Problem::dump_unavailable("The dump cannot be written; the server's log says why"), FAILED)
        }
    };
    (problem, Some(after))
}

impl ConstantHeaders {
    /// An answer from a dump, and its body.
    fn dump(
        &self,
        asked: Asked<'_>,
        kind: DumpKind,
        coding: Coding,
        source: Source,
        published: &Snapshot,
        now: Now,
    ) -> (Answer, Option<DumpBody>) {
        let problem = |problem: &Problem| self.problem(asked, problem, None, HeaderMap::new());
        let (tag, length) = match &source {
            Source::File(built) => (&built.tag, Some(built.length)),
            Source::Selected(_, tag) => (tag, None),
        };
        let state = precondition::evaluate(asked.method, asked.headers, Some(tag));
        // RFC 9110 §13.2.2: the range counts after the conditions; §14.2: of GET only.
        let ranged = match state {
            Precondition::Failed => return (problem(&Problem::dump_changed()), None),
            Precondition::Proceed if *asked.method == Method::GET => length.map_or(Ranged::Whole, |length| {
                let tag = HeaderMap::from_iter([(ETAG, tag.to_header_value())]);
                ranges::select(asked.headers, StatusCode::OK, &tag, length)
            }),
            Precondition::Proceed | Precondition::NotModified => Ranged::Whole,
        };
        let all = length.unwrap_or(0);
        let (status, from, to, content_range) = match (state, ranged) {
            (_, Ranged::Unsatisfiable { content_range }) => {
                let mut answer = problem(&Problem::range_not_satisfiable(all));
                answer.head.insert(CONTENT_RANGE, content_range);
                return (answer, None);
            }
            (Precondition::NotModified, _) => (StatusCode::NOT_MODIFIED, 0, 0, None),
            (_, Ranged::Whole) => (StatusCode::OK, 0, all, None),
            (_, Ranged::Part { first, last, content_range }) => {
                (StatusCode::PARTIAL_CONTENT, first, last + 1, Some(content_range))
            }
        };
        let mut head = HeaderMap::new();
        head.begin(status);
        if status != StatusCode::NOT_MODIFIED {
            let more = [(&fields::CONTENT_DISPOSITION, kind.disposition())];
            let length = length.map(|_| HeaderValue::from(to - from));
            about_body(&mut head, kind.media_type(), &more, length.as_ref(), coding);
            if let Some(content_range) = &content_range {
                head.put(&fields::CONTENT_RANGE, content_range);
            }
        }
        let age = self.age(published, now);
        self.lifetime(&mut head, self.ages.then_some(age), None);
        head.put(&fields::ETAG, &tag.to_header_value());
        if let Some(link) = links::license(published.license.as_deref()) {
            head.put(&fields::LINK, &link);
        }
        match length {
            Some(_) => {
                head.put_static(&fields::VARY, "accept-encoding");
                head.put_static(&fields::ACCEPT_RANGES, "bytes");
            }
            None => head.put_static(&fields::ACCEPT_RANGES, "none"),
        }
        Self::of_snapshot(published, now.wall, &mut head);
        let outcome = CacheOutcome::Hit { ttl: self.ages.then(|| self.ttl - i64::from(age)) };
        head.put_with(&fields::CACHE_STATUS, |out| outcome.write_to(out));
        common(&mut head, asked.limit);
        let sends = *asked.method != Method::HEAD && status != StatusCode::NOT_MODIFIED;
        let body = sends.then(Bytes::new);
        let rest = match source {
            Source::File(built) => DumpBody::Part(DumpPart::new(built, from, to)),
            Source::Selected(selected, _) => DumpBody::Selected(selected),
        };
        (Answer { status, head, body, outcome: Outcome::Cache(outcome) }, Some(rest).filter(|_| sends))
    }
}
