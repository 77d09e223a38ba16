//! From a normalised path to the endpoint that it names.
//!
//! Callers: [`crate::answer`].

use crate::telemetry::RouteLabel;

use super::document::{ASSETS, Document, Window};
use super::dump::DumpKind;
use super::listing::ListingId;
use super::taxonomy::TaxonomyKind;

/// The methods of known endpoints, for `Allow`.
pub(crate) const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The endpoint of a path.
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
    /// `/dumps/…`
    Dump(DumpKind),
    /// A document of this server.
    Document(Document),
    /// `/assets/…`: what pages are made of.
    Asset,
    /// Any other path.
    Unknown,
}

impl Route {
    /// Names the endpoint of a path; exact and case-sensitive.
    pub fn of(path: &str) -> Self {
        match path {
            "/api/listings.json" => Self::List,
            "/changes.json" => Self::Changes,
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
                let dump = || DumpKind::of_path(path).map_or(Self::Unknown, Self::Dump);
                Document::at(path).map_or_else(dump, Self::Document)
            }
        }
    }

    /// The label for metrics and logs.
    pub const fn label(self) -> RouteLabel {
        match self {
            Self::List => RouteLabel::List,
            Self::Detail(_) | Self::NoSuchListing => RouteLabel::Detail,
            Self::Taxonomy(TaxonomyKind::Sports) => RouteLabel::Sports,
            Self::Taxonomy(TaxonomyKind::States) => RouteLabel::States,
            Self::Taxonomy(TaxonomyKind::Cities) => RouteLabel::Cities,
            Self::Changes => RouteLabel::Changes,
            Self::Dump(_) => RouteLabel::Dumps,
            Self::Document(document) => match document.window() {
                Window::Pages => RouteLabel::Page,
                Window::Api => RouteLabel::Document,
            },
            Self::Asset => RouteLabel::Asset,
            Self::Unknown => RouteLabel::Other,
        }
    }

    /// Which window of the rate limit counts requests for it.
    pub const fn window(self) -> Window {
        match self {
            Self::Document(document) => document.window(),
            Self::Asset => Window::Pages,
            Self::List
            | Self::Detail(_)
            | Self::NoSuchListing
            | Self::Taxonomy(_)
            | Self::Changes
            | Self::Dump(_)
            | Self::Unknown => Window::Api,
        }
    }

    /// Whether it is one of the pages and documents that `pages.enabled` turns off.
    pub const fn is_of_pages(self) -> bool {
        matches!(self, Self::Document(_) | Self::Asset)
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
            ("/dumps/listings.csv", Route::Dump(DumpKind::Csv)),
            ("/dumps/listings.xml", Route::Unknown),
            ("/", Route::Document(Document::Front)),
            ("/explore", Route::Document(Document::Explore)),
            ("/explore/", Route::Unknown),
            ("/assets/style.css", Route::Asset),
            ("/assets/", Route::Unknown),
            ("/assets/a/b", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
