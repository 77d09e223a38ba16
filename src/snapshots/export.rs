//! Exports the current snapshot with its details as a bundle, or as a link of a chain of bundles.
//!
//! In a chain each delta brings what a holder of the whole chain before it lacks: its base is the end of one known chain,
//! and the details of that are known exactly. [`crate::bundle`] knows the file. Everything here blocks. Callers:
//! [`crate::admin`] in a running server, else the commands; [`crate::fleet`] for chains.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};

use super::keeping::{exported, exported_details};
use super::{Snapshots, SnapshotsError};
use crate::api::listing::ListingId;
use crate::bundle::{self, Counts, Detail, Export, Progress, WriteError, Written};
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::pointer::Snapshot;
use crate::store::{DetailMeta, DetailRecord, StoreError};

pub(crate) use super::keeping::ExportedDetail;

/// Tries of an export while details change.
const TRIES: u32 = 5;

/// Why no bundle is exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no snapshot yet.
    #[error("there is no snapshot to export yet")]
    Nothing,
    /// Not all details are mirrored, although all are required.
    #[error(
        "the bundle would not be complete: {mirrored} of {of} details are mirrored. Export again when the copy is complete \
         (`grandstand sync` fetches the rest), or without --require-complete"
    )]
    Incomplete { mirrored: u64, of: u64 },
    /// The base is not kept, or cannot be read.
    #[error("no delta can be made: {0}")]
    Base(#[source] SnapshotsError),
    /// The store fails.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// The bundle cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError<StoreError>),
}

/// Details in ascending id order.
pub(super) type Known = Vec<ExportedDetail>;

/// What was written: the bundle, the details that there are, and, of a delta, those that are in it.
pub(super) struct Output {
    pub written: Written,
    pub known: Known,
    wanted: Option<Known>,
}

/// Keeps a snapshot for as long as it lives.
pub(super) struct Hold(Snapshots, u64);

impl Hold {
    pub(super) fn on(snapshots: &Snapshots, seq: u64) -> Self {
        snapshots.0.exporting.lock().push(seq);
        Self(snapshots.clone(), seq)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut exporting = self.0.0.exporting.lock();
        if let Some(at) = exporting.iter().position(|seq| *seq == self.1) {
            exporting.swap_remove(at);
        }
    }
}

/// A written bundle, to be recorded once it was delivered. Its snapshot is kept until then.
pub struct Exported {
    /// The result of writing.
    pub written: Written,
    /// Its base.
    base: Option<SnapshotId>,
    /// Details that a holder of the base and this bundle certainly has.
    held: Vec<ExportedDetail>,
    /// Whether the export of the base was recorded.
    pub is_exact: bool,
    /// Whether every detail could be read.
    pub is_whole: bool,
    _hold: Hold,
}

impl Snapshots {
    /// Writes the current snapshot into an empty file: all of it, or the changes `since` a kept snapshot, whose id may
    /// be shortened.
    ///
    /// # Errors
    /// When there is nothing to export, it is not `complete` although it must be, the base is not kept, or something
    /// cannot be read or written.
    pub fn export(
        &self,
        out: &mut File,
        since: Option<&str>,
        complete: bool,
        progress: Progress<'_>,
    ) -> Result<Exported, ExportError> {
        let served = self.current().get().ok_or(ExportError::Nothing)?;
        let hold = Hold::on(self, served.seq);
        let base = since.map(|id| self.resolve(id).and_then(|id| self.load(id.as_str()))).transpose();
        let base = base.map_err(ExportError::Base)?;
        let before = match &base {
            Some(base) => exported_details(self.store(), base.dataset.id.as_str())?,
            None => None,
        };
        let base = base.as_ref().map(|base| &*base.dataset);
        let Output { written, known, wanted } = self.write_bundle(out, &served, base, before.as_deref(), progress)?;
        let (mirrored, of) = (known.len() as u64, served.dataset.len() as u64);
        if complete && mirrored < of {
            return Err(ExportError::Incomplete { mirrored, of });
        }
        let is_exact = base.is_none() || before.is_some();
        // Without a record, the details of the base are unknown.
        let held = wanted.filter(|_| !is_exact).unwrap_or(known);
        let base = base.map(|base| base.id.clone());
        let is_whole = self.store().damage().is_none();
        Ok(Exported { written, base, held, is_exact, is_whole, _hold: hold })
    }

