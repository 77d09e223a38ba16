//! The origin's side: a polite client, the crawl, the refresh.
//!
//! Layer 3. What to fetch next and what may be published are plain functions ([`plan`], [`pass`], [`refresh`], [`order`],
//! [`amend`], [`window`], [`budget::choice`]); the rest moves bytes. It answers no client. Callers: [`crate::app`] wires
//! it, [`crate::serve`] reads through it.

pub(crate) mod amend;
pub(crate) mod assumptions;
pub(crate) mod audit;
mod blocking;
pub mod budget;
pub mod chance;
pub mod client;
pub mod commands;
pub mod copies;
pub mod crawl;
pub mod details;
pub mod early;
pub mod eta;
pub mod failures;
pub mod flight;
pub mod health;
pub mod ledger;
pub mod mirror;
pub mod order;
pub mod pass;
pub mod plan;
pub mod refresh;
pub mod room;
pub mod stamps;
pub mod status;
pub mod sweep;
pub mod terms;
pub mod told;
pub mod transport;
pub mod window;
