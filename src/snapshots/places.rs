//! Where a copy elsewhere stands: the snapshot that it has, and up to where it has the changes of details.
//!
//! It names that by the id of a snapshot, or by a token: `<snapshot>-<epoch>-<place>-<bundle>`. Epoch and place
//! ([`crate::store::places`]) are exact, and hold for this data directory; the digest of a bundle holds wherever the same
//! chain is published or was followed to that bundle. A token has what is known of both.
//!
//! The snapshot is exactly that of the copy: between an earlier one and the next, a listing may have come and gone. The place
//! may be earlier than what the copy has of the details, and is never later: it may get one twice, and misses none.
//! Callers: [`crate::answer`]; [`super`] marks each switch, and forgets old marks with the journal.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::iter;

use super::Snapshots;
use crate::api::hash::Digest;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::journal::Journal;
use crate::snapshot::pointer::Snapshot;
use crate::store::{EpochPlace, States, StoreError};

/// The most marks that are kept. A publisher makes at most one each minute, and two with each snapshot.
const MOST_MARKS: usize = 1 << 14;

/// Where a copy stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// The snapshot that it has; [`Journal::since`] knows what has changed, if it still does.
    pub snapshot: SnapshotId,
    /// What it lacks of the details: [`crate::store::Store::details_since`].
    pub place: u64,
}

impl Snapshots {
    /// Where a copy stands that names this; `None`: that is not known here, or not known any more. Blocks.
    pub fn place_of(&self, since: &str) -> Result<Option<Since>, StoreError> {
        let words: Vec<&str> = since.split('-').collect();
        let (here, chain) = match words.split_last().map(|(last, here)| (here, <Digest>::parse(last))) {
            Some((here, Some(digest))) => (here, Some(digest)),
            _ => (&*words, None),
        };
        let known = match *here {
            [id] => self.place_of_snapshot(id)?,
            [id, epoch, place] => self.place_here(id, epoch, place)?,
            _ => None,
        };
        if known.is_some() {
            return Ok(known);
        }
        let mark = chain.map(|digest| self.store().mark(digest)).transpose()?.flatten();
        Ok(mark.map(|mark| Since { snapshot: mark.snapshot, place: mark.place }))
    }

    /// At a snapshot that was current, here or where the journal comes from.
    fn place_of_snapshot(&self, id: &str) -> Result<Option<Since>, StoreError> {
        let Some(snapshot) = SnapshotId::parse(id) else { return Ok(None) };
        let journal = self.journal();
        let is_current = self.current().load().as_ref().is_some_and(|current| current.dataset.id == snapshot);
        if !is_current && !journal.entries().any(|entry| entry.from == snapshot || entry.to == snapshot) {
            return Ok(None);
        }
        // If it was never current here, its details came after those of an earlier one.
        let earlier = journal.entries().rev().skip_while(|entry| entry.to != snapshot).map(|entry| &entry.from);
        let mut marked = iter::once(&snapshot).chain(earlier);
        let mark = marked.find_map(|marked| self.store().mark(marked).transpose()).transpose()?;
        Ok(Some(Since { place: mark.map_or(0, |mark| mark.place), snapshot }))
    }

    /// At a place of this data directory.
    fn place_here(&self, id: &str, epoch: &str, place: &str) -> Result<Option<Since>, StoreError> {
        let read = || {
            let epoch = u64::from_be_bytes(Digest::<8>::parse(epoch)?.0);
            Some((SnapshotId::parse(id)?, EpochPlace { epoch, place: place.parse().ok()? }))
        };
        let Some((snapshot, at)) = read() else { return Ok(None) };
        Ok(self.store().knows_place(at)?.then_some(Since { snapshot, place: at.place }))
    }

    /// The token of a copy that has a current snapshot and the details that are read after this call: at most 136 of the
    /// characters `0-9a-f-`. Blocks.
    pub fn next_token(&self, shown: &Snapshot) -> Result<String, StoreError> {
        let mut token = shown.dataset.id.to_string();
        if let Some(EpochPlace { epoch, place }) = self.store().epoch_place()? {
            let _ = write!(token, "-{epoch:016x}-{place}");
        }
        let published = self.0.chained.lock().as_ref().map(|(_, bundle)| bundle.to_string());
        for bundle in published.into_iter().chain(self.stand()?.digest) {
            if self.store().mark(&bundle)?.is_some_and(|mark| mark.snapshot == shown.dataset.id) {
                let _ = write!(token, "-{bundle}");
                break;
            }
        }
        Ok(token)
    }

    /// Forgets marks from which no journal leads on, and the earliest of too many. Those of exports go with their notes.
    pub(super) fn forget_marks(&self, journal: &Journal, states: &mut States) -> Result<(), StoreError> {
        let chain = self.0.chained.lock().clone();
        let shown = [self.current(), self.newest()].map(|pointer| pointer.get().map(|shown| shown.dataset.id.clone()));
        let mut known: HashSet<&SnapshotId> = journal.entries().flat_map(|entry| [&entry.from, &entry.to]).collect();
        known.extend(shown.iter().flatten());
        known.extend(chain.as_ref().map(|(snapshot, _)| snapshot));
        let bundle = chain.as_ref().map(|(_, bundle)| bundle.to_string());
        let is_needed = |name: &str| {
            Some(name) == bundle.as_deref() || shown.iter().flatten().any(|snapshot| snapshot.as_str() == name)
        };
        let mut marks = self.store().marks()?;
        marks.retain(|(name, _)| !name.contains('/'));
        marks.sort_by_cached_key(|(name, mark)| (!is_needed(name), Reverse(mark.place)));
        let gone =
            marks.iter().enumerate().filter(|(n, (_, mark))| *n >= MOST_MARKS || !known.contains(&mark.snapshot));
        gone.for_each(|(_, (name, _))| states.remove_mark(name));
        Ok(())
    }
}
