//! Keeps the copy of the origin: crawl, refresh, details. It answers no client.
//!
//! | question or task | module |
//! |---|---|
//! | the one task that publishes: its schedule and steps, one file for each | [`task`] |
//! | fetching: is an answer newer than the kept copy, and when is it valid | [`copies`] |
//! | the paths of a pass; whether the answers are one state of the origin, or contradict each other | [`pass`] |
//! | what a refresh asks, and what the answers say | [`refresh`] |
//! | where a changed listing stands | [`order`] |
//! | what the origin's filters mean | [`assumptions`] |
//! | details: what is stored, what is due, what an answer changes; client reads before the first snapshot | [`details`] |
//! | reading every page now and then | [`sweep`] |
//! | how the origin answers odd requests | [`edges`] |
//! | commands to the mirror | [`commands`] |
//!
//! Pure are `pass`, `refresh`, `order`, `assumptions`, `task::schedule` and `edges::plan`. Callers: [`crate::app`] starts
//! it, [`crate::audit`] and [`crate::admin`] send it commands, [`crate::answer`] reads details.

mod assumptions;
pub mod commands;
pub mod copies;
pub mod details;
pub mod edges;
mod order;
pub(crate) mod pass;
mod refresh;
pub mod sweep;
pub mod task;

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Settings;
use crate::snapshot::edges::Edges;
use crate::snapshot::pointer::SnapshotPointer;
use crate::store::Store;

use commands::Commands;
use copies::Copies;
use details::Details;

/// What the mirror's tasks and the audit share; cheap to clone.
#[derive(Clone)]
pub struct Shared {
    /// Pages and taxonomies, and the way to the origin.
    pub copies: Copies,
    /// The store of both.
    pub store: Arc<Store>,
    /// The newest snapshot.
    pub newest: SnapshotPointer,
    /// The details.
    pub details: Details,
    /// What was learned of the origin's answers to odd requests.
    pub edges: Edges,
    /// Commands to the mirror.
    pub commands: Commands,
    /// The configuration in effect.
    pub settings: Settings,
    /// The clock.
    pub clock: Clock,
}
