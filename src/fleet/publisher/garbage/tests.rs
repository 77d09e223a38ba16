//! Tests of the checks: what is done about each object, and what is found altered.

use bytes::Bytes;

use super::*;
use crate::config::Config;
use crate::fleet::bundle_store::PutMode;
use crate::fleet::head::{NamedBundle, NamedJournal};
use crate::fleet::tests::{digest, file, head};

impl ReadBack {
    pub(in crate::fleet::publisher) fn is_reading(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| !reading.is_finished())
    }
}

const NOW: i64 = 1_790_000_000_000;
const KEEP: i64 = 1000;

fn chain(head: &Head, signatures: Vec<FileHash>) -> Chain {
    Chain { head: head.clone(), content: digest(0), evidence: None, position: None, full_ms: 0, last_ms: 0, signatures }
}

/// A chain of a full bundle `n` and a delta, both with signatures.
fn signed(n: u8) -> Chain {
    chain(&head(1, n, n + 1), vec![file(300, n + 3), file(300, n + 4)])
}

/// The journal, the signatures in the order of their bundles, the delta, the full bundle: all of that age.
fn objects(own: &Chain, age: i64) -> Vec<Listed> {
    let listed = |(key, file): (ObjectKey, FileHash)| listed(key, file.bytes, age);
    own.objects().map(listed).collect()
}

fn listed(key: ObjectKey, bytes: u64, age: i64) -> Listed {
    Listed { key, bytes, modified_ms: NOW - age, tag: Some("1".to_owned()) }
}

fn keys(objects: &[Listed]) -> Vec<ObjectKey> {
    objects.iter().map(|object| object.key.clone()).collect()
}

/// What is to be done about these objects and a new head, where nothing was read back.
fn of(objects: &[Listed], own: &Chain, stored: &Head) -> Chores {
    let all = [objects, &[listed(ObjectKey::Head, 50, 0)]].concat();
    chores(&all, own, stored, &HashMap::new(), KEEP)
}

#[test]
fn old_objects_are_removed_if_no_head_names_them_and_written_again_if_ours_does() {
    let (own, other, gone) = (signed(10), signed(20), signed(30));
    for (own_age, gone_age, renewed, removed) in [
        (KEEP / 2, KEEP, false, false),
        (KEEP / 2 + 1, KEEP, true, false),
        (0, KEEP + 1, false, true),
        (9 * KEEP, 9 * KEEP, true, true),
    ] {
        let (mine, old) = (objects(&own, own_age), objects(&gone, gone_age));
        // Another publisher's head names its own, however old they are.
        let all = [mine.clone(), objects(&other, 9 * KEEP), old.clone()].concat();
        let found = of(&all, &own, &other.head);
        assert_eq!(found.renew, if renewed { keys(&mine) } else { Vec::new() }, "{own_age}");
        assert_eq!(found.remove, if removed { keys(&old) } else { Vec::new() }, "{gone_age}");
        assert_eq!(found.lost, []);
    }
    // A signature goes with its bundle.
    let orphan = listed(gone.head.full.key().signature(), 300, 2 * KEEP);
    assert_eq!(of(&[objects(&own, 0), vec![orphan.clone()]].concat(), &own, &own.head).remove, [orphan.key]);
    // Ages count up to the last write of the head.
    assert_eq!(chores(&objects(&gone, 9 * KEEP), &own, &own.head, &HashMap::new(), KEEP), Chores::default());
}

#[test]
fn a_missing_object_and_one_of_another_length_break_the_chain() {
    let own = signed(10);
    let whole = objects(&own, 0);
    assert_eq!((whole.len(), of(&whole, &own, &own.head).lost), (5, Vec::new()));
    for lost in 0..whole.len() {
        let (mut longer, mut less) = (whole.clone(), whole.clone());
        longer[lost].bytes += 1;
        less.remove(lost);
        for all in [longer, less] {
            assert_eq!(of(&all, &own, &own.head).lost, [whole[lost].key.clone()], "{lost}");
        }
    }
}

#[test]
fn each_version_of_an_object_is_read_back_once_and_the_full_bundle_last() {
    let own = signed(10);
    let mut all = objects(&own, 0);
    let doubts = of(&all, &own, &own.head).doubts;
    let expected: Vec<(ObjectKey, FileHash)> = own.objects().collect();
    assert_eq!(doubts.iter().map(|doubt| (doubt.key.clone(), doubt.file)).collect::<Vec<_>>(), expected);
    assert_eq!((&expected[0].0, &expected[4].0), (&own.head.journal.key(), &own.head.full.key()));
    let good: HashMap<ObjectKey, Option<String>> = doubts.into_iter().map(|doubt| (doubt.key, doubt.tag)).collect();
    all.push(listed(ObjectKey::Head, 50, 0));
    assert_eq!(chores(&all, &own, &own.head, &good, KEEP).doubts, []);
    all[3].tag = Some("2".to_owned());
    let doubts = chores(&all, &own, &own.head, &good, KEEP).doubts;
    assert_eq!(doubts, [Doubt { key: expected[3].0.clone(), tag: all[3].tag.clone(), file: expected[3].1 }]);
}

const TEXTS: [&str; 3] = ["journal", "signature", "bundle"];

/// A chain of a full bundle and so many deltas. Its objects are a journal, a signature and the bundles; they have
/// these texts.
fn chain_of_texts(deltas: u8) -> Chain {
    let [journal, signature, bundle] = TEXTS.map(|text| FileHash::of(text.as_bytes()));
    let mut head = head(1, 1, 1 + deltas);
    head.journal = NamedJournal::new(journal);
    let again = |named: &NamedBundle| NamedBundle::new(named.base, named.digest, named.snapshot.clone(), bundle);
    (head.full, head.deltas) = (again(&head.full), head.deltas.iter().map(again).collect());
    chain(&head, vec![signature])
}

/// An object store in a directory.
struct Directory {
    dir: tempfile::TempDir,
    store: BundleStore,
}

impl Directory {
    /// It has the objects of a chain; their keys.
    async fn with(own: &Chain) -> (Self, Vec<ObjectKey>) {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[publish]\nurl = \"file://{}\"", dir.path().display());
        let config = Config::from_text(&text).unwrap().config.publish;
        let store = BundleStore::open(&config.url.unwrap(), &config.options, &config.proxy).unwrap();
        let this = Self { dir, store };
        let keys: Vec<ObjectKey> = own.objects().map(|(key, _)| key).collect();
        let last = std::iter::repeat(TEXTS[2]);
        for (key, text) in keys.iter().zip(TEXTS.into_iter().chain(last)) {
            this.write(key, text).await;
        }
        (this, keys)
    }

    async fn write(&self, key: &ObjectKey, text: &'static str) {
        let text = Bytes::from_static(text.as_bytes());
        self.store.write(key, text, PutMode::Overwrite).await.unwrap();
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
        reads.begin(&self.store, doubts.collect());
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
