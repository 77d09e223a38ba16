//! grandstand
pub mod admin;
pub mod api;
pub mod app;
pub mod cache;
pub mod cli;
pub mod clock;
pub mod config;
pub mod limit;
pub mod origin;
pub mod pipeline;
pub mod sample;
pub mod semantics;
pub mod serve;
pub mod snapshot;
pub mod store;
pub mod telemetry;
