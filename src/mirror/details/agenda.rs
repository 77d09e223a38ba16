//! Agenda of details: which are due, with the time to look again.
//!
//! Callers: [`super::worker`], [`crate::mirror::examiner`].

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::listing::ListingId;
use crate::clock::WallTime;
use crate::data::details::{Details, provisional};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::pointer::Snapshot;

use super::fetch::is_unproven;
use super::retries::Retries;

/// The details to fetch, as far as one look through all of them shows.
pub(super) struct Agenda {
    snapshot: SnapshotId,
    /// [`Details::disturbed`] before the look.
    disturbed: u64,
    looked_ms: i64,
    /// When the clock alone makes another one due; milliseconds since the epoch.
    until_ms: i64,
    /// Changed ones, then missing ones, newest first.
    pub(super) due: Vec<ListingId>,
    /// Those checked longest ago, if that is longer than a cycle.
    pub(super) overdue: VecDeque<ListingId>,
    has_more: bool,
}

impl Agenda {
    /// Whether a new look would show nothing else.
    pub(super) fn lasts(&self, snapshot: &SnapshotId, disturbed: u64, now_ms: i64) -> bool {
        // A clock that was set back makes this void.
        let is_in_time = self.looked_ms <= now_ms && now_ms < self.until_ms;
        let is_done = self.overdue.is_empty() && self.has_more;
        self.snapshot == *snapshot && self.disturbed == disturbed && is_in_time && !is_done
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Details {
    /// The details to fetch: changed ones, if `all` are wanted missing ones, and those checked longer ago than `cycle`.
    /// `retries` says which failed a moment ago. A look takes as many look-ups as there are listings.
    pub(super) fn agenda(
        &self,
        published: &Snapshot,
        all: bool,
        now: WallTime,
        cycle: Duration,
        cache_ttl: Duration,
        retries: &Retries,
    ) -> Agenda {
        /// Overdue details that are remembered.
        const MOST: usize = 1000;
        /// New arrivals have their whole cycle ahead, so waiting this long misses nothing.
        const LONGEST: Duration = Duration::from_secs(600);
        // Before the look: what happens during it makes another look due.
        let disturbed = self.disturbed();
        let (dataset, now_ms, cycle_ms) = (&published.dataset, now.as_millis(), millis(cycle));
        // After an answer that was too old, or may have been, ask again when the CDN has dropped that copy.
        let rest_ms = |id, summary| millis(retries.rest_of_copy(id, summary, cache_ttl, cycle));
        // A publication in the future is from before the clock was set back.
        let published_ms = published.meta.published_ms.min(now_ms);
        let mut until_ms = now_ms.saturating_add(millis(LONGEST.min(cycle)));
        let (mut changed, mut missing, mut overdue) = (Vec::new(), Vec::new(), Vec::new());
        self.look_through(dataset, all, |position, summary, known| {
            let Some(meta) = known else {
                missing.push((dataset.modified_at(position), position));
                return;
            };
            let is_changed = meta.summary_hash != summary.hash;
            let was_asked = is_unproven(meta.summary_hash, summary.hash);
            let unseen = is_changed && !was_asked && meta.fetched_ms < published_ms;
            let is_doubtful = is_changed || provisional(meta, dataset, position);
            if unseen {
                changed.push(position);
            } else if is_doubtful {
                let rest_ms = rest_ms(summary.id, summary.hash);
                if (0..rest_ms).contains(&now_ms.saturating_sub(meta.fetched_ms)) {
                    until_ms = until_ms.min(meta.fetched_ms.saturating_add(rest_ms));
                } else {
                    changed.push(position);
                }
            }
            // An instant in the future is from before the clock was set back.
            if meta.fetched_ms < now_ms.saturating_sub(cycle_ms) || meta.fetched_ms > now_ms {
                overdue.push((meta.fetched_ms, summary.id));
            } else {
                until_ms = until_ms.min(meta.fetched_ms.saturating_add(cycle_ms).saturating_add(1));
            }
        });
        changed.sort_unstable();
        missing.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
        let positions = changed.into_iter().chain(missing.into_iter().map(|(_, position)| position));
        let due = positions.map(|position| dataset.content.summaries[position as usize].id);
        overdue.sort_unstable();
        let mut overdue = overdue.into_iter().map(|(_, id)| id).filter(|id| retries.is_due(*id, now));
        Agenda {
            snapshot: dataset.id.clone(),
            disturbed,
            looked_ms: now_ms,
            until_ms: retries.next_ms(now).map_or(until_ms, |next| next.min(until_ms)),
            due: due.filter(|id| retries.is_due(*id, now)).collect(),
            overdue: overdue.by_ref().take(MOST).collect(),
            has_more: overdue.next().is_some(),
        }
    }

    /// Whether a detail will be fetched again: it is older than its summary, or not proven to be as new.
    pub(crate) fn is_unsettled(&self, dataset: &Dataset, id: ListingId) -> bool {
        let Some((position, summary)) = dataset.position(id).zip(dataset.summary(id)) else { return false };
        let known = self.known(id);
        known.is_some_and(|known| {
            is_unproven(known.summary_hash, summary.hash) || provisional(&known, dataset, position)
        })
    }
}
