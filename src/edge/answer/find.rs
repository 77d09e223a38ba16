//! Lookup of an answer: in the snapshot if that covers it, otherwise through the origin.
//!
//! It may wait for the origin; nothing here blocks the thread. Callers: [`super`].

mod from_snapshot;
mod odd;

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::api::links::Rewrite;
use crate::clock::{Clock, WallTime, ceil_seconds};
use crate::config::Settings;
use crate::data::cache::Cache;
use crate::data::cache::reply::{Rendered, Reply, Stored};
use crate::data::details::Details;
use crate::data::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::data::snapshot::verdicts::Verdicts;
use crate::data::snapshots::earlier::EarlierSnapshots;
use crate::edge::pages::Pages;
use crate::edge::proxy::Proxy;
use crate::edge::search::Searches;
use crate::mirror::details::on_demand::OnDemand;
use crate::mirror::examiner::instants::Instants;
use crate::origin::client::AskError;
use crate::origin::status::OriginStatus;
use crate::protocol::cache_status::CacheOutcome;
use crate::protocol::coding::Coding;
use crate::protocol::hops::Caller;
use crate::protocol::problem::Problem;
use crate::tasks::Aborted;
use crate::tasks::fair::FairSemaphore;

use super::admit::ApiTarget;
use super::compose::FromSnapshot;

pub(super) use from_snapshot::{unsearched, unselected};

pub(crate) enum Found {
    Snapshot(FromSnapshot),
    Through {
        stored: Arc<Stored>,
        outcome: CacheOutcome,
    },
    Document {
        document: Arc<Rendered>,
        /// The snapshot that it shows; `None` if it shows none.
        published: Option<Arc<Snapshot>>,
    },
    Problem(Problem),
}

impl Found {
    /// What the snapshot answers without the origin. `pinned`: the client named it.
    fn of_snapshot(reply: Arc<Reply>, published: Arc<Snapshot>, pinned: bool) -> Self {
        Self::Snapshot(FromSnapshot { reply, published, forwarded: None, pinned, is_provisional: false })
    }

    /// Our own answer in place of the origin's.
    fn provisional(mut self) -> Self {
        if let Self::Snapshot(found) = &mut self {
            found.is_provisional = true;
        }
        self
    }
}

pub(crate) struct Finder {
    pub current: SnapshotPointer,
    /// Replies that were asked for again.
    pub cache: Cache,
    /// `None` in shield use.
    pub details: Option<Details>,
    /// Details that clients wait for.
    pub on_demand: OnDemand,
    /// How the origin is; `None` offline.
    pub origin: Option<OriginStatus>,
    /// The way to the origin; `None` offline.
    pub proxy: Option<Proxy>,
    /// Asks the origin about instants; `None` without a mirror's origin.
    pub instants: Option<Instants>,
    /// Rewrites `api_url`.
    pub rewrite: Rewrite,
    /// What links start with.
    pub public_url: String,
    /// What renders pages; a reload replaces it.
    pub pages: ArcSwap<Pages>,
    /// How many documents are rendered at the same time: two, of different households. Others wait, so that many of them
    /// take neither threads nor memory.
    pub rendering: FairSemaphore,
    pub earlier: EarlierSnapshots,
    /// `None` in shield use.
    pub searches: Option<Searches>,
    /// The reasons in a 503 for missing data, if there is no origin (offline, replica).
    pub absent: Absent,
    pub verdicts: Verdicts,
    pub clock: Clock,
    /// `drain`, for the connections.
    pub settings: Settings,
}

impl Finder {
    /// Finds the answer to a request of a client that likes `coding` best. What is slow anyway is in boxes: each connection,
    /// and each stream, would have room for it otherwise.
    pub(crate) async fn find(&self, target: ApiTarget, coding: Coding, client: Caller) -> Found {
        let found = self.look_up(target, &client).await.unwrap_or_else(Found::Problem);
        // Nothing but a few instructions unless the body is large and nobody has asked for this coding yet.
        match &found {
            Found::Snapshot(FromSnapshot { reply, .. }) => reply.body.prepare(coding).await,
            Found::Through { stored, .. } => stored.body.prepare(coding).await,
            Found::Document { .. } | Found::Problem(_) => {}
        }
        found
    }

    async fn look_up(&self, target: ApiTarget, client: &Caller) -> Result<Found, Problem> {
        let Some(published) = self.current.get() else {
            return self.uncovered(target, client).await;
        };
        match target {
            ApiTarget::List { mut query, pin, has_size, raw } => {
                let named = self.named(published, pin.as_deref())?;
                if !has_size {
                    query.per_page = named.published.meta.form.page_size;
                }
                self.list(named, query, raw.as_deref(), client).await
            }
            ApiTarget::Taxonomy { kind, pin } => self.taxonomy(self.named(published, pin.as_deref())?, kind).await,
            ApiTarget::Detail(id) => self.detail(published, id, client).await,
            ApiTarget::NoListing(id) => self.no_listing(&id, client).await,
            ApiTarget::OddList(asked) => self.odd(published, *asked, client).await,
            ApiTarget::Search(query) => self.search(published, query, client).await,
            ApiTarget::Changes { since } => self.changes(published, since?).await,
        }
    }

