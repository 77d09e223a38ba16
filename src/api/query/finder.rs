//! The query of the finder, for people: that of a search, and an order.
//!
//! Callers: [`crate::answer`] parses, [`crate::pages`] shows.

use super::search::{SearchQuery, bad};
use super::{QueryError, path_and_query, values};
use crate::words::named;

named! {
    /// The order of the venues in the finder.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Order, as_str {
        /// As the API sends them: the origin's order, or the best match first.
        Usual = "",
        Name = "name",
        /// The best first.
        Rating = "rating",
        /// Those with most reviews first.
        Reviews = "reviews",
    }
}

/// The query of the finder. Other than in a search, unknown parameters are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FinderQuery {
    pub search: SearchQuery,
    pub order: Order,
    /// Whether it is the widget for other sites.
    pub is_embedded: bool,
}

impl FinderQuery {
    pub(crate) const KNOWN: [&str; 9] = ["q", "near", "radius", "bbox", "sport", "state", "city", "page", "sort"];

    /// Reads a raw query string.
    pub fn parse(raw: &str, is_embedded: bool) -> Result<Self, QueryError> {
        let ([q, near, radius, bbox, sport, state, city, page, sort], _) = values(raw, &Self::KNOWN)?;
        let search = SearchQuery::of([q, near, radius, bbox, sport, state, city, None, page, None])?;
        let order = match sort.as_deref() {
            None => Order::Usual,
            Some(name) => Order::ALL
                .into_iter()
                .find(|order| order.as_str() == name)
                .ok_or_else(|| bad("sort", name, "name, rating or reviews"))?,
        };
        Ok(Self { search, order, is_embedded })
    }

    /// Whether a list of the API cannot have the same venues.
    pub fn searches(&self) -> bool {
        self.search.own_filters().next().is_some()
    }

    /// `path` with the canonical query of another page of the same venues.
    pub fn link(&self, path: &str, page: u64) -> String {
        let mut text = String::new();
        let order = [("sort", self.order.as_str())].into_iter().filter(|(_, value)| !value.is_empty());
        path_and_query(path, self.search.filters().chain(order), page, self.search.list.per_page, &mut text);
        text
    }
}
