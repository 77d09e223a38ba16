//! Which details are due, and when to check again: with a million listings a check takes a million look-ups, too many
//! for every few seconds.
//!
//! Callers: [`super::worker`].

use std::time::Duration;

use crate::api::listing::{ListingId, Summary};
use crate::clock::WallTime;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::pointer::Snapshot;

use super::index::{Known, PIECE};
use super::{Details, proof, provisional};

/// Details to fetch.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// In order.
    pub(super) ids: Vec<ListingId>,
    /// When the clock alone makes another one due; milliseconds since the epoch. `None`: never.
    pub(super) next_ms: Option<i64>,
}

impl Due {
    fn not_before(&mut self, at_ms: i64) {
        self.next_ms = Some(self.next_ms.map_or(at_ms, |next| next.min(at_ms)));
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Details {
    /// The details to fetch: changed ones, then, if `all` are wanted, missing ones, newest first.
    pub(super) fn missing(&self, published: &Snapshot, all: bool, now: WallTime, cache_ttl: Duration) -> Due {
        let dataset = &published.dataset;
        // After an answer that was too old, or may have been, ask again when the CDN has dropped that copy.
        let rested = |meta: &Known| {
            let since = now.millis_since(WallTime::from_millis(meta.fetched_ms));
            !(0..millis(cache_ttl)).contains(&since)
        };
        // A publication in the future is from before the clock was set back.
        let published_ms = published.meta.published_ms.min(now.as_millis());
        let mut due = Due::default();
        let (mut changed, mut missing) = (Vec::new(), Vec::new());
        self.look_through(dataset, all, |position, summary, known| {
            let Some(meta) = known else {
                missing.push((dataset.modified_at(position), position));
                return;
            };
            let is_changed = meta.summary_hash != summary.hash;
            let was_asked = meta.summary_hash == proof::asked_once(summary.hash);
            let unseen = is_changed && !was_asked && meta.fetched_ms < published_ms;
            if unseen || ((is_changed || provisional(meta, dataset, position)) && rested(meta)) {
                changed.push(position);
            } else if is_changed || provisional(meta, dataset, position) {
                due.not_before(meta.fetched_ms.saturating_add(millis(cache_ttl)));
            }
        });
        changed.sort_unstable();
        missing.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
        let positions = changed.into_iter().chain(missing.into_iter().map(|(_, position)| position));
        due.ids = positions.map(|position| dataset.content.summaries[position as usize].id).collect();
        due
    }

    /// The details checked longest ago, if that is longer than `cycle`.
    pub(super) fn overdue(
        &self,
        dataset: &Dataset,
        now: WallTime,
        cycle: Duration,
        most: usize,
        is_due: impl Fn(ListingId) -> bool,
    ) -> Due {
        let oldest = now.as_millis().saturating_sub(millis(cycle));
        let mut found = Due::default();
        let mut due: Vec<(i64, ListingId)> = Vec::new();
        self.look_through(dataset, false, |_, summary, known| {
            let Some(fetched) = known.map(|meta| meta.fetched_ms) else { return };
            // An instant in the future is from before the clock was set back.
            if fetched < oldest || fetched > now.as_millis() {
                due.push((fetched, summary.id));
            } else {
                found.not_before(fetched.saturating_add(millis(cycle)).saturating_add(1));
            }
        });
        due.sort_unstable();
        found.ids = due.into_iter().map(|(_, id)| id).filter(|id| is_due(*id)).take(most).collect();
        found
    }

    /// Visits the listings of a data set with their positions, piece by piece: `all` in the origin's order, else only
    /// those with a known detail, in any order.
    pub(super) fn look_through(
        &self,
        dataset: &Dataset,
        all: bool,
        mut look: impl FnMut(u32, &Summary, Option<&Known>),
    ) {
        let few = {
            let index = self.0.index.read();
            let few = !all && index.len() < dataset.len() / 16;
            few.then(|| index.iter().map(|(id, known)| (id, *known)).collect::<Vec<_>>())
        };
        if let Some(few) = few {
            for (id, known) in few {
                if let (Some(position), Some(summary)) = (dataset.position(id), dataset.summary(id)) {
                    look(position, summary, Some(&known));
                }
            }
            return;
        }
        for (start, piece) in (0_u32..).step_by(PIECE).zip(dataset.content.summaries.chunks(PIECE)) {
            let known: Vec<Option<Known>> = {
                let index = self.0.index.read();
                piece.iter().map(|summary| index.get(summary.id).copied()).collect()
            };
            for ((position, summary), known) in (start..).zip(piece).zip(&known) {
                if all || known.is_some() {
                    look(position, summary, known.as_ref());
                }
            }
        }
    }
}
