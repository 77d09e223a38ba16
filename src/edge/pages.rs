//! Documents of this server: pages for people, the description of the API, and what browsers and programs look for.
//!
//! Rendered from a snapshot, or without one; no sockets, and of HTTP only the documents' names. Everything is compiled
//! in: [`assets`] has the files. Links are relative, so that pages work behind any address and path; only examples show
//! `public_url`. [`facts`] reads what pages show of the data. Callers: [`crate::edge::answer`], which decides on requests.

mod assets;
mod detail;
mod documents;
mod explore;
mod facts;
mod front;
mod layout;
mod map;
mod places;
mod problem;
mod reference;
mod room;
mod schema;
#[cfg(test)]
mod tests;
mod tiles;
mod venue;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::api::listing::ListingId;
use crate::api::query::finder::{FinderForm, FinderQuery};
use crate::api::route::{Document, WantedDocument};
use crate::api::taxonomy::{TaxonomyKind, Term};
use crate::data::cache::reply::{Confinement, Lifetime, Rendered, ReplyKind};
use crate::data::details::Details;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::search::index::Hits;
use crate::origin::status::Progress;
use crate::protocol::coding::Coding;

use assets::{Asset, Assets};
use facts::{PageFacts, TermNames};
use places::Places;
use schema::{Described, Shapes};

pub(crate) use venue::DetailShown;

/// What pages are made with: other bytes for equal content come with another version.
const RENDERER: &str = env!("CARGO_PKG_VERSION");

#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The start of examples, without a slash at its end.
    pub public_url: String,
    pub usage: &'static str,
    /// Whether it has snapshots, now or later; a shield has none.
    pub has_snapshots: bool,
    /// Requests that one client may send to the API in 60 s; 0: no limit.
    pub requests_per_minute: u32,
    /// The address of a street map's tiles, and their credit.
    pub tiles: Option<String>,
    pub tiles_credit: Option<String>,
}

/// What was made last, and of what; it is made again of something else.
struct Last<K, V>(Mutex<Option<(K, V)>>);

impl<K, V> Default for Last<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, V: Clone> Last<K, V> {
    /// What is made of `key`. Concurrent callers wait instead of making it again.
    fn get_or_make(&self, key: K, make: impl FnOnce() -> V) -> V {
        // Held while it is made, on a thread that may block: at most two documents are rendered at once.
        let mut last = self.0.lock();
        if let Some((_, made)) = last.as_ref().filter(|(known, _)| *known == key) {
            return made.clone();
        }
        last.insert((key, make())).1.clone()
    }
}

pub(crate) struct Pages {
    site: Site,
    assets: Assets,
    places: Places,
    names: Last<SnapshotId, Arc<TermNames>>,
    shapes: Shapes,
    /// Whether pages say that the data is invented.
    is_demo: bool,
}

/// The most venues of a search that the finder shows.
pub(crate) const MOST_SHOWN: u16 = 20_000;

#[derive(Clone, Copy, Default)]
pub(crate) struct Material<'a> {
    pub published: Option<&'a Snapshot>,
    /// Those that are mirrored; `None` in a shield.
    pub details: Option<&'a Details>,
    /// What the finder has found in `published`; `None`: it does not search.
    pub hits: Option<&'a Hits>,
    /// That of the venue that is asked for.
    pub detail: Option<&'a DetailShown>,
    /// How far the first copy is; `None`: there is a copy, or none is made.
    pub first_copy: Option<Progress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unrendered {
    NoSuchAsset(Box<str>),
    /// It shows data, and there is none.
    NoSnapshot,
    UnknownVenue(ListingId),
}

const fn kind(content_type: &'static str, confinement: Confinement, lifetime: Lifetime) -> ReplyKind {
    ReplyKind { content_type, confinement, lifetime, varies_by_accept: false }
}

const HTML: ReplyKind = kind("text/html; charset=utf-8", Confinement::Page, Lifetime::Revalidated);
const MAP: ReplyKind = kind("text/html; charset=utf-8", Confinement::Map, Lifetime::Revalidated);
const WIDGET: ReplyKind = kind("text/html; charset=utf-8", Confinement::Widget, Lifetime::Revalidated);
const VIEWER: ReplyKind = kind("text/html; charset=utf-8", Confinement::Viewer, Lifetime::Revalidated);
const TEXT: ReplyKind = kind("text/plain; charset=utf-8", Confinement::None, Lifetime::OfAnswers);
const POINTS: ReplyKind = kind("application/json", Confinement::None, Lifetime::Revalidated);
const JSON: ReplyKind = kind("application/json", Confinement::None, Lifetime::OfAnswers);
const SCHEMA: ReplyKind = kind("application/schema+json", Confinement::None, Lifetime::OfAnswers);

impl Pages {
    pub(crate) fn new(site: Site) -> Self {
        let (assets, places, shapes) = (Assets::new(), Places::default(), Shapes::default());
        Self { site, assets, places, names: Last::default(), shapes, is_demo: false }
    }

    pub(crate) fn of_demo(self, is_demo: bool) -> Self {
        Self { is_demo, ..self }
    }

    /// Whether a query has a name to [`settle`](Self::settle).
    pub(crate) fn is_open(published: &Snapshot, query: &FinderQuery) -> bool {
        explore::settle::is_open(published, query)
    }

