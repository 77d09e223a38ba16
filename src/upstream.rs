//! The only way to the origin: one client, one budget, one health policy.
//!
//! It knows HTTP and how often the origin may be asked, but neither what the mirror wants nor what a cache keeps.
//! Decisions are plain functions ([`budget`], [`window`], [`health`]). [`client`] asks for documents and [`forward`]
//! forwards client requests, both over one [`wire`]. Callers: [`crate::mirror`], [`crate::proxy`];
//! [`crate::app`] builds it.

pub(crate) mod ask;
pub mod budget;
pub mod client;
pub mod connector;
pub(crate) mod forward;
pub(crate) mod health;
mod ledger;
pub(crate) mod room;
pub(crate) mod stamps;
pub mod status;
pub(crate) mod trust;
pub(crate) mod window;
pub mod wire;
