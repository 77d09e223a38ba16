//! Details: a set beside the snapshot, by listing id. One that arrives publishes nothing.
//!
//! [`Details`] keeps them durably and tells what is missing; [`worker`] fetches, evenly paced. Callers: [`worker`], and
//! [`crate::serve`], which reads and asks for single ones.

mod due;
mod early;
mod index;
mod once;
#[cfg(test)]
mod tests;
pub mod worker;
mod write;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};

use crate::api::hash::ContentHash;
use crate::api::json;
use crate::api::listing::{ListingId, Summary};
use crate::api::taxonomy::VolatileKeys;
use crate::cache::{Cache, Key};
use crate::clock::WallTime;
use crate::semantics::freshness;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::live::Live;
use crate::store::{DetailMeta, DetailRecord, DetailState, Store, StoreError};

use super::client::{AskError, Asker, OriginClient, Validators};
use super::copies::{CopyError, DATE_GRAIN_MS};
use super::failures::Failures;
use super::flight::Flights;
use super::stamps::{self, Before, Place};

use index::{Covered, Index, Known};

/// The details of all listings; cheap to clone.
#[derive(Clone)]
pub struct Details(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    index: RwLock<Index>,
    /// Counts what may make something due that was not: see [`due`].
    disturbed: AtomicU64,
    /// Arrived, but not durable yet.
    pending: Mutex<HashMap<ListingId, DetailRecord>>,
    arrived: Condvar,
    revision: AtomicU64,
    cache: Cache,
    /// Listings whose detail is here but was answered 404 the last time.
    missing: Mutex<HashSet<ListingId>>,
    flights: Flights<ListingId, Result<DetailRecord, Arc<CopyError>>>,
    /// Those that the origin could not give to a client of late.
    failures: Failures,
    live: Live,
    /// Held while an answer is compared with what is kept and takes its place; never across a wait.
    judging: Mutex<()>,
    /// Whether all are wanted; said by the worker when it starts.
    all_wanted: OnceLock<bool>,
}

