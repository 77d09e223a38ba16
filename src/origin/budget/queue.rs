//! Queue of the requests that wait for a slot, ordered so that the next of each kind is found.
//!
//! Pure. It does not decide which kind is next ([`super::state`]). What looks at each waiting read is bounded by how many
//! may wait. Callers: [`super::state`], [`super::dispatch`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use crate::clock::Monotonic;

use super::super::window::Class;

/// How many reads with a waiting client there may be, and how many that clients got stale, or were refused; and of one
/// household.
pub(super) const MOST_AWAITED: usize = 4096;
pub(super) const MOST_WANTED: usize = 1024;
const MOST_OF_ONE: usize = 256;
/// So many turns of households are remembered at least, and twice as many at most.
const MOST_TURNS: u64 = 4096;
/// How many households are told apart that want a resource: half a million addresses at worst, with [`MOST_WANTED`] of
/// both kinds.
const MOST_HOUSEHOLDS: usize = 256;
/// How many households must be refused a resource before it is fetched without a client that waits: no single household
/// can spend the budget on such fetches.
const ENOUGH: usize = 2;

/// A request that waits for a slot.
#[derive(Clone, Debug)]
pub(in crate::origin) struct Waiting {
    pub class: Class,
    /// The household of the client that waits, or asked first, for [`Class::Client`].
    pub client: Option<IpAddr>,
    /// Who wants it, if no client waits for it.
    pub wanted: Option<Wanted>,
    pub until: Option<Monotonic>,
}

/// The demand for a resource that clients got stale, or were refused.
#[derive(Clone, Debug)]
pub(in crate::origin) struct Wanted {
    pub households: HashSet<IpAddr>,
    pub is_refused: bool,
    /// When it was wanted first.
    pub since: Monotonic,
}

impl Wanted {
    fn is_enough(&self) -> bool {
        !self.is_refused || self.households.len() >= ENOUGH
    }

    /// How much a fresh copy is worth: the households that want it, times those that come a second. So a popular resource
    /// goes before one that has only waited longer.
    fn worth(&self, now: Monotonic) -> u64 {
        let many = self.households.len() as u64;
        many * many * 1_000 / (now.since(self.since).as_secs() + 1)
    }
}

/// The queue. Tickets count up: first come, first served within a class and a household.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<u64, Waiting>,
    last_ticket: u64,
    /// Tickets of each class but [`Class::Client`].
    mirror: [BTreeSet<u64>; Class::ALL.len()],
    /// Tickets of reads that no client waits for, but of those that too few households were refused.
    wanted: BTreeSet<u64>,
    /// Tickets of reads that a client waits for, by household.
    awaited: HashMap<Option<IpAddr>, BTreeSet<u64>>,
    served: HashMap<IpAddr, u64>,
    /// Turns given. Not tickets: a household with many old ones would have every turn until they are used.
    turns: u64,
}

impl Queue {
    /// Adds a request at the end; returns its ticket.
    pub(super) fn push(&mut self, waiting: Waiting) -> u64 {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        match (waiting.class, &waiting.wanted) {
            (Class::Client, None) => self.awaited.entry(waiting.client).or_default().insert(ticket),
            (Class::Client, Some(wanted)) => wanted.is_enough() && self.wanted.insert(ticket),
            (class, _) => self.mirror[class as usize].insert(ticket),
        };
        self.waiting.insert(ticket, waiting);
        ticket
    }

