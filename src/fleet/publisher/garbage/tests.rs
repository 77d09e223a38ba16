//! Tests of the checks: what is done about each object, and what is found altered.

use bytes::Bytes;

use super::*;
use crate::api::hash::Digest;
use crate::config::Config;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::meta::Certificate;
use crate::fleet::bundle_store::PutMode;
use crate::fleet::head::{FORMAT, NamedBundle, NamedJournal};

const NOW: i64 = 1_790_000_000_000;
const KEEP: i64 = 1000;

fn digest(n: u8) -> Digest {
    Digest([n; 32])
}

fn file(bytes: u64, n: u8) -> FileHash {
    FileHash { bytes, blake3: digest(n) }
}

fn bundle(base: Option<u8>, n: u8) -> NamedBundle {
    let snapshot = SnapshotId::parse(&format!("{n:032x}")).unwrap();
    NamedBundle::new(base.map(digest), digest(n), snapshot, file(100, n))
}

/// A head of a full bundle `n`, a delta `n + 1`, and a journal `n + 2`.
fn head(n: u8) -> Head {
    let delta = bundle(Some(n), n + 1);
    Head {
        format: FORMAT,
        sequence: 1,
        written_ms: 0,
        confirmed_ms: 0,
        certificate: Certificate::Full,
        snapshot: delta.snapshot.clone(),
        full: bundle(None, n),
        deltas: vec![delta],
        journal: NamedJournal::new(file(9, n + 2)),
    }
}

fn listed(key: ObjectKey, bytes: u64, age: i64) -> Listed {
    Listed { key, bytes, modified_ms: NOW - age, tag: Some("1".to_owned()) }
}

fn chain(head: &Head, is_signed: bool) -> Chain {
    let signature = |at: usize| file(300, 90 + at as u8);
    let signatures = if is_signed { (0..head.chain().count()).map(signature).collect() } else { Vec::new() };
    Chain { head: head.clone(), content: digest(0), evidence: None, place: None, full_ms: 0, last_ms: 0, signatures }
}

/// What is to be done where nothing was read back.
fn of(listed: &[Listed], own: &Head, is_signed: bool, stored: &Head, keep_ms: i64) -> Chores {
    chores(listed, &chain(own, is_signed), stored, &HashMap::new(), keep_ms)
}

/// The objects of a head, of that age.
fn objects(head: &Head, age: i64) -> Vec<Listed> {
    let bundles = head.chain().map(|bundle| listed(bundle.key(), 100, age));
    bundles.chain([listed(head.journal.key(), 9, age)]).collect()
}

fn with_head(objects: impl IntoIterator<Item = Listed>) -> Vec<Listed> {
    objects.into_iter().chain([listed(ObjectKey::Head, 50, 0)]).collect()
}

#[test]
fn what_no_head_names_is_removed_when_it_is_old_enough() {
    let (own, old) = (head(10), head(20));
    for (age, removed) in [(KEEP, 0), (KEEP + 1, 3)] {
        let all = with_head([objects(&own, 5), objects(&old, age)].concat());
        let chores = of(&all, &own, false, &own, KEEP);
        assert_eq!((chores.remove.len(), chores.renew.len(), chores.lost.len()), (removed, 0, 0), "{age}");
        assert!(!chores.remove.contains(&ObjectKey::Head));
    }
}

#[test]
fn neither_our_chain_nor_that_of_the_head_in_the_store_is_removed() {
    let (own, other, old) = (head(10), head(20), head(30));
    let all = with_head([objects(&own, 2 * KEEP), objects(&other, 2 * KEEP), objects(&old, 2 * KEEP)].concat());
    let chores = of(&all, &own, false, &other, KEEP);
    let old: Vec<ObjectKey> = objects(&old, 0).into_iter().map(|object| object.key).collect();
    assert_eq!(chores.remove, old);
    assert_eq!(chores.renew.len(), 3, "our own are written again");
}

#[test]
fn what_is_older_than_half_of_the_time_is_written_again() {
    let own = head(10);
    for (age, renewed) in [(KEEP / 2, 0), (KEEP / 2 + 1, 3)] {
        assert_eq!(of(&with_head(objects(&own, age)), &own, false, &own, KEEP).renew.len(), renewed, "{age}");
    }
}

