//! One fetch per key at a time: whoever comes first fetches, the others wait for what it leaves.
//!
//! A holder that is cancelled simply lets the next one in, so nobody hangs on a dead leader. Callers:
//! [`super::read_through`], [`super::details`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// The fetches that are under way.
#[derive(Debug)]
pub struct Flights<K>(Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>);

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The right to fetch; given up by being dropped.
#[derive(Debug)]
pub struct Turn {
    /// Whether somebody else was fetching when this turn was asked for: look at what it left first.
    pub waited: bool,
    _guard: OwnedMutexGuard<()>,
}

impl<K: Clone + Eq + Hash> Flights<K> {
    /// Waits until nobody else fetches `key`.
    pub async fn turn(&self, key: &K) -> Turn {
        let (lock, waited) = {
            const MOST: usize = 256;
            let mut flights = self.0.lock();
            if flights.len() >= MOST {
                flights.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            if let Some(lock) = flights.get(key) {
                (lock.clone(), Arc::strong_count(lock) > 1)
            } else {
                let lock = Arc::<tokio::sync::Mutex<()>>::default();
                flights.insert(key.clone(), lock.clone());
                (lock, false)
            }
        };
        Turn { waited, _guard: lock.lock_owned().await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_turn_at_a_time_and_a_cancelled_holder_lets_the_next_in() {
        let flights = Arc::new(Flights::<u8>::default());
        let first = flights.turn(&1).await;
        assert!(!first.waited);
        assert!(!flights.turn(&2).await.waited, "another key does not wait");
        let next = tokio::spawn({
            let flights = flights.clone();
            async move { flights.turn(&1).await.waited }
        });
        while Arc::strong_count(&flights.0.lock()[&1]) < 3 {
            tokio::task::yield_now().await;
        }
        drop(first);
        assert!(next.await.unwrap());
    }
}
