//! Details: a set beside the snapshot, by listing id. Storing one publishes nothing.
//!
//! [`Details`] reads and stores them, and knows which are here; [`write_behind`] makes them durable in batches. What is
//! due, and what an answer of the origin changes, is in [`crate::mirror::details`]. Callers: that, and most of
//! [`crate::edge`] for reading.

mod index;
#[cfg(test)]
mod tests;
mod write_behind;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Semaphore;

use crate::api::listing::ListingId;
use crate::data::bundle::Counts;
use crate::data::cache::Cache;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::store::{DetailRecord, DetailState, Store, StoreError};

use crate::tasks::blocking;

use index::DetailIndex;
pub(crate) use index::{Covered, KnownDetail};
use write_behind::Arrivals;

/// The details of all listings; cheap to clone.
#[derive(Clone)]
pub struct Details(Arc<DetailsState>);

// Order of the locks: `judging`, `arrivals`, `index`, `absent`. None is held across an await.
struct DetailsState {
    store: Arc<Store>,
    /// All details, durable or not.
    index: RwLock<DetailIndex>,
    /// Counts events that may make a detail due: see `mirror::details::agenda`.
    disturbed: AtomicU64,
    /// Details not durable yet.
    arrivals: Arrivals,
    revision: AtomicU64,
    cache: Cache,
    /// Listings whose detail is here but was answered 404 the last time: at most as many as there are details.
    absent: Mutex<HashSet<ListingId>>,
    newest: SnapshotPointer,
    /// Held while an answer is compared with the record and replaces it; never across an await.
    judging: Mutex<()>,
    /// Bounds store reads: each blocks a thread.
    reading: Semaphore,
    /// Whether all are wanted; the worker sets it at start.
    all_wanted: OnceLock<bool>,
}

/// How many store reads run at once for waiting clients: a quarter of the threads of a runtime that may block.
const READS_AT_ONCE: usize = 16;

impl Details {
    /// Reads the index of what is stored and starts the thread that makes arrivals durable.
    pub fn open(store: Arc<Store>, cache: Cache, newest: SnapshotPointer) -> Result<Self, StoreError> {
        let index: DetailIndex = store.detail_index(|meta| (KnownDetail::of(&meta), meta.state))?.into_iter().collect();
        Ok(Self(Arc::new(DetailsState {
            index: RwLock::new(index),
            disturbed: AtomicU64::new(0),
            arrivals: Arrivals::start(store.clone())?,
            store,
            revision: AtomicU64::new(0),
            cache,
            absent: Mutex::default(),
            newest,
            judging: Mutex::default(),
            reading: Semaphore::new(READS_AT_ONCE),
            all_wanted: OnceLock::new(),
        })))
    }

    /// The detail of a listing as [`Details::get`] finds it, without blocking.
    pub async fn read(&self, id: ListingId) -> Result<Option<DetailRecord>, StoreError> {
        if let Some(record) = self.0.arrivals.get(id) {
            return Ok(Some(record));
        }
        if !self.holds(id) {
            return Ok(None);
        }
        // Many clients at once must not block as many threads.
        let _turn = self.0.reading.acquire().await;
        let this = self.clone();
        blocking(move || this.get(id)).await
    }

    /// The detail of a listing, if it was ever fetched. A damaged one counts as never fetched and is fetched again.
    /// Blocks.
    pub fn get(&self, id: ListingId) -> Result<Option<DetailRecord>, StoreError> {
        if let Some(record) = self.0.arrivals.get(id) {
            return Ok(Some(record));
        }
        let Some(known) = self.known(id) else { return Ok(None) };
        let found = match self.0.store.detail(id) {
            Err(StoreError::Damaged(detail)) => {
                tracing::warn!(%id, detail, "a stored detail is damaged; it is treated as not mirrored");
                None
            }
            other => other?,
        };
        if found.is_none() {
            self.lost(id, &known);
        }
        Ok(found)
    }

    /// The bodies of many in the order of the ids, as [`Details::get`] finds them; `None` also where the origin has none.
    /// Blocks. The error is one of the store.
    pub fn bodies<'a>(&'a self, ids: &'a [ListingId]) -> impl Iterator<Item = Result<Option<Bytes>, StoreError>> + 'a {
        self.0.store.details_in_turn(ids).map(|(id, stored)| {
            let record = match stored {
                // What arrived is newer.
                Ok(Some(record)) if !self.0.arrivals.hold().contains_key(&id) => Some(record),
                _ => self.get(id)?,
            };
            Ok(record.filter(|record| record.meta.state == DetailState::Present).map(|record| record.body))
        })
    }

