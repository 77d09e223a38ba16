//! Details: a set beside the snapshot, by listing id. One that arrives publishes nothing.
//!
//! [`Details`] keeps them durably and tells what is missing; [`worker`] fetches, evenly paced. Callers: [`worker`], and
//! [`crate::serve`], which reads and asks for single ones.

mod arrivals;
mod due;
mod early;
mod fetch;
mod index;
mod once;
#[cfg(test)]
mod tests;
pub(crate) mod worker;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::api::listing::ListingId;
use crate::cache::{Cache, Key};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::live::Live;
use crate::store::{DetailRecord, Store, StoreError};

use super::blocking::blocking;

use arrivals::Arrivals;
use fetch::Absences;
use index::{Covered, Index, Known};
use once::ClientFetches;

/// The details of all listings; cheap to clone.
#[derive(Clone)]
pub struct Details(Arc<DetailsState>);

struct DetailsState {
    store: Arc<Store>,
    /// What is here, durable or not.
    index: RwLock<Index>,
    /// Counts what may make something due that was not: see [`due`].
    disturbed: AtomicU64,
    /// What is not durable yet.
    arrivals: Arc<Arrivals>,
    revision: AtomicU64,
    cache: Cache,
    absences: Absences,
    clients: ClientFetches,
    newest: Live,
    /// Held while an answer is compared with what is kept and takes its place; never across a wait.
    judging: Mutex<()>,
    /// Reads of the store that may block a thread each.
    reading: Semaphore,
    /// Whether all are wanted; said by the worker when it starts.
    all_wanted: OnceLock<bool>,
}

/// How many details are read from the store at once for those who wait.
const READS_AT_ONCE: usize = 16;

