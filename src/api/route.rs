//! Routing: from a normalised path to the endpoint that it names, of the API, of a document of this server, of a dump.
//!
//! Names only: [`crate::edge::pages`] renders documents, [`crate::edge::dumps`] writes dumps. Callers:
//! [`crate::edge::answer`], [`crate::data::cache`], [`crate::edge::pages`], [`crate::edge::dumps`], the commands.

use std::borrow::Cow;

use crate::telemetry::RouteLabel;
use crate::words::named;

use super::listing::ListingId;
use super::query::finder::{FinderForm, FinderQuery};
use super::taxonomy::TaxonomyKind;

/// The methods of known endpoints, for `Allow`.
pub(crate) const ALLOW: &str = "GET, HEAD, OPTIONS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/api/listings.json`
    List,
    /// `/api/listings/{id}.json`
    Detail(ListingId),
    /// `/api/listings/….json` with an invalid id.
    NoSuchListing,
    /// `/api/sports.json`, `/api/states.json`, `/api/cities.json`
    Taxonomy(TaxonomyKind),
    /// `/changes.json`
    Changes,
    /// `/changes.ndjson`
    ChangeRecords,
    /// `/search.json`
    Search,
    /// `/dumps/…`
    Dump(DumpKind),
    Document(Document),
    /// `/venues/{id}`
    Venue(ListingId),
    /// `/assets/…`: what pages are made of.
    Asset,
    /// The path of a document, a dump, the changes or the search with a slash after it, or the base path without one.
    Slashed,
    /// `/dumps` or `/dumps/`: the front page lists the dumps.
    Files,
    /// `/livez` and `/readyz`.
    Probe(HealthCheck),
    Unknown,
}

impl Route {
    /// Names the endpoint of a path; exact and case-sensitive.
    pub fn of(path: &str) -> Self {
        match path {
            "/api/listings.json" => Self::List,
            "/changes.json" => Self::Changes,
            "/changes.ndjson" => Self::ChangeRecords,
            "/search.json" => Self::Search,
            "/livez" => Self::Probe(HealthCheck::Live),
            "/readyz" => Self::Probe(HealthCheck::Ready),
            _ => {
                let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
                if let Some(id) = id.filter(|id| !id.contains('/')) {
                    return ListingId::parse(id).map_or(Self::NoSuchListing, Self::Detail);
                }
                if let Some(kind) = TaxonomyKind::ALL.into_iter().find(|kind| kind.path() == path) {
                    return Self::Taxonomy(kind);
                }
                if path.strip_prefix(ASSETS).is_some_and(|name| !name.is_empty() && !name.contains('/')) {
                    return Self::Asset;
                }
                if matches!(path, "/dumps" | "/dumps/") {
                    return Self::Files;
                }
                let venue = |path: &str| ListingId::parse(path.strip_prefix("/venues/")?).map(Self::Venue);
                let document = |path: &str| Document::at(path).map(Self::Document);
                let named =
                    |path: &str| document(path).or(DumpKind::of_path(path).map(Self::Dump)).or_else(|| venue(path));
                let is_named = |path: &str| {
                    matches!(path, "/changes.json" | "/changes.ndjson" | "/search.json") || named(path).is_some()
                };
                let is_slashed = || path.strip_suffix('/').is_some_and(is_named);
                named(path).unwrap_or_else(|| if is_slashed() { Self::Slashed } else { Self::Unknown })
            }
        }
    }

    pub const fn label(self) -> RouteLabel {
        match self {
            Self::List => RouteLabel::List,
            Self::Detail(_) | Self::NoSuchListing => RouteLabel::Detail,
            Self::Taxonomy(TaxonomyKind::Sports) => RouteLabel::Sports,
            Self::Taxonomy(TaxonomyKind::States) => RouteLabel::States,
            Self::Taxonomy(TaxonomyKind::Cities) => RouteLabel::Cities,
            Self::Changes => RouteLabel::Changes,
            Self::ChangeRecords => RouteLabel::ChangeRecords,
            Self::Search => RouteLabel::Search,
            Self::Dump(_) => RouteLabel::Dumps,
            Self::Document(Document::OpenApi) => RouteLabel::Document,
            Self::Document(document) => match document.window() {
                LimitWindow::Pages => RouteLabel::Page,
                LimitWindow::Api | LimitWindow::Uncounted => RouteLabel::Document,
            },
            Self::Asset => RouteLabel::Asset,
            Self::Venue(_) | Self::Slashed | Self::Files => RouteLabel::Page,
            Self::Probe(_) => RouteLabel::Probe,
            Self::Unknown => RouteLabel::Other,
        }
    }

