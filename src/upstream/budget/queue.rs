//! The requests that wait for a slot, ordered so that the next of each kind is found directly; and how much clients want
//! a resource that is fetched in the background.
//!
//! Pure: time is an argument. It does not decide which kind is next ([`super::choice`]). Callers: [`super::state`];
//! [`crate::proxy`] counts demand.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::clock::Monotonic;

use super::super::window::Class;

/// How many households without waiting reads are remembered for their last turn.
const MOST_IDLE: usize = 4096;

/// A request that waits for a slot.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Waiting {
    /// What the slot is for.
    pub class: Class,
    /// The household of the client that waits, for [`Class::Client`].
    pub client: Option<IpAddr>,
    /// How much clients want it, if none of them waits because each got a stale answer or 503.
    pub demand: Option<Demand>,
    /// When its patience ends, if ever.
    pub until: Option<Monotonic>,
}

/// The queue. Tickets count up: first come, first served within a class and a household.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<u64, Waiting>,
    last_ticket: u64,
    /// Tickets of each class but [`Class::Client`].
    mirror: [BTreeSet<u64>; Class::ALL.len()],
    /// How many reads have a waiting client.
    awaited: usize,
    /// Reads behind a stale answer.
    stale: BTreeSet<u64>,
    /// Reads of what is not cached and nobody waits for: clients were refused.
    wanted: BTreeSet<u64>,
    /// When awaited reads get their slots, as they were promised; in order of time, too.
    promised: HashMap<u64, Monotonic>,
    promises: BTreeSet<(Monotonic, u64)>,
    /// Reads that a client has taken over, by the end of its patience.
    taken_over: BTreeSet<(Monotonic, u64)>,
    households: HashMap<Option<IpAddr>, Household>,
    /// Households with an awaited read: by their last turn, then by their first ticket.
    order: BTreeSet<(u64, u64, Option<IpAddr>)>,
    /// Households without waiting reads, by their last turn.
    idle: BTreeSet<(u64, Option<IpAddr>)>,
    /// Turns given. Not tickets: a household with many old ones would have every turn until they are used.
    turns: u64,
}

#[derive(Debug, Default)]
struct Household {
    /// When it last had its turn; 0: never.
    turn: u64,
    /// Tickets of its awaited reads.
    awaited: BTreeSet<u64>,
    /// All of its waiting reads. What clients were refused has no household.
    reads: usize,
}

impl Queue {
    /// Adds a request at the end; returns its ticket.
    pub(super) fn push(&mut self, waiting: Waiting) -> u64 {
        self.last_ticket += 1;
        self.put(self.last_ticket, waiting);
        self.last_ticket
    }

    /// Adds a request in the place of one that was removed.
    pub(super) fn put(&mut self, ticket: u64, waiting: Waiting) {
        if waiting.class == Class::Client {
            let awaited = waiting.demand.is_none();
            match &waiting.demand {
                None => self.awaited += 1,
                Some(demand) => {
                    let others = if demand.is_refused() { &mut self.wanted } else { &mut self.stale };
                    others.insert(ticket);
                }
            }
            self.with_household(waiting.client, |household| {
                household.reads += 1;
                if awaited {
                    household.awaited.insert(ticket);
                }
            });
        } else {
            self.mirror[waiting.class as usize].insert(ticket);
        }
        self.waiting.insert(ticket, waiting);
    }

    /// Adds the read of a client in the place of one that was removed. [`Queue::gone`] finds it when the patience of the
    /// client has ended: the task that holds the ticket has more.
    pub(super) fn take_over(&mut self, ticket: u64, waiting: Waiting) {
        self.taken_over.extend(waiting.until.map(|until| (until, ticket)));
        self.put(ticket, waiting);
    }

