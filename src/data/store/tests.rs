//! The store's promises, on real files.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use redb::{ReadableTable, ReadableTableMetadata as _, WriteTransaction};

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::data::snapshot::content::Content;
use crate::data::snapshot::meta::SnapshotMeta;

mod crash;
mod damage;
mod details;
pub(crate) mod failure;
mod formats;
mod repair;
mod soon;
mod verify;

impl Store {
    /// The body of a copy.
    pub(crate) fn copy_body(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        Ok(self.copy(key)?.map(|(_, body)| body))
    }

    /// Stores copies, durably.
    fn put_copies(&self, copies: &[(String, CopyMeta, Option<&[u8]>)]) -> Result<(), StoreError> {
        copies.iter().try_for_each(|(key, meta, body)| self.put_copy_soon(key, meta, *body))?;
        self.sync()
    }

    /// The metadata of all details, by id.
    fn detail_metas(&self) -> Result<Vec<(ListingId, DetailMeta)>, StoreError> {
        self.detail_index(|meta| meta)
    }

    /// Lets nobody read or write for as long as `hold` takes: a disk that stands still. Blocks.
    pub(crate) fn stands_still(&self, hold: impl FnOnce()) {
        self.handle.stands_still(hold);
    }
}

fn summary(id: u64, text: &str) -> Summary {
    let raw = Bytes::from(format!(r#"{{"id":{id},"name":"{text}"}}"#));
    Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
}

fn content_of(summaries: Vec<Summary>) -> Content {
    let carried = EnvelopeField::Carried { key: "license".into(), value: "\"x\"".into() };
    Content {
        envelope: Envelope {
            fields: vec![EnvelopeField::Page, EnvelopeField::Items, carried],
            empty_filters: "[]".into(),
            ..Envelope::default()
        },
        taxonomies: [Arc::from("[1]"), Arc::from("[2]"), Arc::from("{}")],
        summaries,
    }
}

/// Listings whose order is not that of their ids.
fn content(count: u64) -> Content {
    content_of((0..count).map(|n| summary(n * 7919 % 1_000_003, &format!("venue {n}"))).collect())
}

fn meta(published_ms: i64) -> SnapshotMeta {
    SnapshotMeta {
        published_ms,
        volatile_values: [("list x".to_owned(), "1".to_owned())].into(),
        left_out: vec!["next".into()],
        ..SnapshotMeta::full(1)
    }
}

fn detail(text: &str) -> DetailRecord {
    let body = Bytes::from(text.to_owned());
    let meta = DetailMeta {
        state: DetailState::Present,
        etag: Some("\"e\"".into()),
        last_modified: None,
        origin_time_ms: -5,
        fetched_ms: 6,
        summary_hash: ContentHash::of(b"s"),
        hash: ContentHash::of(&body),
    };
    DetailRecord { meta, body }
}

fn copy(n: i64) -> CopyMeta {
    CopyMeta {
        etag: None,
        last_modified: Some("Mon".into()),
        origin_time_ms: n,
        since_ms: n,
        fetched_ms: n + 1,
        hash: ContentHash::of(b"c"),
        status: 200,
    }
}

struct Temp {
    store: Option<Store>,
    dir: tempfile::TempDir,
}

impl Temp {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { store: Some(open(dir.path()).unwrap()), dir }
    }

    fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(open(self.dir.path()).unwrap());
    }
}

impl std::ops::Deref for Temp {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store.as_ref().unwrap()
    }
}

fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(&DataDir::open(path)?)
}

#[test]
fn a_published_content_comes_back_with_its_order_and_bytes_after_reopening() {
    let mut store = Temp::new();
    assert!(store.current().unwrap().is_none());
    let content = content(5000);
    let record = store.publish(&content, &meta(1)).unwrap();
    assert_eq!((record.seq, record.listings, &record.id), (1, 5000, &content.id()));
    store.reopen();
    let (current, current_meta) = store.current().unwrap().unwrap();
    assert_eq!((&current, &current_meta), (&record, &meta(1)));
    let read = |summaries: &[Summary]| summaries.iter().map(|summary| summary.id.0 * 3).collect::<Vec<_>>();
    let expected = read(&content.summaries);
    assert!(
        store.load_and_read(&current, read).unwrap() == (content.clone(), expected),
        "what is read keeps its place"
    );
    assert!(store.load(&current).unwrap() == content);
}

#[test]
fn an_empty_content_comes_back() {
    let store = Temp::new();
    let empty = content_of(vec![]);
    let record = store.publish(&empty, &meta(1)).unwrap();
    assert_eq!(store.load(&record).unwrap(), empty);
}