#[test]
fn a_missing_object_and_one_of_another_length_break_the_chain() {
    let own = head(10);
    let whole = objects(&own, 0);
    for lost in 0..whole.len() {
        let mut all = whole.clone();
        all[lost].bytes += 1;
        let key = [all[lost].key.clone()];
        assert_eq!(of(&with_head(all.clone()), &own, false, &own, KEEP).lost, key, "{lost}");
        all.remove(lost);
        assert_eq!(of(&with_head(all), &own, false, &own, KEEP).lost, key, "{lost}");
    }
    assert_eq!(of(&with_head(whole.clone()), &own, true, &own, KEEP).lost.len(), 2, "there are no signatures");
    let signatures: Vec<Listed> = own.chain().map(|bundle| listed(bundle.key().signature(), 300, 0)).collect();
    let signed = [whole, signatures.clone()].concat();
    assert_eq!(of(&with_head(signed.clone()), &own, true, &own, KEEP).lost, []);
    let mut cut = signed;
    cut.last_mut().unwrap().bytes -= 1;
    assert_eq!(of(&with_head(cut), &own, true, &own, KEEP).lost, [signatures[1].key.clone()]);
}

#[test]
fn each_version_of_an_object_is_read_back_once_and_the_full_bundle_last() {
    let own = head(10);
    let mut all = with_head(objects(&own, 0));
    let all_doubts = of(&all, &own, false, &own, KEEP).doubts;
    let keys: Vec<&ObjectKey> = all_doubts.iter().map(|doubt| &doubt.key).collect();
    let key = |bundle: &NamedBundle| bundle.key();
    assert_eq!(keys, [&own.journal.key(), &key(&own.deltas[0]), &key(&own.full)]);
    assert_eq!(all_doubts[1].file, file(100, 11));
    let good: HashMap<ObjectKey, Option<String>> = all_doubts.into_iter().map(|doubt| (doubt.key, doubt.tag)).collect();
    assert_eq!(chores(&all, &chain(&own, false), &own, &good, KEEP).doubts, []);
    let delta = all.iter_mut().find(|object| object.key == key(&own.deltas[0])).unwrap();
    delta.tag = Some("2".to_owned());
    let doubts = chores(&all, &chain(&own, false), &own, &good, KEEP).doubts;
    assert_eq!((doubts.len(), &doubts[0].key, doubts[0].tag.as_deref()), (1, &key(&own.deltas[0]), Some("2")));
}

#[test]
fn signatures_are_read_back_too() {
    let own = head(10);
    let signatures = own.chain().map(|bundle| listed(bundle.key().signature(), 300, 0));
    let all = with_head(objects(&own, 0).into_iter().chain(signatures));
    let doubts = of(&all, &own, true, &own, KEEP).doubts;
    let signed: Vec<_> = doubts.iter().filter(|doubt| matches!(doubt.key, ObjectKey::Signature(_))).collect();
    assert_eq!((doubts.len(), signed.len()), (5, 2));
    assert_eq!((signed[0].file, signed[1].file), (file(300, 90), file(300, 91)));
}

#[test]
fn without_a_head_in_the_list_nothing_is_done() {
    let old = head(20);
    assert_eq!(of(&objects(&old, 9 * KEEP), &head(10), false, &old, KEEP), Chores::default());
}

#[test]
fn signatures_go_with_their_bundles() {
    let own = head(10);
    let gone = ObjectKey::Delta(digest(70).short(), digest(71).short());
    let all = with_head([objects(&own, 0), vec![listed(gone.clone().signature(), 300, 2 * KEEP)]].concat());
    assert_eq!(of(&all, &own, false, &own, KEEP).remove, [gone.signature()]);
}

const TEXTS: [&str; 3] = ["journal", "signature", "bundle"];

/// A chain of a full bundle and so many deltas. Its objects are a journal, a signature and the bundles; they have
/// these texts.
fn chain_of_texts(deltas: u8) -> Chain {
    let [journal, signature, bundle] = TEXTS.map(|text| FileHash::of(text.as_bytes()));
    let snapshot = SnapshotId::parse(&format!("{:032x}", 1)).unwrap();
    let named = |base: Option<u8>, n: u8| NamedBundle::new(base.map(digest), digest(n), snapshot.clone(), bundle);
    let head = Head {
        format: FORMAT,
        sequence: 1,
        written_ms: 0,
        confirmed_ms: 0,
        certificate: Certificate::Full,
        snapshot: snapshot.clone(),
        full: named(None, 1),
        deltas: (1..=deltas).map(|base| named(Some(base), base + 1)).collect(),
        journal: NamedJournal::new(journal),
    };
    let signatures = vec![signature];
    Chain { head, content: digest(0), evidence: None, place: None, full_ms: 0, last_ms: 0, signatures }
}

