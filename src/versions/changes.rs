//! The journal of what is served: it grows with each switch and forgets what is old, here and in the store.
//!
//! What is in an entry is [`crate::snapshot::journal`]'s business. Callers: [`super`], holding the lock.

use std::sync::Arc;

use super::Versions;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::journal::{Entry, Journal};
use crate::store::{States, StoreError};

/// Where the journal is kept in the store; a number follows.
pub(super) const JOURNAL: &str = "journal/";

/// A journal that has grown.
pub(super) struct Change {
    journal: Journal,
    /// The number of its oldest entry in the store.
    oldest: u64,
}

impl Versions {
    /// The journal with what changes for clients when this data set is served next; it is written along with the switch.
    pub(super) fn change(&self, next: &Arc<Dataset>, states: &mut States) -> Result<Option<Change>, StoreError> {
        let served = self.0.live.current();
        let Some(served) = served.filter(|served| served.dataset.id != next.id) else { return Ok(None) };
        let entry = Entry::between(&served.dataset, next, self.0.clock.now_wall().as_millis());
        let mut journal = Journal::clone(&self.0.journal.load());
        let oldest = *self.0.oldest.lock();
        let (number, encoded) = (oldest + journal.len() as u64, entry.encode());
        let gone = journal.push(entry) as u64;
        // One that is too large by itself is forgotten with all before it.
        if !journal.is_empty() {
            states.put(&name(number), encoded)?;
        }
        (oldest..oldest + gone).for_each(|number| states.remove(&name(number)));
        Ok(Some(Change { journal, oldest: oldest + gone }))
    }

    /// Changes before that are not told any more; milliseconds since the epoch.
    fn oldest_change_ms(&self) -> i64 {
        let for_ms = i64::try_from(self.0.policy.changes_for.as_millis()).unwrap_or(i64::MAX);
        self.0.clock.now_wall().as_millis().saturating_sub(for_ms)
    }

    /// To be called before the switch shows.
    pub(super) fn note(&self, change: Option<Change>) {
        let Some(Change { journal, oldest }) = change else { return };
        self.0.journal.store(Arc::new(journal));
        *self.0.oldest.lock() = oldest;
    }

    /// Forgets what changed before the time for which that is kept, also while nothing is published any more.
    ///
    /// # Errors
    /// When the write fails; then it is still known.
    pub fn forget_old_changes(&self) -> Result<(), StoreError> {
        let _switching = self.0.notes.lock();
        self.forget_changes()
    }

    /// Drops journal entries that are older than they are kept for.
    pub(super) fn forget_changes(&self) -> Result<(), StoreError> {
        let before_ms = self.oldest_change_ms();
        if self.0.journal.load().entries().next().is_none_or(|oldest| oldest.at_ms >= before_ms) {
            return Ok(());
        }
        let mut journal = Journal::clone(&self.0.journal.load());
        let gone = journal.forget_before(before_ms);
        let oldest = *self.0.oldest.lock();
        let mut states = States::default();
        (oldest..oldest + gone as u64).for_each(|number| states.remove(&name(number)));
        self.0.store.put_states(&states)?;
        self.note(Some(Change { journal, oldest: oldest + gone as u64 }));
        // Replies that were made of it must not outlive it: they are good for one epoch.
        if let Some(served) = self.0.live.current() {
            self.0.live.swap(served.dataset.clone(), served.meta.clone(), served.version);
        }
        Ok(())
    }
}

/// The name of a journal entry in the store.
fn name(number: u64) -> String {
    format!("{JOURNAL}{number:020}")
}
