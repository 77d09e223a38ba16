//! Which kept snapshot is loaded, stays in memory, and is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;
use crate::snapshot::content::Content;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Evidence;
use crate::snapshot::meta::SnapshotMeta;

/// A snapshot with one listing, that tells which it is.
fn snapshot(number: u64) -> Arc<Snapshot> {
    let raw = format!(r#"{{"id":{number}}}"#);
    let summary = Summary { id: ListingId(number), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) };
    let envelope = Envelope::default();
    let taxonomies = std::array::from_fn(|_| Arc::from("[]"));
    let content = Content { envelope, taxonomies, summaries: vec![summary] };
    let meta = SnapshotMeta::full(0);
    let dataset = Dataset::build(content, &Evidence::new()).unwrap();
    Arc::new(Snapshot::new(Arc::new(dataset), meta, number, 0))
}

/// Many snapshots, of which the first seven are kept, and a store that counts how often it is read, and gives one
/// snapshot for each permission.
struct Rig {
    snapshots: Vec<Arc<Snapshot>>,
    kept: LoadedSnapshots,
    reads: Arc<AtomicUsize>,
    may: mpsc::Sender<Result<(), &'static str>>,
}

impl Rig {
    fn new() -> Self {
        let snapshots: Vec<_> = (0..8).map(snapshot).collect();
        let (may, told) = mpsc::channel::<Result<(), &'static str>>();
        let (stored, reads, told) = (snapshots.clone(), Arc::new(AtomicUsize::new(0)), Mutex::new(told));
        let counted = reads.clone();
        let kept = LoadedSnapshots::new(move |id: &str| {
            counted.fetch_add(1, Ordering::SeqCst);
            told.lock().recv().unwrap()?;
            Ok::<_, &str>(stored.iter().find(|stored| stored.dataset.id.as_str() == id).unwrap().clone())
        });
        let rig = Self { snapshots, kept, reads, may };
        rig.keep(&[0, 1, 2, 3, 4, 5, 6]);
        rig
    }

    fn id(&self, number: usize) -> &str {
        self.snapshots[number].dataset.id.as_str()
    }

    fn keep(&self, numbers: &[usize]) {
        self.kept.keep_only(numbers.iter().map(|number| self.id(*number)));
    }

