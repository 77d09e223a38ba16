//! Shares of the budget: a seeded simulation in which everybody wants more than there is.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::clock::Monotonic;
use crate::origin::budget::*;

/// Milliseconds of one step.
const STEP: u64 = 100;
const MINUTE: u64 = 60_000;
/// Slots of the window.
const LIMIT: usize = 60;
/// The client with a hundred waiting reads, neighbours with some, and one that asks again only after each answer.
const GREEDY: u8 = 1;
const NEIGHBOURS: [u8; 2] = [2, 3];
const PATIENT: u8 = 4;

fn at(ms: u64) -> Monotonic {
    Monotonic::from_nanos(ms * 1_000_000)
}

/// One request that was granted.
#[derive(Clone, Copy, Debug)]
struct Granted {
    ms: u64,
    class: Class,
    client: Option<u8>,
    waited: u64,
}

/// The budget, its users, and what they got.
struct Simulation {
    state: BudgetState,
    rng: StdRng,
    now: u64,
    /// Each waiting ticket, and since when.
    waiting: BTreeMap<u64, (Class, Option<u8>, u64)>,
    /// How many tickets of each kind wait.
    many: BTreeMap<(Class, Option<u8>), usize>,
    /// Ends of requests on the wire, with their slots.
    wire: Vec<(u64, usize, Class, Option<u8>)>,
    granted: Vec<Granted>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let state = BudgetState::new(Some(Window::new(LIMIT)), None, Duration::ZERO, Monotonic::from_nanos(0));
        let rng = StdRng::seed_from_u64(seed);
        Self {
            state,
            rng,
            now: 1,
            waiting: BTreeMap::new(),
            many: BTreeMap::new(),
            wire: Vec::new(),
            granted: Vec::new(),
        }
    }

    fn ask(&mut self, class: Class, client: Option<u8>) {
        let address = client.map(|last| IpAddr::from([10, 0, 0, last]));
        let ticket = self.state.queue.push(Waiting { class, client: address, wanted: None, until: None });
        self.waiting.insert(ticket, (class, client, self.now));
        *self.many.entry((class, client)).or_default() += 1;
    }

    /// Keeps `many` of a kind waiting; `with_wire` counts those on the wire, too.
    fn keep(&mut self, class: Class, client: Option<u8>, many: usize, with_wire: bool) {
        let waiting = self.many.get(&(class, client)).copied().unwrap_or_default();
        let wire = self.wire.iter().filter(|one| with_wire && (one.2, one.3) == (class, client)).count();
        for _ in waiting + wire..many {
            self.ask(class, client);
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        let window = self.state.window.as_mut().unwrap();
        self.wire.retain(|&(end, slot, ..)| {
            if end <= now {
                window.answered(slot, at(end), true);
            }
            end > now
        });
        while let Some((lane, ticket)) = self.state.chosen(at(now)) {
            let slot = self.state.give((lane, ticket), at(now)).unwrap();
            let (class, client, since) = self.waiting.remove(&ticket).unwrap();
            *self.many.get_mut(&(class, client)).unwrap() -= 1;
            self.wire.push((now + self.rng.random_range(20..800), slot, class, client));
            self.granted.push(Granted { ms: now, class, client, waited: now - since });
        }
        let refresh_waits = self.state.queue.first_of(Class::Refresh).is_some();
        let free = self.state.window.as_mut().unwrap().free(at(now));
        assert!(!refresh_waits || free == 0, "a refresh waits although {free} slots are free");
    }

    /// The fewest and most grants in any `minutes` between `from` and `to`.
    fn extremes(&self, minutes: u64, from: u64, to: u64, counted: impl Fn(&Granted) -> bool) -> (usize, usize) {
        let times: Vec<u64> = self.granted.iter().filter(|one| counted(one)).map(|one| one.ms).collect();
        let starts = (from..to.saturating_sub(minutes * MINUTE)).step_by(500);
        let counts = starts.map(|start| {
            let (low, high) = (start, start + minutes * MINUTE);
            times.partition_point(|ms| *ms < high) - times.partition_point(|ms| *ms < low)
        });
        let (least, most) = counts.fold((usize::MAX, 0), |(least, most), count| (least.min(count), most.max(count)));
        (least, most)
    }

    fn shares(&self, from: u64, to: u64) -> BTreeMap<u8, usize> {
        let mut shares = BTreeMap::new();
        for one in self.granted.iter().filter(|one| (from..to).contains(&one.ms)) {
            if let Some(client) = one.client {
                *shares.entry(client).or_default() += 1;
            }
        }
        shares
    }

    /// Everybody wants more than there is; with or without crawl, details and clients.
    fn run(&mut self, minutes: u64, crawls: bool, details: bool, clients: bool) {
        let end = self.now + minutes * MINUTE;
        self.state.crawl_work = usize::from(crawls || details);
        while self.now < end {
            if self.now % (3 * MINUTE) < STEP {
                self.keep(Class::Refresh, None, 5, true);
            }
            if clients {
                self.keep(Class::Client, Some(GREEDY), 100, false);
                self.keep(Class::Client, Some(PATIENT), 1, true);
                for client in NEIGHBOURS {
                    self.keep(Class::Client, Some(client), 15, false);
                }
            }
            if crawls {
                self.keep(Class::Crawl, None, 6, true);
            }
            if details {
                self.keep(Class::Details, None, 8, true);
            }
            self.keep(Class::Background, None, 2, true);
            self.step();
        }
    }
}

