//! Earlier snapshots in memory, for clients that name one.
//!
//! A client that pages through a list can finish with its snapshot after a publication. Nothing is read from the store:
//! a snapshot that was never current in this process is not here. Callers: [`super`] says what was replaced,
//! [`crate::edge::answer`] looks snapshots up.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::data::snapshot::pointer::Snapshot;

/// How many there are at most: with the current and the newest one, five data sets are in memory.
const MOST: usize = 3;
/// How long a snapshot stays after its last request.
const UNUSED: Duration = Duration::from_secs(15 * 60);
/// How long a snapshot stays at most after it was replaced.
const LONGEST: Duration = Duration::from_secs(2 * 60 * 60);

/// The snapshots that were current before; cheap to clone.
#[derive(Clone, Default)]
pub struct EarlierSnapshots(Arc<Mutex<Vec<Earlier>>>);

struct Earlier {
    snapshot: Arc<Snapshot>,
    replaced: Instant,
    asked: Instant,
}

impl Earlier {
    fn until(&self) -> Instant {
        (self.asked + UNUSED).min(self.replaced + LONGEST)
    }
}

impl EarlierSnapshots {
    /// The snapshot with this id, for a client.
    pub fn get(&self, id: &str) -> Option<Arc<Snapshot>> {
        let mut all = self.0.lock();
        let found = all.iter_mut().find(|earlier| earlier.snapshot.dataset.id.as_str() == id)?;
        found.asked = Instant::now();
        Some(found.snapshot.clone())
    }

    /// Takes the snapshot that is current and will be replaced. Call [`shown`](Self::shown) when it is.
    pub fn will_be_replaced(&self, snapshot: Arc<Snapshot>) {
        let (now, known) = (Instant::now(), Arc::downgrade(&snapshot));
        let id = snapshot.dataset.id.clone();
        let earlier = Earlier { snapshot, replaced: now, asked: now };
        let mut all = self.0.lock();
        let gone: Vec<_> = all.extract_if(.., |earlier| earlier.snapshot.dataset.id == id).collect();
        all.insert(0, earlier);
        drop(all);
        // Dropping a snapshot takes a while: never under the lock, here and below.
        drop(gone);
        // The commands switch without a runtime, and end soon.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.clone().drop_when_unused(known));
        }
    }

    /// The snapshot with this id is current now: it is no earlier one. Not before it shows, so that a client that names it
    /// finds it at any time.
    pub fn shown(&self, current: &str) {
        let mut all = self.0.lock();
        let mut gone: Vec<_> = all.extract_if(.., |earlier| earlier.snapshot.dataset.id.as_str() == current).collect();
        let most = MOST.min(all.len());
        gone.extend(all.drain(most..));
        drop(all);
        drop(gone);
    }

    async fn drop_when_unused(self, snapshot: Weak<Snapshot>) {
        let is_it = |earlier: &Earlier| Weak::ptr_eq(&Arc::downgrade(&earlier.snapshot), &snapshot);
        loop {
            let Some(until) = self.0.lock().iter().find(|earlier| is_it(earlier)).map(Earlier::until) else { return };
            sleep_until(until).await;
            let due = |earlier: &mut Earlier| is_it(earlier) && earlier.until() <= Instant::now();
            let gone: Vec<_> = self.0.lock().extract_if(.., due).collect();
            drop(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::api::hash::ContentHash;
    use crate::api::listing::{ListingId, Summary};
    use crate::api::page::Envelope;
    use crate::data::snapshot::content::Content;
    use crate::data::snapshot::dataset::Dataset;
    use crate::data::snapshot::membership::Evidence;
    use crate::data::snapshot::meta::SnapshotMeta;

    /// A snapshot with one listing, that tells which it is.
    fn snapshot(number: u64) -> Arc<Snapshot> {
        let raw = format!(r#"{{"id":{number}}}"#);
        let summary = Summary { id: ListingId(number), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) };
        let taxonomies = std::array::from_fn(|_| Arc::from("[]"));
        let content = Content { envelope: Envelope::default(), taxonomies, summaries: vec![summary] };
        let dataset = Dataset::build(content, &Evidence::new()).unwrap();
        Arc::new(Snapshot::new(Arc::new(dataset), SnapshotMeta::full(0), number, 0))
    }

    fn id(snapshot: &Snapshot) -> &str {
        snapshot.dataset.id.as_str()
    }

    #[tokio::test]
    async fn the_last_three_that_were_current_are_in_memory() {
        let (earlier, all) = (EarlierSnapshots::default(), (0..6).map(snapshot).collect::<Vec<_>>());
        let replaced = |was: usize, now: usize| {
            earlier.will_be_replaced(all[was].clone());
            earlier.shown(id(&all[now]));
        };
        (0..4).for_each(|was| replaced(was, was + 1));
        let found =
            |snapshot: &Arc<Snapshot>| earlier.get(id(snapshot)).is_some_and(|found| Arc::ptr_eq(&found, snapshot));
        assert_eq!(all.iter().map(found).collect::<Vec<_>>(), [false, true, true, true, false, false]);
        assert_eq!(Arc::strong_count(&all[0]), 1, "it is dropped");
        // A rollback makes one current again, which is here until it shows.
        earlier.will_be_replaced(all[4].clone());
        assert!(earlier.get(id(&all[2])).is_some() && earlier.get(id(&all[4])).is_some());
        earlier.shown(id(&all[2]));
        let found = |snapshot: &Arc<Snapshot>| earlier.get(id(snapshot)).is_some();
        assert_eq!(all.iter().map(found).collect::<Vec<_>>(), [false, true, false, true, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_leaves_memory_when_nobody_asks_for_it_and_after_two_hours_in_any_case() {
        let (earlier, all) = (EarlierSnapshots::default(), (0..3).map(snapshot).collect::<Vec<_>>());
        earlier.will_be_replaced(all[0].clone());
        earlier.will_be_replaced(all[1].clone());
        earlier.shown(id(&all[2]));
        let is_dropped = |number: usize| Arc::strong_count(&all[number]) == 1;
        let step = UNUSED * 4 / 5;
        for _ in 0..9 {
            tokio::time::sleep(step).await;
            assert!(earlier.get(id(&all[0])).is_some());
        }
        assert!(is_dropped(1) && !is_dropped(0));
        tokio::time::sleep(step + Duration::from_secs(1)).await;
        assert!(is_dropped(0) && earlier.get(id(&all[0])).is_none());
    }
}
