//! Documents of this server and dumps: finds them, and writes the heads of their answers.
//!
//! [`crate::pages`] makes documents, [`crate::dumps`] writes dumps. Unlike snapshot answers, a dump has a strong tag and is
//! sent from a file, so it has ranges. Callers: [`super`], [`super::find`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{ETAG, HeaderMap, RANGE};
use http::{HeaderValue, Method, StatusCode};
use memchr::memmem;

use crate::api::links;
use crate::api::listing::ListingId;
use crate::api::route::{DumpKind, HealthCheck, WantedDocument};
use crate::cache::Key;
use crate::cache::reply::{Confinement, Lifetime, Rendered};
use crate::dumps::{Built, CODINGS, DumpError, DumpPart, Freshness, NotSelected, Selected, Slugs};
use crate::limit::Decision;
use crate::mirror::details::Details;
use crate::pages::{DetailShown, MOST_SHOWN, Material, Unrendered};
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::client_address::household;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::{EntityTag, Precondition};
use crate::semantics::problem::Problem;
use crate::semantics::ranges::Ranged;
use crate::semantics::{coding, precondition, problem, ranges};
use crate::snapshot::pointer::Snapshot;
use crate::store::DetailState;
use crate::upstream::status::Progress;

use super::compose::{Answer, Asked, Body, ConstantHeaders, NO_STORE, Outcome, about_body, of_snapshot};
use super::find::{Finder, Found, unsearched, unselected};
use super::head::Fields;
use super::{Responder, head as fields};

/// A page loads nothing but what is ours, and nobody may frame it.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                           base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The same, but other sites may frame it.
const WIDGET_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                             base-uri 'none'; form-action 'self'; frame-ancestors *";

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

    /// The body of an error, with its type in `fields`; `again`: the seconds of `Retry-After`.
    pub(super) fn problem(
        &self,
        headers: &HeaderMap,
        problem: &Problem,
        again: Option<u64>,
        fields: &mut Fields,
    ) -> Bytes {
        fields.put_static(&fields::VARY, "accept");
        if !coding::prefers_html(headers) {
            fields.put_static(&fields::CONTENT_TYPE, problem::CONTENT_TYPE);
            return problem.to_json();
        }
        fields.put_static(&fields::CONTENT_TYPE, "text/html; charset=utf-8");
        fields.put_static(&fields::REFERRER_POLICY, "same-origin");
        fields.put_static(&fields::CONTENT_SECURITY_POLICY, PAGE_POLICY);
        if let Some(seconds) = again {
            fields.put_number(&fields::REFRESH, seconds);
        }
        let is_missing = problem.status() == StatusCode::SERVICE_UNAVAILABLE;
        let first_copy = if is_missing { self.finder.first_copy() } else { None };
        self.finder.pages.load().problem(problem, self.path(), again, first_copy).into()
    }
}