    /// Forgets a detail that the index has and the store lacks, unless it arrived meanwhile.
    fn lost(&self, id: ListingId, known: &KnownDetail) {
        let waiting = self.0.arrivals.hold();
        if waiting.contains_key(&id) {
            return;
        }
        let newest = self.0.newest.get();
        let mut index = self.0.index.write();
        // A detail committed meanwhile has another entry.
        if index.known.get(&id) == Some(known) {
            index.remove(id, newest.as_ref().map(|newest| &*newest.dataset));
            self.0.disturbed.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether the detail of a listing is here.
    pub fn holds(&self, id: ListingId) -> bool {
        self.0.index.read().known.contains_key(&id)
    }

    pub(crate) fn known(&self, id: ListingId) -> Option<KnownDetail> {
        self.0.index.read().known.get(&id).copied()
    }

    /// When the origin last answered about a detail that is here; milliseconds since the epoch.
    pub(crate) fn fetched_ms(&self, id: ListingId) -> Option<i64> {
        self.known(id).map(|known| known.fetched_ms)
    }

    /// Makes all arrived details and copies durable now; `false` if the disk does not accept them within some seconds.
    pub fn flush(&self) -> bool {
        self.0.arrivals.flush()
    }

    /// Whether all details are fetched, or only those that clients request; `None` while no worker runs.
    pub fn all_wanted(&self) -> Option<bool> {
        self.0.all_wanted.get().copied()
    }

    /// Changes whenever a detail does.
    pub fn revision(&self) -> u64 {
        self.0.revision.load(Ordering::Acquire)
    }

    /// Another text whenever a detail changes; the same after a restart, unless some that arrived are not stored yet.
    /// `process`: another number in each process.
    pub fn edition(&self, process: u64) -> Result<String, StoreError> {
        if self.0.arrivals.hold().is_empty() {
            return Ok(format!("{:?}", self.0.store.epoch_place()?));
        }
        Ok(format!("{process} {}", self.revision()))
    }

    /// How many listings of a data set have a detail here, even an old one.
    pub fn mirrored(&self, dataset: &Dataset) -> usize {
        self.covered(dataset).mirrored
    }

    /// Whether every detail is here and as new as its summary.
    pub fn is_complete(&self, dataset: &Dataset) -> bool {
        self.covered(dataset).current == dataset.len()
    }

    /// How many listings of a data set have a detail here, and how many an up-to-date one (fetched for the present
    /// summary).
    pub(crate) fn covered(&self, dataset: &Dataset) -> Covered {
        let is_newest = self.0.newest.get().as_ref().is_none_or(|newest| newest.dataset.id == dataset.id);
        if !is_newest {
            // Not counted along for a rolled-back snapshot: only people ask for it.
            let pieces = dataset.content.summaries.chunks(index::PIECE);
            return pieces.fold(Covered::default(), |sum, piece| sum.and(self.0.index.read().covering(piece)));
        }
        loop {
            if let Some(covered) = self.0.index.read().covered(dataset) {
                return covered;
            }
            // Piece by piece: others get their turn in between.
            self.0.index.write().count(dataset);
        }
    }

    /// How many listings of a data set have a detail here, and of how many the origin has none.
    pub(crate) fn counts(&self, dataset: &Dataset) -> Counts {
        let mirrored = self.covered(dataset).mirrored;
        let gone = self.0.index.read().gone(dataset);
        Counts { present: mirrored.saturating_sub(gone) as u64, gone: gone as u64 }
    }

    /// Held by who compares an answer with the record and replaces it; never across an await.
    pub(crate) fn judging(&self) -> MutexGuard<'_, ()> {
        self.0.judging.lock()
    }

    /// The origin answered 404 for a detail that is here; whether that is the first time in a row.
    pub(crate) fn note_absent(&self, id: ListingId) -> bool {
        self.0.absent.lock().insert(id)
    }

    /// The origin has the detail, or it is known to be gone.
    pub(crate) fn clear_absent(&self, id: ListingId) {
        self.0.absent.lock().remove(&id);
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.0.cache
    }

    /// The snapshot whose listings are counted.
    pub(crate) fn newest(&self) -> &SnapshotPointer {
        &self.0.newest
    }

    /// Changes with each event that may make a detail due.
    pub(crate) fn disturbed(&self) -> u64 {
        self.0.disturbed.load(Ordering::Acquire)
    }

    /// From now on all are fetched, or only those that clients request.
    pub(crate) fn want(&self, all: bool) {
        let _set_before = self.0.all_wanted.set(all);
    }

    /// Whether too many wait for the disk to fetch more.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.0.arrivals.is_backed_up()
    }

