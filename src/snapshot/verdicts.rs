//! Whether we may answer for the origin: a verdict on each shape of a query, found by examples.
//!
//! What a query means is the origin's, not a snapshot's, so one table holds for all of them. Answers test one number,
//! before the cache. Beside it: what instants hide ([`super::seconds`]), and what clients asked of late. Callers: [`crate::answer`] asks, `mirror::examiner` and [`crate::audit`] tell, [`crate::snapshots`]
//! imports.

pub(crate) mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::api::odd::{Meaning, Row};
use crate::api::query::ListQuery;
use crate::api::shape::Shape;

use super::seconds::Seconds;
use table::{State, Table};

/// The verdicts on one origin, shared by all who use them; cheap to clone.
#[derive(Clone, Default)]
pub struct Verdicts(Arc<VerdictState>);

#[derive(Default)]
struct VerdictState {
    table: Mutex<Table>,
    /// The shapes that are read through; in the upper half those of them that differ in order alone.
    mask: AtomicU64,
    /// Whether an operator wants everything answered as documented.
    ignored: AtomicBool,
    wake: Notify,
    seconds: Seconds,
    /// The last query of a client in each shape that was answered from the snapshot.
    noted: Mutex<BTreeMap<Shape, ListQuery>>,
}

/// A shape that the snapshot may not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubtful {
    pub(crate) shape: Shape,
    /// Whether the origin has the same listings in another order.
    pub(crate) only_order: bool,
}

impl Verdicts {
    /// Whether the answer to a query is the origin's. `None`: the snapshot may answer.
    pub(crate) fn doubts(&self, query: &ListQuery) -> Option<Doubtful> {
        match self.0.mask.load(Ordering::Relaxed) {
            0 => None,
            mask => {
                let shape = Shape::of(query);
                let bit = u64::from(shape.bit());
                let doubtful = Doubtful { shape, only_order: mask & (bit << 32) != 0 };
                Some(doubtful).filter(|_| mask & bit != 0)
            }
        }
    }

    /// What a row of the open cases means, if that was found.
    pub(crate) fn meaning(&self, row: Row) -> Option<Meaning> {
        if self.are_ignored() { None } else { self.0.table.lock().answers_by(row) }
    }

    /// Whether everything is answered as documented.
    pub(crate) fn are_ignored(&self) -> bool {
        self.0.ignored.load(Ordering::Relaxed)
    }

    /// What the origin counts of the listings of instants.
    pub(crate) fn seconds(&self) -> &Seconds {
        &self.0.seconds
    }

    /// Notes what a client was answered: the examiner may ask it.
    pub(crate) fn note(&self, query: &ListQuery) {
        if query.is_filtered()
            && let Some(mut noted) = self.0.noted.try_lock()
        {
            noted.insert(Shape::of(query), query.clone());
        }
    }

    /// What a client asked last in a shape, once.
    pub(crate) fn take_noted(&self, shape: Shape) -> Option<ListQuery> {
        self.0.noted.lock().remove(&shape)
    }

    /// The shapes that clients asked in.
    pub(crate) fn noted(&self) -> BTreeSet<Shape> {
        self.0.noted.lock().keys().copied().collect()
    }

    /// What is known.
    pub(crate) fn table(&self) -> Table {
        self.0.table.lock().clone()
    }

    /// Changes what is known, and what is answered by it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.0.table.lock();
        let changed = change(&mut table);
        let mask = if self.are_ignored() { 0 } else { table.mask() };
        self.0.mask.store(mask, Ordering::Relaxed);
        changed
    }

    /// Says whether verdicts are ignored.
    pub(crate) fn ignore(&self, ignored: bool) {
        if self.0.ignored.swap(ignored, Ordering::Relaxed) != ignored {
            self.change(|_| ());
        }
    }

    /// An answer of the origin to this query differs: it is read through until it was asked again.
    pub(crate) fn doubt(&self, query: &ListQuery, now_ms: i64) {
        self.change(|table| table.suspect(Shape::of(query), query.path_and_query(), false, now_ms));
        self.0.wake.notify_one();
    }

    /// Waits for a doubt.
    pub(crate) async fn wait(&self) {
        self.0.wake.notified().await;
    }

    /// What is known of each row of the open cases, for people.
    pub(crate) fn rows(&self) -> BTreeMap<String, String> {
        self.0.table.lock().rows()
    }

    /// The names of the sets of filters in this state; `None`: not all were asked yet.
    pub(crate) fn names(&self, state: State) -> Option<Vec<String>> {
        let table = self.0.table.lock();
        table.is_opened.then(|| table.names(state))
    }
}
