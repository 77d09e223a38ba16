//! Lookup of this server's documents, and the heads of their answers.
//!
//! [`crate::edge::pages`] makes documents. Callers: [`super`], [`super::find`].

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{HeaderValue, StatusCode};
use memchr::memmem;

use crate::api::listing::ListingId;
use crate::api::query::finder::FinderForm;
use crate::api::route::{HealthCheck, WantedDocument};
use crate::data::cache::Key;
use crate::data::cache::reply::{Confinement, Lifetime, Rendered};
use crate::data::details::Details;
use crate::data::snapshot::dataset::Unselected;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::store::DetailState;
use crate::edge::limit::Decision;
use crate::edge::limit::backlog::Backlog;
use crate::edge::pages::{DetailShown, MOST_SHOWN, Material, Pages, Unrendered};
use crate::edge::search::NotSearched;
use crate::edge::search::index::Hits;
use crate::origin::status::Progress;
use crate::protocol::coding::Coding;
use crate::protocol::precondition::Precondition;
use crate::protocol::problem::Problem;
use crate::protocol::{coding, problem};
use crate::tasks::blocking;

use super::compose::{Answer, Asked, Body, ConstantHeaders, NO_STORE, Outcome, about_body, of_snapshot};
use super::find::{Finder, Found, unsearched};
use super::head as fields;
use super::head::Fields;

/// A page loads nothing but what is ours, and nobody may frame it.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                           base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The policy of a page with a map whose images are from `tiles`, if from another server; `ancestors` may frame it.
pub(super) fn map_policy(tiles: Option<&str>, ancestors: &str) -> HeaderValue {
    let own = PAGE_POLICY.replace("frame-ancestors 'none'", &format!("frame-ancestors {ancestors}"));
    let more = |tiles| own.replace("img-src 'self'", &format!("img-src 'self' data: {tiles}"));
    let policy = tiles.map_or_else(|| own.clone(), more);
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static(PAGE_POLICY))
}

/// The same for the viewer of the API's description, which styles itself and brings its images along.
const VIEWER_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                             connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// For what changes with the program only.
const A_DAY: &str = "public, max-age=86400";

/// After how many seconds a client may ask again for what shows the first snapshot.
const NO_SNAPSHOT_FOR: u64 = 30;

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

    /// The body of an error, with its type in `fields`.
    pub(super) fn problem(&self, headers: &HeaderMap, problem: &Problem, fields: &mut Fields) -> Bytes {
        fields.put_static(&fields::VARY, "accept");
        if !coding::prefers_html(headers) {
            fields.put_static(&fields::CONTENT_TYPE, problem::CONTENT_TYPE);
            return problem.to_json();
        }
        fields.put_static(&fields::CONTENT_TYPE, "text/html; charset=utf-8");
        fields.put_static(&fields::REFERRER_POLICY, "same-origin");
        // A page that shows the widget shows its errors, too.
        if self.path().ends_with(b"/embed") {
            fields.put(&fields::CONTENT_SECURITY_POLICY, map_policy(None, "*"));
        } else {
            fields.put_static(&fields::CONTENT_SECURITY_POLICY, PAGE_POLICY);
        }
        if let Some(seconds) = problem.retry_after() {
            fields.put_number(&fields::REFRESH, seconds);
        }
        let is_missing = problem.status() == StatusCode::SERVICE_UNAVAILABLE;
        let first_copy = if is_missing { self.finder.first_copy() } else { None };
        self.finder.pages.load().problem(problem, self.path(), first_copy).into()
    }
}

