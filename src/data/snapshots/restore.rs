//! Restore of the current and the newest snapshot at start, and look-up of kept snapshots by id, in memory or in the store.
//!
//! Callers: [`crate::server`] restores; [`super`] and [`crate::server::admin`] look up.

use std::sync::Arc;

use super::{Change, KeptSnapshot, Snapshots, SnapshotsError, retention};
use crate::data::snapshot::columns::{Names, Traits};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::verdicts::table::Table;
use crate::data::store::{States, StoreError, VERDICTS, Verification};

/// A kept snapshot, and what is damaged of it.
pub(crate) type Verified = (Arc<KeptSnapshot>, Option<String>);

impl Snapshots {
    /// Reads back what requests mean at the origin.
    fn read_verdicts(&self) {
        let verdicts = self.0.store.state_json::<Table>(VERDICTS).unwrap_or_else(|error| {
            tracing::warn!(%error, "what requests mean at the origin cannot be read");
            None
        });
        self.0.verdicts.change(|table| *table = verdicts.unwrap_or_default());
    }

    /// Restores the snapshot that was current, and the newest one. Fails if the current snapshot cannot be read; other
    /// unreadable data counts as absent.
    pub fn restore(&self) -> Result<(), SnapshotsError> {
        let mut change = self.change();
        let restored = self.read_back(&mut change);
        // Earlier snapshots are known even if this one is lost.
        self.show(change);
        restored
    }

    fn read_back(&self, Change { view, .. }: &mut Change<'_, '_>) -> Result<(), SnapshotsError> {
        self.read_notes(view)?;
        view.journal = self.read_journal()?;
        self.read_verdicts();
        view.kept = self.read_kept()?;
        let current = self.0.store.current()?;
        let served = current.as_ref().map(|(record, _)| record.seq);
        if view.rolled_back.is_some() && view.rolled_back != served {
            tracing::error!("the snapshot of the rollback is lost; the newest snapshot is current again");
            view.rolled_back = None;
            let mut states = States::default();
            retention::write_rollback(view, &mut states)?;
            if let Err(error) = self.0.store.put_states(&states) {
                tracing::warn!(%error, "the end of the rollback could not be stored");
            }
        }
        if let Some(newest) = view.kept.first().filter(|newest| served != Some(newest.seq)).cloned() {
            // The mirror fetches it again if necessary.
            match self.read(newest.seq) {
                Ok(dataset) => {
                    let shown = view.snapshot(dataset, self.believed(newest.meta.clone()), newest.seq);
                    view.newest = Some(shown);
                }
                Err(error) => tracing::error!(%error, snapshot = %newest.id, "the newest snapshot cannot be read"),
            }
            if let Some(newest) = view.newest.clone().filter(|_| view.rolled_back.is_none()) {
                // The note that it had to wait is lost.
                self.0.store.activate(newest.seq, &States::default())?;
                view.current = Some(newest);
                return Ok(());
            }
        }
        let Some((record, meta)) = current else { return Ok(()) };
        let shown = view.snapshot(self.read(record.seq)?, self.believed(meta), record.seq);
        tracing::info!(
            snapshot = %shown.dataset.id,
            listings = shown.dataset.len(),
            confirmed = %shown.confirmed(),
            rolled_back = view.rolled_back,
            "serving the stored snapshot"
        );
        view.newest.get_or_insert_with(|| shown.clone());
        view.current = Some(shown);
        Ok(())
    }

    /// Reads which snapshots are kept, the newest first.
    pub(super) fn read_kept(&self) -> Result<Vec<Arc<KeptSnapshot>>, StoreError> {
        let snapshots = self.0.store.snapshots()?.into_iter().rev();
        Ok(snapshots.map(|(record, meta)| Arc::new(retention::kept(record, meta))).collect())
    }

