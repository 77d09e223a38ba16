//! Keeps the copy of the origin: crawl, refresh, details. It answers no client.
//!
//! Pure decisions:
//!
//! | question | module |
//! |---|---|
//! | the paths of a pass, and whether the answers are one state of the origin | [`pass`] |
//! | pages that contradict each other, again and again | [`contradiction`] |
//! | what a refresh asks, and what the answers say | [`refresh`] |
//! | where a changed listing stands, and which listings are gone | [`order`], [`amend`] |
//! | what the mirror does next | [`plan`] |
//!
//! Modules that act on them:
//!
//! | task | module |
//! |---|---|
//! | the one task that publishes: its steps, active work, knowledge and schedule | [`task`], one file for each |
//! | fetching several pages and taxonomies | [`crawl`] |
//! | one answer: is it newer than the kept copy, and when is it valid | [`copies`] |
//! | what the origin lists for a term, what its filters mean | [`terms`], [`assumptions`] |
//! | details: what is stored, what is due, what an answer changes | [`details`] |
//! | reading every page now and then | [`sweep`] |
//! | client reads before the first snapshot | [`early_copies`] |
//! | how the origin answers odd requests | [`edges`] |
//! | commands to the mirror | [`commands`] |
//!
//! Callers: [`crate::app`] starts it, [`crate::audit`] and [`crate::admin`] send it commands, [`crate::answer`] reads details.

mod amend;
mod assumptions;
pub(crate) mod commands;
mod contradiction;
pub(crate) mod copies;
pub(crate) mod crawl;
pub(crate) mod details;
pub(crate) mod early_copies;
pub(crate) mod edges;
mod order;
pub(crate) mod pass;
mod plan;
mod refresh;
pub(crate) mod sweep;
pub(crate) mod task;
mod terms;
