//! The API that is mirrored, as values: its JSON texts, its listings, its queries, its replies.
//!
//! Pure: text in, values out. It knows neither sockets nor disks nor the clock. Callers: most rooms above it.

pub(crate) mod edges;
pub(crate) mod hash;
pub mod json;
pub mod links;
pub(crate) mod listing;
pub(crate) mod modified;
pub(crate) mod page;
pub(crate) mod query;
pub(crate) mod render;
pub(crate) mod route;
pub(crate) mod taxonomy;
