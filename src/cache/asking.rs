//! Requests to the origin that are under way, so that an answer that was purged meanwhile does not enter the cache.
//!
//! Only what is asked for is remembered: a purge concerns no other resource, whatever its name. Callers:
//! [`crate::cache`], [`crate::proxy`].

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Key;

/// All requests under way; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<Table>);

#[derive(Default)]
struct Table {
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
    /// A request for a resource begins.
    pub(super) fn begin(&self, key: &Key) -> Asking {
        let Table { resources, seed, all, made } = &*self.0;
        let hash = seed.hash_one(key);
        let mut resources = resources.lock();
        let resource = resources.entry(hash).or_default();
        resource.requests += 1;
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
        let Table { resources, all, .. } = &*self.under_way.0;
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
mod tests {
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
