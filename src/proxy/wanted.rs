//! The demand for what is fetched in the background, and fetches of resources that are not cached and that several
//! households asked for in vain. No client waits when such a fetch begins. The most wanted resource comes first.
//!
//! Only under overload: a slot then serves most clients if it goes to what most of them want, and a client that comes
//! back after `Retry-After` finds the answer in the cache. A household has one vote for each resource. Only known
//! endpoints: their requests carry no field of a client. [`crate::upstream::budget`] gives the turns. Callers:
//! [`super::together`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;

use crate::cache::Key;
use crate::clock::{Clock, Monotonic};
use crate::semantics::cache_status::CacheOutcome;
use crate::tasks::single_flight::{Leader, Role};
use crate::upstream::ask::AskError;
use crate::upstream::ask::Asker;
use crate::upstream::budget::{Demand, Spent};

use super::Proxy;
use super::fetch::Fetch;
use super::question::{Flight, Landing, Question, flight};

/// How many households must be refused before a resource is fetched. More than one, so that no single household can
/// spend the budget on fetches that nobody waits for.
const ENOUGH: usize = 2;
/// How long a refusal counts.
const COUNTS_FOR: Duration = Duration::from_secs(60);
/// How long such a fetch waits for its slot: longer than any slot takes to become free.
const WAITS_FOR: Duration = Duration::from_secs(120);
/// How many resources with refused households are remembered, and how many households of each.
const MOST: usize = 4096;
const MOST_HOUSEHOLDS: usize = 32;

/// For each resource that is not being fetched: the households that were refused it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Votes(Arc<Mutex<VoteTable>>);

#[derive(Debug, Default)]
struct VoteTable {
    votes: HashMap<Key, Vote>,
    /// Whether a task forgets old votes.
    is_swept: bool,
}

#[derive(Debug)]
struct Vote {
    since: Monotonic,
    households: Vec<IpAddr>,
}

impl Vote {
    fn counts(&self, now: Monotonic) -> bool {
        self.since.plus(COUNTS_FOR) > now
    }
}

impl VoteTable {
    /// The votes for a resource, to add some.
    fn of(&mut self, key: &Key, now: Monotonic) -> &mut Vote {
        if self.votes.len() >= MOST && !self.votes.contains_key(key) {
            self.votes.retain(|_, vote| vote.counts(now));
            // One household alone must not push out what several were refused.
            if self.votes.len() >= MOST {
                self.votes.retain(|_, vote| vote.households.len() >= ENOUGH);
            }
            if self.votes.len() >= MOST {
                self.votes.clear();
            }
        }
        let none = || Vote { since: now, households: Vec::new() };
        let vote = self.votes.entry(key.clone()).or_insert_with(none);
        if !vote.counts(now) {
            *vote = none();
        }
        vote
    }
}

impl Votes {
    /// These households were refused a resource. Returns whether there are enough now; they stay until they are taken.
    fn vote(&self, key: &Key, households: &[IpAddr], now: Monotonic) -> bool {
        let mut table = self.0.lock();
        let vote = table.of(key, now);
        for household in households {
            if vote.households.len() < MOST_HOUSEHOLDS && !vote.households.contains(household) {
                vote.households.push(*household);
            }
        }
        vote.households.len() >= ENOUGH
    }

    /// Takes the households that were refused a resource, which is being fetched now.
    fn take(&self, key: &Key) -> Vec<IpAddr> {
        self.0.lock().votes.remove(key).map_or_else(Vec::new, |vote| vote.households)
    }

    /// Forgets old votes from now on, in a task, until none is left. Does nothing while such a task runs.
    fn forget_old(&self, clock: &Clock) {
        if std::mem::replace(&mut self.0.lock().is_swept, true) {
            return;
        }
        let (votes, clock) = (self.clone(), clock.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(COUNTS_FOR).await;
                if !votes.sweep(clock.now_mono()) {
                    return;
                }
            }
        });
    }

    /// Forgets old votes and gives their memory back. Returns whether some are left, so that this is to be done again.
    fn sweep(&self, now: Monotonic) -> bool {
        let mut table = self.0.lock();
        table.votes.retain(|_, vote| vote.counts(now));
        table.votes.shrink_to_fit();
        table.is_swept = !table.votes.is_empty();
        table.is_swept
    }
}

impl Proxy {
    /// Refuses a read at once if its resource already waits to be fetched in the background, and this client's own
    /// place in the queue brings no slot while it waits, for at most `left`. Otherwise that fetch takes the client's
    /// place. `None`: it is not refused here.
    pub(super) fn refused_again(&self, question: &Question, key: &Key, left: Duration) -> Option<Spent> {
        let (inner, budget) = (&*self.0, self.0.upstream.origin().budget());
        let demand = inner.demands.refused(key)?;
        demand.vote(budget.household(question.client));
        budget.take_over(&demand, question.client, left)
    }

