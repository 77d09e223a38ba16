//! The only way to the origin: one client, one budget, one health policy.
//!
//! It knows HTTP, how often the origin may be asked, and how old an answer is. Not here: what the mirror wants, and what
//! a cache keeps. Decisions are plain functions ([`budget`], [`window`], [`health`]). [`client`] asks for documents and
//! [`forward`] forwards client requests, both over one [`wire`]. [`ledger`] keeps the times of requests over restarts,
//! [`generated_at`] learns whether a time in a body is that of the answer, [`body_memory`] bounds what bodies may take.
//!
//! Three types to know: [`client::OriginClient`], [`budget::Budget`] with its permits, [`ask::AskError`].
//!
//! Callers: [`crate::mirror`], [`crate::edge::proxy`]; [`crate::server`] builds it and shows its state.

pub(crate) mod ask;
pub(crate) mod body_memory;
pub mod budget;
pub mod client;
pub mod connector;
pub(crate) mod forward;
pub(crate) mod generated_at;
pub(crate) mod health;
mod ledger;
pub mod status;
pub(crate) mod trust;
pub(crate) mod window;
pub mod wire;
