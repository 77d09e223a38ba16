//! Resources that were marked recently: a bounded memory that forgets after a while.
//!
//! Time is an argument. Callers: [`super`], [`super::streamed`].

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use parking_lot::Mutex;

use crate::cache::Key;
use crate::clock::Monotonic;

/// How many resources are remembered; more clear the memory, which costs a request each.
const MOST: usize = 4096;

#[derive(Debug)]
pub(crate) struct RecentlyMarked {
    span: Duration,
    /// By an unpredictable 128-bit hash: keys are as long as clients make them.
    marked: Mutex<HashMap<u128, Monotonic>>,
    halves: [RandomState; 2],
}

impl RecentlyMarked {
    /// One that forgets after `span`.
    pub(crate) fn new(span: Duration) -> Self {
        Self { span, marked: Mutex::default(), halves: [RandomState::new(), RandomState::new()] }
    }

    fn hash(&self, key: &Key) -> u128 {
        let [high, low] = self.halves.each_ref().map(|half| u128::from(half.hash_one(key)));
        high << 64 | low
    }

    /// Whether the mark is recent.
    pub(crate) fn holds(&self, key: &Key, now: Monotonic) -> bool {
        self.marked.lock().get(&self.hash(key)).is_some_and(|at| now.since(*at) < self.span)
    }

    /// Marks it; `false` when it was marked recently, and then nothing changes.
    pub(crate) fn mark(&self, key: &Key, now: Monotonic) -> bool {
        let hash = self.hash(key);
        let mut marked = self.marked.lock();
        if marked.get(&hash).is_some_and(|at| now.since(*at) < self.span) {
            return false;
        }
        if marked.len() >= MOST {
            marked.retain(|_, at| now.since(*at) < self.span);
            if marked.len() >= MOST {
                marked.clear();
            }
        }
        marked.insert(hash, now);
        true
    }

    /// Unmarks it.
    pub(crate) fn forget(&self, key: &Key) {
        self.marked.lock().remove(&self.hash(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_forgets_after_a_while_and_is_bounded() {
        let recent = RecentlyMarked::new(Duration::from_secs(10));
        let (key, start) = (Key::origin("/a"), Monotonic::from_seconds(50));
        assert!(recent.mark(&key, start) && !recent.mark(&key, start.plus(Duration::from_secs(9))));
        assert!(recent.holds(&key, start.plus(Duration::from_secs(9))));
        assert!(recent.mark(&key, start.plus(Duration::from_secs(10))));
        recent.forget(&key);
        assert!(!recent.holds(&key, start.plus(Duration::from_secs(10))));
        for number in 0..10_000 {
            recent.mark(&Key::origin(format!("/{number}")), start);
        }
        assert!(recent.marked.lock().len() <= MOST);
    }
}
