//! The rules of HTTP as plain functions of values.
//!
//! Validators, preconditions, negotiation, freshness, client addresses, targets and problem documents. No socket, no
//! clock, no configuration.
//!
//! Three types to know: [`caching::Policy`], what may be stored and reused (RFC 9111); [`precondition::EntityTag`];
//! [`problem::Problem`], every error that clients get (RFC 9457).
//!
//! Callers: [`crate::edge`], [`crate::origin`]; [`crate::config`] for the types of its values.
//!
#![doc = include_str!("protocol/DEVIATIONS.md")]

pub mod cache_status;
pub mod caching;
pub mod client_address;
pub mod coding;
pub(crate) mod excerpt;
pub(crate) mod framing;
pub mod freshness;
pub(crate) mod grammar;
pub mod hops;
pub mod precondition;
pub(crate) mod problem;
pub mod proxy_protocol;
pub(crate) mod ranges;
pub mod target;
#[cfg(test)]
mod tests;
