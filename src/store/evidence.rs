//! The origin's lists for terms whose membership is not proven by names and counts.
//!
//! [`crate::snapshot::membership`] judges it. Callers: [`crate::mirror`] collects it, [`crate::snapshots`] indexes with
//! it.

use super::Store;
use super::error::StoreError;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::membership::{Evidence, ListedTerm};

/// The name of the blob with the newest list for each term.
const STATE: &str = "terms";

/// The name of the blob with the evidence of a snapshot that is no longer the newest.
pub(super) fn own(seq: u64) -> String {
    format!("{STATE}/{seq}")
}

/// The snapshot whose evidence a blob of that name has.
pub(super) fn version_of(state: &str) -> Option<u64> {
    state.strip_prefix(STATE)?.strip_prefix('/')?.parse().ok()
}

impl Store {
    /// Reads the evidence; empty if it is absent or has an unknown form.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn evidence(&self) -> Result<Evidence, StoreError> {
        self.evidence_in(STATE)
    }

    /// The same for one snapshot: its own evidence comes before newer lists.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn evidence_of(&self, seq: u64) -> Result<Evidence, StoreError> {
        let mut evidence = self.evidence()?;
        evidence.append(&mut self.evidence_in(&own(seq))?);
        Ok(evidence)
    }

    fn evidence_in(&self, state: &str) -> Result<Evidence, StoreError> {
        let Some(bytes) = self.state(state)? else { return Ok(Evidence::new()) };
        let pairs: Vec<(TaxonomyKind, String, ListedTerm)> = serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "the stored lists of ambiguous terms cannot be read; a mirror fetches them again");
            Vec::new()
        });
        Ok(pairs.into_iter().map(|(kind, slug, listed)| ((kind, slug), listed)).collect())
    }

    /// Keeps the evidence.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn put_evidence(&self, evidence: &Evidence) -> Result<(), StoreError> {
        self.put_state(STATE, &text(evidence)?)
    }
}

impl super::States {
    /// Writes the evidence as well.
    ///
    /// # Errors
    /// When it is too large.
    pub fn put_evidence(&mut self, evidence: &Evidence) -> Result<(), StoreError> {
        self.put(STATE, text(evidence)?)
    }

    /// Writes the evidence of a snapshot as well; it is kept as long as the snapshot.
    ///
    /// # Errors
    /// When it is too large.
    pub fn put_evidence_of(&mut self, seq: u64, evidence: &Evidence) -> Result<(), StoreError> {
        self.put(&own(seq), text(evidence)?)
    }
}

fn text(evidence: &Evidence) -> Result<Vec<u8>, StoreError> {
    let pairs: Vec<_> = evidence.iter().map(|((kind, slug), listed)| (kind, slug, listed)).collect();
    serde_json::to_vec(&pairs).map_err(|error| StoreError::Io { path: STATE.into(), source: error.into() })
}
