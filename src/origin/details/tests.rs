//! What no answer of an origin is needed for.

use super::*;
use crate::store::{CopyMeta, DataDir};

fn open(dir: &std::path::Path) -> (Arc<Store>, Details) {
    let store = Arc::new(Store::open(&DataDir::open(dir).unwrap()).unwrap());
    (store.clone(), Details::open(store, Cache::new(1 << 20), Live::default()).unwrap())
}

fn known(fetched_ms: i64) -> Known {
    Known { summary_hash: ContentHash::of(b"summary"), origin_time_ms: 0, fetched_ms }
}

#[test]
fn a_detail_that_is_not_in_the_store_is_forgotten_unless_it_arrived_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (_, details) = open(dir.path());
    let id = ListingId(1);
    details.0.index.write().insert(id, known(2), None);
    // Somebody found nothing in the store when the index knew an older one.
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
    store.put_copy_soon("/a".into(), meta, Some(b"body")).unwrap();
    assert!(details.flush());
    // What a crash now leaves is the file as it is.
    let crashed = tempfile::tempdir().unwrap();
    std::fs::copy(store.path(), crashed.path().join(store.path().file_name().unwrap())).unwrap();
    let after = Store::open(&DataDir::open(crashed.path()).unwrap()).unwrap();
    assert_eq!(after.copy_body("/a").unwrap().unwrap(), "body");
}