impl Details {
    /// Reads the index of what is stored and starts the thread that makes arrivals durable.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(store: Arc<Store>, cache: Cache, live: Live) -> Result<Self, StoreError> {
        let index: Index = store.detail_index(|meta| Known::of(&meta))?.into_iter().collect();
        let inner = Arc::new(Inner {
            store,
            index: RwLock::new(index),
            disturbed: AtomicU64::new(0),
            pending: Mutex::default(),
            arrived: Condvar::new(),
            revision: AtomicU64::new(0),
            cache,
            missing: Mutex::default(),
            flights: Flights::default(),
            failures: Failures::default(),
            live,
            judging: Mutex::default(),
            all_wanted: OnceLock::new(),
        });
        let writer = Arc::downgrade(&inner);
        // A thread and not a task: it commits, and a commit blocks.
        std::thread::Builder::new()
            .name("details".into())
            .spawn(move || {
                while let Some(inner) = writer.upgrade() {
                    inner.write_arrivals();
                }
            })
            .map_err(|source| StoreError::Io { path: "details".into(), source })?;
        Ok(Self(inner))
    }

    /// The detail of a listing, if it was ever fetched. One that is damaged counts as never fetched, and is fetched again.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn get(&self, id: ListingId) -> Result<Option<DetailRecord>, StoreError> {
        if let Some(record) = self.0.pending.lock().get(&id) {
            return Ok(Some(record.clone()));
        }
        let Some(known) = self.0.index.read().get(id).copied() else { return Ok(None) };
        let found = match self.0.store.detail(id) {
            Err(StoreError::Damaged(detail)) => {
                tracing::warn!(%id, detail, "a stored detail is damaged; it counts as not mirrored");
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
        // While this is held, none arrives and none that arrived is committed.
        let pending = self.0.pending.lock();
        if pending.contains_key(&id) {
            return;
        }
        let live = self.0.live.load();
        let mut index = self.0.index.write();
        // One that arrived and is committed by now is known otherwise.
        if index.get(id) == Some(known) {
            index.remove(id, live.as_ref().map(|live| &*live.dataset));
            self.0.disturbed.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether the detail of a listing was ever fetched and is here.
    pub fn holds(&self, id: ListingId) -> bool {
        self.0.index.read().get(id).is_some()
    }

    /// Forgets the details of listings that no kept version has any more, here and in the store. Blocks.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn forget_vanished(&self) -> Result<usize, StoreError> {
        let vanished = self.0.store.forget_vanished()?;
        let pending = self.0.pending.lock();
        let live = self.0.live.load();
        let mut index = self.0.index.write();
        for id in vanished.iter().filter(|id| !pending.contains_key(id)) {
            index.remove(*id, live.as_ref().map(|live| &*live.dataset));
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
            // While this is held, none arrives and none that arrived is committed.
            let pending = self.0.pending.lock();
            let head = self.0.live.load();
            let head = head.as_ref().map(|head| &*head.dataset);
            let mut index = self.0.index.write();
            for (id, meta) in known.iter().filter(|(id, _)| !pending.contains_key(id)) {
                index.insert(*id, Known::of(meta), head);
            }
            drop(index);
            drop(pending);
            for id in some {
                self.0.cache.forget(&Key::Detail(*id));
            }
        }
        self.0.disturbed.fetch_add(1, Ordering::AcqRel);
        self.0.revision.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Whether so many arrivals wait for a disk that does not take them that no more should be asked for.
    fn is_backed_up(&self) -> bool {
        const MOST: usize = 4096;
        self.0.pending.lock().len() > MOST
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
        let is_head = self.0.live.load().as_ref().is_none_or(|head| head.dataset.id == dataset.id);
        if !is_head {
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

    /// Asks the origin for one detail, conditionally where there is one, and keeps the answer.
    ///
    /// # Errors
    /// When there is no usable answer; what is kept stays as it was.
    pub async fn fetch(
        &self,
        client: &OriginClient,
        volatile: &VolatileKeys,
        summary: &Summary,
        asker: Asker,
    ) -> Result<DetailRecord, CopyError> {
        let path = format!("/api/listings/{}.json", summary.id);
        let before = self.get(summary.id)?;
        let validators = before.as_ref().filter(|record| record.meta.state == DetailState::Present).map(|record| {
            let (etag, last_modified) = (record.meta.etag.clone(), record.meta.last_modified.clone());
            Validators { etag, last_modified }
        });
        let answer = client.ask(&path, validators.as_ref(), asker).await?;
        let fetched_ms = answer.received.as_millis();
        let fresh = answer.validators();
        // From here on nothing waits. Somebody else's answer may have come meanwhile: this one is judged against that,
        // and a 304 to an older question proves nothing.
        let _judging = self.0.judging.lock();
        let (asked_with, before) = (before.map(|record| record.meta), self.get(summary.id)?);
        if let (304, Some(record)) = (answer.status, &before)
            && asked_with.as_ref() != Some(&record.meta)
        {
            return Ok(record.clone());
        }
        let before = before.map(|mut record| {
            // A stamp from the future, from before the clock was set back, must not freeze what it stands by.
            if freshness::is_from_the_future(WallTime::from_millis(record.meta.origin_time_ms), answer.received) {
                record.meta.origin_time_ms = 0;
            }
            record
        });
        let shown = before.as_ref().map(|record| record.body.clone());
        let record = match (answer.status, before) {
            (304, Some(record)) => self.seen_again(record, summary, answer.sent().as_millis(), fetched_ms),
            (200, before) => {
                let text = std::str::from_utf8(&answer.body).map_err(|error| AskError::nonsense(&path, error))?;
                json::check(text).map_err(|error| AskError::nonsense(&path, error))?;
                if !text.trim_start().starts_with('{') {
                    return Err(AskError::nonsense(&path, "the body is not a JSON object").into());
                }
                let hash = volatile.hash(text);
                let kept = before.as_ref().filter(|record| record.meta.state == DetailState::Present);
                let kept = kept.map(|record| Before {
                    stamp: std::str::from_utf8(&record.body).ok().and_then(stamps::stamp),
                    changed: record.meta.hash != hash,
                    // Each detail has its own stamp, and is looked at too seldom for a run.
                    counts: false,
                });
                let dated = client.stamps().date(Place::Details, &answer, Some(text), kept);
                let origin_time_ms = dated.until_ms;
                match before {
                    // A copy older than what is known never replaces it.
                    Some(record) if record.meta.state == DetailState::Present && record.meta.hash == hash => {
                        let mut record = self.seen_again(record, summary, origin_time_ms, fetched_ms);
                        // Equal but for what is volatile.
                        (record.meta.etag, record.meta.last_modified) = (fresh.etag, fresh.last_modified);
                        record.body = answer.body;
                        record
                    }
                    Some(record) if origin_time_ms < record.meta.origin_time_ms => {
                        self.seen_again(record, summary, origin_time_ms, fetched_ms)
                    }
                    _ => {
                        let (etag, last_modified) = (fresh.etag, fresh.last_modified);
                        let (state, summary_hash) = (DetailState::Present, summary.hash);
                        let meta =
                            DetailMeta { state, etag, last_modified, origin_time_ms, fetched_ms, summary_hash, hash };
                        DetailRecord { meta, body: answer.body }
                    }
                }
            }
            // A 404 older than what is known, or the first one in a while, destroys nothing.
            (404 | 410, Some(mut record))
                if record.meta.state == DetailState::Present
                    && (answer.sent().as_millis() < record.meta.origin_time_ms || !self.gone_before(summary.id)) =>
            {
                record.meta.fetched_ms = fetched_ms;
                let missing = self.0.missing.lock().contains(&summary.id);
                self.put(summary.id, record.clone(), shown.as_ref());
                if missing {
                    self.0.missing.lock().insert(summary.id);
                }
                return Ok(record);
            }
            (404 | 410, _) => {
                let meta = DetailMeta {
                    state: DetailState::Gone,
                    etag: None,
                    last_modified: None,
                    origin_time_ms: answer.sent().as_millis(),
                    fetched_ms,
                    summary_hash: summary.hash,
                    hash: ContentHash::default(),
                };
                DetailRecord { meta, body: Bytes::new() }
            }
            (status, _) => return Err(AskError::nonsense(&path, format!("status {status}")).into()),
        };
        self.put(summary.id, record.clone(), shown.as_ref());
        Ok(record)
    }

    /// A record that an answer did not change. If its summary has changed since, an answer from before that change was
    /// noticed proves nothing: it may be an old copy of the CDN, and is asked for again.
    fn seen_again(&self, mut record: DetailRecord, summary: &Summary, at_ms: i64, fetched_ms: i64) -> DetailRecord {
        let meta = &mut record.meta;
        let noticed_ms = self.0.live.load().as_ref().map_or(i64::MIN, |published| published.meta.published_ms);
        let noticed_ms = noticed_ms.min(fetched_ms);
        if at_ms + 2 * DATE_GRAIN_MS >= noticed_ms {
            meta.summary_hash = summary.hash;
        }
        meta.origin_time_ms = at_ms.max(meta.origin_time_ms);
        meta.fetched_ms = fetched_ms;
        record
    }

    /// Remembers a 404 for a listing whose detail is here; `true` when it is not the first since its last answer.
    fn gone_before(&self, id: ListingId) -> bool {
        const MOST: usize = 10_000;
        let mut missing = self.0.missing.lock();
        if missing.len() >= MOST {
            missing.clear();
        }
        !missing.insert(id)
    }

    /// Takes a record in. `shown` is the body of the one before: while it stays as it is, so do the replies made of it.
    fn put(&self, id: ListingId, record: DetailRecord, shown: Option<&Bytes>) {
        let changes = shown != Some(&record.body);
        self.0.missing.lock().remove(&id);
        let known = Known::of(&record.meta);
        // Before the index says that it is here: whoever finds it there finds it.
        self.0.pending.lock().insert(id, record);
        {
            let live = self.0.live.load();
            let served = live.as_ref().map(|live| &*live.dataset);
            self.0.index.write().insert(id, known, served);
            // Whatever is as it should be makes nothing due before its time.
            let settled = |served: &Dataset| {
                let position = served.position(id)?;
                let current = served.summary(id)?.hash == known.summary_hash;
                (current && !provisional(&known, served, position)).then_some(())
            };
            if served.and_then(settled).is_none() {
                self.0.disturbed.fetch_add(1, Ordering::AcqRel);
            }
        }
        // In this order: whoever rendered the old record finds the new revision, or is forgotten here.
        if changes {
            self.0.revision.fetch_add(1, Ordering::AcqRel);
            self.0.cache.forget(&Key::Detail(id));
        }
        self.0.arrived.notify_one();
    }
}

/// Whether a detail speaks for an instant before its summary, at a position, was modified: the CDN handed out an old copy.
fn provisional(meta: &Known, dataset: &Dataset, position: u32) -> bool {
    let modified = dataset.modified_at(position).map(|nanos| nanos.div_euclid(1_000_000));
    // A `modified` in the future would never be reached.
    modified.is_some_and(|modified| meta.origin_time_ms < modified && modified <= meta.fetched_ms)
}