    /// Writes a snapshot into an empty file: all of it, or the changes since `base`, whose holder has the details
    /// `before` (`None`: not known).
    pub(super) fn write_bundle(
        &self,
        out: &mut File,
        served: &Snapshot,
        base: Option<&Dataset>,
        before: Option<&[ExportedDetail]>,
        progress: Progress<'_>,
    ) -> Result<Output, ExportError> {
        let evidence = served.dataset.evidence();
        let learned = self.edges().known().filter(|learned| !learned.lessons.is_empty());
        let lost = RefCell::new(HashSet::new());
        let mut tries = 0;
        loop {
            let mut known = self.known(&served.dataset)?;
            known.retain(|detail| !lost.borrow().contains(&detail.id));
            let wanted = base.map(|base| changed(&known, before, base, &served.dataset));
            let all_wanted = wanted.as_ref().unwrap_or(&known);
            let export = Export {
                content: &served.dataset.content,
                meta: &served.meta,
                evidence: &evidence,
                learned: learned.as_deref(),
                base: base.map(|base| &base.content),
                coverage: counts(&known),
                details: counts(all_wanted),
            };
            out.set_len(0).and_then(|()| out.rewind()).map_err(WriteError::Io)?;
            let mut buffered = BufWriter::with_capacity(1 << 18, &mut *out);
            let ids: Vec<ListingId> = all_wanted.iter().map(|detail| detail.id).collect();
            let read = all_wanted.iter().zip(self.store().details_in_turn(&ids));
            let details = read.filter_map(|(expected, (id, read))| match read {
                Ok(record) => record.map(|record| Ok((id, for_export(expected, record, &served.dataset)))),
                Err(StoreError::Damaged(detail)) => {
                    tracing::warn!(%id, detail, "a stored detail is damaged; it is missing in the bundle");
                    lost.borrow_mut().insert(id);
                    None
                }
                Err(error) => Some(Err(error)),
            });
            let written = bundle::write(&mut buffered, &export, details, progress);
            match written {
                // A detail came or went meanwhile, or cannot be read.
                Err(WriteError::Counts { .. }) if tries + 1 < TRIES => tries += 1,
                written => {
                    let written = written?;
                    buffered.flush().map_err(WriteError::Io)?;
                    drop(buffered);
                    out.sync_all().map_err(WriteError::Io)?;
                    return Ok(Output { written, known, wanted });
                }
            }
        }
    }

    /// Records a delivered export, so that a delta can build on it.
    ///
    /// # Errors
    /// When the record cannot be written; the bundle is valid anyway.
    pub fn remember(&self, exported: Exported) -> Result<(), SnapshotsError> {
        let Exported { written, base, held, _hold, .. } = exported;
        let base = base.as_ref().map(SnapshotId::as_str);
        self.remember_export(written.manifest.snapshot.as_str(), base, held)
    }

    /// The stored details of a data set's listings.
    pub(super) fn known(&self, dataset: &Dataset) -> Result<Known, StoreError> {
        // Only what is needed of each: with all of its metadata, a million take hundreds of MiB.
        let known = self.store().detail_index(|meta| exported(&meta))?;
        let mut known: Known = known.into_iter().map(|(id, hash)| ExportedDetail { id, hash }).collect();
        known.retain(|detail| dataset.position(detail.id).is_some());
        known.sort_unstable_by_key(|detail| detail.id);
        Ok(known)
    }
}

/// A stored detail as it travels.
fn for_export(expected: &ExportedDetail, record: DetailRecord, dataset: &Dataset) -> Detail {
    let DetailRecord { meta, body } = record;
    let id = expected.id;
    let is_same = exported(&meta) == expected.hash;
    // A detail is provisional if its instant is before its summary's.
    let modified_ms = dataset.modified_of(id).map(|at| at.div_euclid(1_000_000));
    let is_settled = modified_ms.is_none_or(|modified| modified <= meta.origin_time_ms);
    let is_its = dataset.summary(id).is_some_and(|summary| summary.hash == meta.summary_hash);
    let current = is_same && is_its && is_settled;
    let DetailMeta { state, etag, last_modified, .. } = meta;
    Detail { state, body, current, etag, last_modified }
}

/// The details that a holder of the base still needs. If the export of the base was recorded, compare with it;
/// otherwise assume every new or changed listing.
fn changed(known: &Known, before: Option<&[ExportedDetail]>, base: &Dataset, next: &Dataset) -> Known {
    let Some(before) = before else {
        let hash = |dataset: &Dataset, id| dataset.summary(id).map(|summary| summary.hash);
        return known.iter().filter(|detail| hash(base, detail.id) != hash(next, detail.id)).copied().collect();
    };
    known.iter().filter(|detail| !detail.is_in(before)).copied().collect()
}

fn counts(known: &Known) -> Counts {
    let gone = known.iter().filter(|detail| detail.is_gone()).count() as u64;
    Counts { present: known.len() as u64 - gone, gone }
}

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