    /// Lets the store give this many snapshots.
    fn allow(&self, times: usize) {
        (0..times).for_each(|_| self.may.send(Ok(())).unwrap());
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    async fn get(&self, number: usize) -> Result<u64, Missing> {
        self.kept.get(self.id(number)).await.map(|found| found.seq)
    }

    /// Asks, and leaves somebody waiting for the answer.
    fn ask(&self, number: usize) -> tokio::task::JoinHandle<Result<u64, Missing>> {
        let (kept, id) = (self.kept.clone(), self.id(number).to_owned());
        tokio::spawn(async move { kept.get(&id).await.map(|found| found.seq) })
    }

    async fn is_loading(&self) {
        while self.kept.0.state.lock().loading.is_none() {
            tokio::task::yield_now().await;
        }
    }

    /// Whether nothing holds the snapshot but the rig and its store.
    fn is_dropped(&self, number: usize) -> bool {
        Arc::strong_count(&self.snapshots[number]) == 2
    }
}

#[tokio::test]
async fn what_is_not_kept_is_never_looked_for() {
    let rig = Rig::new();
    assert_eq!(rig.get(7).await, Err(Missing::Gone));
    assert_eq!(rig.kept.get("nonsense").await.err(), Some(Missing::Gone));
    rig.keep(&[7]);
    assert_eq!(rig.get(0).await, Err(Missing::Gone));
    rig.allow(1);
    assert_eq!(rig.get(7).await, Ok(7));
    assert_eq!(rig.reads(), 1);
}

#[tokio::test]
async fn whoever_asks_for_the_same_snapshot_waits_for_one_load_and_others_are_refused() {
    let rig = Rig::new();
    let mut asking: Vec<_> = (0..20).map(|_| rig.ask(3)).collect();
    rig.is_loading().await;
    assert_eq!(rig.get(4).await, Err(Missing::Busy(PAUSE)));
    // The one that asked first leaves.
    asking.remove(0).abort();
    rig.allow(1);
    for asking in asking {
        assert_eq!(asking.await.unwrap(), Ok(3));
    }
    assert_eq!((rig.get(3).await, rig.reads()), (Ok(3), 1));
}

#[tokio::test(start_paused = true)]
async fn a_loaded_snapshot_has_its_place_for_a_while_and_then_makes_room() {
    let rig = Rig::new();
    rig.allow(2);
    assert_eq!((rig.get(0).await, rig.get(1).await), (Ok(0), Err(Missing::Busy(PAUSE))));
    tokio::time::advance(PAUSE * 2 / 5).await;
    assert_eq!((rig.get(1).await, rig.get(0).await), (Err(Missing::Busy(PAUSE * 3 / 5)), Ok(0)));
    tokio::time::advance(PAUSE * 3 / 5).await;
    assert_eq!((rig.get(0).await, rig.reads()), (Ok(0), 1), "no load for a second page");
    assert_eq!((rig.get(1).await, rig.reads()), (Ok(1), 2));
    assert!(rig.is_dropped(0), "there is one at a time");
    assert_eq!(rig.get(0).await, Err(Missing::Busy(PAUSE)));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_leaves_memory_when_nobody_asks_for_it() {
    let rig = Rig::new();
    rig.allow(1);
    assert_eq!(rig.get(0).await, Ok(0));
    // The next one comes there by a switch.
    for number in [0, 1] {
        tokio::time::sleep(IDLE / 2).await;
        assert_eq!(rig.get(number).await, Ok(number as u64));
        tokio::time::sleep(IDLE * 9 / 10).await;
        assert!(!rig.is_dropped(number));
        tokio::time::sleep(IDLE / 5).await;
        assert!(rig.is_dropped(number));
        rig.kept.switched(rig.snapshots[1].clone(), rig.id(2));
    }
}

#[tokio::test]
async fn a_snapshot_that_is_dropped_while_it_is_loaded_is_gone() {
    let rig = Rig::new();
    let asked = rig.ask(0);
    rig.is_loading().await;
    rig.keep(&[2]);
    rig.allow(1);
    assert_eq!(asked.await.unwrap(), Err(Missing::Gone));
    assert!(rig.kept.0.state.lock().loaded.is_none());
}

#[tokio::test]
async fn a_loaded_snapshot_that_is_dropped_leaves_memory() {
    let rig = Rig::new();
    rig.allow(1);
    assert_eq!(rig.get(0).await, Ok(0));
    rig.keep(&[0, 2]);
    assert_eq!(rig.get(0).await, Ok(0));
    rig.keep(&[1, 2]);
    assert_eq!(rig.get(0).await, Err(Missing::Gone));
    assert!(rig.is_dropped(0));
}

#[tokio::test]
async fn what_was_served_until_now_is_at_hand_without_a_load() {
    let rig = Rig::new();
    rig.kept.switched(rig.snapshots[0].clone(), rig.id(1));
    assert_eq!(rig.get(0).await, Ok(0));
    rig.kept.switched(rig.snapshots[1].clone(), rig.id(0));
    assert_eq!((rig.get(1).await, rig.reads()), (Ok(1), 0));
    assert!(rig.is_dropped(0), "what is served is not held here, too");
    rig.kept.switched(rig.snapshots[7].clone(), rig.id(1));
    assert_eq!(rig.get(7).await, Err(Missing::Gone), "it is not kept");
    assert!(rig.is_dropped(1) && rig.is_dropped(7));
    rig.kept.switched(rig.snapshots[1].clone(), rig.id(1));
    assert!(rig.is_dropped(1), "another certificate for the same");
}

#[tokio::test]
async fn a_snapshot_that_is_put_at_hand_while_it_is_loaded_is_there_once() {
    let rig = Rig::new();
    let asked = rig.ask(0);
    rig.is_loading().await;
    let put = snapshot(0);
    rig.kept.switched(put.clone(), rig.id(2));
    rig.allow(1);
    assert_eq!(asked.await.unwrap(), Ok(0));
    assert!(Arc::ptr_eq(&rig.kept.at_hand(rig.id(0)).unwrap(), &put) && rig.is_dropped(0));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_cannot_be_loaded_is_tried_again() {
    let rig = Rig::new();
    rig.may.send(Err("damaged")).unwrap();
    assert_eq!(rig.get(0).await, Err(Missing::Failed));
    assert_eq!(rig.get(0).await, Err(Missing::Busy(PAUSE)));
    tokio::time::advance(PAUSE).await;
    rig.allow(1);
    assert_eq!((rig.get(0).await, rig.reads()), (Ok(0), 2));
}

#[tokio::test(start_paused = true)]
async fn a_load_that_crashes_lets_the_next_one_through() {
    let crashed = AtomicUsize::new(0);
    let found = snapshot(1);
    let (id, stored) = (found.dataset.id.clone(), found.clone());
    let kept = LoadedSnapshots::new(move |_: &str| {
        assert!(crashed.fetch_add(1, Ordering::SeqCst) > 0, "the first load crashes");
        Ok::<_, String>(stored.clone())
    });
    kept.keep_only([id.as_str()]);
    assert_eq!(kept.get(id.as_str()).await.err(), Some(Missing::Failed));
    tokio::time::advance(PAUSE).await;
    assert_eq!(kept.get(id.as_str()).await.unwrap().seq, 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_long_and_the_load_goes_on() {
    let rig = Rig::new();
    // A blocking task holds the paused clock; time is moved by hand.
    let asked = rig.ask(0);
    rig.is_loading().await;
    while !asked.is_finished() {
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.await.unwrap(), Err(Missing::Busy(PATIENCE)));
    rig.allow(1);
    assert_eq!((rig.get(0).await, rig.reads()), (Ok(0), 1));
}
