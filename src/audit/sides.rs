//! The two sides of a comparison: the mirror's answer from its data, and the origin's to the same request.
//!
//! It compares nothing. Callers: [`super::Auditor`].

use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, Method};
use url::Url;

use crate::api::edges::{Case, OddQuery, lesson};
use crate::api::form::{ListForm, PageCount};
use crate::api::links;
use crate::api::listing::Summary;
use crate::api::query::{ListQuery, Parameters};
use crate::api::render::{Frame, ListPage, Shown, VolatileValues};
use crate::api::taxonomy::VolatileKeys;
use crate::semantics::caching::ResponseDirectives;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::edges::apply::Applied;
use crate::snapshot::edges::{self, Decision};
use crate::snapshot::pointer::Snapshot;
use crate::store::{DetailState, StoreError};
use crate::upstream::client::{Answer, AskError, Asker};
use crate::upstream::stamps::Place;
use crate::upstream::window::Class;

use super::Auditor;
use super::sample::{Request, Sample, SampleKind};
use super::verdict::{Links, Ours, Theirs};

/// How long a sample waits for the budget.
const PATIENCE: Duration = Duration::from_secs(600);

impl Auditor {
    /// Requests of an audit take the background's share of the budget, and wait for it.
    pub(super) fn asker() -> Asker {
        Asker { patience: Some(PATIENCE), ..Asker::mirror(Class::Background) }
    }

    /// The kind by which a sample is judged: what was learned must be equal byte for byte.
    pub(super) fn kind_of(&self, published: &Snapshot, sample: &Sample) -> SampleKind {
        if self.learned(published, &sample.request).is_some() {
            return SampleKind::Odd;
        }
        // What is not read through is ours by contract, also where the origin's answer differs.
        let may_differ = self.shared.edges.learned().is_none_or(|learned| learned.elsewhere);
        let is_ours = may_differ && is_elsewhere(&published.dataset, &sample.request);
        if is_ours { SampleKind::Elsewhere } else { sample.kind }
    }

    /// Asks an odd request: refusals come with their bodies.
    pub(super) async fn ask_odd(&self, request: &Request, is_head: bool) -> Result<Theirs, String> {
        const MOST: u64 = 4 << 20;
        let method = if is_head { Method::HEAD } else { Method::GET };
        let asked = self.shared.copies.client.probe(&method, &request.path(), MOST, Self::asker()).await;
        let answer = asked.map_err(|error| error.to_string())?;
        Ok(Theirs { is_head, ..self.theirs(request, &answer, self.shared.clock.now_wall().as_millis())? })
    }

    fn theirs(&self, request: &Request, answer: &Answer, at_ms: i64) -> Result<Theirs, String> {
        let text = String::from_utf8(answer.body.to_vec());
        let text = text.map_err(|error| format!("{request}: the origin's answer is not UTF-8: {error}"))?;
        let media_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let directives = ResponseDirectives::of(&answer.headers);
        let is_private = directives.no_store || directives.private;
        let base = self.shared.copies.client.base().as_str().trim_end_matches('/');
        let links = match Url::parse(&format!("{base}{}", request.path())) {
            Ok(url) => Links::theirs(links::links(&answer.headers), &url, &self.rewrite),
            Err(_no_address) => Links::default(),
        };
        let allow = methods(&answer.headers);
        Ok(Theirs { status: answer.status, is_head: false, media_type, is_private, links, allow, text, at_ms })
    }