impl Details {
    /// Reads the index of what is stored and starts the thread that makes arrivals durable.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(store: Arc<Store>, cache: Cache, newest: Live) -> Result<Self, StoreError> {
        let index: Index = store.detail_index(|meta| Known::of(&meta))?.into_iter().collect();
        Ok(Self(Arc::new(DetailsState {
            index: RwLock::new(index),
            disturbed: AtomicU64::new(0),
            arrivals: Arrivals::start(store.clone())?,
            store,
            revision: AtomicU64::new(0),
            cache,
            absences: Absences::default(),
            clients: ClientFetches::default(),
            newest,
            judging: Mutex::default(),
            reading: Semaphore::new(READS_AT_ONCE),
            all_wanted: OnceLock::new(),
        })))
    }

    /// The detail of a listing as [`Details::get`] finds it, without blocking.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn read(&self, id: ListingId) -> Result<Option<DetailRecord>, StoreError> {
        if let Some(record) = self.0.arrivals.get(id) {
            return Ok(Some(record));
        }
        if self.0.index.read().get(id).is_none() {
            return Ok(None);
        }
        // Many who ask at once must not become as many threads.
        let _turn = self.0.reading.acquire().await;
        let this = self.clone();
        blocking(move || this.get(id)).await
    }

    /// The detail of a listing, if it was ever fetched. One that is damaged counts as never fetched, and is fetched again.
    /// Blocks.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, id: ListingId) -> Result<Option<DetailRecord>, StoreError> {
        if let Some(record) = self.0.arrivals.get(id) {
            return Ok(Some(record));
        }
        let Some(known) = self.0.index.read().get(id).copied() else { return Ok(None) };
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

    /// Forgets a detail that is not in the store although the index says so, unless it arrived meanwhile.
    fn lost(&self, id: ListingId, known: &Known) {
        let waiting = self.0.arrivals.hold();
        if waiting.contains_key(&id) {
            return;
        }
        let newest = self.0.newest.load();
        let mut index = self.0.index.write();
        // One that arrived and is committed by now is known otherwise.
        if index.get(id) == Some(known) {
            index.remove(id, newest.as_ref().map(|newest| &*newest.dataset));
            self.0.disturbed.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether the detail of a listing was ever fetched and is here.
    pub fn holds(&self, id: ListingId) -> bool {
        self.0.index.read().get(id).is_some()
    }

    /// When the origin last answered about a detail that is here; milliseconds since the epoch.
    fn fetched_ms(&self, id: ListingId) -> Option<i64> {
        self.0.index.read().get(id).map(|known| known.fetched_ms)
    }

    /// Forgets the details of listings that no kept version has any more, here and in the store. Blocks.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn forget_vanished(&self) -> Result<usize, StoreError> {
        let vanished = self.0.store.forget_vanished()?;
        let waiting = self.0.arrivals.hold();
        let newest = self.0.newest.load();
        let mut index = self.0.index.write();
        for id in vanished.iter().filter(|id| !waiting.contains_key(id)) {
            index.remove(*id, newest.as_ref().map(|newest| &*newest.dataset));
        }
        Ok(vanished.len())
    }

    /// Looks again at what is stored: a bundle brought details of these listings. Blocks.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn look_again(&self, ids: impl IntoIterator<Item = ListingId>) -> Result<(), StoreError> {
        let ids: Vec<ListingId> = ids.into_iter().collect();
        for some in ids.chunks(index::PIECE) {
            let known = self.0.store.detail_metas_of(some)?;
            let waiting = self.0.arrivals.hold();
            let newest = self.0.newest.load();
            let newest = newest.as_ref().map(|newest| &*newest.dataset);
            let mut index = self.0.index.write();
            for (id, meta) in known.iter().filter(|(id, _)| !waiting.contains_key(id)) {
                index.insert(*id, Known::of(meta), newest);
            }
            drop(index);
            drop(waiting);
            for id in some {
                self.0.cache.forget(&Key::Detail(*id));
            }
        }
        self.0.disturbed.fetch_add(1, Ordering::AcqRel);
        self.0.revision.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Makes everything that arrived durable now, and copies that are not yet; `false` when the disk does not take it
    /// all within some seconds.
    pub fn flush(&self) -> bool {
        self.0.arrivals.flush()
    }

    /// Whether all details are fetched, or only those that clients ask for; `None` while nobody fetches any.
    pub fn all_wanted(&self) -> Option<bool> {
        self.0.all_wanted.get().copied()
    }

    /// Changes whenever a detail does.
    pub fn revision(&self) -> u64 {
        self.0.revision.load(Ordering::Acquire)
    }

    /// How many listings of a data set have their detail here, even if an older one.
    pub fn mirrored(&self, dataset: &Dataset) -> usize {
        self.covered(dataset).mirrored
    }

    /// Whether every detail is here and as new as its summary.
    pub fn is_complete(&self, dataset: &Dataset) -> bool {
        self.covered(dataset).current == dataset.len()
    }

    fn covered(&self, dataset: &Dataset) -> Covered {
        let is_newest = self.0.newest.load().as_ref().is_none_or(|newest| newest.dataset.id == dataset.id);
        if !is_newest {
            // What a rollback serves is not counted along; it is asked for by people only.
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

    /// Takes a record in. `shown` is the body of the one before: while it stays as it is, so do the replies made of it.
    fn put(&self, id: ListingId, record: DetailRecord, shown: Option<&Bytes>) {
        let changes = shown != Some(&record.body);
        self.0.absences.ended(id);
        let known = Known::of(&record.meta);
        // Before the index says that it is here: whoever finds it there finds it.
        self.0.arrivals.put(id, record);
        {
            let newest = self.0.newest.load();
            let newest = newest.as_ref().map(|newest| &*newest.dataset);
            self.0.index.write().insert(id, known, newest);
            // Whatever is as it should be makes nothing due before its time.
            let settled = |newest: &Dataset| {
                let position = newest.position(id)?;
                let is_new = newest.summary(id)?.hash == known.summary_hash;
                (is_new && !provisional(&known, newest, position)).then_some(())
            };
            if newest.and_then(settled).is_none() {
                self.0.disturbed.fetch_add(1, Ordering::AcqRel);
            }
        }
        // In this order: whoever rendered the old record finds the new revision, or is forgotten here.
        if changes {
            self.0.revision.fetch_add(1, Ordering::AcqRel);
            self.0.cache.forget(&Key::Detail(id));
        }
    }
}

/// Whether a detail speaks for an instant before its summary, at a position, was modified: the CDN handed out an old copy.
fn provisional(meta: &Known, dataset: &Dataset, position: u32) -> bool {
    let modified = dataset.modified_at(position).map(|nanos| nanos.div_euclid(1_000_000));
    // A `modified` in the future would never be reached.
    modified.is_some_and(|modified| meta.origin_time_ms < modified && modified <= meta.fetched_ms)
}
