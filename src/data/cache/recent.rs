//! Recent requests: queries that came before, and requests to the origin that are under way.
//!
//! A reply enters the cache at its second request ([`Recent`]): most queries come once, and caching their replies costs
//! more CPU than making them, and pushes out hot replies. An answer of the origin that was purged while it was on its way
//! does not enter the cache ([`Asking`]). Callers: [`crate::data::cache`], [`crate::edge::proxy`].

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Monotonic;

use super::Key;

/// The hash of a key, and what is noted of it.
type Noted<V> = (u128, Option<V>);

/// A bounded memory of what was last noted of keys: a newer key may take the place of another one.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    /// By an unpredictable 128-bit hash: keys are as long as clients make them, and nobody can choose two that meet.
    places: Mutex<Box<[Noted<V>]>>,
    halves: [RandomState; 2],
}

impl<V: Copy> Recent<V> {
    /// Room for so many keys.
    pub(crate) fn new(places: usize) -> Self {
        Self { places: Mutex::new(vec![(0, None); places].into()), halves: [RandomState::new(), RandomState::new()] }
    }

    /// Lets `work` see and change what is noted of a key.
    pub(crate) fn with<T>(&self, key: &impl Hash, work: impl FnOnce(&mut Option<V>) -> T) -> T {
        let [low, high] = self.halves.each_ref().map(|half| half.hash_one(key));
        let name = u128::from(high) << 64 | u128::from(low);
        let mut places = self.places.lock();
        let at = low as usize % places.len();
        let mut noted = places[at].1.filter(|_| places[at].0 == name);
        let was_noted = noted.is_some();
        let done = work(&mut noted);
        if was_noted || noted.is_some() {
            places[at] = (name, noted);
        }
        done
    }
}

impl Recent<()> {
    /// Whether this key came before, as far as it is remembered; from now on it is.
    pub(crate) fn came(&self, key: &impl Hash) -> bool {
        self.with(key, |came| came.replace(()).is_some())
    }
}

/// Keys that are marked until an instant.
impl Recent<Monotonic> {
    pub(crate) fn holds(&self, key: &Key, now: Monotonic) -> bool {
        self.with(key, |until| until.is_some_and(|until| now < until))
    }

    /// Marks it; `false` when it is marked, and then nothing changes.
    pub(crate) fn mark(&self, key: &Key, now: Monotonic, span: Duration) -> bool {
        self.with(key, |until| {
            let is_new = until.is_none_or(|until| now >= until);
            if is_new {
                *until = Some(now.plus(span));
            }
            is_new
        })
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.with(key, |until| *until = None);
    }
}

/// All requests under way; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<OpenRequests>);

#[derive(Default)]
struct OpenRequests {
    /// By the hash of the key, which is seeded: nobody can choose two resources with the same one.
    resources: Mutex<HashMap<u64, Resource>>,
    seed: foldhash::quality::RandomState,
    /// How often everything was purged.
    all: AtomicU64,
    /// How many requests were made.
    made: AtomicU64,
}

#[derive(Default)]
struct Resource {
    /// How many requests for it are under way.
    requests: usize,
    /// How often it was purged during them.
    purges: u64,
}

/// A request to the origin, from before it is sent until its answer is stored or not. Its answer is not cached if it was
/// purged meanwhile, and does not replace the answer to a later request.
pub struct Asking {
    under_way: UnderWay,
    resource: u64,
    /// Purges of everything and of the resource when the request was made.
    purges: (u64, u64),
    number: u64,
}

impl UnderWay {
    pub(super) fn begin(&self, key: &Key) -> Asking {
        let OpenRequests { resources, seed, all, made } = &*self.0;
        let hash = seed.hash_one(key);
        let mut resources = resources.lock();
        let resource = resources.entry(hash).or_default();
        resource.requests += 1;
        // Under the lock, like the number: a purge of the resource is before this request or after it.
        let purges = (all.load(Ordering::SeqCst), resource.purges);
        Asking { under_way: self.clone(), resource: hash, purges, number: made.fetch_add(1, Ordering::SeqCst) }
    }

    /// The answers on their way to one resource's requests are not to be cached.
    pub(super) fn purge(&self, key: &Key) {
        let hash = self.0.seed.hash_one(key);
        if let Some(resource) = self.0.resources.lock().get_mut(&hash) {
            resource.purges += 1;
        }
    }

    /// No answer on its way is to be cached.
    pub(super) fn purge_all(&self) {
        self.0.all.fetch_add(1, Ordering::SeqCst);
    }
}

impl Asking {
    /// Whether the answer was purged before it arrived.
    pub(super) fn is_purged(&self) -> bool {
        let OpenRequests { resources, all, .. } = &*self.under_way.0;
        // While this request is counted, the entry stays, and its count of purges does not begin again.
        let of_resource = resources.lock().get(&self.resource).map(|resource| resource.purges);
        (all.load(Ordering::SeqCst), of_resource.unwrap_or_default()) != self.purges
    }

    /// Its place in the order of all requests.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut resources = self.under_way.0.resources.lock();
        if let Some(resource) = resources.get_mut(&self.resource) {
            resource.requests -= 1;
            if resource.requests == 0 {
                resources.remove(&self.resource);
            }
        }
    }
}

#[cfg(test)]
mod asking_tests {
    use super::*;

    #[test]
    fn what_ended_leaves_nothing_behind() {
        let under_way = UnderWay::default();
        let key = Key::origin("/a");
        let (first, second) = (under_way.begin(&key), under_way.begin(&key));
        under_way.purge(&key);
        drop(first);
        assert!(second.is_purged());
        assert!(!under_way.begin(&key).is_purged(), "it was made after the purge");
        drop(second);
        assert!(under_way.0.resources.lock().is_empty());
    }
}

#[cfg(test)]
mod recent_tests {
    use super::*;

    #[test]
    fn it_forgets_after_a_while_and_is_bounded() {
        let (recent, span) = (Recent::new(4096), Duration::from_secs(10));
        let (key, start) = (Key::origin("/a"), Monotonic::from_seconds(50));
        assert!(recent.mark(&key, start, span) && !recent.mark(&key, start.plus(Duration::from_secs(9)), span));
        assert!(recent.holds(&key, start.plus(Duration::from_secs(9))));
        assert!(recent.mark(&key, start.plus(Duration::from_secs(10)), span));
        recent.forget(&key);
        assert!(!recent.holds(&key, start.plus(Duration::from_secs(10))));
        for number in 0..10_000 {
            assert!(recent.mark(&Key::origin(format!("/{number}")), start, span), "each is another one");
        }
        assert_eq!(recent.places.lock().len(), 4096);
    }

    #[test]
    fn a_key_that_came_is_known_until_others_take_its_place() {
        let recent = Recent::new(1 << 12);
        for number in 0..100 {
            assert!(!recent.came(&number) && recent.came(&number), "{number}");
        }
        assert_eq!((100..1_000_000).filter(|number| recent.came(number)).count(), 0, "a flood is not let in");
        let kept = (0..100).filter(|number| recent.came(number)).count();
        assert_eq!(kept, 0, "nor remembered for ever");
        let missed = (0..100).filter(|round| {
            for number in 0..100 {
                recent.came(&(number, round));
            }
            !recent.came(&"often")
        });
        assert!(missed.count() < 20, "a request that keeps coming stays known");
    }
}