    /// Which window of the rate limit counts requests for it.
    pub const fn window(self) -> LimitWindow {
        match self {
            Self::Document(document) => document.window(),
            Self::Venue(_) | Self::Asset | Self::Slashed | Self::Files => LimitWindow::Pages,
            Self::Probe(_) => LimitWindow::Uncounted,
            _ => LimitWindow::Api,
        }
    }

    /// Whether it is one of the pages and documents that `pages.enabled` turns off.
    pub const fn is_of_pages(self) -> bool {
        matches!(self, Self::Document(_) | Self::Venue(_) | Self::Asset | Self::Slashed | Self::Files)
    }
}

/// What a load balancer or an uptime robot asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthCheck {
    /// Whether the process runs.
    Live,
    /// Whether it has something to answer from.
    Ready,
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Document, path {
        /// For people: HTML.
        Front = "/",
        /// For programs: JSON.
        Index = "/",
        Docs = "/docs",
        OpenApi = "/openapi.json",
        Explore = "/explore",
        /// What the map of the finder shows: JSON.
        Points = "/explore/points.json",
        Embed = "/embed",
        ListingSchema = "/schema/listing.json",
        DetailSchema = "/schema/detail.json",
        Llms = "/llms.txt",
        Robots = "/robots.txt",
        FaviconSvg = "/favicon.svg",
        FaviconIco = "/favicon.ico",
    }
}

/// Which window of the rate limit counts a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitWindow {
    /// That of the API.
    Api,
    /// That of pages and their assets: ten times as large, and always this machine's own.
    Pages,
    /// None: probes are free.
    Uncounted,
}

/// What lies in front of the name of an asset.
pub(crate) const ASSETS: &str = "/assets/";

impl Document {
    /// The document at a path; of `/` the one for people.
    pub fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|document| document.path() == path)
    }

    pub const fn window(self) -> LimitWindow {
        match self {
            Self::ListingSchema | Self::DetailSchema | Self::Llms | Self::Robots => LimitWindow::Api,
            _ => LimitWindow::Pages,
        }
    }

    /// Whether it says something of the data where there is some.
    pub const fn shows_data(self) -> bool {
        !matches!(self, Self::Robots | Self::FaviconSvg | Self::FaviconIco)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WantedDocument {
    /// One that depends on nothing else in the request.
    Fixed(Document),
    /// The finder or its widget, with these filters and this page.
    Explore(Box<FinderQuery>),
    Venue(ListingId),
    Asset(Box<str>),
}

impl WantedDocument {
    pub fn path(&self) -> Cow<'static, str> {
        match self {
            Self::Fixed(document) => document.path().into(),
            Self::Explore(query) => {
                let document = match query.form {
                    FinderForm::Page => Document::Explore,
                    FinderForm::Widget => Document::Embed,
                    FinderForm::Points(_) => Document::Points,
                };
                document.path().into()
            }
            Self::Venue(id) => format!("/venues/{id}").into(),
            Self::Asset(name) => format!("{ASSETS}{name}").into(),
        }
    }

    /// Whether it shows the snapshot that is served.
    pub const fn shows_data(&self) -> bool {
        match self {
            Self::Fixed(document) => document.shows_data(),
            Self::Explore(_) | Self::Venue(_) => true,
            Self::Asset(_) => false,
        }
    }

    /// What it weighs as a key, in bytes, about.
    pub fn weight(&self) -> usize {
        match self {
            Self::Fixed(_) | Self::Venue(_) => 16,
            Self::Explore(query) => query.weight(),
            Self::Asset(name) => name.len(),
        }
    }
}

named! {
    /// One of the dumps, by its path on the public listener.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum DumpKind, path {
        /// Each listing on a line of its own, as the origin sent it.
        Ndjson = "/dumps/listings.ndjson",
        /// The listings as a table (RFC 4180).
        Csv = "/dumps/listings.csv",
        /// The listings as points on a map (RFC 7946).
        Geojson = "/dumps/listings.geojson",
        /// Each detail on a line of its own, with the id of its listing.
        Details = "/dumps/details.ndjson",
        DetailsCsv = "/dumps/details.csv",
    }
}

impl DumpKind {
    /// The dump of that path, which is compared exactly.
    pub fn of_path(path: &str) -> Option<Self> {
        // Nearly every path is another one.
        path.starts_with("/dumps/").then(|| Self::ALL.into_iter().find(|kind| kind.path() == path)).flatten()
    }

