//! Fetches resources that are not cached and that several households asked for in vain. Nobody waits for these fetches.
//! The most wanted resource comes first.
//!
//! Only under overload: a slot then serves most clients if it goes to what most of them want, and a client that comes
//! back after `Retry-After` finds the answer in the cache. A household has one vote for each resource. Only known
//! endpoints: their requests carry no field of a client. [`crate::upstream::budget`] gives the turns. Callers:
//! [`super::together`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;

use crate::cache::Key;
use crate::clock::Monotonic;
use crate::upstream::asker::Asker;
use crate::upstream::budget::{Demand, Spent};
use crate::upstream::flight::Boarding;

use super::Proxy;
use super::fetch::Fetch;
use super::landing::flight;
use super::question::Question;

/// How many households must be refused before a resource is fetched. More than one, so that no single household can
/// spend the budget on fetches that nobody waits for.
const ENOUGH: usize = 2;
/// How long a refusal counts.
const COUNTS_FOR: Duration = Duration::from_secs(60);
/// How long such a fetch waits for its slot: longer than any slot takes to become free.
const WAITS_FOR: Duration = Duration::from_secs(120);
/// How many resources with too few refused households are remembered.
const MOST: usize = 4096;

/// For each resource that is not being fetched: the households that were refused it.
#[derive(Debug, Default)]
pub(super) struct Votes(Mutex<HashMap<Key, Vote>>);

#[derive(Debug)]
struct Vote {
    since: Monotonic,
    households: Vec<IpAddr>,
}

impl Votes {
    /// A household was refused a resource. Returns the households once there are enough.
    fn vote(&self, key: &Key, household: IpAddr, now: Monotonic) -> Option<Vec<IpAddr>> {
        let mut all = self.0.lock();
        if all.len() >= MOST && !all.contains_key(key) {
            all.retain(|_, vote| vote.since.plus(COUNTS_FOR) > now);
            if all.len() >= MOST {
                all.clear();
            }
        }
        let vote = all.entry(key.clone()).or_insert_with(|| Vote { since: now, households: Vec::new() });
        if vote.since.plus(COUNTS_FOR) <= now {
            *vote = Vote { since: now, households: Vec::new() };
        }
        if !vote.households.contains(&household) {
            vote.households.push(household);
        }
        if vote.households.len() < ENOUGH {
            return None;
        }
        all.remove(key).map(|vote| vote.households)
    }
}

impl Proxy {
    /// Refuses a read at once if its resource already waits to be fetched in the background, which may take longer than
    /// this client waits. `None`: it is not refused here.
    pub(super) fn refused_again(&self, question: &Question, key: &Key) -> Option<Spent> {
        let (inner, budget) = (&*self.0, self.0.upstream.origin().budget());
        let demand = inner.demands.refused(key)?;
        demand.vote(budget.household(question.client));
        Some(budget.refuse(&demand))
    }

    /// A client was refused a resource of a known endpoint: it is fetched in the background if others were, too.
    pub(super) fn refused(&self, question: &Question, key: Key, names: Vec<HeaderName>, selectable: &HeaderMap) {
        let (inner, budget) = (&*self.0, self.0.upstream.origin().budget());
        if !budget.is_overloaded() {
            return;
        }
        let household = budget.household(question.client);
        let Some(households) = inner.votes.vote(&key, household, inner.clock.now_mono()) else { return };
        if let Boarding::First(ticket, _) = inner.flights.board(&flight(&key, &names, selectable)) {
            let fetching = inner.demands.fetching(&key, Demand::refused(households));
            let demand = Some(fetching.demand.clone());
            let asker = Asker { patience: Some(WAITS_FOR), demand, ..self.asker_of(question) };
            let fetch = Fetch { question: question.clone(), key, names, kept: None, asker };
            self.in_background(fetch, ticket, fetching);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn one_household_wants_nothing_however_often_it_asks() {
        let (votes, key) = (Votes::default(), Key::origin("/a"));
        let at = Monotonic::from_seconds;
        assert!((0..100).all(|_| votes.vote(&key, address(1), at(100)).is_none()));
        assert_eq!(votes.vote(&Key::origin("/b"), address(2), at(100)), None, "another resource");
        assert_eq!(votes.vote(&key, address(2), at(159)), Some(vec![address(1), address(2)]));
        assert_eq!(votes.vote(&key, address(2), at(160)), None, "counted anew");
        assert_eq!(votes.vote(&key, address(1), at(221)), None, "too long ago");
    }

    #[test]
    fn votes_do_not_grow_for_ever() {
        let votes = Votes::default();
        for number in 0..3 * MOST {
            let seconds = number as u64 / 100;
            votes.vote(&Key::origin(format!("/{number}")), address(1), Monotonic::from_seconds(100 + seconds));
            assert!(votes.0.lock().len() <= MOST);
        }
    }
}