    /// Removes a request; `None` when it had left before.
    pub(super) fn remove(&mut self, ticket: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&ticket)?;
        self.wanted.remove(&ticket);
        self.mirror[waiting.class as usize].remove(&ticket);
        if let Some(reads) = self.awaited.get_mut(&waiting.client) {
            reads.remove(&ticket);
            if reads.is_empty() {
                self.awaited.remove(&waiting.client);
            }
        }
        Some(waiting)
    }

    /// A household had its turn: it comes after all others now.
    pub(super) fn had_turn(&mut self, client: IpAddr) {
        self.turns += 1;
        self.served.insert(client, self.turns);
        if self.served.len() as u64 > 2 * MOST_TURNS {
            let turns = self.turns;
            self.served.retain(|_, turn| turns - *turn < MOST_TURNS);
        }
    }

    fn last_turn(&self, client: Option<IpAddr>) -> u64 {
        client.and_then(|client| self.served.get(&client)).copied().unwrap_or(0)
    }

    /// The first request of a class other than [`Class::Client`].
    pub(super) fn first_of(&self, class: Class) -> Option<u64> {
        self.mirror[class as usize].first().copied()
    }

    /// The first awaited read of the household whose last turn was longest ago, of those that may have one.
    pub(super) fn first_awaited(&self, may: impl Fn(Option<IpAddr>) -> bool) -> Option<u64> {
        let households = self.awaited.iter().filter(|(client, _)| may(**client));
        let first = households.filter_map(|(client, reads)| Some((self.last_turn(*client), *reads.first()?)));
        first.min().map(|(_, ticket)| ticket)
    }

    /// The awaited reads as they have their turns, if no other comes: one of each household in each round.
    pub(super) fn awaited_in_turn(&self) -> Vec<u64> {
        let households = self.awaited.iter();
        let mut households: Vec<_> =
            households.map(|(client, reads)| (self.last_turn(*client), reads.first().copied(), reads)).collect();
        households.sort_unstable_by_key(|(turn, first, _)| (*turn, *first));
        let rounds = |(place, (.., reads)): (usize, &(u64, Option<u64>, &BTreeSet<u64>))| {
            reads.iter().enumerate().map(|(round, ticket)| (round, place, *ticket)).collect::<Vec<_>>()
        };
        let mut order: Vec<_> = households.iter().enumerate().flat_map(rounds).collect();
        order.sort_unstable();
        order.into_iter().map(|(.., ticket)| ticket).collect()
    }

    /// How many awaited reads have their turn before a further one of a household.
    pub(super) fn before(&self, client: Option<IpAddr>) -> usize {
        let own = self.awaited.get(&client);
        let (many, first) = own.map_or((0, None), |reads| (reads.len(), reads.first().copied()));
        let turn = (self.last_turn(client), first.unwrap_or(u64::MAX));
        let before = |(other, reads): (&Option<IpAddr>, &BTreeSet<u64>)| {
            let is_before = (self.last_turn(*other), reads.first().copied().unwrap_or(u64::MAX)) < turn;
            reads.len().min(many + usize::from(is_before))
        };
        self.awaited.iter().map(before).sum()
    }

    /// The read that is worth most, of those that no client waits for; the oldest of several. `is_refused`: of those that
    /// clients were refused.
    pub(super) fn most_wanted(&self, is_refused: bool, now: Monotonic) -> Option<u64> {
        let wanted =
            self.wanted.iter().filter_map(|ticket| Some((*ticket, self.waiting.get(ticket)?.wanted.as_ref()?)));
        let wanted = wanted.filter(|(_, wanted)| wanted.is_refused || !is_refused);
        let most = wanted.max_by_key(|(ticket, wanted)| (wanted.worth(now), Reverse(*ticket)));
        most.map(|(ticket, _)| ticket)
    }

    /// Whether awaited reads go before those that no client waits for, because one of them came before these: none of these
    /// makes it later than it was when it came.
    pub(super) fn is_awaited_first(&self) -> bool {
        let oldest = self.awaited.values().filter_map(BTreeSet::first).min();
        oldest.is_some_and(|awaited| self.wanted.first().is_none_or(|wanted| awaited < wanted))
    }

    /// One more household wants what this read is for, unless its turn has come. A household counts once.
    pub(super) fn vote(&mut self, ticket: u64, household: IpAddr) {
        let wanted = self.waiting.get_mut(&ticket).and_then(|one| one.wanted.as_mut());
        if let Some(wanted) = wanted.filter(|wanted| wanted.households.len() < MOST_HOUSEHOLDS) {
            wanted.households.insert(household);
            if wanted.is_enough() {
                self.wanted.insert(ticket);
            }
        }
    }

    /// Whether as many reads of its kind wait as may wait, in all or for its household. Each kind has its own bounds:
    /// reads that nobody waits for must not push out those that a client waits for. The mirror's own requests are not
    /// bounded, so clients cannot lock them out.
    pub(super) fn is_full_for(&self, waiting: &Waiting) -> bool {
        let (most, all, own) = match &waiting.wanted {
            _ if waiting.class != Class::Client => return false,
            None => (MOST_AWAITED, self.awaited(), self.awaited.get(&waiting.client).map_or(0, BTreeSet::len)),
            Some(Wanted { is_refused, .. }) => {
                let is_same = |one: &&Waiting| one.wanted.as_ref().is_some_and(|one| one.is_refused == *is_refused);
                let same = || self.waiting.values().filter(is_same);
                (MOST_WANTED, same().count(), same().filter(|one| one.client == waiting.client).count())
            }
        };
        all >= most || own >= MOST_OF_ONE
    }

    /// Whose request it is, and when its patience ends; `None`: never, or it has left.
    pub(super) fn patience(&self, ticket: u64) -> Option<(Option<IpAddr>, Monotonic)> {
        self.waiting.get(&ticket).and_then(|one| Some((one.client, one.until?)))
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many reads a client waits for.
    pub(super) fn awaited(&self) -> usize {
        self.awaited.values().map(BTreeSet::len).sum()
    }

    /// How many reads that no client waits for may have a turn.
    pub(super) fn behind(&self) -> usize {
        self.wanted.len()
    }

    /// Tickets of the requests that give up before `instant`.
    pub(super) fn gone_by(&self, instant: Monotonic) -> Vec<u64> {
        let gone = self.waiting.iter().filter(|(_, one)| one.until.is_some_and(|until| until < instant));
        gone.map(|(ticket, _)| *ticket).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Monotonic = Monotonic::from_seconds(1);

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    fn read(client: u32) -> Waiting {
        Waiting { class: Class::Client, client: Some(address(client)), wanted: None, until: None }
    }

    fn wanted(households: std::ops::Range<u32>, is_refused: bool) -> Waiting {
        let (households, since) = (households.map(address).collect(), NOW);
        Waiting { wanted: Some(Wanted { households, is_refused, since }), ..read(0) }
    }

    #[test]
    fn turns_are_remembered_without_growing_for_ever() {
        let mut queue = Queue::default();
        for number in 0..30_000 {
            queue.had_turn(address(number));
            assert!(queue.served.len() as u64 <= 2 * MOST_TURNS);
        }
        let first = queue.push(read(30_000 - MOST_TURNS as u32));
        let other = queue.push(read(29_999));
        assert_eq!(
            (queue.first_awaited(|_| true), queue.awaited_in_turn()),
            (Some(first), vec![first, other]),
            "the latest stay"
        );
    }

    proptest! {
        /// The predicted order comes true if no other read comes.
        #[test]
        fn reads_have_their_turns_in_the_order_that_is_foretold(
            turns in proptest::collection::vec(0_u32..5, 0..8),
            reads in proptest::collection::vec(0_u32..6, 1..30),
            leaves in proptest::collection::vec(1_u64..30, 0..5),
        ) {
            let mut queue = Queue::default();
            for client in &turns {
                queue.had_turn(address(*client));
            }
            let (last, others) = reads.split_last().unwrap();
            for client in others {
                queue.push(read(*client));
            }
            for ticket in &leaves {
                queue.remove(*ticket);
            }
            let before = queue.before(Some(address(*last)));
            let new = queue.push(read(*last));
            let (foretold, mut order) = (queue.awaited_in_turn(), Vec::new());
            prop_assert_eq!(queue.awaited(), queue.len());
            while let Some(ticket) = queue.first_awaited(|_| true) {
                let client = queue.remove(ticket).unwrap().client.unwrap();
                queue.had_turn(client);
                order.push(ticket);
            }
            prop_assert_eq!(order.iter().position(|ticket| *ticket == new), Some(before));
            prop_assert_eq!(&order, &foretold);
            prop_assert_eq!(queue.len(), 0);
        }
    }

    #[test]
    fn what_most_households_want_is_first_and_what_one_alone_was_refused_waits() {
        let mut queue = Queue::default();
        let tickets: Vec<u64> =
            [wanted(0..3, false), wanted(0..9, false), wanted(0..9, false), wanted(0..2, true), wanted(0..1, true)]
                .into_iter()
                .map(|one| queue.push(one))
                .collect();
        assert_eq!(queue.behind(), 4);
        assert_eq!((queue.most_wanted(false, NOW), queue.most_wanted(true, NOW)), (Some(tickets[1]), Some(tickets[3])));
        (0..9).for_each(|_| queue.vote(tickets[4], address(0)));
        assert_eq!(queue.behind(), 4, "a household counts once, however often it asks");
        (1..20).for_each(|household| queue.vote(tickets[4], address(household)));
        assert_eq!((queue.most_wanted(false, NOW), queue.most_wanted(true, NOW)), (Some(tickets[4]), Some(tickets[4])));
        (0..1_000).for_each(|household| queue.vote(tickets[0], address(household)));
        assert_eq!(queue.waiting[&tickets[0]].wanted.as_ref().unwrap().households.len(), MOST_HOUSEHOLDS);
        queue.remove(tickets[4]);
        queue.vote(tickets[4], address(1));
        assert_eq!((queue.len(), queue.most_wanted(true, NOW)), (4, Some(tickets[3])));
    }
}
