//! Which snapshots are kept, and the notes about them: pins, the rollback, and exports; repairs.
//!
//! The newest snapshots stay, the last of each day, and needed ones. Callers: [`crate::admin`] pins,
//! [`super::export`] exports, [`crate::mirror`] tidies after a publication.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Display;

use super::{Snapshots, SnapshotsError};
use crate::config::MirrorConfig;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::store::{EpochPlace, Healed, MarkAt, States, Store, StoreError};

impl Snapshots {
    /// Stores the evidence of the newest snapshot when another one replaces it: later lists of the origin do not apply
    /// to it.
    pub(super) fn keep_evidence(&self, next: &Dataset, states: &mut States) {
        let newest = self.0.newest.get();
        let Some(newest) = newest.filter(|newest| newest.dataset.id != next.id) else { return };
        let evidence = newest.dataset.evidence();
        if evidence.is_empty() {
            return;
        }
        if let Err(error) = states.put_evidence(Some(newest.seq), &evidence) {
            tracing::warn!(%error, snapshot = %newest.dataset.id, "some terms of a kept snapshot are in doubt now");
        }
    }

    /// Keeps a snapshot until it is unpinned.
    pub fn pin(&self, id: &str) -> Result<(), SnapshotsError> {
        self.find(id)?;
        let mut notes = self.0.notes.lock();
        // It may have been dropped meanwhile.
        self.find(id)?;
        let mut pinned = notes.clone();
        pinned.pins.insert(id.to_owned());
        self.write_pins(&mut notes, pinned)
    }

    /// Unpins a snapshot, so that normal retention applies again.
    pub fn unpin(&self, id: &str) -> Result<(), SnapshotsError> {
        let mut notes = self.0.notes.lock();
        let mut pinned = notes.clone();
        if !pinned.pins.remove(id) {
            self.find(id)?;
        }
        self.write_pins(&mut notes, pinned)
    }

    fn write_pins(&self, notes: &mut Notes, pinned: Notes) -> Result<(), SnapshotsError> {
        let mut states = States::default();
        pinned.write_pins(&mut states)?;
        self.write_notes(notes, pinned, &states)
    }

    fn write_notes(&self, notes: &mut Notes, next: Notes, states: &States) -> Result<(), SnapshotsError> {
        self.0.store.put_states(states)?;
        self.take(notes, next);
        self.set_kept(self.list_or_say(notes, self.served()));
        Ok(())
    }

    /// Records that a snapshot was exported with all changes of details before a place, so that a delta can build on it.
    /// After several exports the first place counts: the receiver may have any of them.
    pub(super) fn remember_export(
        &self,
        id: &SnapshotId,
        base: Option<&SnapshotId>,
        place: Option<EpochPlace>,
    ) -> Result<(), SnapshotsError> {
        let mut notes = self.0.notes.lock();
        // A delta needs a kept base.
        self.find(id.as_str())?;
        let (mut next, mut states) = (notes.clone(), States::default());
        // A repair has lost the place of an earlier export, whose receiver may lack anything.
        let is_lost = next.exports.iter().any(|own| own == id.as_str()) && self.0.store.mark(exported(id))?.is_none();
        states.mark(exported(id), MarkAt::Place(place.filter(|_| !is_lost)), id.clone());
        next.exported(id, base, &mut states)?;
        self.write_notes(&mut notes, next, &states)
    }

    /// Repairs a damaged file, and writes the current snapshot to it.
    pub fn heal(&self) -> Result<Healed, StoreError> {
        // No switch meanwhile.
        let mut notes = self.0.notes.lock();
        let served = self.0.current.get();
        let current = served.as_ref().map(|served| (served.seq, &served.dataset.content, &served.meta));
        let healed = self.0.store.heal(current)?;
        // Notes that could not be read before may be readable now.
        let Notes { mut pins, exports, .. } = Notes::read(&self.0.store)?;
        pins.extend(notes.pins.iter().cloned());
        let exports = if notes.exports.is_empty() { exports } else { notes.exports.clone() };
        let healed_notes = Notes { pins, exports, ..notes.clone() };
        if let Err(error) = self.write_back(&healed_notes) {
            tracing::error!(%error, "the record of pins, rollback and exports could not be stored");
        }
        self.take(&mut notes, healed_notes);
        if self.0.journal.load().is_empty() {
            self.read_journal()?;
        }
        self.set_kept(self.list_or_say(&notes, self.served()));
        Ok(healed)
    }

