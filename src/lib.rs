//! grandstand
pub mod api;
pub mod cache;
pub mod clock;
pub mod config;
pub mod limit;
pub mod origin;
pub mod sample;
pub mod semantics;
pub mod snapshot;
pub mod store;