/// An object store in a directory.
struct Directory {
    dir: tempfile::TempDir,
    place: BundleStore,
}

impl Directory {
    /// It has the objects of a chain; their keys.
    async fn with(own: &Chain) -> (Self, Vec<ObjectKey>) {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[publish]\nurl = \"file://{}\"", dir.path().display());
        let config = Config::from_text(&text).unwrap().config.publish;
        let place = BundleStore::open(&config.url.unwrap(), &config.options, &config.proxy).unwrap();
        let this = Self { dir, place };
        let keys: Vec<ObjectKey> = own.objects().map(|(key, _)| key).collect();
        let last = std::iter::repeat(TEXTS[2]);
        for (key, text) in keys.iter().zip(TEXTS.into_iter().chain(last)) {
            this.write(key, text).await;
        }
        (this, keys)
    }

    async fn write(&self, key: &ObjectKey, text: &'static str) {
        let text = Bytes::from_static(text.as_bytes());
        self.place.write(key, text, PutMode::Overwrite).await.unwrap();
    }

    /// From now on this object cannot be read: it is a link to itself.
    fn break_off(&self, key: &ObjectKey) {
        let path = self.dir.path().join(key.to_string());
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
    }

    /// Reads the objects of a chain back.
    async fn judged(&self, reads: &mut ReadBack, own: &Chain) -> Vec<ObjectKey> {
        let doubts = own.objects().map(|(key, file)| Doubt { key, tag: None, file });
        reads.begin(&self.place, doubts.collect());
        while !reads.is_done() {
            tokio::task::yield_now().await;
        }
        reads.judge(own).await
    }
}

#[tokio::test]
async fn every_object_is_compared_also_behind_one_that_cannot_be_read() {
    let own = chain_of_texts(0);
    let (store, keys) = Directory::with(&own).await;
    let mut reads = ReadBack::default();
    assert_eq!(store.judged(&mut reads, &own).await, []);
    assert!(reads.has_all_of(&own));
    for (key, text) in keys.iter().zip(TEXTS) {
        store.write(key, "altered").await;
        assert_eq!(store.judged(&mut reads, &own).await, std::slice::from_ref(key));
        assert!(!reads.has_all_of(&own));
        store.write(key, text).await;
    }
    reads.begin_anew();
    store.break_off(&keys[1]);
    assert_eq!(store.judged(&mut reads, &own).await, [], "it is not known to be altered");
    assert!(reads.good.contains_key(&keys[0]) && reads.good.contains_key(&keys[2]));
    assert!(!reads.has_all_of(&own));
    store.write(&keys[2], "altered").await;
    assert_eq!(store.judged(&mut reads, &own).await, [keys[2].clone()]);
}

#[tokio::test]
async fn a_round_ends_after_a_few_failures_and_the_next_one_begins_with_the_other_objects() {
    let own = chain_of_texts(2);
    let (store, keys) = Directory::with(&own).await;
    let (last, others) = keys.split_last().unwrap();
    assert_eq!(others.len(), MOST_FAILURES + 1);
    for key in others {
        store.break_off(key);
    }
    store.write(last, "altered").await;
    let mut reads = ReadBack::default();
    assert_eq!(store.judged(&mut reads, &own).await, [], "the round has ended before the altered object");
    assert_eq!(store.judged(&mut reads, &own).await, std::slice::from_ref(last));
}

#[test]
fn checks_that_find_bad_objects_are_further_apart_but_never_by_more_than_half_of_keep() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (minute, day) = (HOUR / 60, 24 * HOUR);
    for (keep, broken_checks, expected) in [
        (7 * day, 0, 10 * minute),
        (7 * day, 1, 20 * minute),
        (7 * day, 8, 2560 * minute),
        (7 * day, 99, 2560 * minute),
        (HOUR, 2, 15 * minute),
        (HOUR, 4, 30 * minute),
        (minute, 8, minute / 2),
    ] {
        let pause = pause(keep, broken_checks);
        assert_eq!(pause, expected, "{keep:?} {broken_checks}");
        assert!(pause <= keep / 2);
    }
}
