//! Keeps the copy of the origin: crawl, refresh, details.
//!
//! What to fetch next and what may be published are plain functions ([`plan`], [`pass`], [`refresh`], [`order`],
//! [`amend`]); [`task`] does what they decide, [`details`] and [`sweep`] have workers of their own. It answers no client.
//! Callers: [`crate::app`] starts it, [`crate::audit`] and [`crate::admin`] send it commands, [`crate::answer`] reads details.

pub(crate) mod amend;
pub(crate) mod assumptions;
mod blocking;
pub(crate) mod commands;
pub(crate) mod copies;
pub(crate) mod crawl;
pub(crate) mod details;
pub(crate) mod early_copies;
pub(crate) mod order;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod refresh;
pub(crate) mod sweep;
pub(crate) mod task;
pub(crate) mod terms;