    /// Puts slugs and points in the place of names that people wrote. Blocks.
    pub(crate) fn settle(&self, published: &Snapshot, query: &mut FinderQuery) {
        explore::settle::settle(self, published, query);
    }

    /// The names of the terms, which are the same until another snapshot comes.
    fn term_names(&self, facts: &PageFacts<'_>) -> Arc<TermNames> {
        self.names.get_or_make(facts.dataset.id.clone(), || facts.term_names().into())
    }

    /// The name of a city, with its state if it needs one.
    fn name_of_city(&self, facts: &PageFacts<'_>, city: &Term) -> String {
        let name = || facts.dataset.label(TaxonomyKind::Cities, city).to_owned();
        self.term_names(facts).namesakes.get(city.slug.as_str()).cloned().unwrap_or_else(name)
    }

    /// An asset that is compiled in with this coding.
    pub(crate) fn packed(&self, name: &str, coding: Coding) -> Option<Arc<Rendered>> {
        self.assets.packed(name, coding)
    }

    /// Renders a document. Blocks.
    pub(crate) fn render(&self, wanted: &WantedDocument, of: Material<'_>) -> Result<Rendered, Unrendered> {
        let Material { published, details, detail, hits, .. } = of;
        let epoch = published.map_or(0, |published| published.epoch);
        let facts = published.map(PageFacts::of);
        let made = |kind: ReplyKind, body: String| Ok(Rendered::new(kind, body, RENDERER, epoch));
        let asset = |asset: Option<&Asset>, name: &str, lifetime| {
            let asset = asset.ok_or_else(|| Unrendered::NoSuchAsset(name.into()))?;
            let kind = kind(asset.content_type, Confinement::None, lifetime);
            Ok(Rendered::new(kind, asset.unpacked(), RENDERER, epoch))
        };
        let document = match wanted {
            WantedDocument::Explore(query) => {
                let published = published.ok_or(Unrendered::NoSnapshot)?;
                let (facts, query) = (PageFacts::of(published), (&**query, hits));
                return match query.0.form {
                    FinderForm::Page => made(MAP, explore::page(self, &facts, query)),
                    FinderForm::Widget => made(WIDGET, explore::widget(self, &facts, query)),
                    FinderForm::Points(view) => made(POINTS, explore::points(self, &facts, query, view)),
                };
            }
            WantedDocument::Venue(id) => {
                let published = published.ok_or(Unrendered::NoSnapshot)?;
                let summary = published.dataset.summary(*id).ok_or(Unrendered::UnknownVenue(*id))?;
                let detail = detail.unwrap_or(&DetailShown::Missing);
                return made(MAP, venue::page(self, published, summary, detail));
            }
            WantedDocument::Asset(name) => return asset(self.assets.served_as(name), name, Lifetime::Immutable),
            WantedDocument::Fixed(document) => document,
        };
        match document {
            Document::Front => {
                let (page, again) = front::page_of(self, facts.as_ref(), of);
                let lifetime = again.map_or(HTML.lifetime, Lifetime::Unfinished);
                made(ReplyKind { varies_by_accept: true, lifetime, ..HTML }, page)
            }
            Document::Index => made(
                ReplyKind { varies_by_accept: true, lifetime: Lifetime::Revalidated, ..JSON },
                documents::index(&self.site, facts.as_ref()),
            ),
            Document::Docs | Document::OpenApi => {
                let of_listings = published.map(|published| self.shapes.of_listings(&published.dataset));
                let of_details =
                    published.zip(details).map(|(published, all)| self.shapes.of_details(&published.dataset, all));
                let taxonomies = published.map_or(&[][..], |published| &published.dataset.content.taxonomies);
                let described = Described::of(of_listings.as_deref(), of_details.as_deref(), taxonomies);
                let text = documents::openapi(&self.site, facts.as_ref(), &described);
                if *document == Document::OpenApi {
                    made(JSON, text)
                } else {
                    made(VIEWER, reference::page(self, &text))
                }
            }
            Document::ListingSchema => {
                let seen = self.shapes.of_listings(&published.ok_or(Unrendered::NoSnapshot)?.dataset);
                made(SCHEMA, schema::document(&seen, "Listing", &self.site.public_url, document.path()))
            }
            Document::DetailSchema => {
                let (published, details) = published.zip(details).ok_or(Unrendered::NoSnapshot)?;
                let seen = self.shapes.of_details(&published.dataset, details);
                made(SCHEMA, schema::document(&seen, "Detail", &self.site.public_url, document.path()))
            }
            Document::Explore | Document::Points | Document::Embed => Err(Unrendered::NoSnapshot),
            Document::Llms => {
                let facts = facts.ok_or(Unrendered::NoSnapshot)?;
                made(TEXT, documents::llms(&self.site, &facts, &self.shapes.of_listings(facts.dataset)))
            }
            Document::Robots => made(TEXT, documents::robots(&self.site)),
            Document::FaviconSvg => asset(self.assets.named("mark.svg"), "mark.svg", Lifetime::Day),
            Document::FaviconIco => asset(self.assets.named("favicon.ico"), "favicon.ico", Lifetime::Day),
        }
    }
}