impl Finder {
    /// Finds a document for a client that likes `coding` best.
    pub(super) async fn document(
        &self,
        mut wanted: WantedDocument,
        coding: Coding,
        client: IpAddr,
        backlog: &Backlog,
    ) -> Result<Found, Problem> {
        let pages = self.pages.load_full();
        if let WantedDocument::Asset(name) = &wanted
            && let Some(packed) = pages.packed(name, coding)
        {
            return Ok(Found::Document { document: packed, published: None });
        }
        let mut published = if wanted.shows_data() { self.current.get() } else { None };
        if let (WantedDocument::Explore(query), Some(published)) = (&mut wanted, &published)
            && Pages::is_open(published, query)
        {
            let turn = self.rendering.take(Some(self.settings.household(client)), 1).await;
            let (renderer, of, mut named) = (pages.clone(), published.clone(), query.clone());
            let settling = blocking(move || {
                let _until_done = turn;
                renderer.settle(&of, &mut named);
                Ok::<_, Problem>(named)
            });
            *query = settling.await?;
        }
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
            return Ok(Found::Document { document, published });
        }
        let mut hits = None;
        if let (WantedDocument::Explore(query), Some(current), Some(searches)) =
            (&wanted, &mut published, &self.searches)
            && query.searches()
        {
            let mut whole = query.search.whole(MOST_SHOWN);
            whole.has_facets = query.form == FinderForm::Page;
            match searches.find(current.clone(), &whole, client).await {
                Ok((found, searched)) => (hits, *current) = (Some(found), searched),
                // The page says which slug is unknown.
                Err(NotSearched::Unselected(Unselected::Unknown { .. })) => hits = Some(Hits::default()),
                Err(why) => return Err(unsearched(why)),
            }
        }
        let shown_at = wanted.path();
        // Read before the detail: what arrives meanwhile makes another one.
        let revision = self.details.as_ref().map(Details::revision);
        let detail = match (&wanted, &published) {
            (WantedDocument::Venue(id), Some(_)) => self.detail_shown(*id).await,
            _ => DetailShown::Missing,
        };
        // Rendering takes a millisecond, the map of a large snapshot longer: other clients of this thread must not
        // wait.
        let (renderer, shown, details) = (pages.clone(), published.clone(), self.details.clone());
        let household = self.settings.household(client);
        let first_copy = self.first_copy();
        let turn = loop {
            // Never closed.
            let turn = self.rendering.take(Some(household), 1).await;
            // What was made while this one waited fills the room. Others have their turn until it is read.
            if backlog.has_room() {
                break turn;
            }
            drop(turn);
            backlog.room().await?;
        };
        let rendering = blocking(move || {
            // It ends with the work: a client that leaves must not begin more of it.
            let _until_done = turn;
            let (details, detail, hits) = (details.as_ref(), Some(&detail), hits.as_ref());
            let of = Material { published: shown.as_deref(), details, detail, hits, first_copy };
            Ok::<_, Problem>(renderer.render(&wanted, of))
        });
        match rendering.await? {
            Ok(made) => {
                let document = self.cache.keep_rendered(key.clone(), kept.as_ref(), made);
                let is_venue = matches!(&key, Key::Document(WantedDocument::Venue(_)));
                let is_outdated = is_venue && self.details.as_ref().map(Details::revision) != revision;
                if is_outdated || !Arc::ptr_eq(&pages, &self.pages.load()) {
                    // A detail or a reload came in between.
                    self.cache.forget(&key);
                }
                document.prepare(coding).await;
                Ok(Found::Document { document, published })
            }
            Err(Unrendered::NoSuchAsset(name)) => Err(Problem::unknown_path(&*name)),
            Err(Unrendered::UnknownVenue(id)) => Err(Problem::unknown_listing(id.to_string())),
            Err(Unrendered::NoSnapshot) if self.details.is_some() => {
                Err(Problem::unavailable("There is no snapshot yet").after(NO_SNAPSHOT_FOR))
            }
            // A shield has none, ever.
            Err(Unrendered::NoSnapshot) => Err(Problem::unknown_path(&*shown_at)),
        }
    }
}

impl Finder {
    /// How far the first copy is; `None`: there is a copy, or none is made.
    fn first_copy(&self) -> Option<Progress> {
        let is_missing = self.details.is_some() && self.current.get().is_none();
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

    pub(super) fn probed(&self, probe: HealthCheck, stops: bool) -> (StatusCode, &'static str) {
        match probe {
            HealthCheck::Live => (StatusCode::OK, "alive\n"),
            // Load balancers send nothing more to a server that stops.
            HealthCheck::Ready if stops => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
            // A shield has no snapshots, and no details of them.
            HealthCheck::Ready if self.details.is_none() || self.current.get().is_some() => (StatusCode::OK, "ready\n"),
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
    pub(super) fn document(&self, asked: Asked<'_>, document: &Rendered, published: Option<&Snapshot>) -> Answer {
        let (coding, body, tag) = document.variant(asked.coding);
        let mut answer = Answer::new(StatusCode::OK, asked, Outcome::Document);
        let fields = &mut answer.fields;
        match asked.precondition(tag) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed()),
            Precondition::NotModified => answer.status = StatusCode::NOT_MODIFIED,
            Precondition::Proceed => {
                about_body(fields, document.kind.content_type, coding);
                fields.put_static(&fields::REFERRER_POLICY, "same-origin");
                match document.kind.confinement {
                    Confinement::None => {}
                    Confinement::Page => fields.put_static(&fields::CONTENT_SECURITY_POLICY, PAGE_POLICY),
                    Confinement::Map => fields.put(&fields::CONTENT_SECURITY_POLICY, self.map_policy.clone()),
                    Confinement::Widget => fields.put(&fields::CONTENT_SECURITY_POLICY, self.widget_policy.clone()),
                    Confinement::Viewer => fields.put_static(&fields::CONTENT_SECURITY_POLICY, VIEWER_POLICY),
                }
                fields.put_number(&fields::CONTENT_LENGTH, body.len() as u64);
                answer.body = Body::of(asked.method, body);
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
