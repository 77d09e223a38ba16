//! The rules of HTTP as plain functions of values.
//!
//! Validators, preconditions, negotiation, freshness, client addresses, targets and problem documents. No socket, no
//! clock, no configuration, and nothing about the mirrored API. Callers: `answer`, `upstream`, `proxy` and `limit`.

pub(crate) mod cache_status;
pub(crate) mod caching;
pub(crate) mod client_address;
pub(crate) mod coding;
pub(crate) mod excerpt;
pub(crate) mod framing;
pub(crate) mod freshness;
pub(crate) mod grammar;
pub(crate) mod hops;
pub mod precondition;
pub(crate) mod problem;
pub(crate) mod proxy_protocol;
pub(crate) mod ranges;
pub mod target;
#[cfg(test)]
mod tests;
