//! The changes between successive current snapshots: listings added, changed and removed.
//!
//! One entry per switch, so that two snapshots can be compared without having either. Pure.
//!
//! It has ids, not contents. A listing that changed and changed back, or was removed and added again, counts as changed, unless
//! the whole snapshot came back: a client fetches it once more and misses nothing. A listing that only moves in the order has
//! not changed.
//!
//! [`codec`] writes and reads entries as bytes. Callers: [`crate::data::snapshots`] keeps it, [`crate::edge::answer`]
//! and [`crate::edge::dumps`] show it, [`crate::fleet`] sends it.

pub mod codec;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;

use super::content::{Content, SnapshotId};

/// A journal holds at most this much: ids, and `OVERHEAD` for each entry. 16 MiB, give or take.
pub(crate) const MAX_WEIGHT: usize = 2 << 20;
/// From here on looking something up takes more than an instant.
const LARGE: usize = 1 << 14;
/// The overhead of an entry, in ids.
const OVERHEAD: usize = 32;

/// One switch of the current snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub from: SnapshotId,
    pub to: SnapshotId,
    /// When; milliseconds since the epoch.
    pub at_ms: i64,
    /// Listings that only `to` has; sorted.
    pub added: Vec<ListingId>,
    /// Listings of both whose summaries differ; sorted.
    pub changed: Vec<ListingId>,
    /// Listings that only `from` has; sorted.
    pub removed: Vec<ListingId>,
}

impl Entry {
    /// Compares two contents.
    pub fn between(from: &Content, to: &Content, at_ms: i64) -> Self {
        let mut before: HashMap<ListingId, ContentHash, RandomState> =
            from.summaries.iter().map(|old| (old.id, old.hash)).collect();
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for new in &to.summaries {
            match before.remove(&new.id) {
                None => added.push(new.id),
                Some(old) if old != new.hash => changed.push(new.id),
                Some(_) => {}
            }
        }
        let mut removed: Vec<ListingId> = before.into_keys().collect();
        for ids in [&mut added, &mut changed, &mut removed] {
            ids.sort_unstable();
        }
        Self { from: from.id(), to: to.id(), at_ms, added, changed, removed }
    }

    /// Its share of [`MAX_WEIGHT`].
    pub(crate) fn weight(&self) -> usize {
        OVERHEAD + self.added.len() + self.changed.len() + self.removed.len()
    }
}

/// The sum of changes between two snapshots. Each list is sorted, and no id is in two lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Listings that only the later snapshot has.
    pub added: Vec<ListingId>,
    /// Listings of both that changed at least once in between.
    pub changed: Vec<ListingId>,
    /// Listings that only the earlier snapshot has.
    pub removed: Vec<ListingId>,
}

/// The kept entries, oldest first. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: VecDeque<Arc<Entry>>,
    weight: usize,
    /// The number of the oldest entry.
    first: u64,
}

impl Journal {
    /// A journal of these, oldest first; drops the oldest if there are too many.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self::numbered(0, entries)
    }

    /// The same; `first` is the number of the first entry. The others follow, and each keeps its number.
    pub fn numbered(first: u64, entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut journal = Self { first, ..Self::default() };
        for entry in entries {
            journal.push(entry);
        }
        journal
    }

    pub fn numbers(&self) -> Range<u64> {
        self.first..self.first + self.entries.len() as u64
    }

    pub fn get(&self, number: u64) -> Option<&Entry> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(at).map(|entry| &**entry)
    }

    /// Adds the newest entry. Returns how many of the oldest were dropped to respect the limit: all, including the new
    /// one, if that is too large by itself.
    ///
    /// Call it *before* the switch is visible: [`since`](Self::since) ignores later entries.
    pub fn push(&mut self, entry: Entry) -> usize {
        self.weight += entry.weight();
        self.entries.push_back(Arc::new(entry));
        let before = self.entries.len();
        while self.weight > MAX_WEIGHT {
            self.forget_oldest();
        }
        before - self.entries.len()
    }

    /// Drops entries before an instant, in milliseconds since 1970. Returns their number.
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
            self.first += 1;
        }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().map(|entry| &**entry)
    }

    /// The same up to the last one that leads to `current`: later ones are not visible yet. None, if none leads there.
    pub(crate) fn until(&self, current: &str) -> impl DoubleEndedIterator<Item = &Entry> {
        let last = self.entries.iter().rposition(|entry| entry.to.as_str() == current);
        self.entries.range(..last.map_or(0, |last| last + 1)).map(|entry| &**entry)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether [`since`](Self::since) may take milliseconds, up to a few hundred.
    pub const fn is_large(&self) -> bool {
        self.weight > LARGE
    }

    /// The changes from the last time that `id` was current to `current`. `None`: not known (any more).
    pub fn since(&self, id: &str, current: &str) -> Option<Changes> {
        if id == current {
            return Some(Changes::default());
        }
        // Goes back while entries are contiguous: a lost entry ends it. `away`: how many steps each snapshot is from the current
        // one. What happened between two times of one snapshot, as before a rollback, changed nothing.
        let (mut next, mut back, mut away) = (current, Vec::new(), HashMap::from([(current, 0)]));
        for entry in self.until(current).rev() {
            if entry.to.as_str() != next {
                return None;
            }
            next = entry.from.as_str();
            if let Some(steps) = away.get(next).copied() {
                back.truncate(steps);
                away.retain(|_, other| *other <= steps);
            } else {
                back.push(entry);
                away.insert(next, back.len());
            }
            if next == id {
                return Some(net(back.into_iter().rev()));
            }
        }
        None
    }
}

/// The state of a listing so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Added,
    Changed,
    Removed,
}

/// The sum of contiguous entries.
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
