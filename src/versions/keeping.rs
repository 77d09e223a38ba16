//! What keeps a version: pins and exports; and letting go of all that nothing keeps.
//!
//! Callers: [`crate::admin`] and the commands pin, [`super::bundles`] exports, [`crate::origin`] tidies after a publication.

use std::collections::HashSet;

use super::notes::{ExportedDetail, Notes, exported_details};
use super::retention::Candidate;
use super::{Versions, VersionsError};
use crate::store::{States, StoreError};

impl Versions {
    /// Keeps a version until it is unpinned.
    ///
    /// # Errors
    /// When no such version is kept, or the write fails.
    pub fn pin(&self, id: &str) -> Result<(), VersionsError> {
        self.find(id)?;
        let mut notes = self.0.notes.lock();
        // It may have gone in between.
        self.find(id)?;
        let mut pinned = notes.clone();
        pinned.pins.insert(id.to_owned());
        self.write_pins(&mut notes, pinned)
    }

    /// Lets a version go as others go.
    ///
    /// # Errors
    /// When it is not pinned, or the write fails.
    pub fn unpin(&self, id: &str) -> Result<(), VersionsError> {
        let mut notes = self.0.notes.lock();
        let mut pinned = notes.clone();
        if !pinned.pins.remove(id) {
            self.find(id)?;
        }
        self.write_pins(&mut notes, pinned)
    }

    fn write_pins(&self, notes: &mut Notes, pinned: Notes) -> Result<(), VersionsError> {
        let mut states = States::default();
        pinned.write_pins(&mut states)?;
        self.0.store.put_states(&states)?;
        *notes = pinned;
        Ok(self.list(notes, self.served())?)
    }

    /// Remembers that a version was exported with these details, so that a delta can build upon it: upon any export of that
    /// version, whichever its reader has. A detail that one of them lacks, or has otherwise, is in the delta.
    ///
    /// # Errors
    /// When no such version is kept any more, or the write fails.
    pub fn exported(&self, id: &str, details: &[ExportedDetail]) -> Result<(), VersionsError> {
        let mut notes = self.0.notes.lock();
        self.find(id)?;
        let (mut next, mut states) = (notes.clone(), States::default());
        let before = if notes.exports.iter().any(|other| other == id) {
            exported_details(&self.0.store, id)?.map(|before| before.into_iter().collect::<HashSet<_>>())
        } else {
            None
        };
        let in_all = details.iter().filter(|detail| before.as_ref().is_none_or(|before| before.contains(detail)));
        next.exported(id, &in_all.copied().collect::<Vec<_>>(), &mut states)?;
        self.0.store.put_states(&states)?;
        *notes = next;
        Ok(self.list(&notes, self.served())?)
    }

    /// Drops versions and journal entries that need not stay.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let notes = self.0.notes.lock();
        let kept = self.0.kept.load_full();
        let mut exported: Vec<&str> = notes.exports.iter().map(String::as_str).collect();
        let mut pins: Vec<&str> = notes.pins.iter().map(String::as_str).collect();
        // The newest of those with the same id: they are in that order.
        let mut takes = |id: &str| {
            let from =
                |ids: &mut Vec<&str>| ids.iter().position(|own| *own == id).map(|at| ids.swap_remove(at)).is_some();
            from(&mut exported) | from(&mut pins)
        };
        let candidates = kept.iter().map(|version| Candidate {
            seq: version.seq,
            published_ms: version.meta.published_ms,
            needed: takes(version.id.as_str()) | version.served | version.newest,
        });
        let staying = self.0.policy.retention.staying(&candidates.collect::<Vec<_>>());
        let collected = self.0.store.collect_garbage(&staying)?;
        if collected.versions > 0 {
            self.list(&notes, self.served())?;
        }
        self.forget_changes()
    }
}
