//! Mirror: the copy of the origin, kept by crawl, refresh and details; and what its queries mean there.
//!
//! It decides what is published and asks for it; it answers no client, and neither sends requests itself
//! ([`crate::origin`]) nor stores ([`crate::data`]).
//!
//! | question or task | module |
//! |---|---|
//! | the one task that publishes: the life of a refresh; schedule and steps, one file for each | [`task`] |
//! | fetching: is an answer newer than the kept copy, and when is it valid | [`copies`] |
//! | which bytes stand for values that did not change | [`wording`] |
//! | the paths of a pass; whether the answers are one state of the origin, or contradict each other | [`pass`] |
//! | what a refresh asks, and what the answers say | [`refresh`] |
//! | where a changed listing stands | [`order`] |
//! | what requests mean at the origin | [`examiner`] |
//! | details: what is due, what an answer changes | [`details`] |
//! | reading every page now and then | [`sweep`] |
//! | commands to the mirror | [`commands`] |
//!
//! Pure are `pass`, `refresh`, `order`, `task::schedule`, and the examiner but for its first page.
//!
//! Three types to know: [`task::Mirror`], which alone publishes; [`copies::Copies`], what the origin sent, dated in the
//! origin's time; [`examiner::Examiner`].
//!
//! Callers: [`crate::server`] starts it and sends it the commands of the admin API, [`crate::edge::answer`] has details
//! fetched on demand, [`crate::fleet`] for replicas.

pub mod commands;
pub mod copies;
pub mod details;
pub mod examiner;
mod order;
pub(crate) mod pass;
mod refresh;
pub mod sweep;
pub mod task;
mod wording;

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Settings;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::snapshot::verdicts::Verdicts;
use crate::data::store::Store;

use crate::data::details::Details;
use commands::Commands;
use copies::Copies;

/// What the mirror's tasks share; cheap to clone.
#[derive(Clone)]
pub struct MirrorContext {
    /// Pages and taxonomies, and the way to the origin.
    pub copies: Copies,
    pub store: Arc<Store>,
    pub newest: SnapshotPointer,
    pub details: Details,
    /// What requests mean at the origin.
    pub verdicts: Verdicts,
    pub commands: Commands,
    pub settings: Settings,
    pub clock: Clock,
}
