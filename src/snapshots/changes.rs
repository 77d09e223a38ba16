//! The journal of changes: it grows with each switch and drops old entries, in memory and in the store.
//!
//! [`crate::snapshot::journal`] defines the entries. Callers: [`super`], holding the lock.

use std::sync::Arc;

use super::Snapshots;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::journal::{Entry, Journal};
use crate::store::{States, StoreError};

/// Where the journal is kept in the store; a number follows.
pub(super) const JOURNAL: &str = "journal/";

/// A journal with a new entry.
pub(super) struct Change {
    journal: Journal,
    /// The number of its oldest entry in the store.
    oldest: u64,
}

/// What a switch adds to the journal.
pub(super) enum Feed {
    /// The difference between the snapshot before and the next one.
    Own,
    /// These entries, the last of which ends at the next snapshot.
    Steps(Vec<Entry>),
    /// The publisher's journal, in place of the own one.
    Publishers(Vec<Entry>),
}

impl Snapshots {
    /// The journal with what a switch adds; it is written with the switch.
    pub(super) fn fed(
        &self,
        feed: Feed,
        next: &Arc<Dataset>,
        states: &mut States,
    ) -> Result<Option<Change>, StoreError> {
        let ends = |entries: &[Entry]| entries.last().is_some_and(|last| last.to == next.id);
        let served = self.0.current.get();
        match feed {
            Feed::Publishers(entries) if ends(&entries) => self.taken_over(entries, states).map(Some),
            // Without gap: they begin at the current snapshot.
            Feed::Steps(entries)
                if ends(&entries) && served.as_ref().is_some_and(|served| entries[0].from == served.dataset.id) =>
            {
                let journal = self.0.journal.load();
                let all = journal.entries().cloned().chain(entries).collect();
                self.taken_over(all, states).map(Some)
            }
            Feed::Own | Feed::Steps(_) | Feed::Publishers(_) => self.change(next, states),
        }
    }

    /// The journal with these entries; only the new ones are written.
    fn taken_over(&self, mut entries: Vec<Entry>, states: &mut States) -> Result<Change, StoreError> {
        let before_ms = self.oldest_change_ms();
        entries.retain(|entry| entry.at_ms >= before_ms);
        let (own, oldest) = (self.0.journal.load(), *self.0.oldest.lock());
        let own: Vec<&Entry> = own.entries().collect();
        // As many of the own ones as the others begin with stay.
        let is_start = |some: &[&Entry]| some.len() <= entries.len() && some.iter().zip(&entries).all(|(a, b)| *a == b);
        let gone = (0..own.len()).find(|gone| is_start(&own[*gone..])).unwrap_or(own.len());
        let journal = Journal::new(entries.iter().cloned());
        // Too much for a journal.
        let dropped = entries.len() - journal.len();
        let first = oldest + gone as u64;
        let from = (own.len() - gone).max(dropped);
        for (number, entry) in (first..).zip(&entries).skip(from) {
            states.put(&name(number), entry.encode())?;
        }
        let next = first + dropped as u64;
        let last = oldest + own.len() as u64;
        (oldest..next.min(last)).for_each(|number| states.remove(&name(number)));
        Ok(Change { journal, oldest: next })
    }

    /// The journal with the changes of the next switch; it is written with the switch.
    pub(super) fn change(&self, next: &Arc<Dataset>, states: &mut States) -> Result<Option<Change>, StoreError> {
        let served = self.0.current.get();
        let Some(served) = served.filter(|served| served.dataset.id != next.id) else { return Ok(None) };
        let entry = Entry::between(&served.dataset, next, self.0.clock.now_wall().as_millis());
        let mut journal = Journal::clone(&self.0.journal.load());
        let oldest = *self.0.oldest.lock();
        let (number, encoded) = (oldest + journal.len() as u64, entry.encode());
        let gone = journal.push(entry) as u64;
        // An entry that is too large is dropped with all entries before it.
        if !journal.is_empty() {
            states.put(&name(number), encoded)?;
        }
        (oldest..oldest + gone).for_each(|number| states.remove(&name(number)));
        Ok(Some(Change { journal, oldest: oldest + gone }))
    }

    /// Older changes are dropped; milliseconds since 1970.
    fn oldest_change_ms(&self) -> i64 {
        let for_ms = i64::try_from(self.0.policy.settings.load().mirror.changes_for.as_millis()).unwrap_or(i64::MAX);
        self.0.clock.now_wall().as_millis().saturating_sub(for_ms)
    }

    /// To be called before the switch shows.
    pub(super) fn note(&self, change: Option<Change>) {
        let Some(Change { journal, oldest }) = change else { return };
        self.0.journal.store(Arc::new(journal));
        *self.0.oldest.lock() = oldest;
    }

    /// Drops entries older than the policy, also without a publication.
    ///
    /// # Errors
    /// When the write fails; then nothing is dropped.
    pub fn forget_old_changes(&self) -> Result<(), StoreError> {
        let _switching = self.0.notes.lock();
        self.forget_changes()
    }

    /// Drops journal entries older than the policy.
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
        // Replies made from dropped entries must not outlive them: they are valid for one epoch.
        if let Some(served) = self.0.current.get() {
            self.0.current.swap(served.dataset.clone(), served.meta.clone(), served.seq);
        }
        Ok(())
    }
}

/// The name of a journal entry in the store.
fn name(number: u64) -> String {
    format!("{JOURNAL}{number:020}")
}
