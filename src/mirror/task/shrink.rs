//! Holds back a list that lost too many listings, until an operator accepts it.
//!
//! Callers: [`super`] and its parts.

use std::sync::Arc;

use crate::snapshot::meta::SnapshotMeta;
use crate::snapshot::pointer::Snapshot;
use crate::snapshots::SIZES;
use crate::store::{States, Store, StoreError};
use crate::upstream::status::{Held, OriginStatus};

use super::super::refresh::shrank_too_much;
use super::DAY_MS;
use super::term_evidence::Indexed;

/// A list with everything that its publication takes.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) list: Indexed,
    pub(super) meta: SnapshotMeta,
}

/// Holds back a list that shrank too much.
pub(super) struct ShrinkGuard {
    store: Arc<Store>,
    status: OriginStatus,
    /// The share of the listings that may vanish within a day.
    max_shrink: f64,
    held: Option<Prepared>,
    /// So many listings are accepted: the held list, or what the origin has by then, if no smaller.
    accept: Option<usize>,
}

impl ShrinkGuard {
    pub(super) const fn new(store: Arc<Store>, status: OriginStatus, max_shrink: f64) -> Self {
        Self { store, status, max_shrink, held: None, accept: None }
    }

    /// The held list.
    pub(super) fn held(&self) -> Option<Prepared> {
        self.held.clone()
    }

    pub(super) const fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// The same list is held back, perhaps confirmed for a later instant.
    pub(super) fn hold(&mut self, list: Prepared) {
        self.held = Some(list);
    }

    /// The origin no longer has the held list.
    pub(super) fn let_go(&mut self) {
        self.held = None;
        self.status.set_held(None);
    }

    /// Nothing is held back or accepted any more.
    pub(super) fn forget(&mut self) {
        self.let_go();
        self.accept = None;
    }

    /// Accepts the held list; `false`: there is none.
    pub(super) fn accept(&mut self) -> bool {
        self.accept = self.held.as_ref().map(|held| held.list.dataset.len()).or(self.accept);
        self.held.is_some()
    }

    pub(super) const fn is_accepted(&self) -> bool {
        self.accept.is_some()
    }

    /// What to store when a list is published that was held back.
    pub(super) fn accepted(list: &Prepared) -> States {
        tracing::warn!(listings = list.list.dataset.len(), "a snapshot that lost many listings was accepted");
        let mut sizes = States::default();
        sizes.remove(SIZES);
        sizes
    }

    /// Holds back a list that would lose too much, compared with the newest snapshot and with the last day. Else
    /// returns the sizes to store.
    pub(super) fn judge(
        &mut self,
        newest: Option<&Snapshot>,
        next: &Prepared,
        now_ms: i64,
    ) -> Result<Option<States>, StoreError> {
        let mut sizes = self.sizes(now_ms)?;
        let then = next.list.dataset.len();
        let largest = sizes.iter().map(|(_, listings)| *listings).max().unwrap_or(0);
        let served = newest.map_or(0, |newest| newest.dataset.len());
        let now = served.max(largest);
        let shrank = newest.is_some() && shrank_too_much(now, then, self.max_shrink);
        // A list no smaller than the accepted one is accepted, too: it may have moved on meanwhile.
        let accepted = self.accept.take().is_some_and(|listings| then >= listings);
        if shrank && accepted {
            tracing::warn!(now, then, "a snapshot that lost many listings was accepted");
            sizes.clear();
        } else if shrank {
            let reason = format!(
                "{} of {now} listings would vanish, more than mirror.max_shrink = {} allows within a day; to \
                 publish this anyway, run `grandstand snapshot accept`",
                now - then,
                self.max_shrink
            );
            tracing::warn!(reason, "a snapshot is held back");
            let snapshot = next.list.dataset.id.to_string();
            self.status.set_held(Some(Held { snapshot, listings: then as u64, serving: served as u64, reason }));
            self.held = Some(next.clone());
            return Ok(None);
        }
        remember(&mut sizes, now_ms, then);
        let mut states = States::default();
        states.put_json(SIZES, &sizes)?;
        Ok(Some(states))
    }

    /// How many listings were published when, within the last day.
    fn sizes(&self, now_ms: i64) -> Result<Vec<(i64, usize)>, StoreError> {
        let mut sizes: Vec<(i64, usize)> = self.store.state_json(SIZES)?.unwrap_or_default();
        sizes.retain(|(at, _)| (now_ms - DAY_MS..=now_ms).contains(at));
        Ok(sizes)
    }
}

/// Adds a size; of those within one hour the largest is kept.
fn remember(sizes: &mut Vec<(i64, usize)>, now_ms: i64, listings: usize) {
    const HOUR_MS: i64 = 3_600_000;
    match sizes.last_mut() {
        Some((at, largest)) if now_ms - *at < HOUR_MS => *largest = listings.max(*largest),
        _ => sizes.push((now_ms, listings)),
    }
}
