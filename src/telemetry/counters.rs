//! Counters by labels and of connections, and the few groups of answers from which the charts are drawn.
//!
//! Callers: [`super`], [`crate::edge::serve`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::words::named;

/// Counters by the values of labels, each made when it is first counted; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ByLabels<L>(Arc<RwLock<BTreeMap<L, AtomicU64>>>);

impl<L> Default for ByLabels<L> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<L: Copy + Ord> ByLabels<L> {
    pub(crate) fn add(&self, labels: L, count: u64) {
        if let Some(counter) = self.0.read().get(&labels) {
            counter.fetch_add(count, Ordering::Relaxed);
            return;
        }
        // Another thread may have made it between the two locks.
        self.0.write().entry(labels).or_default().fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Vec<(L, u64)> {
        self.0.read().iter().map(|(labels, count)| (*labels, count.load(Ordering::Relaxed))).collect()
    }
}

/// Counters of connections; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionCounters {
    open: Arc<AtomicI64>,
    evicted: Arc<AtomicU64>,
    /// By limit.
    pub refused: ByLabels<&'static str>,
}

impl ConnectionCounters {
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn open(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// A connection is closed to make room.
    pub(crate) fn evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

named! {
    /// How an answer came about, in as many words as a chart has room for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Group, as_str {
        /// From the snapshot or the cache, fresh.
        Fresh = "fresh",
        /// From the snapshot or the cache, stale.
        Stale = "stale",
        Origin = "origin",
        /// Refused by the rate limit (429).
        Refused = "refused",
        /// An error of ours.
        Error = "error",
        /// A page, a preflight, or `OPTIONS`.
        Other = "other",
    }
}

impl Group {
    pub(super) fn of(outcome: &str) -> Self {
        match outcome {
            "hit" => Self::Fresh,
            "hit-stale" | "stale-if-error" => Self::Stale,
            "refused" => Self::Refused,
            "problem" => Self::Error,
            "document" | "preflight" | "options" => Self::Other,
            _ => Self::Origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_group() {
        for (outcome, group) in [
            ("hit", Group::Fresh),
            ("hit-stale", Group::Stale),
            ("uri-miss", Group::Origin),
            ("refused", Group::Refused),
            ("problem", Group::Error),
            ("options", Group::Other),
            ("document", Group::Other),
        ] {
            assert_eq!(Group::of(outcome), group, "{outcome}");
        }
        for (at, group) in Group::ALL.into_iter().enumerate() {
            assert_eq!(at, group as usize);
        }
    }
}
