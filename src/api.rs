//! The API that is mirrored, as values: its JSON texts, its listings, its queries, its replies.
//!
//! Pure: text in, values out. It knows neither sockets nor disks nor the clock. Callers: most rooms above it.

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
pub mod taxonomy;
pub(crate) mod values;
