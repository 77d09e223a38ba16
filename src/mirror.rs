//! Keeps the copy of the origin: crawl, refresh, details. It answers no client.
//!
//! | question or task | module |
//! |---|---|
//! | the one task that publishes: its schedule and steps, one file for each | [`task`] |
//! | fetching: is an answer newer than the kept copy, and when is it valid | [`copies`] |
//! | which bytes stand for values that did not change | [`wording`] |
//! | the paths of a pass; whether the answers are one state of the origin, or contradict each other | [`pass`] |
//! | what a refresh asks, and what the answers say | [`refresh`] |
//! | where a changed listing stands | [`order`] |
//! | what requests mean at the origin | [`examiner`] |
//! | details: what is stored, what is due, what an answer changes | [`details`] |
//! | reading every page now and then | [`sweep`] |
//! | commands to the mirror | [`commands`] |
//!
//! Pure are `pass`, `refresh`, `order`, `task::schedule`, and the examiner but for its first page.
//!
//! # The life of a refresh
//!
//! Of a mirror's tasks, only [`task`] publishes. `task::schedule` decides its next step and takes in the outcome. A first
//! crawl (`task::reading`) fetches every page and taxonomy, batch by batch. If [`pass`] finds that they are one
//! consistent list, it is published. Closing rounds then revalidate the pages and taxonomies that were not confirmed
//! since the latest change, until there is one instant at which every copy was current. Between rounds the origin's CDN
//! has time to drop old copies, and refreshes continue.
//!
//! A refresh ([`refresh`]) sends at most five conditional requests. If the answers differ from the newest
//! snapshot, `task::amend` places the changed listings by the rule that explains the origin's order
//! ([`order`]), reads the pages that hold them, and finds deleted listings by bisection. If a page disagrees or doubt
//! remains, every page is read again. Whether the list was amended or read again, the conditional requests are then sent
//! once more, and the list is published if they show no further change.
//!
//! Pages that contradict each other although they do not change (`task::contradicting`) are lived with: what
//! they lack is looked for where the cuts lie elsewhere, and the best list is published. The envelope keeps the total
//! that the origin states if that is not the number of listings.
//!
//! | certificate | what it says |
//! |---|---|
//! | `provisional` | every page was read and they fit together, but perhaps not at one instant |
//! | `full` | there is one instant at which the origin had exactly this data |
//! | `incremental` | a refresh of a full or incremental snapshot. While it ran, the first page, the taxonomies and the answer to the probe did not change; the rest of the list is derived from them and from the snapshot before |
//! | `best-effort` | three tries gave no proof, or the pages contradict each other; `/status` says what is not proven |
//!
//! **A refresh misses two things,** if they are not on the first page and the counts of the terms stay the same: a
//! change that leaves `modified` as it was; and a deletion together with the insertion of a listing with an old
//! `modified`. [`sweep`] reads every page from time to time and finds them. A change of a detail that does not
//! change its summary is found when the detail is revalidated. Nothing helps against an origin that answers 304 to
//! everything.
//!
//! [`details`] fetches details independently and publishes nothing.
//!
//! Which listings belong to a slug is known only from evidence ([`crate::snapshot::membership`]): `task::terms` asks
//! for the origin's own lists. What queries mean is asked by examples ([`examiner`]): an answer other than ours, repeated,
//! disproves the shape of the query. [`crate::snapshot::verdicts`] says which queries are then forwarded. Samples of all
//! requests are compared, too, regularly and in audits; what differs is fetched again.
//!
//! What the API's documentation leaves open is answered by the meaning that the examiner finds for each row of a table
//! ([`crate::api::odd`], [`crate::snapshot::odd`]). A request is looked up there only if the query parser calls it odd, or
//! if it selects no listing.
//!
//! Each fetched page and taxonomy is stored with its validators ([`copies`]). It is valid for an interval of the
//! *origin's* time: from when its content was first seen to when it was last confirmed. An answer is as old as its
//! `Age` or the time since its `Date` says, whichever is more (RFC 9111 §4.2.3): it does not matter whether the CDN
//! keeps the origin's `Date` or sets its own. How far the origin's clock is behind ours is learned from answers that no
//! cache kept ([`crate::clock::Clock::origin_lag_ms`]). So an old copy in the CDN can neither certify nor replace newer
//! data. A `generated_at` in the body makes the date earlier, unless [`crate::upstream::stamps`] finds that it is not a
//! time of generation. An answer without `Age` may be an old copy of a cache that does not say so: a changed detail is
//! then asked for once more (`details::fetch`), and once such a cache was seen, the answer confirms less.
//!
//! Callers: [`crate::app`] starts it, [`crate::admin`] sends it commands, [`crate::answer`] reads details.

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
use crate::snapshot::pointer::SnapshotPointer;
use crate::snapshot::verdicts::Verdicts;
use crate::store::Store;

use commands::Commands;
use copies::Copies;
use details::Details;

/// What the mirror's tasks share; cheap to clone.
#[derive(Clone)]
pub struct MirrorContext {
    /// Pages and taxonomies, and the way to the origin.
    pub copies: Copies,
    /// The store of both.
    pub store: Arc<Store>,
    /// The newest snapshot.
    pub newest: SnapshotPointer,
    /// The details.
    pub details: Details,
    /// What requests mean at the origin.
    pub verdicts: Verdicts,
    /// Commands to the mirror.
    pub commands: Commands,
    /// The configuration in effect.
    pub settings: Settings,
    /// The clock.
    pub clock: Clock,
}