impl Finder {
    /// Finds a document for a client that likes `coding` best.
    pub(super) async fn document(&self, mut wanted: WantedDocument, coding: Coding, client: IpAddr) -> Found {
        let pages = self.pages.load_full();
        if let WantedDocument::Asset(name) = &wanted
            && let Some(packed) = pages.packed(name, coding)
        {
            return Found::Document { document: packed, published: None };
        }
        let mut published = if wanted.shows_data() { self.current.get() } else { None };
        if let (WantedDocument::Explore(query), Some(published)) = (&mut wanted, &published)
            && query.search.list.page > 1
            && !query.searches()
        {
            // All pages beyond the last one are the last one: clients choose any number.
            let list = &mut query.search.list;
            let total = published.dataset.find(list).map_or(0, |found| found.total);
            list.page = list.page.min(list.total_pages(total).max(1));
        }
        let epoch = published.as_ref().map_or(0, |published| published.epoch);
        let key = Key::Document(wanted.clone());
        let kept = self.cache.rendered(&key);
        if let Some(document) = kept.clone().filter(|kept| kept.epoch() == epoch) {
            document.prepare(coding).await;
            return Found::Document { document, published };
        }
        let mut hits = None;
        if let (WantedDocument::Explore(query), Some(current), Some(searches)) =
            (&wanted, &mut published, &self.searches)
            && query.searches()
        {
            match searches.find(current.clone(), &query.search.whole(MOST_SHOWN), client).await {
                Ok((found, searched)) => (hits, *current) = (Some(found), searched),
                Err(why) => return unsearched(why),
            }
        }
        let revision = self.details.as_ref().map(Details::revision);
        let detail = match (&wanted, &published) {
            (WantedDocument::Venue(id), Some(_)) => self.detail_shown(*id).await,
            _ => DetailShown::Missing,
        };
        // Rendering takes a millisecond, the map of a large snapshot longer: other clients of this thread must not
        // wait.
        let (renderer, shown, details) = (pages.clone(), published.clone(), self.details.clone());
        let household = household(client, self.settings.load().rate_limit.ipv6_prefix);
        let first_copy = self.first_copy();
        // Never closed.
        let turn = self.rendering.take(Some(household), 1).await;
        let rendering = tokio::task::spawn_blocking(move || {
            // It ends with the work: a client that leaves must not begin more of it.
            let _until_done = turn;
            let (details, detail, hits) = (details.as_ref(), Some(&detail), hits.as_ref());
            let of = Material { published: shown.as_deref(), details, detail, hits, first_copy };
            renderer.render(&wanted, of)
        });
        match rendering.await {
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
    /// How far the first copy is; `None`: there is a copy, or none is made.
    fn first_copy(&self) -> Option<Progress> {
        let is_missing = self.details.is_some() && self.current.load().is_none();
        self.origin.as_ref().filter(|_| is_missing).and_then(|origin| origin.picture().pass)
    }

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

/// The answer to a request for what has another path.
pub(super) fn moved(asked: Asked<'_>, to: HeaderValue) -> Answer {
    let mut answer = Answer::new(StatusCode::MOVED_PERMANENTLY, asked, Outcome::Document);
    answer.fields.put(&fields::LOCATION, to);
    answer.fields.put_number(&fields::CONTENT_LENGTH, 0);
    answer.fields.put_static(&fields::CACHE_CONTROL, A_DAY);
    answer
}

/// The answer to a probe, which no limit applies to.
pub(super) fn probe(asked: Asked<'_>, (status, word): (StatusCode, &'static str)) -> Answer {
    let mut answer = Answer::new(status, Asked { limit: Decision::Unlimited, ..asked }, Outcome::Document);
    about_body(&mut answer.fields, "text/plain; charset=utf-8", Coding::Identity);
    answer.fields.put_number(&fields::CONTENT_LENGTH, word.len() as u64);
    answer.fields.put_static(&fields::CACHE_CONTROL, NO_STORE);
    answer.body = Body::of(asked.method, Bytes::from_static(word.as_bytes()));
    answer
}

impl ConstantHeaders {
    /// A document of this server.
    pub(super) fn document(&self, asked: Asked<'_>, document: &Rendered, published: Option<&Snapshot>) -> Answer {
        let (coding, variant, tag) = document.variant(asked.coding);
        let mut answer = Answer::new(StatusCode::OK, asked, Outcome::Document);
        let fields = &mut answer.fields;
        match asked.precondition(tag) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None),
            Precondition::NotModified => answer.status = StatusCode::NOT_MODIFIED,
            Precondition::Proceed => {
                about_body(fields, document.kind.content_type, coding);
                fields.put_static(&fields::REFERRER_POLICY, "same-origin");
                match document.kind.confinement {
                    Confinement::None => {}
                    Confinement::Page => fields.put_static(&fields::CONTENT_SECURITY_POLICY, PAGE_POLICY),
                    Confinement::Widget => fields.put_static(&fields::CONTENT_SECURITY_POLICY, WIDGET_POLICY),
                    Confinement::Viewer => fields.put_static(&fields::CONTENT_SECURITY_POLICY, VIEWER_POLICY),
                }
                fields.put_number(&fields::CONTENT_LENGTH, variant.body.len() as u64);
                answer.body = Body::of(asked.method, variant.body.clone());
            }
        }
        let cache_control = match document.kind.lifetime {
            Lifetime::Revalidated => HeaderValue::from_static("public, no-cache"),
            Lifetime::OfAnswers => self.cache_control.clone(),
            Lifetime::Day => HeaderValue::from_static(A_DAY),
            Lifetime::Immutable => HeaderValue::from_static("public, max-age=31536000, immutable"),
            Lifetime::Unfinished(seconds) => {
                fields.put_number(&fields::REFRESH, seconds);
                HeaderValue::from_static(NO_STORE)
            }
        };
        fields.put(&fields::CACHE_CONTROL, cache_control);
        if let Some(tag) = tag {
            fields.put(&fields::ETAG, tag.to_header_value());
        }
        let vary = if document.kind.varies_by_accept { "Accept, Accept-Encoding" } else { "Accept-Encoding" };
        fields.put_static(&fields::VARY, vary);
        fields.put_static(&fields::ACCEPT_RANGES, "none");
        for (field, value) in published.into_iter().flat_map(|published| of_snapshot(published, asked.now.wall)) {
            fields.put(field, value.clone());
        }
        answer
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
        mut asked: Asked<'_>,
        (kind, slugs): (DumpKind, Slugs),
        client: IpAddr,
    ) -> Result<Answer, (Problem, Option<u64>)> {
        let Some(dumps) = &self.dumps else { return Err((Problem::unknown_path(kind.path()), None)) };
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
                    return Err((Problem::dump_unavailable("The dump is being written"), Some(STILL_WRITING)));
                }
            }
        };
        asked.now = self.clock.now();
        Ok(self.constant_headers.load().dump(asked, kind, coding, source, &published))
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
    /// An answer from a dump.
    fn dump(&self, asked: Asked<'_>, kind: DumpKind, coding: Coding, source: Source, published: &Snapshot) -> Answer {
        let (tag, length) = match &source {
            Source::File(built) => (&built.tag, Some(built.length)),
            Source::Selected(_, tag) => (tag, None),
        };
        let state = precondition::evaluate(asked.method, asked.headers, Some(tag));
        // RFC 9110 §13.2.2: the range counts after the conditions; §14.2: of GET only.
        let ranged = match state {
            Precondition::Failed => return self.problem(asked, &Problem::dump_changed(), None),
            Precondition::Proceed if *asked.method == Method::GET => length.map_or(Ranged::Whole, |length| {
                let tag = HeaderMap::from_iter([(ETAG, tag.to_header_value())]);
                ranges::select(asked.headers, StatusCode::OK, &tag, length)
            }),
            Precondition::Proceed | Precondition::NotModified => Ranged::Whole,
        };
        let all = length.unwrap_or(0);
        let (status, from, to, content_range) = match (state, ranged) {
            (_, Ranged::Unsatisfiable { content_range }) => {
                let mut answer = self.problem(asked, &Problem::range_not_satisfiable(all), None);
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
            about_body(fields, kind.media_type(), coding);
            fields.put_static(&fields::CONTENT_DISPOSITION, kind.disposition());
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
