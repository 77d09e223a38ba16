//! How much clients want a resource that is fetched in the background.
//!
//! Values only. Callers: [`super::queue`] orders by it, [`crate::proxy`] counts.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::clock::Monotonic;

/// Further households change nothing.
const MOST_VOTES: usize = 256;

/// The demand for one resource; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Demand(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    since: Option<Monotonic>,
    /// How often clients got it stale, or how many households were refused.
    many: AtomicU32,
    /// The households that were refused; `None`: clients get it stale.
    refused: Option<Mutex<HashSet<IpAddr>>>,
    is_sent: AtomicBool,
}

impl Demand {
    /// For a resource that clients get stale meanwhile.
    pub fn stale(now: Monotonic) -> Self {
        Self(Arc::new(Inner { since: Some(now), ..Inner::default() }))
    }

    /// For a resource that is not cached: these households were refused.
    pub fn refused(households: impl IntoIterator<Item = IpAddr>) -> Self {
        let demand = Self(Arc::new(Inner { refused: Some(Mutex::default()), ..Inner::default() }));
        households.into_iter().for_each(|household| demand.vote(household));
        demand
    }

    /// A client got it stale.
    pub fn more(&self) {
        self.0.many.fetch_add(1, Ordering::Relaxed);
    }

    /// A household was refused. Each household counts once, however often it asks.
    pub fn vote(&self, household: IpAddr) {
        let Some(households) = &self.0.refused else { return };
        let mut households = households.lock();
        if households.len() < MOST_VOTES && households.insert(household) {
            self.more();
        }
    }

    /// Whether clients are refused until it is there.
    pub fn is_refused(&self) -> bool {
        self.0.refused.is_some()
    }

    /// Whether its request has its slot.
    pub fn is_sent(&self) -> bool {
        self.0.is_sent.load(Ordering::Acquire)
    }

    pub(super) fn sent(&self) {
        self.0.is_sent.store(true, Ordering::Release);
    }

    /// How many households were refused.
    pub(super) fn votes(&self) -> u32 {
        self.0.many.load(Ordering::Relaxed)
    }

    /// How much a fresh copy is worth: the requests for it a second, times the stale answers that it has given. A
    /// popular resource thus goes before one that has only waited longer.
    pub(super) fn worth(&self, now: Monotonic) -> u64 {
        let many = u64::from(self.0.many.load(Ordering::Relaxed));
        let seconds = self.0.since.map_or(0, |since| now.since(since).as_secs());
        many.saturating_mul(many).saturating_mul(1_000) / (seconds + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_household_has_one_vote_however_often_it_asks() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let demand = Demand::refused([address(1), address(2)]);
        (0..100).for_each(|_| demand.vote(address(1)));
        assert_eq!(demand.votes(), 2);
        demand.vote(address(3));
        assert_eq!(demand.votes(), 3);
    }

    #[test]
    fn a_popular_resource_is_worth_more_than_one_that_has_waited_longer() {
        let at = Monotonic::from_seconds;
        let (popular, old) = (Demand::stale(at(140)), Demand::stale(at(100)));
        (0..24).for_each(|_| popular.more());
        (0..40).for_each(|_| old.more());
        assert!(popular.worth(at(143)) > old.worth(at(143)), "8 a second for 3 s, 1 a second for 40 s");
    }
}