    /// The word of `bundle export --format`, also for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Geojson => "geojson",
            Self::Details => "details-ndjson",
            Self::DetailsCsv => "details-csv",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    pub const fn has_details(self) -> bool {
        matches!(self, Self::Details | Self::DetailsCsv)
    }

    pub const fn is_table(self) -> bool {
        matches!(self, Self::Csv | Self::DetailsCsv)
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson | Self::Details => "application/x-ndjson",
            // RFC 4180 §3, RFC 7111 §5.1.
            Self::Csv | Self::DetailsCsv => "text/csv; charset=utf-8; header=present",
            Self::Geojson => "application/geo+json",
        }
    }

    /// `Content-Disposition` (RFC 6266): a browser saves it under this name.
    pub const fn disposition(self, is_selection: bool) -> &'static str {
        match (self, is_selection) {
            (Self::Ndjson, false) => "attachment; filename=\"listings.ndjson\"",
            (Self::Csv, false) => "attachment; filename=\"listings.csv\"",
            (Self::Geojson, false) => "attachment; filename=\"listings.geojson\"",
            (Self::Details, false) => "attachment; filename=\"details.ndjson\"",
            (Self::DetailsCsv, false) => "attachment; filename=\"details.csv\"",
            (Self::Ndjson, true) => "attachment; filename=\"selected-listings.ndjson\"",
            (Self::Csv, true) => "attachment; filename=\"selected-listings.csv\"",
            (Self::Geojson, true) => "attachment; filename=\"selected-listings.geojson\"",
            (Self::Details, true) => "attachment; filename=\"selected-details.ndjson\"",
            (Self::DetailsCsv, true) => "attachment; filename=\"selected-details.csv\"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn paths_name_endpoints_exactly() {
        for (path, route) in [
            ("/api/listings.json", Route::List),
            ("/api/listings.json/", Route::Unknown),
            ("/api/Listings.json", Route::Unknown),
            ("/api/listings/7.json", Route::Detail(ListingId(7))),
            ("/api/listings/007.json", Route::NoSuchListing),
            ("/api/listings/x.json", Route::NoSuchListing),
            ("/api/listings/.json", Route::NoSuchListing),
            ("/api/listings/7", Route::Unknown),
            ("/api/listings/7/8.json", Route::Unknown),
            ("/api/cities.json", Route::Taxonomy(TaxonomyKind::Cities)),
            ("/changes.json", Route::Changes),
            ("/changes.ndjson", Route::ChangeRecords),
            ("/search.json", Route::Search),
            ("/search.json/", Route::Slashed),
            ("/changes.json/", Route::Slashed),
            ("/changes.ndjson/", Route::Slashed),
            ("/search.json//", Route::Unknown),
            ("/dumps/listings.csv", Route::Dump(DumpKind::Csv)),
            ("/dumps/listings.xml", Route::Unknown),
            ("/", Route::Document(Document::Front)),
            ("/explore", Route::Document(Document::Explore)),
            ("/explore/", Route::Slashed),
            ("/venues/7", Route::Venue(ListingId(7))),
            ("/venues/7/", Route::Slashed),
            ("/venues/07", Route::Unknown),
            ("/venues/", Route::Unknown),
            ("/assets/style.css", Route::Asset),
            ("/assets/", Route::Unknown),
            ("/assets/a/b", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }

    #[test]
    fn every_path_names_its_document() {
        for document in Document::ALL {
            let named = Document::at(document.path()).unwrap();
            assert!(named == document || (named, document) == (Document::Front, Document::Index), "{document:?}");
        }
        for path in ["", "/docs/", "/Docs", "/openapi", "/index.html"] {
            assert_eq!(Document::at(path), None, "{path}");
        }
    }

    #[test]
    fn each_dump_has_its_own_path_name_and_file_name() {
        for kind in DumpKind::ALL {
            assert_eq!((DumpKind::of_path(kind.path()), DumpKind::of_name(kind.as_str())), (Some(kind), Some(kind)));
            let file = kind.path().strip_prefix("/dumps/").unwrap();
            assert_eq!(kind.disposition(false), format!("attachment; filename=\"{file}\""));
            assert_eq!(kind.disposition(true), format!("attachment; filename=\"selected-{file}\""));
        }
        for path in ["/dumps/", "/dumps/listings.CSV", "/dumps/listings.csv/", "/dumps/bundle", "/listings.csv"] {
            assert_eq!(DumpKind::of_path(path), None, "{path}");
        }
    }
}
