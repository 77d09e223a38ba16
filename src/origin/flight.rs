//! One fetch per key at a time: whoever comes first fetches, the others wait for what it leaves.
//!
//! What it leaves may be an answer (in a cache that the caller looks into) or a failure, which is told to those who
//! waited for it instead of being repeated by each in turn. A holder that is cancelled simply lets the next one in, so
//! nobody hangs on a dead leader. Callers: [`super::read_through`], [`super::details`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// The last failure under a key, with the ticket that was drawn last when it happened.
type Left<E> = Option<(u64, E)>;

/// The fetches that are under way.
#[derive(Debug)]
pub struct Flights<K, E> {
    locks: Mutex<HashMap<K, Arc<tokio::sync::Mutex<Left<E>>>>>,
    tickets: AtomicU64,
}

impl<K, E> Default for Flights<K, E> {
    fn default() -> Self {
        Self { locks: Mutex::default(), tickets: AtomicU64::new(0) }
    }
}

/// The right to fetch; given up by being dropped.
#[derive(Debug)]
pub struct Turn<'a, E> {
    /// Whether somebody else was fetching when this turn was asked for: look at what it left first.
    pub waited: bool,
    ticket: u64,
    tickets: &'a AtomicU64,
    guard: OwnedMutexGuard<Left<E>>,
}

impl<E: Clone> Turn<'_, E> {
    /// The failure of the fetch that this turn waited for, if it failed.
    pub fn failure(&self) -> Option<E> {
        let (last, error) = self.guard.as_ref()?;
        (self.waited && *last >= self.ticket).then(|| error.clone())
    }

    /// Leaves a failure to everybody who is waiting now.
    pub fn fail(&mut self, error: E) {
        *self.guard = Some((self.tickets.load(Ordering::Acquire), error));
    }
}

impl<K: Clone + Eq + Hash, E> Flights<K, E> {
    /// Waits until nobody else fetches `key`.
    pub async fn turn(&self, key: &K) -> Turn<'_, E> {
        let (lock, waited, ticket) = {
            const MOST: usize = 256;
            let mut locks = self.locks.lock();
            if locks.len() >= MOST {
                locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            let ticket = self.tickets.fetch_add(1, Ordering::AcqRel) + 1;
            if let Some(lock) = locks.get(key) {
                (lock.clone(), Arc::strong_count(lock) > 1, ticket)
            } else {
                let lock = Arc::<tokio::sync::Mutex<Left<E>>>::default();
                locks.insert(key.clone(), lock.clone());
                (lock, false, ticket)
            }
        };
        Turn { waited, ticket, tickets: &self.tickets, guard: lock.lock_owned().await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_turn_at_a_time_and_a_cancelled_holder_lets_the_next_in() {
        let flights = Arc::new(Flights::<u8, &str>::default());
        let mut first = flights.turn(&1).await;
        assert!(!first.waited);
        assert!(!flights.turn(&2).await.waited, "another key does not wait");
        let next = tokio::spawn({
            let flights = flights.clone();
            async move {
                let turn = flights.turn(&1).await;
                (turn.waited, turn.failure())
            }
        });
        while Arc::strong_count(&flights.locks.lock()[&1]) < 3 {
            tokio::task::yield_now().await;
        }
        first.fail("down");
        drop(first);
        assert_eq!(next.await.unwrap(), (true, Some("down")));
        assert_eq!(flights.turn(&1).await.failure(), None, "a failure is told only to those who waited for it");
    }
}
