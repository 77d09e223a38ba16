//! grandstand
pub mod api;
pub mod config;
pub mod sample;
pub mod snapshot;