    /// Waits for the disk while too many wait to fetch more; `false` if that takes longer than `patience`.
    pub(crate) async fn room(&self, patience: Duration) -> bool {
        self.0.arrivals.room(patience).await
    }

    /// Takes a record in. `shown` is the body before: if it stays, replies rendered from it stay. A record
    /// that arrives while the disk is far behind is dropped, and fetched again later.
    pub(crate) fn put(&self, id: ListingId, record: DetailRecord, shown: Option<&Bytes>) {
        if self.0.arrivals.is_full() {
            tracing::debug!(%id, "the disk is behind: a detail that was received is not kept");
            return;
        }
        let changes = shown != Some(&record.body);
        let (known, state) = (KnownDetail::of(&record.meta), record.meta.state);
        // Before the index: a record that the index has must be found.
        self.0.arrivals.put(id, record);
        {
            let newest = self.0.newest.get();
            let newest = newest.as_ref().map(|newest| &*newest.dataset);
            self.0.index.write().insert(id, known, state, newest);
            // A settled record makes nothing due early.
            let settled = |newest: &Dataset| {
                let position = newest.position(id)?;
                let is_new = newest.summary(id)?.hash == known.summary_hash;
                (is_new && !provisional(&known, newest, position)).then_some(())
            };
            if newest.and_then(settled).is_none() {
                self.0.disturbed.fetch_add(1, Ordering::AcqRel);
            }
        }
        // In this order: a reply of the old record either sees the new revision or is forgotten here.
        if changes {
            self.0.revision.fetch_add(1, Ordering::AcqRel);
            self.0.cache.forget_detail(id);
        }
    }
}

impl Details {
    /// Forgets the details of listings that no kept snapshot has, in memory and in the store.
    pub fn forget_vanished(&self) -> Result<(), StoreError> {
        let vanished = self.0.store.forget_vanished()?;
        let waiting = self.0.arrivals.hold();
        let newest = self.0.newest.get();
        let mut index = self.0.index.write();
        for id in vanished.iter().filter(|id| !waiting.contains_key(id)) {
            self.0.absent.lock().remove(id);
            index.remove(*id, newest.as_ref().map(|newest| &*newest.dataset));
        }
        drop(index);
        if !vanished.is_empty() {
            tracing::info!(details = vanished.len(), "removed details of listings that are in no kept snapshot");
        }
        Ok(())
    }

    /// Reads these details from the store again: an import brought them, and is not visible yet.
    pub(crate) fn look_again(&self, ids: &[ListingId]) -> Result<(), StoreError> {
        for some in ids.chunks(index::PIECE) {
            let known = self.0.store.detail_metas_of(some)?;
            let waiting = self.0.arrivals.hold();
            let newest = self.0.newest.get();
            let newest = newest.as_ref().map(|newest| &*newest.dataset);
            let mut index = self.0.index.write();
            for (id, meta) in known.iter().filter(|(id, _)| !waiting.contains_key(id)) {
                index.insert(*id, KnownDetail::of(meta), meta.state, newest);
            }
            drop(index);
            drop(waiting);
            for id in some {
                self.0.cache.forget_detail(*id);
            }
        }
        self.0.disturbed.fetch_add(1, Ordering::AcqRel);
        self.0.revision.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// Whether a detail is older than `modified` of its summary, at a position: an old copy of the CDN.
pub(crate) fn provisional(meta: &KnownDetail, dataset: &Dataset, position: u32) -> bool {
    let modified = dataset.modified_at(position).map(|nanos| nanos.div_euclid(1_000_000));
    // A `modified` in the future would never be reached.
    modified.is_some_and(|modified| meta.origin_time_ms < modified && modified <= meta.fetched_ms)
}
