//! How much clients want a resource that is fetched in the background.
//!
//! Values only. Callers: [`super::queue`] orders by it, [`crate::proxy`] counts.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::clock::Monotonic;

/// So many households are told apart.
const MOST_VOTES: usize = 256;

/// The demand for one resource; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Demand(Arc<Demanded>);

#[derive(Debug, Default)]
struct Demanded {
    since: Option<Monotonic>,
    /// How many households got it stale, or were refused.
    many: AtomicU32,
    households: Mutex<HashSet<IpAddr>>,
    /// Whether clients are refused; otherwise they get it stale.
    is_refused: bool,
    is_sent: AtomicBool,
}

impl Demand {
    /// For a resource that clients get stale meanwhile.
    pub fn stale(now: Monotonic) -> Self {
        Self(Arc::new(Demanded { since: Some(now), ..Demanded::default() }))
    }

    /// For a resource that is not cached: these households were refused.
    pub fn refused(households: impl IntoIterator<Item = IpAddr>) -> Self {
        let demand = Self(Arc::new(Demanded { is_refused: true, ..Demanded::default() }));
        households.into_iter().for_each(|household| demand.vote(household));
        demand
    }

    /// A household got it stale, or was refused. Each household counts once, however often it asks. When more
    /// households ask than are told apart, those beyond count each time if they get it stale: it is a popular resource
    /// anyway.
    pub fn vote(&self, household: IpAddr) {
        let mut households = self.0.households.lock();
        let counts = if households.len() < MOST_VOTES {
            households.insert(household)
        } else {
            !self.is_refused() && !households.contains(&household)
        };
        if counts {
            self.0.many.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The households that were refused; empty for a stale resource.
    pub(crate) fn households(&self) -> Vec<IpAddr> {
        if self.is_refused() { self.0.households.lock().iter().copied().collect() } else { Vec::new() }
    }

    /// Whether both are the same demand.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether clients are refused until it is there.
    pub fn is_refused(&self) -> bool {
        self.0.is_refused
    }

    /// Whether its request has its slot, or a client waits for it.
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

    /// How much a fresh copy is worth: the households that ask for it a second, times those that it was stale for. A
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

    fn address(number: u16) -> IpAddr {
        IpAddr::from([10, 0, (number / 256) as u8, number as u8])
    }

    #[test]
    fn a_household_has_one_vote_however_often_it_asks() {
        let stale = Demand::stale(Monotonic::from_seconds(1));
        (1..=2).for_each(|number| stale.vote(address(number)));
        for demand in [Demand::refused([address(1), address(2)]), stale] {
            (0..100).for_each(|_| demand.vote(address(1)));
            assert_eq!(demand.votes(), 2);
            demand.vote(address(3));
            assert_eq!(demand.votes(), 3);
        }
    }

    #[test]
    fn households_are_bounded_and_a_stale_resource_that_more_want_is_worth_more() {
        let (refused, stale) = (Demand::refused([]), Demand::stale(Monotonic::from_seconds(1)));
        for demand in [&refused, &stale] {
            (0..1_000).for_each(|number| demand.vote(address(number)));
            assert_eq!(demand.0.households.lock().len(), MOST_VOTES);
            // One that was counted is not counted again.
            (0..1_000).for_each(|_| demand.vote(address(1)));
        }
        assert_eq!((refused.votes(), stale.votes()), (MOST_VOTES as u32, 1_000));
    }

    #[test]
    fn a_popular_resource_is_worth_more_than_one_that_has_waited_longer() {
        let at = Monotonic::from_seconds;
        let (popular, old) = (Demand::stale(at(140)), Demand::stale(at(100)));
        (0..24).for_each(|number| popular.vote(address(number)));
        (0..40).for_each(|number| old.vote(address(number)));
        assert!(popular.worth(at(143)) > old.worth(at(143)), "8 a second for 3 s, 1 a second for 40 s");
        // One household that hammers the old one changes nothing.
        (0..10_000).for_each(|_| old.vote(address(1)));
        assert!(popular.worth(at(143)) > old.worth(at(143)));
    }
}