    /// Removes a request; `None` when it had left before.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&ticket)?;
        if waiting.class == Class::Client {
            self.awaited -= usize::from(waiting.demand.is_none());
            self.stale.remove(&ticket);
            self.wanted.remove(&ticket);
            if let Some(at) = self.promised.remove(&ticket) {
                self.promises.remove(&(at, ticket));
            }
            if let Some(until) = waiting.until {
                self.taken_over.remove(&(until, ticket));
            }
            self.with_household(waiting.client, |household| {
                household.reads = household.reads.saturating_sub(1);
                household.awaited.remove(&ticket);
            });
        } else {
            self.mirror[waiting.class as usize].remove(&ticket);
        }
        Some(waiting)
    }

    /// A household had its turn: it comes after all others now.
    pub(super) fn had_turn(&mut self, client: IpAddr) {
        self.turns += 1;
        let turn = self.turns;
        self.with_household(Some(client), |household| household.turn = turn);
    }

    /// The first request of a class other than [`Class::Client`].
    pub(super) fn first_of(&self, class: Class) -> Option<u64> {
        self.mirror[class as usize].first().copied()
    }

    /// The first request of all.
    pub(super) fn first(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(ticket, _)| *ticket)
    }

    /// The first awaited read of the household whose last turn was longest ago.
    pub(super) fn first_awaited(&self) -> Option<u64> {
        self.order.first().map(|(_, ticket, _)| *ticket)
    }

    /// The stale read that is worth most now, the oldest of several.
    pub(super) fn most_wanted(&self, now: Monotonic) -> Option<u64> {
        self.stale.iter().rev().max_by_key(|ticket| self.demand(**ticket).map(|demand| demand.worth(now))).copied()
    }

    /// The stale read that has waited longest.
    pub(super) fn oldest_stale(&self) -> Option<u64> {
        self.stale.first().copied()
    }

    /// The read that most households were refused, the oldest of several.
    pub(super) fn most_refused(&self) -> Option<u64> {
        self.wanted.iter().rev().max_by_key(|ticket| self.demand(**ticket).map(Demand::votes)).copied()
    }

    /// The read that fewest households were refused, the latest of several, and how many they are.
    pub(super) fn least_refused(&self) -> Option<(u64, u32)> {
        let votes = self.wanted.iter().filter_map(|ticket| Some((*ticket, self.demand(*ticket)?.votes())));
        votes.min_by_key(|(ticket, votes)| (*votes, std::cmp::Reverse(*ticket)))
    }

    /// The waiting read of what clients were refused, by its demand.
    pub(super) fn wanted_for(&self, demand: &Demand) -> Option<u64> {
        self.wanted.iter().find(|ticket| self.demand(**ticket).is_some_and(|own| own.is(demand))).copied()
    }

    /// How many waiting reads were refused to more than `votes` households.
    pub(super) fn refused_more(&self, votes: u32) -> usize {
        self.wanted.iter().filter(|ticket| self.demand(**ticket).is_some_and(|demand| demand.votes() > votes)).count()
    }

    fn demand(&self, ticket: u64) -> Option<&Demand> {
        self.waiting.get(&ticket).and_then(|one| one.demand.as_ref())
    }

    /// When the patience of a request ends; `None`: never, or it has left.
    pub(super) fn until(&self, ticket: u64) -> Option<Monotonic> {
        self.waiting.get(&ticket).and_then(|one| one.until)
    }

    /// All awaited reads in the order of their turns, if no other comes.
    pub(super) fn in_turn(&self) -> Vec<u64> {
        let first = self.order.iter().filter_map(|(_, _, client)| self.households.get(client));
        let mut households: Vec<_> = first.map(|household| household.awaited.iter()).collect();
        let mut all = Vec::with_capacity(self.awaited);
        while !households.is_empty() {
            households.retain_mut(|tickets| tickets.next().map(|ticket| all.push(*ticket)).is_some());
        }
        all
    }

    /// How many households without a waiting read had their last turn before this one, at most `most`.
    pub(super) fn idle_before(&self, client: Option<IpAddr>, most: usize) -> usize {
        let turn = self.households.get(&client).map_or(0, |household| household.turn);
        self.idle.range(..(turn, None)).take(most).count()
    }

    /// Remembers when an awaited read gets its slot.
    pub(super) fn promise(&mut self, ticket: u64, at: Monotonic) {
        if let Some(before) = self.promised.insert(ticket, at) {
            self.promises.remove(&(before, ticket));
        }
        self.promises.insert((at, ticket));
    }

    /// The earliest instant that an awaited read was promised.
    pub(super) fn first_promise(&self) -> Option<Monotonic> {
        self.promises.first().map(|(at, _)| *at)
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many client reads wait.
    pub(super) fn clients(&self) -> usize {
        self.awaited + self.stale.len() + self.wanted.len()
    }

    /// How many of them a client waits for.
    pub(super) const fn awaited(&self) -> usize {
        self.awaited
    }

    /// How many are behind a stale answer.
    pub(super) fn stale(&self) -> usize {
        self.stale.len()
    }

    /// How many are for what clients were refused.
    pub(super) fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// How many reads of one household wait with a client, and how many behind a stale answer.
    pub(super) fn reads_of(&self, client: Option<IpAddr>) -> (usize, usize) {
        let household = self.households.get(&client);
        household.map_or((0, 0), |household| (household.awaited.len(), household.reads - household.awaited.len()))
    }

    /// Tickets of those whose patience ends before `instant`.
    pub(super) fn gone_by(&self, instant: Monotonic) -> Vec<u64> {
        let gone = self.waiting.iter().filter(|(_, one)| one.until.is_some_and(|until| until < instant));
        gone.map(|(ticket, _)| *ticket).collect()
    }

    /// The earliest end of the patience of clients that have taken a read over.
    pub(super) fn next_gone(&self) -> Option<Monotonic> {
        self.taken_over.first().map(|(until, _)| *until)
    }

    /// The ticket of a read that a client has taken over whose patience has ended.
    pub(super) fn gone(&self, now: Monotonic) -> Option<u64> {
        self.taken_over.first().filter(|(until, _)| *until < now).map(|(_, ticket)| *ticket)
    }

    /// Changes a household, then its place in the order.
    fn with_household(&mut self, client: Option<IpAddr>, change: impl FnOnce(&mut Household)) {
        let household = self.households.entry(client).or_default();
        match household.awaited.first() {
            Some(first) => self.order.remove(&(household.turn, *first, client)),
            None => self.idle.remove(&(household.turn, client)),
        };
        change(household);
        if let Some(first) = household.awaited.first() {
            self.order.insert((household.turn, *first, client));
        } else if household.reads == 0 && household.turn == 0 {
            self.households.remove(&client);
        } else if household.reads == 0 {
            self.idle.insert((household.turn, client));
            if self.idle.len() > MOST_IDLE
                && let Some((_, longest)) = self.idle.pop_first()
            {
                self.households.remove(&longest);
            }
        }
    }
}

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
    use proptest::prelude::*;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn read(client: u8, until: Option<u64>, demand: Option<Demand>) -> Waiting {
        let until = until.map(Monotonic::from_seconds);
        Waiting { class: Class::Client, client: Some(address(client)), demand, until }
    }

    #[test]
    fn households_are_remembered_without_growing_for_ever() {
        let mut queue = Queue::default();
        for number in 0..10_000_u32 {
            let ticket =
                queue.push(Waiting { client: Some(IpAddr::from(number.to_be_bytes())), ..read(0, None, None) });
            queue.remove(ticket);
            queue.had_turn(IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!((queue.households.len(), queue.idle.len(), queue.order.len()), (MOST_IDLE, MOST_IDLE, 0));
        assert!(queue.households.contains_key(&Some(IpAddr::from(9_999_u32.to_be_bytes()))), "the latest stay");
        let only_looked = Waiting { client: Some(IpAddr::from([9, 9, 9, 9])), ..read(0, None, None) };
        let ticket = queue.push(only_looked);
        queue.remove(ticket);
        assert_eq!(queue.households.len(), MOST_IDLE, "who never had a turn is forgotten at once");
    }

    proptest! {
        /// The kept order is the order that a look at everybody finds.
        #[test]
        fn the_next_one_is_the_one_that_a_look_at_everybody_finds(
            steps in proptest::collection::vec((0_u8..6, 1_u8..5, 0_u64..50), 1..200),
        ) {
            let mut queue = Queue::default();
            let (mut turns, mut served) = (0_u64, HashMap::new());
            for (what, client, number) in steps {
                let tickets: Vec<u64> = queue.waiting.keys().copied().collect();
                let some = tickets.get(number as usize % tickets.len().max(1)).copied();
                match what {
                    0 | 1 => drop(queue.push(read(client, (number > 9).then_some(number), None))),
                    2 => {
                        let demand = Demand::default();
                        (0..number % 7).for_each(|last| demand.vote(address(last as u8)));
                        queue.push(read(client, Some(number), Some(demand)));
                    }
                    3 if number % 2 == 0 => {
                        let households = (0..number % 5).map(|last| address(last as u8));
                        queue.push(read(client, Some(number), Some(Demand::refused(households))));
                    }
                    3 => drop(queue.push(Waiting { class: Class::Crawl, client: None, ..read(0, None, None) })),
                    4 => drop(some.and_then(|ticket| queue.remove(ticket))),
                    _ => {
                        turns += 1;
                        served.insert(address(client), turns);
                        queue.had_turn(address(client));
                    }
                }
                let clients = || queue.waiting.iter().filter(|(_, one)| one.class == Class::Client);
                let turn = |one: &(&u64, &Waiting)| (one.1.client.and_then(|c| served.get(&c)).copied().unwrap_or(0), *one.0);
                let awaited = clients().filter(|(_, one)| one.demand.is_none()).min_by_key(turn).map(|(ticket, _)| *ticket);
                prop_assert_eq!(queue.first_awaited(), awaited);
                let now = Monotonic::from_seconds(0);
                let is_refused = |one: &Waiting| one.demand.as_ref().map(Demand::is_refused);
                let worth = |one: &(&u64, &Waiting)| (one.1.demand.as_ref().map(|demand| demand.worth(now)), std::cmp::Reverse(*one.0));
                let stale = clients().filter(|(_, one)| is_refused(one) == Some(false)).max_by_key(worth).map(|(ticket, _)| *ticket);
                prop_assert_eq!(queue.most_wanted(now), stale);
                let votes = |one: &(&u64, &Waiting)| (one.1.demand.as_ref().map(Demand::votes), std::cmp::Reverse(*one.0));
                let refused = clients().filter(|(_, one)| is_refused(one) == Some(true)).max_by_key(votes).map(|(ticket, _)| *ticket);
                prop_assert_eq!(queue.most_refused(), refused);
                prop_assert_eq!(queue.in_turn().first().copied(), awaited);
                prop_assert_eq!(queue.in_turn().len(), queue.awaited());
                prop_assert_eq!(queue.clients(), clients().count());
                let own = |is_awaited: bool| {
                    let own = clients().filter(|(_, one)| one.client == Some(address(client)));
                    own.filter(|(_, one)| one.demand.is_none() == is_awaited).count()
                };
                prop_assert_eq!(queue.reads_of(Some(address(client))), (own(true), own(false)));
                let least = clients().filter(|(_, one)| is_refused(one) == Some(true)).min_by_key(votes);
                prop_assert_eq!(queue.least_refused().map(|(ticket, _)| ticket), least.map(|(ticket, _)| *ticket));
                prop_assert_eq!(queue.first(), queue.waiting.keys().next().copied());
            }
        }
    }

    fn household(number: u16) -> IpAddr {
        IpAddr::from([10, 0, (number / 256) as u8, number as u8])
    }

    #[test]
    fn a_household_has_one_vote_however_often_it_asks() {
        let stale = Demand::stale(Monotonic::from_seconds(1));
        (1..=2).for_each(|number| stale.vote(household(number)));
        for demand in [Demand::refused([household(1), household(2)]), stale] {
            (0..100).for_each(|_| demand.vote(household(1)));
            assert_eq!(demand.votes(), 2);
            demand.vote(household(3));
            assert_eq!(demand.votes(), 3);
        }
    }

    #[test]
    fn households_are_bounded_and_a_stale_resource_that_more_want_is_worth_more() {
        let (refused, stale) = (Demand::refused([]), Demand::stale(Monotonic::from_seconds(1)));
        for demand in [&refused, &stale] {
            (0..1_000).for_each(|number| demand.vote(household(number)));
            assert_eq!(demand.0.households.lock().len(), MOST_VOTES);
            // One that was counted is not counted again.
            (0..1_000).for_each(|_| demand.vote(household(1)));
        }
        assert_eq!((refused.votes(), stale.votes()), (MOST_VOTES as u32, 1_000));
    }

    #[test]
    fn a_popular_resource_is_worth_more_than_one_that_has_waited_longer() {
        let at = Monotonic::from_seconds;
        let (popular, old) = (Demand::stale(at(140)), Demand::stale(at(100)));
        (0..24).for_each(|number| popular.vote(household(number)));
        (0..40).for_each(|number| old.vote(household(number)));
        assert!(popular.worth(at(143)) > old.worth(at(143)), "8 a second for 3 s, 1 a second for 40 s");
        // One household that hammers the old one changes nothing.
        (0..10_000).for_each(|_| old.vote(household(1)));
        assert!(popular.worth(at(143)) > old.worth(at(143)));
    }
}
