//! The API that is mirrored, as values: its JSON texts, its listings, its queries, its replies.
//!
//! Pure (layer 1): text in, values out. It knows neither sockets nor disks nor the clock. Callers are
//! [`crate::snapshot`], [`crate::store`], [`crate::origin`] and [`crate::pipeline`].

pub mod changes;
pub mod envelope;
pub mod hash;
pub mod json;
pub mod links;
pub mod listing;
pub mod modified;
pub mod page;
pub mod query;
pub mod render;
pub mod rewrite;
pub mod route;
pub mod taxonomy;
