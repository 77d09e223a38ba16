//! The origin's side: a polite client, the crawl, the refresh.
//!
//! Layer 3. What to fetch next and what may be published are plain functions ([`plan`], [`pass`], [`refresh`], [`order`],
//! [`amend`], [`window`], [`budget`]); the rest moves bytes. It answers no client. Callers: [`crate::app`] wires
//! it, [`crate::serve`] reads through it.

pub(crate) mod amend;
pub(crate) mod assumptions;
pub(crate) mod audit;
mod blocking;
pub(crate) mod budget;
pub(crate) mod chance;
pub(crate) mod client;
pub(crate) mod commands;
pub(crate) mod copies;
pub(crate) mod crawl;
pub(crate) mod details;
pub(crate) mod early;
pub(crate) mod eta;
pub(crate) mod failures;
pub(crate) mod flight;
pub(crate) mod health;
pub(crate) mod ledger;
pub(crate) mod mirror;
pub(crate) mod order;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod refresh;
pub(crate) mod room;
pub(crate) mod stamps;
pub(crate) mod status;
pub(crate) mod sweep;
pub(crate) mod terms;
pub(crate) mod told;
pub(crate) mod transport;
pub(crate) mod window;
