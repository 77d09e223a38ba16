//! grandstand
pub mod api;
pub mod config;
pub mod snapshot;