    /// Before the first publication, or in shield use.
    async fn uncovered(&self, target: ApiTarget, client: &Caller) -> Result<Found, Problem> {
        if let Some(pin) = target.pin() {
            return Err(Problem::snapshot_gone(pin, None));
        }
        let is_shield = self.details.is_none();
        match target {
            ApiTarget::List { query, .. } => self.through(&query.path_and_query(), false, client).await,
            ApiTarget::Taxonomy { kind, .. } => self.through(kind.path(), true, client).await,
            ApiTarget::Detail(id) => self.through(&format!("/api/listings/{id}.json"), false, client).await,
            ApiTarget::NoListing(id) if is_shield => {
                self.through(&format!("/api/listings/{id}.json"), false, client).await
            }
            ApiTarget::NoListing(id) => Err(Problem::unknown_listing(&id[..])),
            // A shield forwards whatever it does not refuse; a mirror answers as the documentation says until it has asked.
            ApiTarget::OddList(asked) => {
                let ours = asked.ours?;
                let path = if is_shield { asked.odd.path(&asked.odd.odds) } else { ours.path_and_query() };
                self.through(&path, false, client).await
            }
            ApiTarget::Changes { .. } if is_shield => Err(Problem::unknown_path("/changes.json")),
            ApiTarget::Changes { .. } | ApiTarget::Search(_) => Err(no_snapshot()),
        }
    }

    async fn through(&self, path: &str, rewrites: bool, client: &Caller) -> Result<Found, Problem> {
        self.read(path, rewrites, false, None, client).await
    }

    /// The origin's answer. `spare`: as in [`Proxy::read`]. `beside`: the snapshot that it must not be older than.
    async fn read(
        &self,
        path: &str,
        rewrites: bool,
        spare: bool,
        beside: Option<&Snapshot>,
        client: &Caller,
    ) -> Result<Found, Problem> {
        let Some(proxy) = &self.proxy else {
            let problem = if self.current.get().is_some() {
                Problem::unavailable(self.absent.query).after(self.absent.retry_after)
            } else {
                Problem::unavailable(self.absent.data).after(30)
            };
            return Err(problem);
        };
        let after = beside.map(|snapshot| WallTime::from_millis(snapshot.meta.published_ms));
        let read = Box::pin(proxy.read(path, rewrites, spare, after, client)).await;
        read.map(|(stored, outcome)| Found::Through { stored, outcome }).map_err(|error| failed(&error))
    }
}

/// The reasons, and when the client may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    /// For a missing detail.
    pub detail: &'static str,
    /// For a query that only the origin can answer.
    pub query: &'static str,
    /// Without any snapshot.
    pub data: &'static str,
    /// `Retry-After` in seconds, if there is a snapshot.
    pub retry_after: u64,
}

impl Absent {
    /// An offline server gets more by hand only.
    pub(crate) const OFFLINE: Self = Self {
        detail: "this server is offline and cannot fetch it",
        query: "Only the origin can answer this query, and this server is offline",
        data: "No snapshot has been imported yet",
        retry_after: 86_400,
    };

    /// A replica gets more as soon as its publisher has it.
    pub(crate) const REPLICA: Self = Self {
        detail: "this server is a replica, and its publisher did not have it yet",
        query: "Only the origin can answer this query, and this server is a replica, which does not ask it",
        data: "This server is a replica and has no data from its publisher yet",
        retry_after: 60,
    };
}

pub(super) fn no_snapshot() -> Problem {
    Problem::unavailable("There is no snapshot yet").after(30)
}

/// The error for a client when the origin gives no answer.
pub(crate) fn failed(error: &AskError) -> Problem {
    // The log and `/status` have the details. Clients need not know addresses of the origin.
    if error.is_nonsense() {
        let what = match error {
            AskError::TooLarge { .. } => "is too large".to_owned(),
            AskError::Redirect { .. } => "is a redirect, which is not followed".to_owned(),
            AskError::Status { status, .. } => format!("has the status {status}"),
            _ => "is not a valid answer to this request".to_owned(),
        };
        return Problem::bad_origin_answer(&what);
    }
    let why = match error {
        AskError::Spent(spent) => format!("The origin is not asked now: {}", spent.reason),
        AskError::Status { status, .. } => format!("The origin answered {status}"),
        AskError::Timeout { .. } => "The origin did not answer in time".to_owned(),
        _ => "The origin is unreachable".to_owned(),
    };
    Problem::unavailable(&why).after(ceil_seconds(error.retry_after()))
}

impl From<Aborted> for Problem {
    fn from(aborted: Aborted) -> Self {
        tracing::error!(error = %aborted, "an answer could not be made");
        match aborted {
            Aborted::NoThread => {
                Self::unavailable("The server is busy with other answers, or waits for its disk").after(5)
            }
            Aborted::Lost(_) => Self::internal(),
        }
    }
}

/// The snapshot that answers a request.
struct NamedSnapshot {
    pub published: Arc<Snapshot>,
    /// Whether the client named it.
    pub pinned: bool,
    /// The current snapshot, if that is another one.
    pub beside: Option<Arc<Snapshot>>,
}

impl Finder {
    /// The snapshot that a client names: the current one, or an earlier one in memory.
    fn named(&self, served: Arc<Snapshot>, pin: Option<&str>) -> Result<NamedSnapshot, Problem> {
        let current = served.dataset.id.as_str();
        let Some(pin) = pin.filter(|pin| *pin != current) else {
            return Ok(NamedSnapshot { published: served, pinned: pin.is_some(), beside: None });
        };
        // It may have become current since `served` was looked up, and is no earlier one then.
        let is_now_current = || self.current.get().filter(|now| now.dataset.id.as_str() == pin);
        let published = self.earlier.get(pin).or_else(is_now_current);
        let published = published.ok_or_else(|| Problem::snapshot_gone(pin, Some(current)))?;
        Ok(NamedSnapshot { published, pinned: true, beside: Some(served) })
    }
}

#[cfg(test)]
mod tests;
