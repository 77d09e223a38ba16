//! Finds kept snapshots by id, in memory or in the store, and verifies them.
//!
//! It does not switch. Callers: [`super`], [`crate::answer`], [`crate::admin`] and the commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{KeptSnapshot, RolledBack, Snapshots, SnapshotsError};
use crate::snapshot::content::SnapshotId;
use crate::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::store::{StoreError, Verification};

impl Snapshots {
    /// Whether newer data waits for the end of a rollback: then the origin's answers do not fit the current snapshot.
    pub fn is_behind(&self) -> bool {
        let id = |current: &SnapshotPointer| current.load().as_ref().map(|current| current.dataset.id.clone());
        self.0.is_rolled_back.load(Ordering::Acquire) && id(&self.0.newest) != id(&self.0.current)
    }

    /// The rollback, if there is one.
    pub fn rolled_back(&self) -> Option<RolledBack> {
        if !self.0.is_rolled_back.load(Ordering::Acquire) {
            return None;
        }
        let _whole = self.0.showing.read();
        let served = self.0.current.load().as_ref().map(|current| current.dataset.id.clone())?;
        Some(RolledBack { served, newest: self.0.newest.load().as_ref().map(|newest| newest.dataset.id.clone()) })
    }

    /// The newest kept snapshot with that id.
    ///
    /// # Errors
    /// When none is kept.
    pub fn find(&self, id: &str) -> Result<KeptSnapshot, SnapshotsError> {
        let kept = self.0.kept.load();
        kept.iter().find(|kept| kept.id.as_str() == id).cloned().ok_or_else(|| self.unknown(id))
    }

    /// The id of the only kept snapshot with this prefix.
    ///
    /// # Errors
    /// When there is none, or several.
    pub fn resolve(&self, beginning: &str) -> Result<SnapshotId, SnapshotsError> {
        let kept = self.0.kept.load();
        let mut ids = kept.iter().map(|kept| &kept.id).filter(|id| id.as_str().starts_with(beginning));
        let first = ids.next().filter(|_| !beginning.is_empty()).ok_or_else(|| self.unknown(beginning))?;
        match ids.find(|id| *id != first) {
            None => Ok(first.clone()),
            Some(_) => Err(SnapshotsError::Ambiguous(beginning.to_owned())),
        }
    }

    pub(super) fn unknown(&self, id: &str) -> SnapshotsError {
        let current = self.0.current.load().as_ref().map(|current| current.dataset.id.to_string());
        SnapshotsError::Unknown { id: id.to_owned(), current }
    }

    /// A kept snapshot, from memory, or read and indexed.
    ///
    /// # Errors
    /// When none is kept, or it cannot be read.
    pub fn load(&self, id: &str) -> Result<Arc<Snapshot>, SnapshotsError> {
        let loaded = [&self.0.current, &self.0.newest].into_iter().filter_map(SnapshotPointer::get);
        if let Some(loaded) = loaded.into_iter().find(|loaded| loaded.dataset.id.as_str() == id) {
            return Ok(loaded);
        }
        let KeptSnapshot { seq, meta, .. } = self.find(id)?;
        if let Some(loaded) = self.0.loaded.at_hand(id).filter(|loaded| loaded.seq == seq) {
            return Ok(loaded);
        }
        let record = self.0.store.snapshot(seq)?.ok_or_else(|| self.unknown(id))?;
        let dataset = self.build(&record, &self.0.store.evidence_of(seq)?).map_err(|error| match error {
            SnapshotsError::Store(StoreError::NoSuchSnapshot(_)) => self.unknown(id),
            error => error,
        })?;
        Ok(Arc::new(Snapshot::new(dataset, self.shown(meta), seq, 0)))
    }

    /// Compares every block of a kept snapshot and every detail with its hash, and the content with its id.
    ///
    /// # Errors
    /// When it is not kept, damaged or unreadable.
    pub fn verify(&self, seq: u64) -> Result<(), StoreError> {
        Verification::of(&self.0.store).check(seq)
    }

    /// The same for all kept snapshots, the newest first, and what is damaged of each. Details that several have are
    /// read once.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn verify_all(&self) -> Result<Vec<(KeptSnapshot, Option<String>)>, StoreError> {
        let mut verification = Verification::of(&self.0.store);
        let mut found = Vec::new();
        for kept in self.kept().iter().cloned() {
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
