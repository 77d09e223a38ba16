//! Details that have arrived and are not durable yet. Many are committed at once, together with copies of the origin's
//! answers, and retried while the disk fails.
//!
//! Fetches nothing, decides nothing. Callers: [`super`], also for the shutdown.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::api::listing::ListingId;
use crate::data::store::{DetailRecord, Store, StoreError};
use crate::tasks::threads::Periodic;

/// With so many waiting for the disk, no more should be fetched. Requests that are under way still arrive.
pub(super) const MOST: usize = 8192;
/// The same for the bytes of their bodies. So many are committed at once, too.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// So many are committed at once. Each commit writes pages all over the index by id, which only thousands of details
/// share.
const MANY: usize = MOST / 2;
/// After a commit of this many, the next one waits for more, but not longer than [`TOGETHER`]. After a smaller one it
/// does not wait.
const BUSY: usize = 64;
const TOGETHER: Duration = Duration::from_millis(400);

/// Details that are not durable yet, and the thread that makes them durable, which ends with them.
pub(super) struct Arrivals {
    queue: Arc<Queue>,
    _writer: Periodic,
}

/// What the thread shares.
pub(super) struct Queue {
    store: Arc<Store>,
    waiting: Mutex<HashMap<ListingId, DetailRecord>>,
    /// Of the bodies that wait; changes under the lock of `waiting`.
    bytes: AtomicUsize,
    committing: Mutex<()>,
    arrived: Condvar,
    drained: Notify,
    is_ending: AtomicBool,
}

impl Arrivals {
    pub(super) fn start(store: Arc<Store>) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue {
            store,
            waiting: Mutex::default(),
            bytes: AtomicUsize::new(0),
            committing: Mutex::default(),
            arrived: Condvar::new(),
            drained: Notify::new(),
            is_ending: AtomicBool::new(false),
        });
        let (written, mut last) = (queue.clone(), 0);
        // A thread and not a task: it commits, and a commit blocks.
        let writer = Periodic::start("details", Duration::ZERO, move || last = written.write(last));
        let writer = writer.map_err(|error| StoreError::Refused(error.to_string()))?;
        Ok(Self { queue, _writer: writer })
    }
}

impl Deref for Arrivals {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.queue.is_ending.store(true, Ordering::Relaxed);
        // Under the lock: the thread sees it, or waits already.
        drop(self.queue.waiting.lock());
        self.queue.arrived.notify_all();
    }
}

impl Queue {
    pub(super) fn get(&self, id: ListingId) -> Option<DetailRecord> {
        self.waiting.lock().get(&id).cloned()
    }

    pub(super) fn put(&self, id: ListingId, record: DetailRecord) {
        let waiting = {
            let mut waiting = self.waiting.lock();
            self.bytes.fetch_add(record.body.len(), Ordering::Relaxed);
            if let Some(before) = waiting.insert(id, record) {
                self.bytes.fetch_sub(before.body.len(), Ordering::Relaxed);
            }
            waiting.len()
        };
        if waiting == 1 || waiting >= MANY {
            self.arrived.notify_one();
        }
    }

    /// While this is held, no detail arrives and none is committed.
    pub(super) fn hold(&self) -> MutexGuard<'_, HashMap<ListingId, DetailRecord>> {
        self.waiting.lock()
    }

    /// Whether too many wait to fetch more.
    pub(super) fn is_backed_up(&self) -> bool {
        self.waiting.lock().len() > MOST || self.bytes.load(Ordering::Relaxed) > MOST_BYTES
    }

    /// Whether arrivals are dropped: clients go on asking for details while the disk stands still.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.lock().len() > 2 * MOST || self.bytes.load(Ordering::Relaxed) > 2 * MOST_BYTES
    }

    /// Waits for the disk while too many wait to fetch more; `false` if that takes longer than `patience`.
    pub(super) async fn room(&self, patience: Duration) -> bool {
        let room = async {
            loop {
                // Before the look, so that no commit is missed between.
                let drained = self.drained.notified();
                if !self.is_backed_up() {
                    return;
                }
                drained.await;
            }
        };
        tokio::time::timeout(patience, room).await.is_ok()
    }

    /// Makes all arrived details and copies durable now; `false` if the disk does not accept them within some seconds.
    pub(super) fn flush(&self) -> bool {
        const PATIENCE: Duration = Duration::from_secs(5);
        let began = Instant::now();
        loop {
            let tried = self.commit();
            if tried.is_ok() && self.waiting.lock().is_empty() {
                return true;
            }
            if began.elapsed() >= PATIENCE {
                if let Err(error) = tried {
                    tracing::error!(%error, "details cannot be stored");
                }
                return false;
            }
            if tried.is_err() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Waits for arrivals, briefly, and commits them together; returns how many. `last`: how many there were last time.
    fn write(&self, last: usize) -> usize {
        {
            let mut waiting = self.waiting.lock();
            let is_ending = || self.is_ending.load(Ordering::Relaxed);
            if waiting.is_empty() && !is_ending() {
                self.arrived.wait_for(&mut waiting, Duration::from_millis(500));
            }
            if !waiting.is_empty() && last >= BUSY {
                self.arrived.wait_while_for(&mut waiting, |waiting| waiting.len() < MANY && !is_ending(), TOGETHER);
            }
        }
        self.commit().unwrap_or_else(|error| {
            tracing::debug!(%error, waiting = self.waiting.lock().len(), "received details cannot be stored; trying again");
            // Disk full or read-only: arrivals stay in memory and are tried again.
            std::thread::sleep(Duration::from_secs(1));
            0
        })
    }

    /// Returns how many details were committed.
    fn commit(&self) -> Result<usize, StoreError> {
        // One at a time: whoever copied its batch earlier would else write an older record over a newer one that is stored
        // and waits no more. Taken before `waiting`, and held while the disk writes.
        let _alone = self.committing.lock();
        // Copies, so that the lock is free while the disk writes: clients look up arrivals under it.
        let mut batch: Vec<(ListingId, DetailRecord)> =
            self.waiting.lock().iter().map(|(id, record)| (*id, record.clone())).collect();
        // Those that arrived together are read together.
        batch.sort_unstable_by_key(|(id, record)| (record.meta.fetched_ms, *id));
        let before =
            batch.iter().scan(0, |bytes, (_, record)| Some(std::mem::replace(bytes, *bytes + record.body.len())));
        let together = before.take_while(|before| *before < MOST_BYTES).count();
        batch.truncate(together);
        if !batch.is_empty() {
            self.store.put_details(&batch)?;
            let mut waiting = self.waiting.lock();
            for (id, record) in &batch {
                // A newer arrival for the listing still waits.
                if waiting.get(id).is_some_and(|now| now.meta == record.meta) {
                    waiting.remove(id);
                    self.bytes.fetch_sub(record.body.len(), Ordering::Relaxed);
                }
            }
            drop(waiting);
            self.drained.notify_waiters();
        }
        // Copies wait in the store; a commit of details has made them durable, too.
        self.store.sync()?;
        Ok(batch.len())
    }
}
