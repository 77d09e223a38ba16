//! Single flight: requests for one key share a fetch. The first starts it, later ones join until it ends or is closed,
//! and all get its result.
//!
//! The fetch (a *flight*) runs in a task that the caller spawns: a client that leaves does not end it. If the task
//! panics, the next request starts another fetch. Callers: [`crate::mirror::details`], [`crate::edge::proxy`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

struct Flying<T> {
    number: u64,
    landed: watch::Receiver<Option<T>>,
}

struct Board<K, T> {
    flying: HashMap<K, Flying<T>>,
    number: u64,
}

/// The fetches under way; cheap to clone.
pub(crate) struct SingleFlight<K, T>(Arc<Mutex<Board<K, T>>>);

impl<K, T> Clone for SingleFlight<K, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Board { flying: HashMap::new(), number: 0 })))
    }
}

/// A place on a flight.
pub(crate) enum Role<K: Eq + Hash, T> {
    /// No fetch can be joined: the caller starts a task that fetches and hands the result to the leader.
    Leader(Leader<K, T>, Waiter<T>),
    /// A fetch runs, and the caller has joined it.
    Waiter(Waiter<T>),
}

/// The duty to fetch; dropping it ends the flight.
pub(crate) struct Leader<K: Eq + Hash, T> {
    flights: SingleFlight<K, T>,
    key: K,
    number: u64,
    landing: watch::Sender<Option<T>>,
}

pub(crate) struct Waiter<T>(watch::Receiver<Option<T>>);

impl<T: Clone> Waiter<T> {
    /// The flight's result; `None`: the leader was dropped without a result.
    pub(crate) async fn landed(mut self) -> Option<T> {
        let landed = self.0.wait_for(Option::is_some).await;
        landed.ok().and_then(|landed| landed.clone())
    }
}

impl<K: Clone + Eq + Hash, T: Clone> SingleFlight<K, T> {
    pub(crate) fn join(&self, key: &K) -> Role<K, T> {
        let mut board = self.0.lock();
        if let Some(flying) = board.flying.get(key) {
            return Role::Waiter(Waiter(flying.landed.clone()));
        }
        board.number += 1;
        let number = board.number;
        // A `watch` keeps its value: a waiter that looks after the landing still finds the result.
        let (landing, landed) = watch::channel(None);
        board.flying.insert(key.clone(), Flying { number, landed: landed.clone() });
        drop(board);
        Role::Leader(Leader { flights: self.clone(), key: key.clone(), number, landing }, Waiter(landed))
    }

    /// Whether a request for `key` would join a running fetch.
    pub(crate) fn is_running(&self, key: &K) -> bool {
        self.0.lock().flying.contains_key(key)
    }

    /// No further request joins the flights under way: their results may be outdated.
    pub(crate) fn close(&self) {
        self.0.lock().flying.clear();
    }

    /// The same for some flights only.
    pub(crate) fn close_where(&self, outdated: impl Fn(&K) -> bool) {
        self.0.lock().flying.retain(|key, _| !outdated(key));
    }
}

impl<K: Eq + Hash, T> Leader<K, T> {
    /// Hands out the result. Further requests may join until the leader is dropped.
    pub(crate) fn land(&self, what: T) {
        // Unlike `send`, this does not fail if nobody waits any more.
        let _ = self.landing.send_replace(Some(what));
    }

    /// Closes the flight and hands out its result: later requests start a new flight.
    pub(crate) fn end(self, what: T) {
        // In this order: a request that joined in between would get a result from before it asked.
        self.close();
        self.land(what);
    }

    /// No further request joins: later requests start a new flight.
    pub(crate) fn close(&self) {
        let mut board = self.flights.0.lock();
        // A flight that was closed may have a successor under its key, which is not this leader's to remove.
        if board.flying.get(&self.key).is_some_and(|flying| flying.number == self.number) {
            board.flying.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash, T> Drop for Leader<K, T> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_takes_off_and_everybody_gets_what_it_brings() {
        let flights = SingleFlight::<u8, &str>::default();
        let Role::Leader(leader, first) = flights.join(&1) else { panic!("nobody flies yet") };
        assert!(matches!(flights.join(&2), Role::Leader(..)), "another key has its own");
        let Role::Waiter(second) = flights.join(&1) else { panic!("it flies") };
        leader.land("done");
        let Role::Waiter(late) = flights.join(&1) else { panic!("it has not ended") };
        drop(leader);
        for waiter in [first, second, late] {
            assert_eq!(waiter.landed().await, Some("done"));
        }
        assert!(matches!(flights.join(&1), Role::Leader(..)), "it is over");
    }

    #[tokio::test]
    async fn a_lost_flight_lets_the_next_one_take_off() {
        let flights = SingleFlight::<u8, &str>::default();
        let Role::Leader(leader, _) = flights.join(&1) else { panic!("nobody flies yet") };
        let Role::Waiter(waiting) = flights.join(&1) else { panic!("it flies") };
        drop(leader);
        assert_eq!(waiting.landed().await, None);
        assert!(matches!(flights.join(&1), Role::Leader(..)));
    }

    #[tokio::test]
    async fn whoever_hears_that_a_flight_has_ended_starts_another_one() {
        let flights = SingleFlight::<u8, &str>::default();
        let Role::Leader(leader, _) = flights.join(&1) else { panic!("nobody flies yet") };
        let Role::Waiter(waiting) = flights.join(&1) else { panic!("it flies") };
        let next = tokio::spawn({
            let flights = flights.clone();
            async move {
                assert_eq!(waiting.landed().await, Some("refused"));
                assert!(!flights.is_running(&1));
                matches!(flights.join(&1), Role::Leader(..))
            }
        });
        tokio::task::yield_now().await;
        assert!(flights.is_running(&1));
        leader.end("refused");
        assert!(next.await.unwrap());
    }

    #[tokio::test]
    async fn nobody_joins_a_closed_flight_and_its_end_is_not_the_end_of_the_next() {
        let flights = SingleFlight::<u8, &str>::default();
        let Role::Leader(old, _) = flights.join(&1) else { panic!("nobody flies yet") };
        flights.close();
        let Role::Leader(_new, _) = flights.join(&1) else { panic!("the old one is closed") };
        drop(old);
        assert!(matches!(flights.join(&1), Role::Waiter(_)), "the new one still flies");
    }
}