    /// Reads a snapshot and indexes it.
    fn read(&self, seq: u64) -> Result<Arc<Dataset>, SnapshotsError> {
        let record = self.0.store.snapshot(seq)?.ok_or(StoreError::NoSuchSnapshot(seq))?;
        let evidence = self.0.store.evidence_of(seq).unwrap_or_else(|error| {
            tracing::warn!(%error, "the stored lists of ambiguous terms cannot be read; a mirror fetches them again");
            Evidence::new()
        });
        let names = Arc::<Names>::default();
        let (content, traits) = self.0.store.load_and_read(&record, |summaries| {
            let mut traits = vec![Traits::UNREAD; summaries.len()];
            names.read(summaries, &mut traits);
            traits
        })?;
        Ok(Arc::new(Dataset::of(content, names, traits, &evidence)?))
    }

    /// The newest kept snapshot with that id.
    pub fn find(&self, id: &str) -> Result<Arc<KeptSnapshot>, SnapshotsError> {
        self.view().find(id).cloned().ok_or_else(|| self.unknown(id))
    }

    /// The id of the only kept snapshot with this prefix. Fails if there is none, or several.
    pub fn resolve(&self, beginning: &str) -> Result<SnapshotId, SnapshotsError> {
        let view = self.view();
        let mut ids = view.kept.iter().map(|kept| &kept.id).filter(|id| id.as_str().starts_with(beginning));
        let first = ids.next().filter(|_| !beginning.is_empty()).ok_or_else(|| self.unknown(beginning))?;
        if ids.any(|id| id != first) {
            return Err(SnapshotsError::Refused(format!(
                "{beginning} matches several kept snapshots; `grandstand snapshot list` shows them"
            )));
        }
        Ok(first.clone())
    }

    pub(super) fn unknown(&self, id: &str) -> SnapshotsError {
        let current = self.view().current.as_ref().map(|current| format!(" (current: {})", current.dataset.id));
        SnapshotsError::Unknown(format!(
            "no snapshot {id} is kept{}; `grandstand snapshot list` shows the kept ones",
            current.unwrap_or_default()
        ))
    }

    /// A kept snapshot, from memory, or read and indexed.
    pub fn load(&self, id: &str) -> Result<Arc<Snapshot>, SnapshotsError> {
        if let Some(shown) = self.view().shown(|shown| shown.dataset.id.as_str() == id) {
            return Ok(shown.clone());
        }
        let kept = self.find(id)?;
        if let Some(loaded) = self.0.earlier.get(id).filter(|loaded| loaded.seq == kept.seq) {
            return Ok(loaded);
        }
        let dataset = self.read(kept.seq).map_err(|error| match error {
            SnapshotsError::Store(StoreError::NoSuchSnapshot(_)) => self.unknown(id),
            error => error,
        })?;
        Ok(Arc::new(Snapshot::new(dataset, self.believed(kept.meta.clone()), kept.seq, 0)))
    }

    /// The size of a kept snapshot in the store, in bytes, with what it shares with other snapshots, and without details.
    /// Reads all of it once.
    pub fn bytes_of(&self, kept: &KeptSnapshot) -> Result<u64, StoreError> {
        if let Some(bytes) = kept.bytes.get() {
            return Ok(*bytes);
        }
        let bytes = self.0.store.bytes_of(kept.seq)?;
        Ok(*kept.bytes.get_or_init(|| bytes))
    }

    /// Compares every block of all kept snapshots and every detail with its hash, and the content with its id; what is
    /// damaged of each, the newest first. Details that several have are read once.
    pub fn verify_all(&self) -> Result<Vec<Verified>, StoreError> {
        let mut verification = Verification::of(&self.0.store);
        let mut found = Vec::new();
        for kept in self.view().kept.clone() {
            match verification.check(kept.seq) {
                Ok(()) => found.push((kept, None)),
                Err(StoreError::Damaged(why)) => found.push((kept, Some(why))),
                // It was removed meanwhile.
                Err(StoreError::NoSuchSnapshot(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