#[test]
fn a_changed_listing_writes_one_block_and_a_moved_one_three() {
    let store = Temp::new();
    let mut content = content(20_000);
    let before: HashSet<_> = store.publish(&content, &meta(1)).unwrap().block_keys().collect();
    assert!(before.len() > 80, "{}", before.len());
    let id = content.summaries[777].id.0;
    content.summaries[777] = summary(id, "another name");
    let record = store.publish(&content, &meta(2)).unwrap();
    let new = |record: &SnapshotRecord| record.block_keys().filter(|key| !before.contains(key)).count();
    assert_eq!((record.seq, new(&record)), (2, 1));
    let moved = content.summaries.remove(777);
    content.summaries.insert(0, moved);
    let record = store.publish(&content, &meta(3)).unwrap();
    assert!(new(&record) <= 5, "{}", new(&record));
    assert!(store.load(&record).unwrap() == content);
}

#[test]
fn an_equal_content_replaces_only_what_is_known_beside_it() {
    let store = Temp::new();
    let first = store.publish(&content(10), &meta(1)).unwrap();
    assert_eq!(store.publish(&content(10), &meta(2)).unwrap(), first);
    assert_eq!(store.snapshots().unwrap(), [(first.clone(), meta(2))]);
    store.update_meta(first.seq, &meta(3), &States::default()).unwrap();
    assert_eq!(store.current().unwrap().unwrap().1, meta(3));
    assert!(matches!(store.update_meta(9, &meta(3), &States::default()), Err(StoreError::NoSuchSnapshot(9))));
}

#[test]
fn a_rollback_keeps_while_newer_snapshots_are_staged() {
    let mut store = Temp::new();
    let old = store.publish(&content(10), &meta(1)).unwrap();
    let new = store.publish(&content(11), &meta(2)).unwrap();
    store.activate(old.seq, &States::default()).unwrap();
    assert_eq!(store.keep(&content(11), &meta(3), &WrittenAlong::default()).unwrap(), new, "equal to the newest");
    let newest = store.keep(&content(12), &meta(4), &WrittenAlong::default()).unwrap();
    store.reopen();
    assert_eq!(store.current().unwrap().unwrap().0, old);
    store.activate(newest.seq, &States::default()).unwrap();
    assert_eq!(store.current().unwrap().unwrap().0, newest);
    assert!(matches!(store.activate(99, &States::default()), Err(StoreError::NoSuchSnapshot(99))));
}

#[test]
fn collecting_garbage_keeps_shared_blocks_and_the_current_snapshot() {
    let store = Temp::new();
    let mut contents = vec![content(3000)];
    for n in 0..3 {
        let mut next = contents[n].clone();
        let id = next.summaries[n].id.0;
        next.summaries[n] = summary(id, "changed");
        contents.push(next);
    }
    let records: Vec<_> = contents.iter().map(|content| store.publish(content, &meta(0)).unwrap()).collect();
    let blocks = || store.handle.read(|t| Ok(t.open_table(database::BLOCKS)?.len()?)).unwrap();
    let before = blocks();
    assert_eq!(store.collect_garbage(&[2]).unwrap(), [1, 3]);
    let dropped = before - blocks();
    assert!((2..=4).contains(&dropped), "{dropped}");
    for kept in [1, 3] {
        assert!(store.load(&records[kept]).unwrap() == contents[kept]);
    }
    assert!(matches!(store.load(&records[0]), Err(StoreError::NoSuchSnapshot(1))));
    assert!(store.collect_garbage(&[2]).unwrap().is_empty());
    assert_eq!(store.publish(&contents[0], &meta(0)).unwrap().seq, 5, "no sequence number is used twice");
}

#[test]
fn a_file_that_is_mostly_free_is_compacted() {
    let mut store = Temp::new();
    let noise = |seed: u64| {
        let mut bytes = vec![0; 24 << 20];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    };
    let record = store.publish(&content(1000), &meta(1)).unwrap();
    let bodies: Vec<_> = (0..2).map(noise).collect();
    for (n, body) in bodies.iter().enumerate() {
        store.put_copies(&[(format!("/{n}"), copy(1), Some(body))]).unwrap();
    }
    // redb makes a growing file twice as large.
    store.collect_garbage(&[]).unwrap();
    let is_compacted = |store: &Store| {
        let before = store.file_len().unwrap();
        store.collect_garbage(&[]).unwrap();
        store.file_len().unwrap() < before / 2
    };
    assert!(!is_compacted(&store), "most of it is in use");
    store.put_details(&[(ListingId(1), detail("first"))]).unwrap();
    store.remove_copies(&["/0".into(), "/1".into()]).unwrap();
    store.put_copy_soon("/2", &copy(1), Some(b"not durable yet")).unwrap();
    let (before, place) = (store.file_len().unwrap(), store.epoch_place().unwrap());
    assert!(is_compacted(&store));
    let after = store.file_len().unwrap();
    assert!(after < before / 4, "{before} {after}");
    assert_eq!((store.epoch_place().unwrap(), is_compacted(&store)), (place, false));
    for _ in 0..2 {
        assert!(store.load(&record).unwrap() == content(1000));
        assert_eq!(store.detail(ListingId(1)).unwrap().unwrap().body, "first");
        assert_eq!(store.copy_body("/2").unwrap().unwrap(), "not durable yet");
        store.reopen();
        store.put_copies(&[("/3".into(), copy(1), Some(b"written afterwards"))]).unwrap();
    }
    assert_eq!(std::fs::read_dir(store.dir.path()).unwrap().count(), 2, "the file and its lock");
}

