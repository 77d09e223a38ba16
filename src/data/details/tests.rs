//! Details without an origin.

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::data::store::{CopyMeta, DataDir, DetailMeta, DetailState};

fn open(dir: &std::path::Path) -> (Arc<Store>, Details) {
    let store = Arc::new(Store::open(&DataDir::open(dir).unwrap()).unwrap());
    (store.clone(), Details::open(store, Cache::new(1 << 20), SnapshotPointer::default()).unwrap())
}

fn known(fetched_ms: i64) -> KnownDetail {
    KnownDetail { summary_hash: ContentHash::of(b"summary"), origin_time_ms: 0, fetched_ms }
}

fn record() -> DetailRecord {
    let meta = DetailMeta {
        state: DetailState::Present,
        etag: None,
        last_modified: None,
        origin_time_ms: 1,
        fetched_ms: 1,
        summary_hash: ContentHash::of(b"summary"),
        hash: ContentHash::of(b"body"),
    };
    DetailRecord { meta, body: Bytes::from_static(b"body") }
}

#[test]
fn a_detail_that_is_not_in_the_store_is_forgotten_unless_it_arrived_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (_, details) = open(dir.path());
    let id = ListingId(1);
    details.0.index.write().insert(id, known(2), DetailState::Present, None);
    // A reader found nothing in the store; the index had an older record.
    details.lost(id, &known(1));
    assert!(details.holds(id));
    assert!(details.get(id).unwrap().is_none());
    assert!(!details.holds(id));
}

#[test]
fn a_flush_makes_copies_durable_though_no_detail_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (store, details) = open(dir.path());
    let meta = CopyMeta {
        etag: None,
        last_modified: None,
        origin_time_ms: 1,
        since_ms: 1,
        fetched_ms: 1,
        hash: ContentHash::of(b"body"),
        status: 200,
    };
    store.put_copy_soon("/a", &meta, Some(b"body")).unwrap();
    assert!(details.flush());
    // A crash now would leave this file.
    let crashed = tempfile::tempdir().unwrap();
    std::fs::copy(store.path(), crashed.path().join(store.path().file_name().unwrap())).unwrap();
    let after = Store::open(&DataDir::open(crashed.path()).unwrap()).unwrap();
    assert_eq!(after.copy_body("/a").unwrap().unwrap(), "body");
}

/// A disk that stands still until it is released.
struct StillDisk {
    release: std::sync::mpsc::Sender<()>,
    still: std::thread::JoinHandle<()>,
}

impl StillDisk {
    async fn of(store: Arc<Store>) -> Self {
        let (held, is_held) = tokio::sync::oneshot::channel();
        let (release, released) = std::sync::mpsc::channel();
        let still = std::thread::spawn(move || {
            store.stands_still(|| {
                held.send(()).unwrap();
                released.recv_timeout(Duration::from_secs(20)).expect("the thread that serves clients was blocked");
            });
        });
        is_held.await.unwrap();
        Self { release, still }
    }

    fn release(self) {
        self.release.send(()).unwrap();
        self.still.join().unwrap();
    }
}

/// One runtime thread that serves clients, and a disk that blocks until that thread has run others.
#[tokio::test]
async fn a_slow_disk_holds_up_who_waits_for_it_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (store, details) = open(dir.path());
    let id = ListingId(1);
    details.put(id, record(), None);
    assert!(details.flush());
    let disk = StillDisk::of(store).await;
    let reading = tokio::spawn({
        let details = details.clone();
        async move { details.read(id).await }
    });
    // A missing detail is known without the disk.
    assert!(details.read(ListingId(2)).await.unwrap().is_none());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!reading.is_finished());
    disk.release();
    assert_eq!(reading.await.unwrap().unwrap().unwrap().body, "body");
}

#[tokio::test]
async fn who_fetches_waits_while_the_disk_takes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (store, details) = open(dir.path());
    let patience = Duration::from_secs(20);
    assert!(details.0.arrivals.room(patience).await);
    let disk = StillDisk::of(store).await;
    let ids = 0..=write_behind::MOST as u64;
    ids.clone().for_each(|id| details.0.arrivals.put(ListingId(id), record()));
    assert!(!details.0.arrivals.room(Duration::from_millis(50)).await);
    let waiting = tokio::spawn({
        let details = details.clone();
        async move { details.0.arrivals.room(patience).await }
    });
    disk.release();
    assert!(waiting.await.unwrap());
    assert!(details.flush());
    // All of them are there, together and each by itself.
    let ids: Vec<ListingId> = ids.map(ListingId).chain([ListingId(1 << 40)]).collect();
    let found: Vec<_> = details.0.store.details_in_turn(&ids).map(|(_, read)| read.unwrap()).collect();
    assert!(found.iter().rev().skip(1).all(|found| *found == Some(record())) && found.last() == Some(&None));
}

#[tokio::test]
async fn details_that_wait_for_the_disk_are_bounded_in_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (store, details) = open(dir.path());
    let large = Bytes::from(vec![b'x'; write_behind::MOST_BYTES / 2]);
    let disk = StillDisk::of(store).await;
    for (id, has_room) in [(1, true), (2, true), (3, false), (4, false), (5, false), (6, false)] {
        details.put(ListingId(id), DetailRecord { body: large.clone(), ..record() }, None);
        assert_eq!(details.room(Duration::from_millis(1)).await, has_room, "{id}");
    }
    let waiting = details.0.arrivals.hold().len();
    assert_eq!(waiting, 5, "what comes beyond twice the bound is not kept");
    disk.release();
    assert!(details.room(Duration::from_secs(20)).await && details.flush());
    for (id, is_there) in [(1, true), (5, true), (6, false)] {
        assert_eq!(details.read(ListingId(id)).await.unwrap().is_some(), is_there, "{id}");
    }
}

/// Whoever flushes commits beside the thread that does it by itself.
#[test]
fn what_arrived_last_is_what_is_stored_however_many_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (store, details) = open(dir.path());
    let id = ListingId(1);
    let numbered = |number: i64| {
        let mut record = record();
        record.meta.fetched_ms = number;
        record
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let details = details.clone();
            scope.spawn(move || (0..150).for_each(|_| assert!(details.flush())));
        }
        for round in 1..=300 {
            details.put(id, numbered(round), None);
            std::thread::yield_now();
            if round % 10 == 0 {
                assert!(details.flush());
                assert_eq!(store.detail(id).unwrap().unwrap().meta.fetched_ms, round);
            }
        }
    });
}