#[test]
fn clients_take_three_quarters_and_a_crawl_the_rest_but_what_is_kept_for_a_refresh() {
    for seed in 0..4 {
        let mut simulation = Simulation::new(seed);
        simulation.run(60, true, false, true);
        let settled = 3 * MINUTE;
        let of = |class: Class| simulation.extremes(1, settled, simulation.now, |one| one.class == class);
        let (_, clients) = of(Class::Client);
        assert!(clients <= LIMIT * 3 / 4, "clients had {clients} in a minute");
        // A quarter, less the five slots that a refresh has or may want: grants come in bursts a little more than a
        // minute apart, five of them in any six minutes.
        let rest = |one: &Granted| matches!(one.class, Class::Crawl | Class::Background);
        let (rest, _) = simulation.extremes(6, settled, simulation.now, rest);
        assert!(rest >= 5 * (LIMIT / 4 - 5), "crawl and background checks had only {rest} in six minutes");
        let (_, background) = of(Class::Background);
        assert!(background <= LIMIT / 10, "background checks had {background} in a minute");
        let (crawl, _) = simulation.extremes(6, settled, simulation.now, |one| one.class == Class::Crawl);
        assert!(crawl >= 5 * 3, "the crawl had only {crawl} in six minutes");
        let (_, all) = simulation.extremes(1, settled, simulation.now, |_| true);
        assert!(all <= LIMIT, "{all} in a minute");
    }
}

#[test]
fn every_client_has_its_turn_however_many_reads_another_one_has_waiting() {
    for seed in 0..4 {
        let mut simulation = Simulation::new(seed);
        simulation.run(60, true, false, true);
        let shares = simulation.shares(3 * MINUTE, simulation.now);
        let [greedy, one, other] = [GREEDY, NEIGHBOURS[0], NEIGHBOURS[1]].map(|client| shares[&client]);
        assert!(one * 100 >= greedy * 97 && other * 100 >= greedy * 97, "{shares:?}");
        // It does not queue while its answer is on the way, so it misses turns, but never two windows.
        assert!(shares[&PATIENT] * 4 >= greedy, "{shares:?}");
        let waited = |client: u8| {
            let own = simulation.granted.iter().filter(move |one| one.client == Some(client));
            own.map(|one| one.waited)
        };
        let longest = waited(PATIENT).max().unwrap();
        assert!(longest <= MINUTE + 2_000, "the patient client waited {longest} ms");
        // A hundred reads at the greedy client's share, plus 3 minutes.
        let longest = waited(GREEDY).max().unwrap();
        assert!(longest <= (100 / (45 / 4) + 3) * MINUTE, "a read of the greedy client waited {longest} ms");
    }
}

#[test]
fn nobody_waits_for_ever_when_the_crawl_is_done() {
    for seed in 0..4 {
        let mut simulation = Simulation::new(seed);
        simulation.run(20, true, false, true);
        let crawled = simulation.now;
        simulation.run(20, false, true, true);
        let (details, _) =
            simulation.extremes(3, crawled + 2 * MINUTE, simulation.now, |one| one.class == Class::Details);
        assert!(details > 0, "details starve beside clients");
        let quiet = simulation.now;
        simulation.run(10, false, false, true);
        let (_, clients) = simulation.extremes(1, quiet, simulation.now, |one| one.class == Class::Client);
        assert!(clients > LIMIT * 3 / 4, "without a crawl clients may have more than {clients} in a minute");
        simulation.waiting.retain(|ticket, one| {
            let stays = one.0 != Class::Client;
            if !stays {
                simulation.state.queue.remove(*ticket);
            }
            stays
        });
        simulation.many.retain(|kind, _| kind.0 != Class::Client);
        let alone = simulation.now + 2 * MINUTE;
        simulation.run(10, false, false, false);
        let (least, most) = simulation.extremes(1, alone, simulation.now, |one| one.class == Class::Background);
        assert!(most > 0 && most <= LIMIT / 10, "background checks had {least} to {most} in a minute");
    }
}