#[test]
fn a_listing_that_occurs_twice_is_refused() {
    let store = Temp::new();
    let twice = content_of(vec![summary(1, "a"), summary(2, "b"), summary(1, "c")]);
    assert!(
        matches!(store.publish(&twice, &meta(1)), Err(StoreError::Refused(why)) if why == "listing 1 occurs twice")
    );
    assert!(store.current().unwrap().is_none());
}

#[test]
fn blocks_that_are_known_by_what_is_in_them_are_the_same_blocks() {
    let store = Temp::new();
    let (one, mut other) = (content(3000), content(3000));
    other.summaries[1500] = summary(other.summaries[1500].id.0, "changed");
    let records: Vec<_> = [&one, &other, &one]
        .into_iter()
        .zip(1..)
        .map(|(content, at)| store.publish(content, &meta(at)).unwrap())
        .collect();
    assert!(store.load(&records[1]).unwrap() == other && store.load(&records[2]).unwrap() == one);
    let keys = |at: usize| records[at].block_keys().collect::<HashSet<_>>();
    assert_eq!(keys(0), keys(2));
    assert_eq!(keys(0).difference(&keys(1)).count(), 1);
}

#[test]
fn copies_are_kept_renewed_and_removed() {
    let mut store = Temp::new();
    let long = "x".repeat(100_000);
    store.put_copies(&[("/a?p=1".into(), copy(1), Some(long.as_bytes())), ("/b".into(), copy(2), Some(b""))]).unwrap();
    store.put_copies(&[("/a?p=1".into(), copy(3), None)]).unwrap();
    store.reopen();
    assert_eq!(store.copy_meta("/a?p=1").unwrap(), Some(copy(3)));
    assert_eq!(store.copy_body("/a?p=1").unwrap().unwrap(), long);
    assert_eq!(store.copy_body("/b").unwrap().unwrap(), "");
    assert_eq!(store.copy_metas().unwrap(), [("/a?p=1".into(), copy(3)), ("/b".into(), copy(2))]);
    store.remove_copies(&["/b".into(), "/none".into()]).unwrap();
    assert_eq!((store.copy_meta("/b").unwrap(), store.copy_body("/b").unwrap()), (None, None));
    let large = vec![0; MAX_BODY + 1];
    assert!(
        matches!(store.put_copies(&[("/l".into(), copy(1), Some(&large))]), Err(StoreError::Refused(why)) if why.contains("too large"))
    );
    store.put_copies(&[("/l".into(), copy(1), Some(&large[1..]))]).unwrap();
    assert_eq!(store.copy_body("/l").unwrap().unwrap().len(), MAX_BODY);
}

#[test]
fn state_is_kept() {
    let mut store = Temp::new();
    assert_eq!(store.state("pin").unwrap(), None);
    store.put_state("pin", b"{}").unwrap();
    store.reopen();
    assert_eq!(store.state("pin").unwrap().unwrap(), b"{}");
    store.remove_state("pin").unwrap();
    assert_eq!(store.state("pin").unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_contents_come_back(snapshots in prop::collection::vec(prop::collection::btree_map(0_u64..3000, ".{0,20}", 0..1500), 1..4), reverse: bool) {
        let mut store = Temp::new();
        let mut published = Vec::new();
        for listed in snapshots {
            let mut summaries: Vec<_> = listed.iter().map(|(id, text)| summary(*id, text)).collect();
            if reverse {
                summaries.reverse();
            }
            let content = content_of(summaries);
            published.push((store.publish(&content, &meta(1)).unwrap(), content));
        }
        store.reopen();
        for (record, content) in published {
            prop_assert!(store.load(&record).unwrap() == content);
        }
    }
}
