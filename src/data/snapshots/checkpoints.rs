//! Position of a copy elsewhere: the snapshot that it has, and up to where it has the changes of details.
//!
//! It names that by the id of a snapshot, or by a token: `<snapshot>-<epoch>-<place>-<bundle>`. Epoch and place
//! ([`crate::data::store::positions`]) are exact, and hold for this data directory; the digest of a bundle holds wherever
//! the same chain is published or was followed to that bundle. A token has what is known of both.
//!
//! The snapshot is exactly that of the copy: between an earlier one and the next, a listing may have come and gone. The
//! place may be earlier than what the copy has of the details, and is never later: it may get one twice, and misses
//! none. Callers: [`crate::edge::dumps`]; [`super`] marks each switch, and forgets old marks with the journal.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::iter;

use super::{Snapshots, View};
use crate::api::hash::Digest;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::journal::Journal;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::store::{ChangePosition, Mark, MarkAt, States, StoreError};

/// The most marks that are kept. A publisher makes at most one each minute, and two with each snapshot.
const MOST_MARKS: usize = 1 << 14;

impl Snapshots {
    /// Where a copy stands that names this; `None`: that is not known here, or not known any more. [`Journal::since`] and
    /// [`crate::data::store::Store::details_since`] know what it lacks. Blocks.
    pub(crate) fn place_of(&self, since: &str) -> Result<Option<Mark>, StoreError> {
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
        Ok(chain.map(|digest| self.store().mark(digest)).transpose()?.flatten())
    }

    /// At a snapshot that was current, here or where the journal comes from.
    fn place_of_snapshot(&self, id: &str) -> Result<Option<Mark>, StoreError> {
        let Some(snapshot) = SnapshotId::parse(id) else { return Ok(None) };
        let view = self.view();
        let journal = &view.journal;
        let is_kept =
            view.current.as_ref().is_some_and(|current| current.dataset.id == snapshot) || view.find(id).is_some();
        if !is_kept && !journal.entries().any(|entry| entry.from == snapshot || entry.to == snapshot) {
            return Ok(None);
        }
        // If it was never current here, or its mark is lost, its details came after those of an earlier one.
        let earlier = journal.entries().rev().skip_while(|entry| entry.to != snapshot).map(|entry| &entry.from);
        let mut marked = iter::once(&snapshot).chain(earlier);
        let mark = marked.find_map(|marked| self.store().mark(marked).transpose()).transpose()?;
        Ok(Some(Mark { place: mark.and_then(|mark| mark.place), snapshot }))
    }

    /// Marks that a snapshot becomes current. A copy may have it since it was current before, and then lacks nothing less
    /// than it did until now, also if a repair has lost the mark.
    pub(super) fn mark_current(&self, snapshot: &SnapshotId, states: &mut States) -> Result<(), StoreError> {
        let known = self.place_of_snapshot(snapshot.as_str())?;
        let place = known.map_or_else(|| self.store().epoch_place(), |known| Ok(known.place))?;
        states.mark(snapshot, MarkAt::Place(place), snapshot.clone());
        Ok(())
    }

    /// At a place of this data directory.
    fn place_here(&self, id: &str, epoch: &str, place: &str) -> Result<Option<Mark>, StoreError> {
        let read = || {
            let epoch = u64::from_be_bytes(Digest::<8>::parse(epoch)?.0);
            Some((SnapshotId::parse(id)?, ChangePosition { epoch, place: place.parse().ok()? }))
        };
        let Some((snapshot, at)) = read() else { return Ok(None) };
        Ok(self.store().knows_place(at)?.then_some(Mark { snapshot, place: Some(at) }))
    }

    /// The token of a copy that has a current snapshot and the details that are read after this call: at most 136 of the
    /// characters `0-9a-f-`. Blocks.
    pub fn next_token(&self, shown: &Snapshot) -> Result<String, StoreError> {
        let mut token = shown.dataset.id.to_string();
        if let Some(ChangePosition { epoch, place }) = self.store().epoch_place()? {
            let _ = write!(token, "-{epoch:016x}-{place}");
        }
        let published = self.0.reserved.lock().chained.as_ref().map(|(_, bundle)| bundle.to_string());
        for bundle in published.into_iter().chain(self.stand()?.digest) {
            if self.store().mark(&bundle)?.is_some_and(|mark| mark.snapshot == shown.dataset.id) {
                let _ = write!(token, "-{bundle}");
                break;
            }
        }
        Ok(token)
    }

    /// Forgets marks of snapshots that are not kept and from which no journal leads on, and the earliest of too many.
    pub(super) fn forget_marks(&self, view: &View, journal: &Journal, states: &mut States) -> Result<(), StoreError> {
        let chain = self.0.reserved.lock().chained.clone();
        let shown: Vec<_> =
            [&view.current, &view.newest].into_iter().flatten().map(|shown| &shown.dataset.id).collect();
        let mut known: HashSet<&SnapshotId> = journal.entries().flat_map(|entry| [&entry.from, &entry.to]).collect();
        known.extend(&shown);
        known.extend(view.kept.iter().map(|kept| &kept.id));
        known.extend(chain.as_ref().map(|(snapshot, _)| snapshot));
        let bundle = chain.as_ref().map(|(_, bundle)| bundle.to_string());
        let is_needed =
            |name: &str| Some(name) == bundle.as_deref() || shown.iter().any(|snapshot| snapshot.as_str() == name);
        let mut marks = self.store().marks()?;
        marks.sort_by_cached_key(|(name, place, _)| (!is_needed(name), Reverse(*place)));
        let gone = marks.iter().enumerate().filter(|(n, (.., snapshot))| *n >= MOST_MARKS || !known.contains(snapshot));
        gone.for_each(|(_, (name, ..))| states.remove_mark(name));
        Ok(())
    }
}
