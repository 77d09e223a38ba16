//! The two sides of a comparison: the mirror's answer from its data, and the origin's to the same request.
//!
//! It compares nothing. Callers: [`super::Auditor`].

use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, Method};
use url::Url;

use crate::api::links;
use crate::api::render::{Frame, ListPage, VolatileValues};
use crate::api::taxonomy::VolatileKeys;
use crate::semantics::caching::ResponseDirectives;
use crate::snapshot::coverage::relies_on_disproved;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::edges;
use crate::snapshot::pointer::Snapshot;
use crate::store::{DetailState, StoreError};
use crate::upstream::client::{Answer, AskError, Asker};
use crate::upstream::stamps::Place;
use crate::upstream::window::Class;

use super::Auditor;
use super::links::Links;
use super::sample::{Kind, Request, Sample};
use super::verdict::{Ours, Theirs};

/// How long a sample waits for the budget.
const PATIENCE: Duration = Duration::from_secs(600);

impl Auditor {
    /// Requests of an audit take the background's share of the budget, and wait for it.
    pub(super) fn asker() -> Asker {
        Asker { patience: Some(PATIENCE), ..Asker::mirror(Class::Background) }
    }

    /// The kind by which a sample is judged: what was learned must be equal byte for byte.
    pub(super) fn kind_of(&self, published: &Snapshot, sample: &Sample) -> Kind {
        if self.learned(published, &sample.request).is_some() {
            return Kind::Odd;
        }
        // What is not read through is ours by contract, also where the origin's answer differs.
        let may_differ = self.edges.learned().is_none_or(|learned| learned.elsewhere);
        let is_ours = may_differ && is_elsewhere(&published.dataset, &sample.request);
        if is_ours { Kind::Elsewhere } else { sample.kind }
    }

    /// Asks an odd request: refusals come with their bodies.
    pub(super) async fn ask_odd(&self, request: &Request, is_head: bool) -> Result<Theirs, String> {
        const MOST: u64 = 4 << 20;
        let method = if is_head { Method::HEAD } else { Method::GET };
        let asked = self.client.probe(&method, &request.path(), MOST, Self::asker()).await;
        let answer = asked.map_err(|error| error.to_string())?;
        Ok(Theirs { is_head, ..self.theirs(request, &answer, self.clock.now_wall().as_millis())? })
    }

    fn theirs(&self, request: &Request, answer: &Answer, at_ms: i64) -> Result<Theirs, String> {
        let text = String::from_utf8(answer.body.to_vec());
        let text = text.map_err(|error| format!("{request}: the origin's answer is not UTF-8: {error}"))?;
        let media_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let directives = ResponseDirectives::of(&answer.headers);
        let is_private = directives.no_store || directives.private;
        let base = self.client.base().as_str().trim_end_matches('/');
        let links = match Url::parse(&format!("{base}{}", request.path())) {
            Ok(url) => Links::theirs(links::links(&answer.headers), &url, &self.rewrite),
            Err(_no_address) => Links::default(),
        };
        let allow = methods(&answer.headers);
        Ok(Theirs { status: answer.status, is_head: false, media_type, is_private, links, allow, text, at_ms })
    }

    /// Asks the origin any other request.
    pub(super) async fn ask(&self, request: &Request) -> Result<Theirs, String> {
        match self.client.ask(&request.path(), None, Self::asker()).await {
            Ok(answer) => {
                let mut theirs = self.theirs(request, &answer, 0)?;
                let place = Place::of(&request.path());
                theirs.at_ms = self.client.stamps().date(place, &answer, Some(&theirs.text), None).until_ms;
                Ok(theirs)
            }
            // A refusal is an answer too.
            Err(AskError::Status { status: status @ (400..=428 | 430..=499), .. }) => {
                let at_ms = self.clock.now_wall().as_millis();
                let (links, text) = (Links::default(), String::new());
                let (is_head, is_private) = (false, false);
                Ok(Theirs { status, is_head, media_type: None, is_private, links, allow: None, text, at_ms })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The mirror's answer, from the served data.
    pub(super) fn ours(&self, published: &Snapshot, request: &Request) -> Result<Ours, String> {
        if let Some(learned) = self.learned(published, request) {
            return Ok(learned);
        }
        let (dataset, meta) = (&published.dataset, &published.meta);
        let failed = |error: StoreError| format!("the data directory: {error}");
        Ok(match request {
            Request::List(query) if relies_on_disproved(meta, query) => Ours::ReadThrough,
            Request::List(query) => match dataset.find(query) {
                Err(_doubt) => Ours::ReadThrough,
                Ok(found) => {
                    // On a page without listings, the links to other pages are grandstand's own by design, so they are
                    // not compared.
                    let around = (!found.items.is_empty()).then_some((query, found.total));
                    let links = Links::ours(published.license.as_deref(), around, &self.rewrite);
                    let envelope = &dataset.content.envelope;
                    let page = ListPage {
                        frame: &Frame::new(envelope, &published.generated_at, &VolatileValues::new()),
                        envelope_hash: dataset.envelope_hash,
                        query,
                        total: found.total,
                        items: found.items,
                        shown: None,
                    };
                    let text = String::from_utf8_lossy(&page.body()).into_owned();
                    Ours::Body { text, links, at_ms: meta.confirmed_ms }
                }
            },
            Request::Odd(_) => Ours::Own,
            Request::Taxonomy(kind) => {
                let (text, links) = (dataset.content.taxonomy(*kind).to_owned(), self.license(published));
                Ours::Body { text, links, at_ms: meta.confirmed_ms }
            }
            Request::Detail(id) if dataset.summary(*id).is_none() => Ours::Missing(meta.confirmed_ms),
            Request::Detail(id) => match self.details.get(*id).map_err(failed)? {
                None => Ours::ReadThrough,
                Some(record) if record.meta.state == DetailState::Gone => Ours::Missing(record.meta.origin_time_ms),
                Some(record) => {
                    let (text, links) = (String::from_utf8_lossy(&record.body).into_owned(), self.license(published));
                    Ours::Body { text, links, at_ms: record.meta.origin_time_ms }
                }
            },
        })
    }

    /// Fields that are not compared: volatile ones, and those omitted because they differ between pages.
    pub(super) fn ignored(&self, published: &Snapshot) -> VolatileKeys {
        let mut ignored = self.volatile.read().clone();
        for key in published.meta.volatile.iter().chain(published.meta.left_out.iter().map(String::as_str)) {
            ignored.insert(key);
        }
        ignored
    }

    fn license(&self, published: &Snapshot) -> Links {
        Links::ours(published.license.as_deref(), None, &self.rewrite)
    }
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
