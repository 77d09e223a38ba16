//! grandstand
pub mod api;
pub mod snapshot;
