//! Verdicts: whether we may answer for the origin; one on each shape of a query, found by examples.
//!
//! What a query means is the origin's, not a snapshot's, so one table holds for all of them. Answers test one number,
//! before the cache. Beside it: what instants hide ([`super::seconds`]), and what clients asked of late. Callers:
//! [`crate::edge::answer`] asks, `mirror::examiner` tells, [`crate::data::snapshots`] imports.

pub(crate) mod table;
pub(crate) mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::api::odd::{Meaning, Row};
use crate::api::query::ListQuery;
use crate::api::shape::{Shape, TermName};

use super::seconds::Seconds;
use table::{State, TERMS, Table};

/// The verdicts on one origin, shared by all who use them; cheap to clone.
#[derive(Clone, Default)]
pub struct Verdicts(Arc<VerdictState>);

#[derive(Default)]
struct VerdictState {
    table: Mutex<Table>,
    /// The shapes that are read through; in the upper half those of them that differ in order alone.
    mask: AtomicU64,
    /// The terms in doubt; one bit of the mask says that there are some.
    terms: RwLock<BTreeSet<TermName>>,
    /// Whether an operator wants everything answered as documented.
    ignored: AtomicBool,
    seconds: Seconds,
    /// The last query of a client in each shape that was answered from the snapshot.
    noted: Mutex<BTreeMap<Shape, ListQuery>>,
    /// Lists that show what has changed, the latest last.
    changes: Mutex<Vec<ListQuery>>,
}

/// What the snapshot may not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doubtful {
    /// The name of the shape, or the term.
    pub(crate) name: String,
    /// Whether the origin has the same listings in another order.
    pub(crate) only_order: bool,
}

impl Verdicts {
    /// Whether the answer to a query is the origin's. `None`: the snapshot may answer.
    pub(crate) fn doubts(&self, query: &ListQuery) -> Option<Doubtful> {
        // Relaxed: of an answer and a change at the same time, either may come first.
        match self.0.mask.load(Ordering::Relaxed) {
            0 => None,
            mask => {
                let shape = Shape::of(query);
                let bit = u64::from(shape.bit());
                if mask & bit != 0 && shape == Shape::LIST {
                    let only_order = self.0.table.lock().doubts_size(query.per_page)?;
                    return Some(Doubtful { name: shape.name(), only_order });
                }
                if mask & bit != 0 {
                    return Some(Doubtful { name: shape.name(), only_order: mask & (bit << 32) != 0 });
                }
                let is_doubtful = |term: &TermName| mask & TERMS != 0 && self.0.terms.read().contains(term);
                let term = TermName::all_of(query).find(is_doubtful)?;
                Some(Doubtful { name: term.to_string(), only_order: false })
            }
        }
    }

    /// What a row of the open cases means, if that was found.
    pub(crate) fn meaning(&self, row: Row) -> Option<Meaning> {
        if self.are_ignored() { None } else { self.0.table.lock().answers_by(row) }
    }

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
            // No client waits here: without the note, the examiner misses one example.
            && let Some(mut noted) = self.0.noted.try_lock()
        {
            noted.insert(Shape::of(query), query.clone());
        }
    }

    /// Notes lists that show what has changed: the examiner may ask them.
    pub(crate) fn note_changes(&self, mut lists: Vec<ListQuery>) {
        const MOST: usize = 12;
        let mut changes = self.0.changes.lock();
        changes.append(&mut lists);
        let forgotten = changes.len().saturating_sub(MOST);
        changes.drain(..forgotten);
    }

    /// Notes the next of these in the place of what a client asked; returns its shape, which has nothing to be asked again.
    pub(crate) fn take_change(&self) -> Option<Shape> {
        let table = self.table();
        let mut changes = self.0.changes.lock();
        let at = changes.iter().rposition(|list| table.entry(Shape::of(list)).due_ms == 0)?;
        let list = changes.remove(at);
        let shape = Shape::of(&list);
        self.0.noted.lock().insert(shape, list);
        Some(shape)
    }

    /// What a client asked last in a shape, once.
    pub(crate) fn take_noted(&self, shape: Shape) -> Option<ListQuery> {
        self.0.noted.lock().remove(&shape)
    }

    /// The shapes that clients asked in.
    pub(crate) fn noted(&self) -> BTreeSet<Shape> {
        self.0.noted.lock().keys().copied().collect()
    }

    pub(crate) fn table(&self) -> Table {
        self.0.table.lock().clone()
    }

    /// Changes what is known, and what is answered by it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.0.table.lock();
        let changed = change(&mut table);
        // The table stays locked to the end, so that of two changes the mask of the later one stays.
        let mask = if self.are_ignored() { 0 } else { table.mask() };
        let terms = table.terms();
        if *self.0.terms.read() != terms {
            *self.0.terms.write() = terms;
        }
        self.0.mask.store(mask, Ordering::Relaxed);
        changed
    }

    /// Has this path and query asked at once, and the shape read through until then. The unfiltered list is no shape to
    /// suspect here.
    pub(crate) fn suspect(&self, path: &str, now_ms: i64) {
        if let Some(query) = ListQuery::of_path(path).filter(ListQuery::is_filtered) {
            self.change(|table| table.suspect(Shape::of(&query), path.to_owned(), false, now_ms));
        }
    }

    pub(crate) fn ignore(&self, ignored: bool) {
        if self.0.ignored.swap(ignored, Ordering::Relaxed) != ignored {
            self.change(|_| ());
        }
    }

    /// What is known of each row of the open cases, for people.
    pub(crate) fn rows(&self) -> BTreeMap<String, String> {
        self.0.table.lock().rows()
    }

    /// The terms in doubt, if their shapes are not.
    pub(crate) fn terms(&self) -> BTreeSet<TermName> {
        self.0.table.lock().terms()
    }

    /// The names of the sets of filters in this state; `None`: not all were asked yet.
    pub(crate) fn names(&self, state: State) -> Option<Vec<String>> {
        let table = self.0.table.lock();
        table.is_opened.then(|| table.names(state))
    }
}
