//! Waits of cache misses for a slot: which may wait, and whether it comes in time.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use proptest::prelude::*;

use crate::clock::{Monotonic, WallTime};
use crate::origin::budget::*;
use crate::origin::window::SPAN;

fn budget(limit: usize) -> Budget {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    Budget::open(Some(limit), None, clock)
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

const SECOND: Duration = Duration::from_secs(1);

/// A read of one household with this patience: whether it got a slot, after how long, and what it was told.
async fn read(budget: Budget, household: u8, patience: Duration) -> (bool, Duration, Duration) {
    let asked = tokio::time::Instant::now();
    match budget.acquire(Class::Client, Some(address(household)), Some(patience)).await {
        Ok(permit) => {
            permit.answered();
            (true, asked.elapsed(), Duration::ZERO)
        }
        Err(spent) => (false, asked.elapsed(), spent.retry_after),
    }
}

/// All slots are spent, one each second; then time passes until the first is free in so many seconds.
async fn spent(limit: usize, seconds: u64) -> Budget {
    let budget = budget(limit);
    for _ in 0..limit {
        budget.acquire(Class::Client, Some(address(200)), None).await.unwrap().answered();
        tokio::time::sleep(SECOND).await;
    }
    tokio::time::sleep(SPAN.saturating_sub(SECOND * (limit as u32 + seconds as u32))).await;
    budget
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_slot_that_comes_in_time_and_for_no_other() {
    let budget = spent(4, 3).await;
    let (answered, waited, told) = read(budget.clone(), 1, 2 * SECOND).await;
    assert!(!answered && waited.is_zero(), "refused after {waited:?}");
    assert_eq!(told.as_millis().div_ceil(1_000), 3, "the slot comes a second after its patience ends");
    let (answered, waited, _) = read(budget, 1, 10 * SECOND).await;
    assert!(answered && (2..=3).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn as_many_reads_wait_as_slots_come_in_time_and_the_others_are_told_when() {
    let budget = spent(4, 3).await;
    // Slots in 3, 4, 5 and 6 s.
    let reads: Vec<_> = (0..6).map(|_| tokio::spawn(read(budget.clone(), 1, 5_500 * SECOND / 1_000))).collect();
    let mut all = Vec::new();
    for read in reads {
        all.push(read.await.unwrap());
    }
    let rounded = |span: Duration| (span.as_millis() as u64 + 500) / 1_000;
    let answered: Vec<u64> = all.iter().filter(|one| one.0).map(|one| rounded(one.1)).collect();
    assert_eq!(answered, [3, 4, 5], "{all:?}");
    let refused: Vec<_> = all.iter().filter(|one| !one.0).map(|one| (one.1, rounded(one.2))).collect();
    assert_eq!(refused, vec![(Duration::ZERO, 6); 3], "the fourth slot");
    assert!(!budget.is_overloaded(), "a few refusals are no overload");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_served_longer_ago_takes_the_place_of_a_second_read_and_that_one_is_told_at_once() {
    let budget = spent(4, 3).await;
    let greedy: Vec<_> = (0..3).map(|_| tokio::spawn(read(budget.clone(), 1, 5_500 * SECOND / 1_000))).collect();
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!(budget.view().waiting, 3);
    let (answered, ..) = read(budget.clone(), 2, 5_500 * SECOND / 1_000).await;
    assert!(answered, "a household with one read goes before another's second one");
    let mut all = Vec::new();
    for read in greedy {
        all.push(read.await.unwrap());
    }
    assert_eq!(all.iter().filter(|one| one.0).count(), 2, "{all:?}");
    let refused = all.iter().find(|one| !one.0).unwrap();
    assert!(refused.1 <= SECOND, "told as soon as that was known: {refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_goes_before_stale_reads_that_come_later() {
    let budget = spent(2, 3).await;
    let waits = tokio::spawn(read(budget.clone(), 1, 3_500 * SECOND / 1_000));
    tokio::task::yield_now().await;
    for _ in 0..20 {
        let stale = budget.want(address(2), false).unwrap();
        tokio::spawn(async move { stale.turn().await.map(|permit| permit.sent().answered()) });
    }
    let (answered, waited, _) = waits.await.unwrap();
    assert!(answered, "after {waited:?}");
}

/// Under overload what several households were refused goes first, up to a quarter of the window; the rest is spread.
#[tokio::test(start_paused = true)]
async fn what_most_households_were_refused_goes_first_and_takes_a_quarter_at_most() {
    let budget = spent(12, 10).await;
    assert!(budget.want(address(1), true).is_none(), "there is no overload");
    while !budget.is_overloaded() {
        assert!(!read(budget.clone(), 1, SECOND).await.0);
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let start = tokio::time::Instant::now();
    for votes in [2_u8, 5, 3, 4, 6, 7, 1] {
        let wanted = budget.want(address(0), true).unwrap();
        (1..votes).for_each(|household| budget.vote(wanted.ticket(), address(household)));
        let order = order.clone();
        tokio::spawn(async move {
            if let Ok(permit) = wanted.turn().await {
                permit.sent().answered();
                order.lock().push((votes, start.elapsed().as_secs()));
            }
        });
    }
    // Clients want all that there is.
    for number in 10..40_u8 {
        let budget = budget.clone();
        tokio::spawn(async move {
            while start.elapsed() < 60 * SECOND {
                read(budget.clone(), number, 10 * SECOND).await;
                tokio::time::sleep(SECOND / 4).await;
            }
        });
    }
    tokio::time::sleep(70 * SECOND).await;
    let order = order.lock().clone();
    assert_eq!(order.iter().map(|one| one.0).collect::<Vec<_>>()[..3], [7, 6, 5], "{order:?}");
    assert!(order.iter().all(|one| one.0 > 1), "one household alone: {order:?}");
}

/// A world in which the origin answers, and clients ask at random.
struct World {
    state: BudgetState,
    now: u64,
    wire: Vec<(u64, usize)>,
    sent: Vec<u64>,
    /// Each waiting read: its household, its arrival.
    waiting: BTreeMap<u64, (u8, u64)>,
    granted: Vec<(u8, u64)>,
    /// How late those came who were promised a slot, in milliseconds.
    latest: u64,
    /// The fewest free slots after a turn.
    fewest: usize,
}

fn at(ms: u64) -> Monotonic {
    Monotonic::from_nanos(ms * 1_000_000)
}

impl World {
    fn new(limit: usize) -> Self {
        let state = BudgetState::new(Some(Window::new(limit)), None, Duration::ZERO, at(0));
        Self {
            state,
            now: 1,
            wire: Vec::new(),
            sent: Vec::new(),
            waiting: BTreeMap::new(),
            granted: Vec::new(),
            latest: 0,
            fewest: usize::MAX,
        }
    }

    fn asks(&mut self, household: u8, patience: u64) {
        let now = at(self.now);
        let client = Some(address(household));
        let until = Some(at(self.now + patience));
        let read = Waiting { class: Class::Client, client, wanted: None, until };
        if let Some(spent) = self.state.refusal(&read, now) {
            assert!(spent.retry_after >= SECOND);
        } else {
            self.waiting.insert(self.state.queue.push(read), (household, self.now));
        }
        while let Some((late, _)) = self.state.late(now) {
            self.state.queue.remove(late).unwrap();
            self.waiting.remove(&late).unwrap();
        }
        self.turns(100);
    }

    fn stale(&mut self, household: u8) {
        let client = Some(address(household));
        let wanted = Some(Wanted { households: client.into_iter().collect(), is_refused: false, since: at(0) });
        self.state.queue.push(Waiting { class: Class::Client, client, wanted, until: None });
        self.turns(100);
    }

    fn turns(&mut self, takes: u64) {
        while let Some((lane, ticket)) = self.state.chosen(at(self.now)) {
            let until = self.state.queue.patience(ticket).map(|(_, until)| until);
            let slot = self.state.give((lane, ticket), at(self.now)).unwrap();
            self.fewest = self.fewest.min(self.state.window.as_mut().unwrap().free(at(self.now)));
            self.sent.push(self.now);
            self.wire.push((self.now + takes, slot));
            if let Some((household, _)) = self.waiting.remove(&ticket) {
                self.granted.push((household, self.now));
                self.latest = self.latest.max(at(self.now).since(until.unwrap()).as_millis() as u64);
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now += 20;
            let now = self.now;
            let window = self.state.window.as_mut().unwrap();
            self.wire.retain(|&(ends, slot)| {
                if ends <= now {
                    window.answered(slot, at(ends), true);
                }
                ends > now
            });
            self.turns(100);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever clients do: who waits gets a slot when its patience ends at the latest, or is refused before; and the
    /// origin never sees more than its limit.
    #[test]
    fn nobody_waits_in_vain_and_the_limit_holds(
        limit in 2_usize..20,
        refreshes: bool,
        patience in 1_000_u64..20_000,
        steps in proptest::collection::vec((0_u64..2_000, 0_u8..6, 0_u8..8), 50..250),
    ) {
        let mut world = World::new(limit);
        world.state.refreshes = refreshes.then_some(Duration::from_secs(210));
        for (pause, household, what) in steps {
            world.pass(if what % 2 == 0 { pause } else { pause / 20 });
            if what == 7 && world.state.queue.behind() < 5 {
                world.stale(household);
            } else {
                world.asks(household, patience);
            }
        }
        world.pass(130_000);
        prop_assert_eq!(world.state.queue.awaited(), 0, "somebody still waits");
        prop_assert!(world.fewest >= world.state.reserve(at(world.now)), "{} slots were left", world.fewest);
        // An answer on the wire delays its slot by the time that it still takes.
        prop_assert!(world.latest <= 250, "a slot came {} ms after the end of patience", world.latest);
        for (index, first) in world.sent.iter().enumerate() {
            let within = world.sent[index..].iter().filter(|sent| **sent - first < 60_000).count();
            prop_assert!(within <= limit, "{} in a minute", within);
        }
    }
}

/// Two households ask a hundred times as often as the six others, for six minutes, and stale reads never end.
#[test]
fn under_overload_nobody_starves_and_nobody_owns_the_queue() {
    let mut world = World::new(60);
    for step in 0..6 * 60 * 10_u64 {
        for household in 0..2 {
            (0..3).for_each(|_| world.asks(household, 10_000));
        }
        if step % 30 < 6 {
            world.asks(2 + (step % 30) as u8, 10_000);
        }
        while world.state.queue.behind() < 10 {
            world.stale(20);
        }
        world.pass(100);
    }
    let of = |household: u8| world.granted.iter().filter(move |one| one.0 == household && one.1 > 120_000);
    let shares: Vec<usize> = (0..8).map(|household| of(household).count()).collect();
    let modest: usize = shares[2..].iter().sum();
    assert!(modest * 2 >= shares[0] + shares[1], "who asks for a lot gets what others leave: {shares:?}");
    for household in 2..8 {
        let times: Vec<u64> = of(household).map(|one| one.1).collect();
        let longest = times.windows(2).map(|two| two[1] - two[0]).max().unwrap();
        assert!(longest <= 90_000, "household {household} had no slot for {longest} ms: {shares:?}");
    }
    let minutes = (world.now - 120_000) / 60_000;
    let stale = world.sent.iter().filter(|sent| **sent > 120_000).count() - shares.iter().sum::<usize>();
    assert!(stale as u64 >= minutes * 30, "stale reads had {stale} slots in {minutes} minutes");
    assert!(shares.iter().sum::<usize>() as u64 >= minutes * 15, "{shares:?} in {minutes} minutes");
}