    /// Writes notes that may have been lost, and the rollback if its snapshot was saved.
    fn write_back(&self, notes: &Notes) -> Result<(), StoreError> {
        let mut states = States::default();
        notes.write_all(&mut states)?;
        // Details may be lost: a replica fetches all again.
        super::follow::forget_in(&mut states);
        match notes.rolled_back.map(|seq| self.0.store.activate(seq, &states)) {
            None | Some(Err(StoreError::NoSuchSnapshot(_))) => self.0.store.put_states(&states),
            Some(activated) => activated,
        }
    }

    /// Drops snapshots and journal entries by the policy.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let notes = self.0.notes.lock();
        let (kept, exporting) = (self.0.kept.load_full(), self.0.exporting.lock().clone());
        let chained = self.0.chained.lock().clone();
        let mut exported: Vec<&str> = notes.exports.iter().map(String::as_str).collect();
        let mut pins: Vec<&str> = notes.pins.iter().map(String::as_str).collect();
        exported.extend(chained.iter().map(|(snapshot, _)| snapshot.as_str()));
        // Of several with one id, only the newest is needed.
        let mut takes = |id: &str| {
            let from =
                |ids: &mut Vec<&str>| ids.iter().position(|own| *own == id).map(|at| ids.swap_remove(at)).is_some();
            from(&mut exported) | from(&mut pins)
        };
        // One of several with the same content is enough.
        let mut seen = HashSet::new();
        let distinct = kept
            .iter()
            .filter(|snapshot| seen.insert(snapshot.id.as_str()) | snapshot.served | exporting.contains(&snapshot.seq));
        let candidates = distinct.map(|snapshot| Candidate {
            seq: snapshot.seq,
            published_ms: snapshot.meta.published_ms,
            needed: takes(snapshot.id.as_str()) | snapshot.served | snapshot.newest | exporting.contains(&snapshot.seq),
        });
        let retention = Retention::of(&self.0.policy.settings.load().mirror);
        let staying = retention.staying(&candidates.collect::<Vec<_>>());
        let collected = self.0.store.collect_garbage(&staying)?;
        if collected.snapshots > 0 {
            self.set_kept(Some(self.list(&notes, self.served())?));
        }
        self.forget_changes()
    }
}

/// How many exports can be the base of a delta.
pub(crate) const EXPORTS: usize = 3;

const PINS: &str = "versions/pins";
const ROLLBACK: &str = "versions/rollback";
const EXPORTED: &str = "versions/exports";
/// Pins, the rollback and the exports.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// Ids of pinned snapshots.
    pub pins: BTreeSet<String>,
    /// The sequence number of the snapshot that a rollback made current.
    pub rolled_back: Option<u64>,
    /// Ids of the last exports, the newest last; each once.
    pub exports: Vec<String>,
}

impl Notes {
    /// Reads the notes. Unreadable ones count as absent.
    pub(super) fn read(store: &Store) -> Result<Self, StoreError> {
        Ok(Self {
            pins: store.state_json(PINS)?.unwrap_or_default(),
            rolled_back: store.state_json(ROLLBACK)?,
            exports: store.state_json(EXPORTED)?.unwrap_or_default(),
        })
    }

    /// Adds the pins to a write.
    pub(super) fn write_pins(&self, states: &mut States) -> Result<(), StoreError> {
        states.put_json(PINS, &self.pins)
    }

