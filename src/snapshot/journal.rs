//! What changed between the snapshots that were served: which listings came, changed and went.
//!
//! An entry for each switch of what is served, whatever the reason, so that any two snapshots that were served can be
//! compared without having either. Pure. Callers: who switches what is served keeps it, [`crate::serve`] shows it.
//!
//! It knows ids, not contents. A listing that changed and changed back, or went and came back as it was, counts as
//! changed: whoever follows the journal fetches it once more and has missed nothing. A listing that only moves within
//! the order has not changed.

mod coding;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::api::listing::ListingId;

use super::content::SnapshotId;
use super::dataset::Dataset;

#[cfg(test)]
use coding::BadEntry;

/// A journal holds at most this much: ids, and `OVERHEAD` for each entry. 16 MiB, give or take.
pub(crate) const MAX_WEIGHT: usize = 2 << 20;
/// From here on looking something up takes more than an instant.
const LARGE: usize = 1 << 14;
/// What an entry takes beside its ids, in ids.
const OVERHEAD: usize = 32;

/// One switch of what is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was served until then.
    pub from: SnapshotId,
    /// What is served since.
    pub to: SnapshotId,
    /// When; milliseconds since the epoch.
    pub at_ms: i64,
    /// Listings that `from` has not; sorted.
    pub added: Vec<ListingId>,
    /// Listings that both have and whose summaries differ; sorted.
    pub changed: Vec<ListingId>,
    /// Listings that `to` has not; sorted.
    pub removed: Vec<ListingId>,
}

impl Entry {
    /// Compares two data sets: one look at each listing of each.
    pub fn between(from: &Dataset, to: &Dataset, at_ms: i64) -> Self {
        let (mut added, mut changed, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for old in &from.content.summaries {
            match to.summary(old.id) {
                None => removed.push(old.id),
                Some(new) if new.hash != old.hash => changed.push(old.id),
                Some(_) => {}
            }
        }
        // Ids are unique: who has as many as stayed has no other.
        if to.len() > from.len() - removed.len() {
            let ids = to.content.summaries.iter().map(|summary| summary.id);
            added.extend(ids.filter(|id| from.summary(*id).is_none()));
        }
        for ids in [&mut added, &mut changed, &mut removed] {
            ids.sort_unstable();
        }
        Self { from: from.id.clone(), to: to.id.clone(), at_ms, added, changed, removed }
    }

    /// What it takes of [`MAX_WEIGHT`].
    fn weight(&self) -> usize {
        OVERHEAD + self.added.len() + self.changed.len() + self.removed.len()
    }
}

/// What changed between two snapshots, all told. Each sorted, and no id in two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Listings that the later one has and the earlier one has not.
    pub added: Vec<ListingId>,
    /// Listings that both have, and that changed at least once in between.
    pub changed: Vec<ListingId>,
    /// Listings that the earlier one has and the later one has not.
    pub removed: Vec<ListingId>,
}

/// The entries that are kept, oldest first. A copy shares them.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: VecDeque<Arc<Entry>>,
    weight: usize,
}

impl Journal {
    /// A journal of these, oldest first; of more than it may hold, the newest.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut journal = Self::default();
        for entry in entries {
            journal.push(entry);
        }
        journal
    }

    /// Adds the newest. Says how many of the oldest it forgot, to hold no more than it may: all of them, the new one
    /// included, when that is too large by itself.
    ///
    /// To be called *before* the switch shows: [`since`](Self::since) leaves out what is ahead of it.
    pub fn push(&mut self, entry: Entry) -> usize {
        self.weight += entry.weight();
        self.entries.push_back(Arc::new(entry));
        let before = self.entries.len();
        while self.weight > MAX_WEIGHT {
            self.forget_oldest();
        }
        before - self.entries.len()
    }

    /// Forgets switches before an instant, in milliseconds since the epoch. Says how many of the oldest they were.
    pub fn forget_before(&mut self, at_ms: i64) -> usize {
        let before = self.entries.len();
        while self.entries.front().is_some_and(|oldest| oldest.at_ms < at_ms) {
            self.forget_oldest();
        }
        before - self.entries.len()
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.weight -= oldest.weight();
        }
    }

    /// What is kept, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|entry| &**entry)
    }

    /// How many entries are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether [`since`](Self::since) may take milliseconds: up to some hundred of them.
    pub const fn is_large(&self) -> bool {
        self.weight > LARGE
    }

    /// What changed from when `id` was served last to `current`, which is served now. `None`: that is not known (any
    /// more).
    pub fn since(&self, id: &str, current: &str) -> Option<Changes> {
        if id == current {
            return Some(Changes::default());
        }
        // What is ahead of `current` is about to be served. Going back as far as one follows upon the other: an entry
        // that was lost is not passed over.
        let last = self.entries.iter().rposition(|entry| entry.to.as_str() == current)?;
        let mut next = current;
        for (first, entry) in self.entries.range(..=last).enumerate().rev() {
            if entry.to.as_str() != next {
                return None;
            }
            next = entry.from.as_str();
            if next == id {
                return Some(net(self.entries.range(first..=last).map(|entry| &**entry)));
            }
        }
        None
    }
}

/// What became of a listing so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Added,
    Changed,
    Removed,
}

/// What entries that follow upon each other come to.
fn net<'a>(entries: impl Iterator<Item = &'a Entry>) -> Changes {
    let mut fates: HashMap<ListingId, Fate, RandomState> = HashMap::default();
    for entry in entries {
        for id in &entry.removed {
            if fates.get(id) == Some(&Fate::Added) {
                fates.remove(id);
            } else {
                fates.insert(*id, Fate::Removed);
            }
        }
        for id in &entry.added {
            let was = fates.get(id);
            let fate = if was == Some(&Fate::Removed) { Fate::Changed } else { Fate::Added };
            fates.insert(*id, fate);
        }
        for id in &entry.changed {
            fates.entry(*id).or_insert(Fate::Changed);
        }
    }
    let mut changes = Changes::default();
    for (id, fate) in fates {
        let ids = match fate {
            Fate::Added => &mut changes.added,
            Fate::Changed => &mut changes.changed,
            Fate::Removed => &mut changes.removed,
        };
        ids.push(id);
    }
    for ids in [&mut changes.added, &mut changes.changed, &mut changes.removed] {
        ids.sort_unstable();
    }
    changes
}

#[cfg(test)]
mod tests;
