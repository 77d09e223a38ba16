//! Which kept snapshots are loaded, stay in memory, and are refused.

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

fn household(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
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
        let snapshots: Vec<_> = (0..40).map(snapshot).collect();
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
        self.get_by(0, number).await
    }

    /// The same for one of several households.
    async fn get_by(&self, by: u8, number: usize) -> Result<u64, Missing> {
        self.kept.get(self.id(number), household(by)).await.map(|found| found.seq)
    }

    /// Asks, each time from a household of its own, and leaves somebody waiting for the answer.
    fn ask(&self, number: usize) -> tokio::task::JoinHandle<Result<u64, Missing>> {
        self.ask_by(100 + number as u8, number)
    }

    fn ask_by(&self, by: u8, number: usize) -> tokio::task::JoinHandle<Result<u64, Missing>> {
        let (kept, id) = (self.kept.clone(), self.id(number).to_owned());
        tokio::spawn(async move { kept.get(&id, household(by)).await.map(|found| found.seq) })
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        for _ in 0..4000 {
            if holds(&self.kept.0.state.lock()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("waited in vain");
    }
}

#[tokio::test]
async fn what_is_not_kept_is_never_looked_for() {
    let rig = Rig::new();
    assert_eq!(rig.get(7).await, Err(Missing::Gone));
    assert_eq!(rig.kept.get("nonsense", household(0)).await.err(), Some(Missing::Gone));
    rig.keep(&[7]);
    assert_eq!(rig.get(0).await, Err(Missing::Gone));
    rig.allow(1);
    assert_eq!(rig.get(7).await, Ok(7));
    assert_eq!(rig.reads(), 1);
}

#[tokio::test]
async fn whoever_asks_for_the_same_snapshot_waits_for_one_load() {
    let rig = Rig::new();
    let mut asking: Vec<_> = (0..20).map(|_| rig.ask(3)).collect();
    rig.until(|state| state.loading.len() == 1).await;
    // The one that asked first leaves.
    asking.remove(0).abort();
    rig.allow(1);
    for asking in asking {
        assert_eq!(asking.await.unwrap(), Ok(3));
    }
    assert_eq!((rig.get(3).await, rig.reads()), (Ok(3), 1));
}

#[tokio::test]
async fn the_snapshot_that_was_not_asked_for_longest_goes_first() {
    let rig = Rig::new();
    rig.allow(4);
    for number in [0, 1, 0, 2, 0] {
        assert_eq!(rig.get(number).await, Ok(number as u64));
    }
    assert_eq!(rig.reads(), 3, "0 was used between 1 and 2, so that 1 went");
    assert_eq!((rig.get(1).await, rig.reads()), (Ok(1), 4));
    assert_eq!(rig.kept.0.state.lock().loaded.len(), LOADED);
}

#[tokio::test(start_paused = true)]
async fn one_client_that_walks_through_all_snapshots_evicts_nothing_that_others_use() {
    let rig = Rig::new();
    rig.keep(&(0..40).collect::<Vec<_>>());
    rig.allow(100);
    assert_eq!((rig.get_by(1, 0).await, rig.get_by(2, 1).await), (Ok(0), Ok(1)));
    let mut refused = 0;
    for number in 2..40 {
        match rig.get_by(3, number).await {
            Ok(found) => assert_eq!((found, refused), (number as u64, 0)),
            Err(Missing::Spent(wait)) if !wait.is_zero() => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
        let reads = rig.reads();
        assert_eq!((rig.get_by(1, 0).await, rig.get_by(2, 1).await, rig.reads()), (Ok(0), Ok(1), reads), "{number}");
        let state = rig.kept.0.state.lock();
        assert!(state.loaded.len() == LOADED && state.loading.is_empty());
    }
    assert_eq!((rig.reads(), refused), (12, 28), "each request would have loaded one");
    assert_eq!(rig.get_by(4, 39).await, Ok(39), "others are not held up");
}

#[tokio::test]
async fn a_snapshot_that_does_not_stay_is_there_for_whoever_pages_through_it() {
    let rig = Rig::new();
    rig.allow(100);
    assert_eq!((rig.get_by(1, 0).await, rig.get_by(2, 1).await), (Ok(0), Ok(1)));
    for _ in 0..100 {
        assert_eq!(rig.get_by(3, 2).await, Ok(2));
    }
    assert_eq!(rig.reads(), 3, "one load for a hundred pages");
    assert_eq!(rig.get_by(4, 3).await, Ok(3));
    assert_eq!(Arc::strong_count(&rig.snapshots[2]), 2, "the next one took its place");
}

#[tokio::test]
async fn a_snapshot_that_more_households_use_stays_instead_of_another() {
    let rig = Rig::new();
    rig.allow(100);
    assert_eq!((rig.get_by(1, 0).await, rig.get_by(2, 1).await, rig.get_by(3, 2).await), (Ok(0), Ok(1), Ok(2)));
    assert_eq!(rig.get_by(1, 1).await, Ok(1));
    assert_eq!(rig.get_by(4, 2).await, Ok(2));
    assert_eq!(rig.get_by(5, 3).await, Ok(3), "it takes the place of 0, which passes by now");
    assert_eq!((rig.get_by(6, 2).await, rig.get_by(6, 1).await, rig.reads()), (Ok(2), Ok(1), 4));
    assert_eq!((rig.get_by(6, 0).await, rig.reads()), (Ok(0), 5));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_does_not_stay_leaves_memory_when_nobody_asks_for_it() {
    let snapshots: Vec<_> = (0..4).map(snapshot).collect();
    let stored = snapshots.clone();
    let kept = LoadedSnapshots::new(move |id: &str| {
        Ok::<_, &str>(stored.iter().find(|stored| stored.dataset.id.as_str() == id).unwrap().clone())
    });
    kept.keep_only(snapshots.iter().map(|snapshot| snapshot.dataset.id.as_str()));
    let get = async |by, number: usize| {
        let found = kept.get(snapshots[number].dataset.id.as_str(), household(by)).await.unwrap();
        assert_eq!(found.seq, number as u64);
    };
    for (by, number) in [(1, 0), (2, 1), (3, 2)] {
        get(by, number).await;
    }
    // More want it by now: another one goes in its place.
    get(4, 2).await;
    assert!(kept.0.state.lock().passing.is_some());
    let began = Instant::now();
    while kept.0.state.lock().passing.is_some() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(began.elapsed() <= 2 * IDLE);
    }
    assert!(began.elapsed() >= IDLE && kept.0.state.lock().loaded.len() == LOADED);
    assert_eq!(Arc::strong_count(&snapshots[0]), 2, "here and in the store");
    get(5, 3).await;
    assert!(kept.0.state.lock().passing.is_some());
    tokio::time::sleep(2 * IDLE).await;
    assert!(kept.0.state.lock().passing.is_none(), "the next one as well");
}

#[tokio::test]
async fn one_household_does_not_take_all_places_of_those_that_wait() {
    let rig = Rig::new();
    let mut asking = Vec::new();
    for number in 0..LOADING_EACH {
        asking.push(rig.ask_by(1, number));
        rig.until(|state| state.loading.len() == number + 1).await;
    }
    assert_eq!(rig.get_by(1, 5).await, Err(Missing::Busy));
    asking.push(rig.ask_by(1, 0));
    let other = rig.ask_by(2, 5);
    rig.until(|state| state.loading.len() == LOADING_EACH + 1).await;
    rig.allow(LOADING);
    assert_eq!(other.await.unwrap(), Ok(5));
    for asking in asking {
        asking.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn snapshots_are_loaded_one_at_a_time_and_few_may_wait() {
    let rig = Rig::new();
    let mut asking = Vec::new();
    for number in 0..LOADING {
        asking.push(rig.ask(number));
        rig.until(|state| state.loading.len() == number + 1).await;
    }
    assert_eq!(rig.get(5).await, Err(Missing::Busy));
    assert!(rig.reads() <= 1, "the others wait for their turn");
    rig.allow(LOADING + 1);
    for (number, asking) in asking.into_iter().enumerate() {
        assert_eq!(asking.await.unwrap(), Ok(number as u64));
    }
    rig.until(|state| state.loading.is_empty()).await;
    assert_eq!((rig.get(5).await, rig.kept.0.state.lock().loaded.len()), (Ok(5), LOADED));
}

#[tokio::test]
async fn a_snapshot_that_is_dropped_while_it_is_loaded_is_gone() {
    let rig = Rig::new();
    let (first, second) = (rig.ask(0), rig.ask(1));
    rig.until(|state| state.loading.len() == 2).await;
    rig.keep(&[2]);
    rig.allow(1);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Err(Missing::Gone), Err(Missing::Gone)));
    assert!(rig.reads() <= 1, "the one that was waiting is not looked for");
    assert!(rig.kept.0.state.lock().loaded.is_empty());
}

#[tokio::test]
async fn a_loaded_snapshot_that_is_dropped_leaves_memory() {
    let rig = Rig::new();
    rig.allow(2);
    assert_eq!((rig.get(0).await, rig.get(1).await), (Ok(0), Ok(1)));
    rig.keep(&[1, 2]);
    assert_eq!((rig.get(0).await, rig.get(1).await), (Err(Missing::Gone), Ok(1)));
    assert_eq!(Arc::strong_count(&rig.snapshots[0]), 2, "here and in the store");
}

#[tokio::test]
async fn what_was_served_until_now_is_at_hand_without_a_load() {
    let rig = Rig::new();
    rig.kept.switched(rig.snapshots[0].clone(), rig.id(1));
    assert_eq!(rig.get(0).await, Ok(0));
    rig.kept.switched(rig.snapshots[1].clone(), rig.id(2));
    rig.kept.switched(rig.snapshots[2].clone(), rig.id(0));
    assert_eq!((rig.get(2).await, rig.get(1).await, rig.reads()), (Ok(2), Ok(1), 0));
    assert_eq!(Arc::strong_count(&rig.snapshots[0]), 2, "what is served is not held here, too");
    rig.kept.switched(rig.snapshots[7].clone(), rig.id(0));
    assert_eq!(rig.get(7).await, Err(Missing::Gone), "it is not kept");
    rig.kept.switched(rig.snapshots[1].clone(), rig.id(1));
    assert_eq!((Arc::strong_count(&rig.snapshots[1]), rig.reads()), (2, 0), "another certificate for the same");
}

#[tokio::test]
async fn a_snapshot_that_is_put_at_hand_while_others_wait_for_it_is_not_loaded() {
    let rig = Rig::new();
    let (first, second) = (rig.ask(0), rig.ask(1));
    rig.until(|state| state.loading.len() == 2).await;
    rig.kept.switched(rig.snapshots[1].clone(), rig.id(2));
    assert_eq!(rig.get(1).await, Ok(1));
    rig.allow(1);
    assert_eq!((first.await.unwrap(), second.await.unwrap(), rig.reads()), (Ok(0), Ok(1), 1));
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_loaded_is_tried_again_and_costs_no_other() {
    let rig = Rig::new();
    rig.allow(1);
    assert_eq!(rig.get(1).await, Ok(1));
    rig.may.send(Err("damaged")).unwrap();
    assert_eq!(rig.get(0).await, Err(Missing::Failed));
    rig.allow(1);
    assert_eq!((rig.get(0).await, rig.get(1).await, rig.reads()), (Ok(0), Ok(1), 3));
}

#[tokio::test]
async fn a_load_that_crashes_lets_the_next_one_through() {
    let crashed = AtomicUsize::new(0);
    let found = snapshot(1);
    let (id, stored) = (found.dataset.id.clone(), found.clone());
    let kept = LoadedSnapshots::new(move |_: &str| {
        assert!(crashed.fetch_add(1, Ordering::SeqCst) > 0, "the first load crashes");
        Ok::<_, String>(stored.clone())
    });
    kept.keep_only([id.as_str()]);
    assert_eq!(kept.get(id.as_str(), household(0)).await.err(), Some(Missing::Failed));
    assert_eq!(kept.get(id.as_str(), household(0)).await.unwrap().seq, 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_long_and_the_load_goes_on() {
    let (may, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let found = snapshot(1);
    let (id, stored) = (found.dataset.id.clone(), found.clone());
    let kept = LoadedSnapshots::new(move |_: &str| {
        told.lock().recv().map_err(|error| error.to_string())?;
        Ok::<_, String>(stored.clone())
    });
    kept.keep_only([id.as_str()]);
    // A blocking task holds the paused clock; time is moved by hand.
    let asking = {
        let (kept, id) = (kept.clone(), id.clone());
        tokio::spawn(async move { kept.get(id.as_str(), household(0)).await.err() })
    };
    while kept.0.state.lock().loading.is_empty() {
        tokio::task::yield_now().await;
    }
    while !asking.is_finished() {
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(asking.await.unwrap(), Some(Missing::Busy));
    may.send(()).unwrap();
    assert_eq!(kept.get(id.as_str(), household(0)).await.unwrap().seq, 1);
}
