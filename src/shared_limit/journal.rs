//! The admissions that were decided without Redis, and must be reported to it.
//!
//! Bounded: the oldest entries go first, which errs towards admitting. Callers: [`super`].

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::clock::Monotonic;
use crate::limit::{ClientKey, WINDOW_SECONDS};

use super::Id;

/// How many entries are kept: 8 MiB at most.
const MOST: usize = 1 << 17;

/// One decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The client.
    pub key: ClientKey,
    /// Its id.
    pub id: Id,
    /// When it was admitted.
    pub at: Monotonic,
    /// Whether Redis may have admitted it although it was refused.
    pub withdrawn: bool,
}

/// Entries, oldest first.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: VecDeque<Entry>,
    forgotten: u64,
}

impl Journal {
    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.len() >= MOST {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(entry);
    }

    /// Takes up to `most` of the oldest entries that still matter.
    pub(super) fn take(&mut self, most: usize, now: Monotonic) -> Vec<Entry> {
        let window = Duration::from_secs(u64::from(WINDOW_SECONDS));
        let taken = self.entries.drain(..most.min(self.entries.len()));
        taken.filter(|entry| now.since(entry.at) < window).collect()
    }

    /// Gives back entries that could not be reported.
    pub(super) fn put_back(&mut self, entries: Vec<Entry>) {
        for entry in entries.into_iter().rev() {
            self.entries.push_front(entry);
        }
        while self.entries.len() > MOST {
            self.entries.pop_front();
            self.forgotten += 1;
        }
    }

    /// Counts entries that were taken and could not be reported.
    pub(super) const fn forget(&mut self, entries: u64) {
        self.forgotten += entries;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// Entries by client.
pub(super) fn by_client(entries: &[Entry]) -> HashMap<ClientKey, Vec<&Entry>> {
    let mut clients: HashMap<ClientKey, Vec<&Entry>> = HashMap::new();
    for entry in entries {
        clients.entry(entry.key).or_default().push(entry);
    }
    clients
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, second: u64) -> Entry {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&number.to_be_bytes());
        Entry { key: ClientKey::default(), id, at: Monotonic::from_seconds(second), withdrawn: false }
    }

    #[test]
    fn only_what_still_counts_is_told_and_what_was_not_told_comes_first_again() {
        let mut journal = Journal::default();
        (0..5).for_each(|number| journal.push(entry(number, number * 10)));
        let taken = journal.take(3, Monotonic::from_seconds(60));
        assert_eq!(taken, [entry(1, 10), entry(2, 20)], "the first one has left the window");
        journal.put_back(taken);
        let rest = journal.take(usize::MAX, Monotonic::from_seconds(60));
        assert_eq!(rest, [1, 2, 3, 4].map(|number| entry(number, number * 10)));
        assert!(journal.is_empty() && by_client(&rest)[&ClientKey::default()].len() == 4);
    }

    #[test]
    fn it_does_not_grow_without_bound() {
        let mut journal = Journal::default();
        (0..MOST as u64 + 7).for_each(|number| journal.push(entry(number, 0)));
        assert_eq!(journal.forgotten(), 7);
        let taken = journal.take(1, Monotonic::from_seconds(1));
        assert_eq!(taken, [entry(7, 0)]);
        journal.push(entry(0, 0));
        journal.put_back(taken);
        assert_eq!(journal.forgotten(), 8);
    }
}
