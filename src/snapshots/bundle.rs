//! Imports the snapshot of a bundle, with its details. A damaged store is repaired first.
//!
//! [`crate::bundle`] knows the file, [`super::import`] writes. Everything here blocks. Callers: [`crate::admin`] in a
//! running server, else the commands; [`super::follow`], for several bundles at once.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use foldhash::fast::RandomState;

use super::{Import, Imported, Snapshots, SnapshotsError};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::taxonomy::VolatileKeys;
use crate::bundle::{Bundle, BundleError, Detail, DetailHash};
use crate::snapshot::content::Content;
use crate::store::{Arriving, DetailMeta, DetailRecord, DetailState, DetailStream, StoreError};

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

impl Snapshots {
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
