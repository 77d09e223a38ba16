//! The demand for resources that are fetched in the background: the higher, the sooner their turn.
//!
//! Callers: [`super::together`]; [`crate::upstream::budget`] gives the turns.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::cache::Key;
use crate::upstream::budget::Demand;

/// The demand for each resource that is being fetched in the background; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demands(Arc<BackgroundFetches>);

#[derive(Debug, Default)]
struct BackgroundFetches {
    fetched: Mutex<HashMap<Key, (u64, Demand)>>,
    number: AtomicU64,
}

/// A fetch in the background, until it is dropped.
#[derive(Debug)]
pub(crate) struct Fetching {
    demands: Demands,
    key: Key,
    number: u64,
    /// The demand for it.
    pub demand: Demand,
}

impl Demands {
    /// A household got this resource stale. Ignored unless a fetch of it is under way.
    pub(crate) fn asked(&self, key: &Key, household: IpAddr) {
        if let Some((_, demand)) = self.0.fetched.lock().get(key) {
            demand.vote(household);
        }
    }

    /// The demand for what clients are refused until its fetch has a slot; `None` otherwise.
    pub(crate) fn refused(&self, key: &Key) -> Option<Demand> {
        let fetched = self.0.fetched.lock();
        let (_, demand) = fetched.get(key)?;
        (demand.is_refused() && !demand.is_sent()).then(|| demand.clone())
    }

    /// Marks it as being fetched until the result is dropped. The demand for an earlier fetch that still waits counts
    /// here, too.
    pub(crate) fn fetching(&self, key: &Key, demand: Demand) -> Fetching {
        let number = self.0.number.fetch_add(1, Ordering::Relaxed);
        let mut fetched = self.0.fetched.lock();
        let (last, current) = fetched.entry(key.clone()).or_insert_with(|| (number, demand.clone()));
        if current.is_sent() {
            *current = demand;
        }
        *last = number;
        Fetching { demands: self.clone(), key: key.clone(), number, demand: current.clone() }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        let mut fetched = self.demands.0.fetched.lock();
        if fetched.get(&self.key).is_some_and(|(last, _)| *last == self.number) {
            fetched.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::upstream::budget::Budget;
    use crate::upstream::window::Class;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_end_of_a_fetch_is_not_the_end_of_the_next() {
        let (demands, key) = (Demands::default(), Key::origin("/a"));
        let remembered = || demands.0.fetched.lock().contains_key(&key);
        let old = demands.fetching(&key, Demand::default());
        let new = demands.fetching(&key, Demand::default());
        drop(old);
        assert!(remembered());
        drop(new);
        assert!(!remembered());
    }

    /// Two variants of a resource have one key, and a fetch each.
    #[tokio::test]
    async fn the_demand_for_a_fetch_that_has_its_slot_is_not_that_for_the_next() {
        let (demands, key) = (Demands::default(), Key::origin("/a"));
        let first = demands.fetching(&key, Demand::refused([address(1)]));
        let second = demands.fetching(&key, Demand::refused([]));
        assert_eq!(second.demand.households(), [address(1)], "while it waits, both count together");
        let budget = Budget::open(None, None, Clock::system());
        let _permit = budget.acquire_for(Class::Client, None, None, Some(first.demand.clone())).await.unwrap();
        assert!(demands.refused(&key).is_none(), "clients join the fetch that has its slot");
        let third = demands.fetching(&key, Demand::refused([]));
        demands.refused(&key).expect("the next one waits").vote(address(2));
        assert_eq!((third.demand.households(), first.demand.households()), (vec![address(2)], vec![address(1)]));
    }
}
