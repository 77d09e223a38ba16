//! The journal of changes: it grows with each switch and drops old entries, in memory and in the store. Marks of places
//! come and go with it.
//!
//! [`crate::data::snapshot::journal`] defines the entries. Callers: [`super`], holding the lock.

use std::sync::Arc;

use super::{Change, Snapshots, View};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::journal::{Entry, Journal, codec};
use crate::data::store::{States, StoreError};

/// Where the journal is kept in the store; a number follows.
pub(super) const JOURNAL: &str = "journal/";

/// How far back `/changes.json` and `/changes.ndjson` answer: 30 days.
const CHANGES_FOR_MS: i64 = 30 * 86_400_000;

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
    /// Reads the journal. Entries before a lost one are dropped.
    pub(super) fn read_journal(&self) -> Result<Arc<Journal>, StoreError> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut oldest, mut next) = (0, None);
        let mut names: Vec<(u64, String)> = Vec::new();
        for (key, bytes) in self.0.store.states_of(JOURNAL)? {
            let Some(number) = key.strip_prefix(JOURNAL).and_then(|number| number.parse::<u64>().ok()) else {
                continue;
            };
            let entry = codec::decode(&bytes).inspect_err(
                |error| tracing::warn!(key, %error, "a stored entry of the journal of changes cannot be read"),
            );
            let entry = entry.ok().and_then(|mut one| one.pop());
            let follows = entry.as_ref().is_some_and(|entry| entries.last().is_none_or(|last| last.to == entry.from));
            if !follows || next != Some(number) {
                (entries, oldest) = (Vec::new(), number + u64::from(entry.is_none()));
            }
            entries.extend(entry);
            next = Some(number + 1);
            names.push((number, key));
        }
        let mut useless = States::default();
        names.iter().filter(|(number, _)| *number < oldest).for_each(|(_, key)| useless.remove(key));
        if let Err(error) = self.0.store.put_states(&useless) {
            tracing::warn!(%error, "old entries of the journal of changes could not be removed");
        }
        Ok(Arc::new(Journal::numbered(oldest, entries)))
    }

    /// Adds to the journal what a switch adds, if anything; it is written with the switch. So is a mark: details that come
    /// along with a snapshot count as later.
    pub(super) fn feed(
        &self,
        view: &mut View,
        feed: Feed,
        next: &Arc<Dataset>,
        states: &mut States,
    ) -> Result<(), StoreError> {
        self.mark_current(&next.id, states)?;
        let ends = |entries: &[Entry]| entries.last().is_some_and(|last| last.to == next.id);
        let (served, own) = (view.current.as_ref().map(|served| &served.dataset), &view.journal);
        let journal = match feed {
            Feed::Publishers(entries) if ends(&entries) => self.taken_over(own, entries),
            // Without gap: they begin at the current snapshot.
            Feed::Steps(entries) if ends(&entries) && served.is_some_and(|served| entries[0].from == served.id) => {
                self.taken_over(own, own.entries().cloned().chain(entries).collect())
            }
            Feed::Own | Feed::Steps(_) | Feed::Publishers(_) => {
                let Some(served) = served.filter(|served| served.id != next.id) else { return Ok(()) };
                let mut journal = Journal::clone(own);
                journal.push(Entry::between(&served.content, &next.content, self.0.clock.now_wall().as_millis()));
                journal
            }
        };
        write_journal(own, &journal, states)?;
        view.journal = Arc::new(journal);
        Ok(())
    }

    /// A journal of these entries. As many of the own ones as the others begin with keep their numbers.
    fn taken_over(&self, journal: &Journal, mut entries: Vec<Entry>) -> Journal {
        let before_ms = self.oldest_change_ms();
        entries.retain(|entry| entry.at_ms >= before_ms);
        let own: Vec<&Entry> = journal.entries().collect();
        let is_start = |some: &[&Entry]| some.len() <= entries.len() && some.iter().zip(&entries).all(|(a, b)| *a == b);
        let gone = (0..own.len()).find(|gone| is_start(&own[*gone..])).unwrap_or(own.len());
        Journal::numbered(journal.numbers().start + gone as u64, entries)
    }

    /// Older changes are dropped; milliseconds since 1970.
    fn oldest_change_ms(&self) -> i64 {
        self.0.clock.now_wall().as_millis().saturating_sub(CHANGES_FOR_MS)
    }

    /// Drops entries older than the policy, also without a publication. If the write fails, nothing is dropped.
    pub fn forget_old_changes(&self) -> Result<(), StoreError> {
        let before_ms = self.oldest_change_ms();
        if self.journal().entries().next().is_none_or(|oldest| oldest.at_ms >= before_ms) {
            return Ok(());
        }
        let mut change = self.change();
        self.forget_changes(&mut change)?;
        self.show(change);
        Ok(())
    }

    /// Drops journal entries older than the policy, and marks that are of no use without them.
    pub(super) fn forget_changes(&self, Change { view, along, .. }: &mut Change<'_, '_>) -> Result<(), StoreError> {
        let mut journal = Journal::clone(&view.journal);
        let forgotten = journal.forget_before(self.oldest_change_ms());
        write_journal(&view.journal, &journal, &mut along.states)?;
        self.forget_marks(view, &journal, &mut along.states)?;
        // Durable first: otherwise a restart would bring dropped entries back.
        self.0.store.put_states(&along.states)?;
        if forgotten > 0 {
            view.journal = Arc::new(journal);
            // Replies made from dropped entries must not outlive them: they are valid for one epoch.
            if let Some(served) = view.current.take() {
                view.current = Some(view.snapshot(served.dataset.clone(), served.meta.clone(), served.seq));
            }
        }
        Ok(())
    }
}

/// Writes what a journal changes of the own one: one entry is one blob.
fn write_journal(own: &Journal, next: &Journal, states: &mut States) -> Result<(), StoreError> {
    for (number, entry) in next.numbers().zip(next.entries()) {
        if own.get(number).is_none_or(|own| !std::ptr::eq(own, entry) && own != entry) {
            states.put(&name(number), codec::encode([entry].into_iter()))?;
        }
    }
    own.numbers().filter(|number| !next.numbers().contains(number)).for_each(|number| states.remove(&name(number)));
    Ok(())
}

/// The name of a journal entry in the store.
fn name(number: u64) -> String {
    format!("{JOURNAL}{number:020}")
}