    /// A client was refused a resource of a known endpoint: it is fetched in the background if others were, too. A
    /// pause of the origin is no sign of demand.
    pub(super) fn refused(
        &self,
        spent: Spent,
        question: &Question,
        key: Key,
        names: Vec<HeaderName>,
        selectable: &HeaderMap,
    ) {
        let (inner, budget) = (&*self.0, self.0.upstream.origin().budget());
        if spent.paused || question.is_spare() || !budget.is_overloaded() {
            return;
        }
        let household = budget.household(question.client);
        if let Some(demand) = inner.demands.refused(&key) {
            demand.vote(household);
            return;
        }
        let is_enough = inner.votes.vote(&key, &[household], inner.clock.now_mono());
        if is_enough && let Role::Leader(ticket, _) = inner.flights.join(&flight(&key, &names, selectable)) {
            let fetching = inner.demands.fetching(&key, Demand::refused(inner.votes.take(&key)));
            let demand = Some(fetching.demand.clone());
            let asker = Asker { patience: Some(WAITS_FOR), demand, ..self.asker_of(question) };
            let why = CacheOutcome::Miss;
            let fetch = Fetch {
                question: question.clone(),
                key,
                names,
                is_seen: false,
                kept: None,
                unconditional: false,
                asker,
                why,
            };
            self.in_background(fetch, ticket, fetching);
        } else {
            inner.votes.forget_old(&inner.clock);
        }
    }

    /// A fetch that no client waits for yet. If it gets no slot, the households that were refused count again.
    pub(super) fn in_background(&self, fetch: Fetch, ticket: Leader<Flight, Landing>, fetching: Fetching) {
        let this = self.clone();
        tokio::spawn(async move {
            let inner = &*this.0;
            let key = fetch.key.clone();
            let fetched = this.fetch(fetch, Some(ticket), None).await;
            let demand = fetching.demand.clone();
            drop(fetching);
            // After the end of the fetch: until then others may vote.
            let households = demand.households();
            if let Err(AskError::Spent(_)) = fetched
                && !households.is_empty()
            {
                if let Some(demand) = inner.demands.refused(&key) {
                    // Another client has begun to fetch it meanwhile.
                    for household in households {
                        demand.vote(household);
                    }
                    return;
                }
                inner.votes.vote(&key, &households, inner.clock.now_mono());
                inner.votes.forget_old(&inner.clock);
            }
        });
    }
}

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
    use crate::clock::WallTime;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn one_household_wants_nothing_however_often_it_asks() {
        let (votes, key) = (Votes::default(), Key::origin("/a"));
        let at = Monotonic::from_seconds;
        assert!((0..100).all(|_| !votes.vote(&key, &[address(1)], at(100))));
        assert!(!votes.vote(&Key::origin("/b"), &[address(2)], at(100)), "another resource");
        assert!(votes.vote(&key, &[address(2)], at(159)));
        assert_eq!(votes.take(&key), [address(1), address(2)]);
        assert!(!votes.vote(&key, &[address(2)], at(160)), "counted anew");
        assert!(!votes.vote(&key, &[address(1)], at(221)), "too long ago");
    }

    /// The fetch that another client began may end without an answer.
    #[test]
    fn votes_stay_until_their_fetch_begins_and_count_again_if_it_gets_no_slot() {
        let (votes, key) = (Votes::default(), Key::origin("/a"));
        let at = Monotonic::from_seconds;
        assert!(!votes.vote(&key, &[address(1)], at(100)));
        assert!(votes.vote(&key, &[address(2)], at(101)));
        assert!(votes.vote(&key, &[address(2)], at(102)), "nobody has taken them");
        assert_eq!(votes.take(&key).len(), 2);
        assert!(votes.vote(&key, &[address(1), address(2)], at(110)));
        assert!(votes.vote(&key, &(0..200).map(address).collect::<Vec<_>>(), at(110)));
        assert_eq!(votes.take(&key).len(), MOST_HOUSEHOLDS, "and they are bounded");
    }

    #[test]
    fn votes_do_not_grow_for_ever() {
        let votes = Votes::default();
        let several = Key::origin("/several");
        votes.vote(&several, &[address(1), address(2)], Monotonic::from_seconds(100));
        for number in 0..MOST + 100 {
            votes.vote(&Key::origin(format!("/{number}")), &[address(1)], Monotonic::from_seconds(100));
            assert!(votes.0.lock().votes.len() <= MOST);
        }
        assert_eq!(votes.take(&several).len(), 2, "one household does not push it out");
        for number in 0..3 * MOST {
            let seconds = number as u64 / 100;
            votes.vote(&Key::origin(format!("/{number}")), &[address(1)], Monotonic::from_seconds(200 + seconds));
            assert!(votes.0.lock().votes.len() <= MOST);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn when_overload_is_over_the_votes_and_their_memory_are_given_back() {
        let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
        let votes = Votes::default();
        for number in 0..1000 {
            votes.vote(&Key::origin(format!("/{number}")), &[address(1)], clock.now_mono());
        }
        votes.forget_old(&clock);
        votes.forget_old(&clock);
        tokio::time::sleep(COUNTS_FOR / 2).await;
        votes.vote(&Key::origin("/late"), &[address(1)], clock.now_mono());
        tokio::time::sleep(COUNTS_FOR * 3 / 4).await;
        assert_eq!(votes.0.lock().votes.len(), 1, "the late one still counts");
        tokio::time::sleep(COUNTS_FOR).await;
        assert_eq!(votes.0.lock().votes.capacity(), 0);
        // The next overload begins anew.
        votes.vote(&Key::origin("/a"), &[address(1)], clock.now_mono());
        votes.forget_old(&clock);
        tokio::time::sleep(2 * COUNTS_FOR).await;
        assert_eq!(votes.0.lock().votes.capacity(), 0);
    }
}

#[cfg(test)]
mod demand_tests {
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
