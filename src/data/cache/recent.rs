//! Recent requests: queries that came before, and requests to the origin that are under way.
//!
//! A reply enters the cache at its second request ([`Recent`]): most queries come once, and caching their replies costs
//! more CPU than making them, and pushes out hot replies. An answer of the origin that was purged while it was on its way
//! does not enter the cache ([`Asking`]). Callers: [`crate::data::cache`], [`crate::edge::proxy`].

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Monotonic;

use super::Key;

/// The hash of a key, and what is noted of it.
type Noted<V> = (u128, Option<V>);

/// So many keys may meet: with one place, two that come in turns would push each other out for ever.
const PLACES_OF_A_HASH: usize = 4;

/// A bounded memory of what was last noted of keys: a newer key may take the place of another one.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    /// By an unpredictable 128-bit hash: keys are as long as clients make them, and nobody can choose two that meet.
    places: Mutex<Box<[Noted<V>]>>,
    halves: [RandomState; 2],
}

impl<V> Recent<V> {
    /// Room for so many keys.
    pub(crate) fn new(places: usize) -> Self {
        let places = std::iter::repeat_with(|| (0, None)).take(places.next_multiple_of(PLACES_OF_A_HASH)).collect();
        Self { places: Mutex::new(places), halves: [RandomState::new(), RandomState::new()] }
    }

    /// Lets `work` see and change what is noted of a key.
    pub(crate) fn with<T>(&self, key: &impl Hash, work: impl FnOnce(&mut Option<V>) -> T) -> T {
        let [low, high] = self.halves.each_ref().map(|half| half.hash_one(key));
        let name = u128::from(high) << 64 | u128::from(low);
        let mut places = self.places.lock();
        let (meeting, _) = places.as_chunks_mut::<PLACES_OF_A_HASH>();
        let meeting = &mut meeting[low as usize % meeting.len()];
        if let Some((_, noted)) = meeting.iter_mut().find(|(other, _)| *other == name) {
            return work(noted);
        }
        let mut noted = None;
        let done = work(&mut noted);
        if noted.is_some() {
            // The one that has been here longest goes.
            meeting.rotate_right(1);
            meeting[0] = (name, noted);
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

/// The requests to the origin that are under way; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnderWay {
    open: Arc<Mutex<OpenRequests>>,
    /// Nobody can choose two resources with the same hash.
    seed: foldhash::quality::RandomState,
}

#[derive(Default)]
struct OpenRequests {
    made: u64,
    /// By number: the hash of the resource, and whether the answer was purged before it arrived.
    by_number: HashMap<u64, (u64, bool)>,
}

/// A request to the origin, from before it is sent until its answer is stored or not. Its answer is not cached if it was
/// purged meanwhile, and does not replace the answer to a later request.
pub struct Asking {
    under_way: UnderWay,
    number: u64,
}

impl UnderWay {
    pub(super) fn begin(&self, key: &Key) -> Asking {
        let resource = self.seed.hash_one(key);
        let mut open = self.open.lock();
        open.made += 1;
        let number = open.made;
        open.by_number.insert(number, (resource, false));
        Asking { under_way: self.clone(), number }
    }

    /// The answers on their way to one resource's requests are not to be cached.
    pub(super) fn purge(&self, key: &Key) {
        let purged = self.seed.hash_one(key);
        self.purge_where(|resource| resource == purged);
    }

    /// No answer on its way is to be cached.
    pub(super) fn purge_all(&self) {
        self.purge_where(|_| true);
    }

    fn purge_where(&self, is_meant: impl Fn(u64) -> bool) {
        for (resource, is_purged) in self.open.lock().by_number.values_mut() {
            *is_purged |= is_meant(*resource);
        }
    }
}

impl Asking {
    /// Whether the answer was purged before it arrived.
    pub(super) fn is_purged(&self) -> bool {
        self.under_way.open.lock().by_number.get(&self.number).is_none_or(|(_, is_purged)| *is_purged)
    }

    /// Its place in the order of all requests.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.under_way.open.lock().by_number.remove(&self.number);
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
    fn keys_that_meet_and_come_in_turns_are_all_known() {
        let recent = Recent::new(1);
        for number in 0..PLACES_OF_A_HASH {
            assert!(!recent.came(&number));
        }
        for _ in 0..3 {
            assert!((0..PLACES_OF_A_HASH).all(|number| recent.came(&number)));
        }
        assert!(!recent.came(&"one more") && recent.came(&"one more"));
        assert!(!recent.came(&0), "it had been there longest");
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
