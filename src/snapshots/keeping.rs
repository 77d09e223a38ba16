//! Pins, records of exports, repairs, and dropping snapshots.
//!
//! Callers: [`crate::admin`] and the commands pin, [`super::export`] exports, [`crate::mirror`] tidies after a
//! publication.

use std::collections::HashSet;

use super::notes::{ExportedDetail, Notes, exported_details};
use super::retention::{Candidate, Retention};
use super::{Snapshots, SnapshotsError};
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::store::{Healed, States, StoreError};

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
    ///
    /// # Errors
    /// When no such snapshot is kept, or the write fails.
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
    ///
    /// # Errors
    /// When it is not kept, or the write fails.
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
        self.0.store.put_states(&states)?;
        self.take(notes, pinned);
        self.set_kept(self.list_or_say(notes, self.served()));
        Ok(())
    }

    /// Records that a snapshot was exported with at least these details, so that a delta can build on it. After several
    /// exports, the common details count: the receiver may have any of them.
    ///
    /// # Errors
    /// When the write fails.
    pub(super) fn remember_export(
        &self,
        id: &str,
        base: Option<&str>,
        mut details: Vec<ExportedDetail>,
    ) -> Result<(), SnapshotsError> {
        let mut notes = self.0.notes.lock();
        // A delta needs a kept base.
        self.find(id)?;
        if let Some(before) = exported_details(&self.0.store, id)?.filter(|_| notes.exports.iter().any(|own| own == id))
        {
            details.retain(|detail| detail.is_in(&before));
        }
        let (mut next, mut states) = (notes.clone(), States::default());
        next.exported(id, base, &details, &mut states)?;
        drop(details);
        self.0.store.put_states(&states)?;
        self.take(&mut notes, next);
        self.set_kept(self.list_or_say(&notes, self.served()));
        Ok(())
    }

    /// Repairs a damaged file, and writes the current snapshot to it.
    ///
    /// # Errors
    /// When the store cannot be read or written.
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
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let notes = self.0.notes.lock();
        let (kept, exporting) = (self.0.kept.load_full(), self.0.exporting.lock().clone());
        let chained = self.0.chained.lock().clone();
        let mut exported: Vec<&str> = notes.exports.iter().map(String::as_str).collect();
        let mut pins: Vec<&str> = notes.pins.iter().map(String::as_str).collect();
        exported.extend(chained.iter().map(SnapshotId::as_str));
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
