//! Counters by labels, and those of connections.
//!
//! Callers: [`super`], [`crate::serve`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;

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

    /// How many are open.
    pub(crate) fn open(&self) -> i64 {
        self.open.load(Ordering::Relaxed)
    }

    /// A connection is closed to make room.
    pub(crate) fn evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were closed to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}
