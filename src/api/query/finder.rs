//! The query of the finder, for people: that of a search.
//!
//! Callers: [`crate::answer`] parses, [`crate::pages`] shows.

use super::search::{Order, SearchQuery};
use super::{QueryError, values};

/// The query of the finder. Other than in a search, unknown parameters are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FinderQuery {
    pub search: SearchQuery,
    /// Whether it is the widget for other sites.
    pub is_embedded: bool,
}

impl FinderQuery {
    pub(crate) const KNOWN: [&str; 9] = ["q", "near", "radius", "bbox", "sport", "state", "city", "page", "sort"];

    /// Reads a raw query string.
    pub fn parse(raw: &str, is_embedded: bool) -> Result<Self, QueryError> {
        let ([q, near, radius, bbox, sport, state, city, page, sort], _) = values(raw, &Self::KNOWN)?;
        // An order by distance is left behind where `near` goes.
        let sort = sort.filter(|sort| sort != Order::Distance.as_str() || near.is_some());
        let search = SearchQuery::of([q, near, radius, bbox, sport, state, city, None, page, None, sort])?;
        Ok(Self { search, is_embedded })
    }

    /// Whether a list of the API cannot have the same venues.
    pub fn selects(&self) -> bool {
        self.search.own_filters().next().is_some()
    }

    /// Whether a list of the API cannot have the same venues in the same order.
    pub fn searches(&self) -> bool {
        self.selects() || self.search.order != Order::Usual
    }

    /// `path` of a file with the query of the same venues.
    pub fn file(&self, path: &str) -> String {
        let mut text = String::new();
        self.search.in_usual_order().write_at(path, 1, &mut text);
        text
    }

    /// `path` with the canonical query of another page of the same venues.
    pub fn link(&self, path: &str, page: u64) -> String {
        let mut text = String::new();
        self.search.write_at(path, page, &mut text);
        text
    }
}