    /// Asks the origin any other request.
    pub(super) async fn ask(&self, request: &Request) -> Result<Theirs, String> {
        match self.shared.copies.client.ask(&request.path(), None, Self::asker()).await {
            Ok(answer) => {
                let mut theirs = self.theirs(request, &answer, 0)?;
                let place = Place::of(&request.path());
                theirs.at_ms =
                    self.shared.copies.client.stamps().date(place, &answer, Some(&theirs.text), None).until_ms;
                Ok(theirs)
            }
            // A refusal is an answer too.
            Err(AskError::Status { status: status @ (400..=428 | 430..=499), .. }) => {
                let at_ms = self.shared.clock.now_wall().as_millis();
                Ok(Theirs { status, at_ms, ..Theirs::default() })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The mirror's answer, from what it has learned and from the served data.
    pub(super) fn ours(&self, published: &Snapshot, request: &Request) -> Result<Ours, String> {
        if let Some(learned) = self.learned(published, request) {
            return Ok(learned);
        }
        let (dataset, meta) = (&published.dataset, &published.meta);
        let failed = |error: StoreError| format!("the data directory: {error}");
        // A document's only link.
        let of_document = |text: String, at_ms| {
            let links = Links::ours(published.license.as_deref(), None, &self.rewrite);
            Ours::Body { text, links, at_ms }
        };
        Ok(match request {
            Request::List(query) if self.shared.verdicts.doubts(query).is_some() => Ours::ReadThrough,
            Request::List(query) => match dataset.find(query) {
                Err(_doubt) => Ours::ReadThrough,
                Ok(found) => {
                    // On a page without listings, the links to other pages are grandstand's own by design, so they are
                    // not compared.
                    let around = (!found.items.is_empty()).then_some((query, found.total));
                    let links = Links::ours(published.license.as_deref(), around, &self.rewrite);
                    page(published, query, found.total, found.items, None, links)
                }
            },
            Request::Odd(_) => Ours::Own,
            Request::Taxonomy(kind) => of_document(dataset.content.taxonomy(*kind).to_owned(), meta.confirmed_ms),
            Request::Detail(id) if dataset.summary(*id).is_none() => Ours::Missing(meta.confirmed_ms),
            Request::Detail(id) => match self.shared.details.get(*id).map_err(failed)? {
                None => Ours::ReadThrough,
                Some(record) if record.meta.state == DetailState::Gone => Ours::Missing(record.meta.origin_time_ms),
                Some(record) => {
                    of_document(String::from_utf8_lossy(&record.body).into_owned(), record.meta.origin_time_ms)
                }
            },
        })
    }

    /// The mirror's answer to a request by what it has learned; `None`: nothing was learned of it.
    pub(super) fn learned(&self, published: &Snapshot, request: &Request) -> Option<Ours> {
        let lessons = self.shared.edges.learned()?;
        let now = self.shared.clock.now_wall().as_millis().saturating_mul(1_000_000);
        let dataset = &published.dataset;
        let body = |(answer, text): (&lesson::LearnedAnswer, String)| Ours::Learned {
            status: answer.status,
            media_type: answer.media_type.clone(),
            text,
        };
        let of_id = |case: Case, id: &str| Some(body(edges::of_id(lessons.lessons.get(&case), id)?));
        let (decision, plain) = match request {
            Request::List(query) => {
                let is_empty = dataset.find(query).is_ok_and(|found| found.items.is_empty());
                (edges::of_empty(Some(&lessons), dataset, query, now).filter(|_| is_empty)?, query.clone())
            }
            Request::Odd(path) => {
                let (path, query) = path.split_once('?').unwrap_or((path.as_str(), ""));
                if let Some(id) = path.strip_prefix("/api/listings/") {
                    return of_id(Case::IdWord, id.strip_suffix(".json").unwrap_or(id));
                }
                let plain = || Parameters::parse(query).ok().map(|parameters| parameters.list);
                if let Some(asked) = OddQuery::read(query) {
                    match edges::of_odd(&lessons, dataset, &asked, now) {
                        Decision::AsOurs => (Decision::AsOurs, plain()?),
                        decision => (decision, ListQuery::default()),
                    }
                } else {
                    // It is odd by its value, which the data shows.
                    let query = plain()?;
                    (edges::of_empty(Some(&lessons), dataset, &query, now)?, query)
                }
            }
            Request::Detail(id) if dataset.summary(*id).is_none() => return of_id(Case::UnknownId, &id.to_string()),
            Request::Detail(_) | Request::Taxonomy(_) => return None,
        };
        let applied = match decision {
            Decision::Ours => return None,
            Decision::Through | Decision::Odd(_) => return Some(Ours::ReadThrough),
            Decision::Body(answer, text) => return Some(body((answer, text))),
            Decision::AsOurs => Applied::plain(plain),
            Decision::List(applied) => applied,
        };
        match applied.find(dataset) {
            Ok((total, items)) if self.shared.verdicts.doubts(&applied.query).is_none() => {
                // The links around an odd page are ours by contract.
                Some(page(published, &applied.query, total, items, applied.shown(), Links::default()))
            }
            _ => Some(Ours::ReadThrough),
        }
    }

    /// Fields that are not compared: volatile ones, and those omitted because they differ between pages.
    pub(super) fn ignored(&self, published: &Snapshot) -> VolatileKeys {
        let mut ignored = self.shared.copies.volatile();
        let form = &published.meta.form;
        let pages = (form.pages == PageCount::LeftOut).then_some("total_pages");
        let of_form = form.without.iter().map(String::as_str).chain(pages);
        for key in
            published.meta.volatile.iter().chain(published.meta.left_out.iter().map(String::as_str)).chain(of_form)
        {
            ignored.insert(key);
        }
        ignored
    }
}

/// A page of our list.
fn page(
    published: &Snapshot,
    query: &ListQuery,
    total: u64,
    items: Vec<&Summary>,
    shown: Option<&Shown>,
    links: Links,
) -> Ours {
    let dataset = &published.dataset;
    let form = if query.is_filtered() { published.meta.form.clone() } else { ListForm::default() };
    let form = ListForm { pages: published.meta.form.pages, ..form };
    let frame = Frame::new(&dataset.content.envelope, &published.generated_at, &VolatileValues::new(), form);
    let query = &query.clone().within(dataset.content.envelope.largest_page);
    let page = ListPage { frame: &frame, envelope_hash: dataset.envelope_hash, query, total, items, shown };
    let text = String::from_utf8_lossy(&page.body()).into_owned();
    Ours::Body { text, links, at_ms: published.meta.confirmed_ms }
}

/// Whether the filters of a request exclude each other.
pub(super) fn is_elsewhere(dataset: &Dataset, request: &Request) -> bool {
    matches!(request, Request::List(query) if edges::is_elsewhere(dataset, query))
}

/// The methods that `Allow` names, in capitals; `None`: there is no such header.
fn methods(headers: &HeaderMap) -> Option<Vec<String>> {
    let values = headers.get_all(ALLOW).iter().filter_map(|value| value.to_str().ok());
    let methods = values.flat_map(|value| value.split(',')).map(|method| method.trim().to_ascii_uppercase());
    headers.contains_key(ALLOW).then(|| methods.filter(|method| !method.is_empty()).collect())
}
