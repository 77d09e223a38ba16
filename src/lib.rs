//! grandstand
pub mod api;
pub mod snapshot;
pub mod store;
