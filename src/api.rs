//! The mirrored API as values: its JSON texts, listings, queries and replies.
//!
//! Pure: text in, values out. It knows neither sockets nor disks nor the clock. What a query means where the documentation
//! is silent is a value here ([`odd`]); which meaning holds is found by [`crate::mirror::examiner`]. Not here: HTTP itself
//! ([`crate::protocol`]), and which listings a query selects ([`crate::data::snapshot`]).
//!
//! Three types to know: [`query::ListQuery`], a query that is valid; [`listing::Summary`], one listing of a list with its
//! hash; [`page::Envelope`], what the origin's lists have around their listings.
//!
//! Callers: most rooms above it.

pub mod facets;
pub mod folding;
pub mod form;
pub mod hash;
pub mod json;
pub mod links;
pub mod listing;
pub(crate) mod modified;
pub(crate) mod odd;
pub mod page;
pub mod query;
pub mod render;
pub mod route;
pub mod schema;
pub(crate) mod shape;
pub(crate) mod states;
pub mod taxonomy;
pub(crate) mod values;
