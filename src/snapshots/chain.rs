//! Bundles that follow each other: each delta brings what a holder of the whole chain before it lacks.
//!
//! Unlike exports for people ([`super::export`]), the base is the end of one known chain, and its details are known
//! exactly. Everything here blocks. Callers: [`crate::fleet`].

use std::fs::File;

use super::export::{ExportError, Hold, Output};
use super::{Snapshots, SnapshotsError};
use crate::bundle::Written;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::pointer::Snapshot;
use crate::store::StoreError;

pub(crate) use super::notes::ExportedDetail;

/// What a holder of a chain has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Its details, in ascending id order.
    pub details: Vec<ExportedDetail>,
}

/// A written bundle, and what a holder of the chain has with it.
pub(crate) struct Link {
    /// The result of writing.
    pub written: Written,
    pub end: ChainEnd,
    /// Keeps the snapshot until the chain is recorded.
    _hold: Hold,
}

impl Snapshots {
    /// Writes a published snapshot into an empty file: all of it, or what a holder of `base` lacks.
    ///
    /// # Errors
    /// When the base is not kept, or something cannot be read or written.
    pub(crate) fn export_link(
        &self,
        out: &mut File,
        served: &Snapshot,
        base: Option<&ChainEnd>,
    ) -> Result<Link, ExportError> {
        let hold = Hold::on(self, served.seq);
        let dataset = base.map(|base| self.load(base.snapshot.as_str())).transpose().map_err(ExportError::Base)?;
        let dataset = dataset.as_ref().map(|base| &*base.dataset);
        let before = base.map(|base| &base.details[..]);
        let Output { written, known, .. } = self.write_bundle(out, served, dataset, before, &mut |_, _| {})?;
        let end = ChainEnd { snapshot: served.dataset.id.clone(), details: known };
        Ok(Link { written, end, _hold: hold })
    }

    /// Whether a holder of `base` lacks details of a published snapshot.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn has_more_details(&self, served: &Snapshot, base: &ChainEnd) -> Result<bool, StoreError> {
        Ok(self.known(&served.dataset)?.iter().any(|detail| !detail.is_in(&base.details)))
    }

    /// Keeps the newest stored copy of a snapshot, from now on instead of the one named before: the next link builds on
    /// it.
    pub(crate) fn keep_for_chain(&self, snapshot: Option<SnapshotId>) {
        *self.0.chained.lock() = snapshot;
    }
}

/// Whether an export failed because its base is not kept any more.
pub(crate) fn lacks_base(error: &ExportError) -> bool {
    matches!(error, ExportError::Base(SnapshotsError::Unknown { .. }))
}
