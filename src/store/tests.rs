//! The store's promises, on real files.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use redb::WriteTransaction;

use super::*;
use crate::api::envelope::{Envelope, EnvelopeField};
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::snapshot::content::Content;
use crate::snapshot::meta::SnapshotMeta;

mod crash;
mod damage;
mod failure;
mod formats;
mod heal;
mod soon;

impl Store {
    /// Lets nobody read or write for as long as `hold` takes: a disk that stands still. Blocks.
    pub(crate) fn stands_still(&self, hold: impl FnOnce()) {
        let held = self.handle.exclusively(|_| {
            hold();
            Ok(())
        });
        held.unwrap();
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

fn open(path: &Path) -> Result<Store, OpenError> {
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
    store.update_meta(first.seq, &meta(3)).unwrap();
    assert_eq!(store.current().unwrap().unwrap().1, meta(3));
    assert!(matches!(store.update_meta(9, &meta(3)), Err(StoreError::NoSuchSnapshot(9))));
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
    let collected = store.collect_garbage(&[2]).unwrap();
    assert_eq!(collected.snapshots, 2);
    assert!((2..=4).contains(&collected.blocks), "{collected:?}");
    for kept in [1, 3] {
        assert!(store.load(&records[kept]).unwrap() == contents[kept]);
    }
    assert!(matches!(store.load(&records[0]), Err(StoreError::NoSuchSnapshot(1))));
    assert_eq!(store.collect_garbage(&[2]).unwrap(), Collected::default());
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
    assert!(!store.collect_garbage(&[]).unwrap().compacted);
    store.remove_copies(&["/0".into(), "/1".into()]).unwrap();
    let before = store.file_len().unwrap();
    assert!(store.collect_garbage(&[]).unwrap().compacted);
    let after = store.file_len().unwrap();
    assert!(after < before / 4, "{before} {after}");
    assert!(store.load(&record).unwrap() == content(1000));
    store.reopen();
    assert!(store.load(&record).unwrap() == content(1000));
}

#[test]
fn a_listing_that_occurs_twice_is_refused() {
    let store = Temp::new();
    let twice = content_of(vec![summary(1, "a"), summary(2, "b"), summary(1, "c")]);
    assert!(matches!(store.publish(&twice, &meta(1)), Err(StoreError::DuplicateId(ListingId(1)))));
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
    assert!(matches!(store.put_copies(&[("/l".into(), copy(1), Some(&large))]), Err(StoreError::TooLarge { .. })));
    store.put_copies(&[("/l".into(), copy(1), Some(&large[1..]))]).unwrap();
    assert_eq!(store.copy_body("/l").unwrap().unwrap().len(), MAX_BODY);
}

#[test]
fn details_are_kept_and_removed() {
    let mut store = Temp::new();
    let gone = DetailRecord {
        meta: DetailMeta { state: DetailState::Gone, etag: None, ..detail("").meta },
        body: Bytes::new(),
    };
    let (short, long) = (detail("short"), detail(&"long ".repeat(1000)));
    let ids = [ListingId(u64::MAX), ListingId(0), ListingId(7)];
    store.put_details(&[(ids[0], short.clone()), (ids[1], long.clone()), (ids[2], gone.clone())]).unwrap();
    store.reopen();
    assert_eq!(store.detail(ids[0]).unwrap(), Some(short.clone()));
    assert_eq!(store.detail(ids[1]).unwrap(), Some(long.clone()));
    assert_eq!(store.detail(ListingId(1)).unwrap(), None);
    assert_eq!(store.detail_metas().unwrap(), [(ids[1], long.meta.clone()), (ids[2], gone.meta), (ids[0], short.meta)]);
    store.remove_details(&[ids[0], ListingId(5)]).unwrap();
    assert_eq!(store.detail(ids[0]).unwrap(), None);
}

#[test]
fn a_damaged_detail_is_told_of_every_snapshot_with_its_listing() {
    let store = Temp::new();
    let publish =
        |ids: [u64; 2], at| store.publish(&content_of(ids.map(|id| summary(id, "x")).to_vec()), &meta(at)).unwrap().seq;
    let (older, newer) = (publish([1, 2], 1), publish([3, 2], 2));
    store.put_details(&[1, 2, 3].map(|id| (ListingId(id), detail("d")))).unwrap();
    let told = || {
        let mut verification = Verification::of(&store);
        [newer, older].map(|seq| verification.check(seq).map_err(|error| error.to_string()).err().unwrap_or_default())
    };
    let damage = |id: u64| {
        let write = |transaction: &WriteTransaction| {
            transaction.open_table(tables::DETAILS)?.insert(id, b"other".as_slice())?;
            Ok(())
        };
        store.handle.write(0, write).unwrap();
    };
    assert_eq!(told(), ["", ""]);
    damage(1);
    let [of_newer, of_older] = told();
    assert!(of_newer.is_empty() && of_older.contains("1 damaged detail, the first of listing 1"), "{of_older}");
    damage(2);
    let [of_newer, of_older] = told();
    assert!(of_newer.contains("1 damaged detail, the first of listing 2"), "{of_newer}");
    assert!(of_older.contains("2 damaged details, the first of listing 1"), "{of_older}");
    let ids = [3, 2, 7, 1].map(ListingId);
    let read: Vec<_> = store.details_in_turn(&ids).map(|(id, read)| (id.0, read.ok())).collect();
    assert_eq!(read, [(3, Some(Some(detail("d")))), (2, None), (7, Some(None)), (1, None)]);
}

#[test]
fn many_and_large_details_are_read_in_turn() {
    let store = Temp::new();
    let text = |id: u64| if id.is_multiple_of(1000) { "large ".repeat(1 << 19) } else { id.to_string() };
    let mut ids: Vec<u64> = (0..10_000).collect();
    for some in ids.chunks(1000) {
        let details: Vec<_> = some.iter().map(|id| (ListingId(*id), detail(&text(*id)))).collect();
        store.put_details(&details).unwrap();
    }
    // Backwards, and one that is not there.
    ids.reverse();
    ids.insert(5000, 1 << 40);
    let ids: Vec<ListingId> = ids.into_iter().map(ListingId).collect();
    let mut count = 0;
    for ((id, body), (asked, record)) in store.bodies_in_turn(&ids).zip(store.details_in_turn(&ids)) {
        let expected = (id.0 < 10_000).then(|| Bytes::from(text(id.0)));
        let record = record.unwrap().map(|record| record.body);
        assert!(id == ids[count] && asked == id && body.unwrap() == expected && record == expected, "{id}");
        count += 1;
    }
    assert_eq!(count, ids.len());
}

#[test]
fn a_snapshot_is_damaged_if_a_block_of_its_own_is() {
    let store = Temp::new();
    let mut other = content(3000);
    other.summaries[1500] = summary(other.summaries[1500].id.0, "changed");
    let [older, newer] = [(content(3000), 1), (other, 2)].map(|(of, at)| store.publish(&of, &meta(at)).unwrap());
    let shared: HashSet<_> = newer.block_keys().collect();
    let own = older.block_keys().find(|key| !shared.contains(key)).unwrap();
    let write = |transaction: &WriteTransaction| {
        transaction.open_table(tables::BLOCKS)?.insert(own.as_bytes(), b"other".as_slice())?;
        Ok(())
    };
    store.handle.write(0, write).unwrap();
    for order in [[&newer, &older], [&older, &newer]] {
        let mut verification = Verification::of(&store);
        for record in order {
            let checked = verification.check(record.seq);
            assert_eq!(checked.is_ok(), record.seq == newer.seq, "{checked:?}");
            assert!(matches!(checked, Ok(()) | Err(StoreError::Damaged(_))), "{checked:?}");
        }
    }
}

#[test]
fn details_of_listings_that_no_kept_snapshot_has_are_forgotten() {
    let store = Temp::new();
    let ids = |ids: &[u64]| ids.iter().map(|id| ListingId(*id)).collect::<Vec<_>>();
    let listed = |listed: &[u64]| content_of(listed.iter().map(|id| summary(*id, "x")).collect());
    let kept = |store: &Store| store.detail_metas().unwrap().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    store.put_details(&ids(&[1, 2, 3, 9]).into_iter().map(|id| (id, detail("d"))).collect::<Vec<_>>()).unwrap();
    assert!(store.forget_vanished().unwrap().is_empty(), "without a snapshot nothing is known to have vanished");
    store.publish(&listed(&[1, 2, 3]), &meta(1)).unwrap();
    store.publish(&listed(&[1, 3, 4]), &meta(2)).unwrap();
    assert_eq!(store.forget_vanished().unwrap(), ids(&[9]));
    assert_eq!(kept(&store), ids(&[1, 2, 3]), "a kept snapshot still has 2");
    store.collect_garbage(&[]).unwrap();
    assert_eq!(store.forget_vanished().unwrap(), ids(&[2]));
    assert_eq!((kept(&store), store.detail(ListingId(2)).unwrap()), (ids(&[1, 3]), None));
    let many: Vec<_> = (100..1300).map(|id| (ListingId(id), detail("d"))).collect();
    store.put_details(&many).unwrap();
    assert_eq!(store.forget_vanished().unwrap().len(), 1200);
    assert_eq!(kept(&store), ids(&[1, 3]));
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
