//! Exports the current snapshot with its details as a bundle, and imports a bundle's snapshot.
//!
//! [`crate::bundle`] knows the file. Everything here blocks. Callers: [`crate::admin`] in a running server, else the
//! commands.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use foldhash::fast::RandomState;

use super::notes::{self, ExportedDetail};
use super::{Import, Imported, Snapshots, SnapshotsError};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::taxonomy::VolatileKeys;
use crate::bundle::{self, Bundle, BundleError, Counts, Detail, DetailHash, Export, Progress, WriteError, Written};
use crate::snapshot::content::{Content, SnapshotId};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::pointer::Snapshot;
use crate::store::{Arriving, DetailMeta, DetailRecord, DetailState, DetailStream, StoreError};

/// Tries of an export while details change.
const TRIES: u32 = 5;

/// Why no bundle is exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no snapshot yet.
    #[error("there is no snapshot to export yet")]
    Nothing,
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

/// Why a bundle is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The bundle is invalid, or its base is not kept.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// One of several bundles does not fit the data before it.
    #[error("{why}")]
    Misfit {
        /// Its place among them, from 0.
        at: usize,
        why: BundleError,
    },
    /// The import is refused.
    #[error(transparent)]
    Snapshots(#[from] SnapshotsError),
    /// The file cannot be read again.
    #[error("the bundle cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// The metadata of the exported details, in ascending id order.
pub(super) type Known = Vec<(ListingId, DetailMeta)>;

/// What was written: the bundle, the details that there are, and those that are in it.
pub(super) struct Output {
    pub written: Written,
    pub known: Known,
    wanted: Known,
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
    /// When there is nothing to export, the base is not kept, or something cannot be read or written.
    pub fn export(&self, out: &mut File, since: Option<&str>, progress: Progress<'_>) -> Result<Exported, ExportError> {
        let served = self.current().get().ok_or(ExportError::Nothing)?;
        let hold = Hold::on(self, served.seq);
        let base = since.map(|id| self.resolve(id).and_then(|id| self.load(id.as_str()))).transpose();
        let base = base.map_err(ExportError::Base)?;
        let before = match &base {
            Some(base) => notes::exported_details(self.store(), base.dataset.id.as_str())?,
            None => None,
        };
        let base = base.as_ref().map(|base| &*base.dataset);
        let Output { written, known, wanted } = self.write_bundle(out, &served, base, before.as_deref(), progress)?;
        let is_exact = base.is_none() || before.is_some();
        // Without a record, the details of the base are unknown.
        let held = if is_exact { known } else { wanted };
        let held = held.iter().map(|(id, meta)| exported(*id, meta)).collect();
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
            known.retain(|(id, _)| !lost.borrow().contains(id));
            let wanted = match base {
                None => known.clone(),
                Some(base) => changed(&known, before, base, &served.dataset),
            };
            let export = Export {
                content: &served.dataset.content,
                meta: &served.meta,
                evidence: &evidence,
                learned: learned.as_deref(),
                base: base.map(|base| &base.content),
                coverage: counts(&known),
                details: counts(&wanted),
            };
            out.set_len(0).and_then(|()| out.rewind()).map_err(WriteError::Io)?;
            let mut buffered = BufWriter::with_capacity(1 << 18, &mut *out);
            let details = wanted.iter().filter_map(|(id, meta)| self.detail(*id, meta, served, &lost).transpose());
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

    /// The metadata of the stored details of a data set's listings.
    pub(super) fn known(&self, dataset: &Dataset) -> Result<Known, StoreError> {
        let mut known = self.store().detail_metas()?;
        known.retain(|(id, _)| dataset.position(*id).is_some());
        known.sort_unstable_by_key(|(id, _)| *id);
        Ok(known)
    }

    /// One detail for export; `None` if it was removed meanwhile, or is `lost`.
    fn detail(
        &self,
        id: ListingId,
        expected: &DetailMeta,
        served: &Snapshot,
        lost: &RefCell<HashSet<ListingId>>,
    ) -> Result<Option<(ListingId, Detail)>, StoreError> {
        let found = match self.store().detail(id) {
            Err(StoreError::Damaged(detail)) => {
                tracing::warn!(%id, detail, "a stored detail is damaged; it is missing in the bundle");
                lost.borrow_mut().insert(id);
                None
            }
            found => found?,
        };
        let Some(DetailRecord { meta, body }) = found else { return Ok(None) };
        let is_same = meta.state == expected.state && meta.hash == expected.hash;
        // A detail is provisional if its instant is before its summary's.
        let modified_ms = served.dataset.modified_of(id).map(|at| at.div_euclid(1_000_000));
        let is_settled = modified_ms.is_none_or(|modified| modified <= meta.origin_time_ms);
        let is_its = served.dataset.summary(id).is_some_and(|summary| summary.hash == meta.summary_hash);
        let current = is_same && is_its && is_settled;
        let DetailMeta { state, etag, last_modified, .. } = meta;
        Ok(Some((id, Detail { state, body, current, etag, last_modified })))
    }

    /// Makes a bundle's snapshot the newest one, with its details: see [`Snapshots::import`]. `file` is the verified
    /// one. A damaged store is repaired first.
    ///
    /// # Errors
    /// When its base is not kept, it would take an origin's data back, it is older than an earlier import (without
    /// `allow_older`), or something cannot be read or written. The current snapshot then stays.
    pub fn import_bundle(
        &self,
        bundle: &Bundle,
        file: &File,
        now_ms: i64,
        allow_older: bool,
        committed: &dyn Fn(),
    ) -> Result<Imported, ImportError> {
        self.mending(|| self.try_import(bundle, file, now_ms, allow_older, committed))
    }

    /// Imports, with a repair of the store if it is damaged.
    pub(super) fn mending(&self, import: impl Fn() -> Result<Imported, ImportError>) -> Result<Imported, ImportError> {
        if let Some(damage) = self.store().damage() {
            self.mend(&damage)?;
        }
        let imported = match import() {
            // The damage was not noticed before.
            Err(ImportError::Snapshots(SnapshotsError::Store(StoreError::Damaged(damage)))) => {
                self.mend(&damage)?;
                import()
            }
            imported => imported,
        };
        if let Some(damage) = self.store().damage().filter(|_| imported.is_ok())
            && let Err(error) = self.mend(&damage)
        {
            tracing::error!(%error, "the damaged store could not be repaired");
        }
        imported
    }

    fn mend(&self, damage: &str) -> Result<(), SnapshotsError> {
        let healed = self.heal()?;
        tracing::error!("{}", healed.text(self.store().path(), damage));
        if self.current().load().is_none()
            && let Err(error) = self.restore()
        {
            // The import replaces it.
            tracing::error!(%error, "no snapshot can be served");
        }
        Ok(())
    }

    fn try_import(
        &self,
        bundle: &Bundle,
        file: &File,
        now_ms: i64,
        allow_older: bool,
        committed: &dyn Fn(),
    ) -> Result<Imported, ImportError> {
        let base = bundle.manifest().base.as_ref().map(|base| {
            let needed = base.snapshot.clone();
            self.load(needed.as_str()).map_err(|error| match error {
                SnapshotsError::Unknown { .. } => ImportError::Bundle(BundleError::NeedsBase { needed }),
                error => error.into(),
            })
        });
        let base = base.transpose()?;
        let content = bundle.content_over(base.as_deref().map(|base| &base.dataset.content))?;
        let (meta, summaries) = (bundle.meta(now_ms), hashes_by_id(&content));
        let (volatile, confirmed_ms) = (meta.volatile.clone(), meta.confirmed_ms);
        let details = || records(bundle, file, &volatile, &summaries);
        // With an origin, a stored detail of a later instant stays. A detail fetched for this summary always stays if
        // the bundle's was not.
        let has_origin = self.policy().has_origin;
        let stays = |id: ListingId, known: &DetailMeta, new: &DetailRecord| {
            let is_its = summaries.get(&id) == Some(&known.summary_hash);
            has_origin && known.origin_time_ms > confirmed_ms || is_its && new.meta.summary_hash != known.summary_hash
        };
        let details = Arriving { stream: &details, stays: &stays };
        let details_bytes = file.metadata()?.len().saturating_mul(2);
        let (evidence, learned, followed) = (bundle.evidence().clone(), bundle.learned().cloned(), None);
        let details = &details;
        let import =
            Import { content, meta, evidence, learned, details, details_bytes, allow_older, committed, followed };
        Ok(self.import(import)?)
    }

    /// Whether a bundle brings nothing: the newest snapshot was confirmed later, or it is the same one of the same
    /// instant, and all details of the bundle are stored.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn is_ahead_of(&self, bundle: &Bundle) -> Result<bool, StoreError> {
        let manifest = bundle.manifest();
        let Some(newest) = self.newest().get() else { return Ok(false) };
        if newest.dataset.id != manifest.snapshot {
            return Ok(newest.meta.confirmed_ms > manifest.confirmed_ms);
        }
        // The stored instant, because a future one is not shown.
        let stored = self.kept().iter().find(|kept| kept.seq == newest.seq).map(|kept| kept.meta.confirmed_ms);
        let confirmed_ms = stored.unwrap_or(newest.meta.confirmed_ms);
        if confirmed_ms != manifest.confirmed_ms {
            return Ok(confirmed_ms > manifest.confirmed_ms);
        }
        let known = self.store().detail_index(|meta| (meta.state, meta.hash))?;
        let known: HashMap<ListingId, _, RandomState> = known.into_iter().collect();
        let is_here = |detail: &DetailHash| {
            let same = |(state, hash): &(DetailState, ContentHash)| {
                *state == detail.state && (*state == DetailState::Gone || *hash == detail.hash)
            };
            known.get(&detail.id).is_some_and(same)
        };
        Ok(bundle.detail_hashes().iter().all(is_here))
    }
}

/// The details that a holder of the base still needs. If the export of the base was recorded, compare with it;
/// otherwise assume every new or changed listing.
fn changed(known: &Known, before: Option<&[ExportedDetail]>, base: &Dataset, next: &Dataset) -> Known {
    let Some(before) = before else {
        let hash = |dataset: &Dataset, id| dataset.summary(id).map(|summary| summary.hash);
        return known.iter().filter(|(id, _)| hash(base, *id) != hash(next, *id)).cloned().collect();
    };
    let before: HashMap<ListingId, ContentHash, RandomState> =
        before.iter().map(|detail| (detail.id, detail.hash)).collect();
    known.iter().filter(|(id, meta)| before.get(id) != Some(&exported(*id, meta).hash)).cloned().collect()
}

fn unreadable(error: impl Display) -> StoreError {
    StoreError::Source(format!("the bundle cannot be read again: {error}"))
}

/// The hashes of all summaries.
pub(super) fn hashes_by_id(content: &Content) -> HashMap<ListingId, ContentHash, RandomState> {
    content.summaries.iter().map(|summary| (summary.id, summary.hash)).collect()
}

/// The details of a bundle as they are stored; `summaries`: those of the bundle's snapshot.
pub(super) fn records<'a>(
    bundle: &'a Bundle,
    file: &File,
    volatile: &'a VolatileKeys,
    summaries: &'a HashMap<ListingId, ContentHash, RandomState>,
) -> Result<DetailStream<'a>, StoreError> {
    let mut again = file.try_clone().map_err(unreadable)?;
    again.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let confirmed_ms = bundle.manifest().confirmed_ms;
    let records = bundle.details(again).map(move |detail| {
        let (id, detail) = detail.map_err(unreadable)?;
        let Detail { state, body, current, etag, last_modified } = detail;
        let hash = match state {
            DetailState::Present => volatile.hash(&String::from_utf8_lossy(&body)),
            DetailState::Gone => ContentHash::default(),
        };
        let (origin_time_ms, summary_hash) = match summaries.get(&id) {
            Some(summary_hash) if current => (confirmed_ms, *summary_hash),
            // With an origin, it is fetched again.
            _ => (0, ContentHash::of(b"another summary")),
        };
        let fetched_ms = confirmed_ms;
        let meta = DetailMeta { state, etag, last_modified, origin_time_ms, fetched_ms, summary_hash, hash };
        Ok((id, DetailRecord { meta, body }))
    });
    Ok(Box::new(records))
}

pub(super) fn exported(id: ListingId, meta: &DetailMeta) -> ExportedDetail {
    let hash = match meta.state {
        DetailState::Present => meta.hash,
        DetailState::Gone => ContentHash::default(),
    };
    ExportedDetail { id, hash }
}

fn counts(known: &Known) -> Counts {
    let present = known.iter().filter(|(_, meta)| meta.state == DetailState::Present).count() as u64;
    Counts { present, gone: known.len() as u64 - present }
}