    /// Adds the rollback to a write.
    pub(super) fn write_rollback(&self, states: &mut States) -> Result<(), StoreError> {
        if let Some(seq) = self.rolled_back {
            return states.put_json(ROLLBACK, &seq);
        }
        states.remove(ROLLBACK);
        Ok(())
    }

    /// Adds all notes to a write.
    pub(super) fn write_all(&self, states: &mut States) -> Result<(), StoreError> {
        self.write_pins(states)?;
        self.write_rollback(states)?;
        states.put_json(EXPORTED, &self.exports)
    }

    /// Records an export, and drops all but the last few. The base of a delta counts as exported again.
    fn exported(&mut self, id: &SnapshotId, base: Option<&SnapshotId>, states: &mut States) -> Result<(), StoreError> {
        let again = base.filter(|base| self.exports.iter().any(|own| own == base.as_str()));
        for id in again.into_iter().chain([id]) {
            self.exports.retain(|other| other != id.as_str());
            self.exports.push(id.to_string());
        }
        self.exports.drain(..self.exports.len().saturating_sub(EXPORTS));
        states.put_json(EXPORTED, &self.exports)
    }
}

/// The name of the mark of an export.
pub(super) fn exported(snapshot: impl Display) -> String {
    format!("export/{snapshot}")
}

/// Milliseconds in a day, which begins at 00:00 UTC.
const DAY_MS: i64 = 86_400_000;

/// How many snapshots stay although nothing needs them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    /// The newest ones, at least one.
    pub keep: usize,
    /// So many days of which the last snapshot stays.
    pub keep_daily: usize,
}

/// The inputs of the decision about a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its sequence number.
    pub seq: u64,
    /// When it was published; milliseconds since the epoch.
    pub published_ms: i64,
    /// Whether it must stay, for example pinned or current.
    pub needed: bool,
}

impl Retention {
    /// As it is configured.
    pub(super) fn of(mirror: &MirrorConfig) -> Self {
        Self { keep: mirror.keep as usize, keep_daily: mirror.keep_daily as usize }
    }

    /// The sequence numbers of the snapshots that stay.
    pub(super) fn staying(self, candidates: &[Candidate]) -> Vec<u64> {
        let mut newest_first = candidates.to_vec();
        newest_first.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.seq));
        let mut days = HashSet::new();
        let mut staying: Vec<u64> = Vec::new();
        for (place, candidate) in newest_first.iter().enumerate() {
            let is_last_of_day = days.len() < self.keep_daily && days.insert(candidate.published_ms.div_euclid(DAY_MS));
            if place < self.keep.max(1) || is_last_of_day || candidate.needed {
                staying.push(candidate.seq);
            }
        }
        staying.sort_unstable();
        staying
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64, day: i64, needed: bool) -> Candidate {
        Candidate { seq, published_ms: day * DAY_MS + seq.cast_signed(), needed }
    }

    #[test]
    fn the_newest_the_last_of_each_day_and_what_is_needed_stay() {
        let all: Vec<Candidate> =
            [0, 0, 1, 1, 1, 2, 4, 4, 4, 4].into_iter().zip(1..).map(|(day, seq)| at(seq, day, seq == 1)).collect();
        let staying = |keep, keep_daily| Retention { keep, keep_daily }.staying(&all);
        assert_eq!(staying(2, 0), [1, 9, 10]);
        assert_eq!(staying(0, 0), [1, 10], "one always stays");
        assert_eq!(staying(1, 3), [1, 5, 6, 10], "the last of days 4, 2 and 1");
        assert_eq!(staying(3, 9), [1, 2, 5, 6, 8, 9, 10]);
        assert_eq!(staying(99, 0).len(), 10);
        assert!(Retention { keep: 1, keep_daily: 1 }.staying(&[]).is_empty());
    }

    #[test]
    fn a_clock_that_was_set_back_drops_no_newer_snapshot() {
        let all = [at(1, 9, false), at(2, 9, false), at(3, 5, false), at(4, 5, false)];
        assert_eq!(Retention { keep: 1, keep_daily: 2 }.staying(&all), [2, 4]);
    }
}
