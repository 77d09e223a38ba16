//! Client reads: cache misses and stale resources in turns, spread over time under overload, one at a time while the
//! origin fails.

use parking_lot::Mutex;

use super::super::choice::{ChoiceView, ClientTurn, choose};
use super::super::queue::Queue;
use crate::clock::WallTime;
use crate::upstream::budget::*;

fn budget(limit: usize) -> Budget {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    Budget::open(Some(limit), None, clock)
}

/// Tickets count from 1.
fn queue(demands: &[Option<u32>]) -> Queue {
    let mut queue = Queue::default();
    for times in demands {
        let demand = times.map(|times| {
            let demand = Demand::default();
            (0..times).for_each(|last| demand.vote(IpAddr::from([10, 0, 1, last as u8])));
            demand
        });
        queue.push(Waiting { class: Class::Client, client: Some(IpAddr::from([10, 0, 0, 1])), demand, until: None });
    }
    queue
}

#[test]
fn what_is_served_stale_and_what_nobody_has_take_turns_the_most_wanted_first() {
    let next = |demands: &[Option<u32>], clients| {
        choose(&ChoiceView {
            queue: &queue(demands),
            free: 5,
            limit: 60,
            client_used: 0,
            reserve: 0,
            background_used: 0,
            detail_due: true,
            clients,
            crawl_has_work: false,
            wanted: true,
            now: Monotonic::from_seconds(0),
        })
    };
    let all = [None, Some(3), Some(9), Some(9), None];
    assert_eq!(next(&all, ClientTurn::OldestStale), Some(2), "the one that has waited longest, now and then");
    assert_eq!(next(&all, ClientTurn::Stale), Some(3), "the most wanted, and of those the first");
    assert_eq!(next(&all, ClientTurn::Awaited), Some(1));
    assert_eq!(next(&all[..1], ClientTurn::Stale), Some(1), "there is nothing stale");
    assert_eq!(next(&all[1..3], ClientTurn::Awaited), Some(2), "nobody waits");
    assert_eq!(next(&all, ClientTurn::Later), None);
}

#[tokio::test(start_paused = true)]
async fn a_burst_within_the_budget_is_not_held_up() {
    let budget = budget(20);
    let start = tokio::time::Instant::now();
    for _ in 0..20 {
        assert!(budget.has_room());
        budget.acquire(Class::Client, None, Some(Duration::from_secs(10))).await.unwrap().answered();
    }
    assert!(start.elapsed() < Duration::from_millis(100));
    assert!(!budget.has_room());
}

#[tokio::test(start_paused = true)]
async fn under_overload_the_slots_are_given_out_over_time() {
    let budget = budget(8);
    for _ in 0..8 {
        budget.acquire(Class::Client, None, None).await.unwrap().answered();
    }
    for refused in 0..17 {
        assert!(!budget.is_overloaded(), "after {refused}");
        budget.acquire(Class::Client, None, Some(Duration::from_secs(1))).await.err().unwrap();
    }
    assert!(budget.is_overloaded());
    // All slots are taken, so they queue. Each is a household.
    tokio::time::sleep(Duration::from_secs(50)).await;
    let start = tokio::time::Instant::now() + Duration::from_secs(9);
    let clients: Vec<_> = (0..30_u8)
        .map(|number| {
            let budget = budget.clone();
            tokio::spawn(async move {
                let mut given = Vec::new();
                while start.elapsed() < Duration::from_secs(60) {
                    let client = Some(IpAddr::from([10, 0, 0, number]));
                    if let Ok(permit) = budget.acquire(Class::Client, client, Some(Duration::from_secs(50))).await {
                        permit.answered();
                        given.push(start.elapsed().as_secs());
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                given
            })
        })
        .collect();
    let mut given = Vec::new();
    for client in clients {
        given.extend(client.await.unwrap());
    }
    given.sort_unstable();
    assert!(given.first().is_some_and(|first| *first <= 1), "the first goes at once: {given:?}");
    assert!(given.len() >= 8, "{given:?}");
    assert!(given[..8].windows(2).all(|two| two[1] - two[0] >= 6), "not all at once: {given:?}");
}

/// Spreading reads over time wastes nothing of the budget.
#[tokio::test(start_paused = true)]
async fn under_overload_the_whole_budget_is_used() {
    let budget = budget(60);
    let start = tokio::time::Instant::now();
    let clients: Vec<_> = (0..90_u8)
        .map(|number| {
            let budget = budget.clone();
            tokio::spawn(async move {
                let mut given = Vec::new();
                while start.elapsed() < Duration::from_secs(240) {
                    let client = Some(IpAddr::from([10, 0, 0, number]));
                    if let Ok(permit) = budget.acquire(Class::Client, client, Some(Duration::from_secs(10))).await {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        permit.answered();
                        given.push(start.elapsed().as_secs() / 60);
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                given
            })
        })
        .collect();
    let mut given = Vec::new();
    for client in clients {
        given.extend(client.await.unwrap());
    }
    for minute in 2..4 {
        let many = given.iter().filter(|given| **given == minute).count();
        assert!((57..=60).contains(&many), "{many} in minute {minute}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_no_overload() {
    let budget = budget(4);
    budget.pause(Duration::from_secs(30));
    assert!(budget.acquire(Class::Client, None, Some(Duration::from_secs(1))).await.is_err());
    tokio::time::sleep(Duration::from_secs(31)).await;
    let start = tokio::time::Instant::now();
    let reads: Vec<_> = (0..8)
        .map(|_| {
            let budget = budget.clone();
            tokio::spawn(async move { budget.acquire(Class::Client, None, Some(Duration::from_secs(5))).await.is_ok() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(budget.view().free, 0, "after {:?}", start.elapsed());
    for read in reads {
        let _ = read.await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_fails_is_tried_by_one_at_a_time() {
    let budget = budget(60);
    budget.try_gently(Some(Duration::from_secs(4)));
    let first = budget.acquire(Class::Client, None, None).await.unwrap();
    assert!(!budget.has_room());
    let second = budget.acquire(Class::Refresh, None, Some(Duration::from_secs(1))).await;
    assert!(second.is_err(), "one is on the wire");
    drop(first);
    let third = budget.acquire(Class::Client, None, Some(Duration::from_secs(1))).await.unwrap();
    budget.try_gently(None);
    let others = [budget.acquire(Class::Client, None, None).await, budget.acquire(Class::Crawl, None, None).await];
    assert!(others.iter().all(Result::is_ok), "it answers again");
    third.answered();
}

#[tokio::test(start_paused = true)]
async fn a_try_that_hangs_does_not_hold_up_the_next_for_long() {
    let budget = budget(60);
    budget.try_gently(Some(Duration::from_secs(1)));
    let start = tokio::time::Instant::now();
    let mut hanging = Vec::new();
    for seconds in 0..4 {
        hanging.push(budget.acquire(Class::Client, None, Some(Duration::from_secs(10))).await.unwrap());
        let waited = start.elapsed();
        let due = Duration::from_secs(seconds);
        assert!((due..due + Duration::from_millis(100)).contains(&waited), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_the_end_of_a_pause_that_comes_too_late() {
    let budget = budget(60);
    budget.pause(Duration::from_secs(30));
    let start = tokio::time::Instant::now();
    let spent = budget.acquire(Class::Client, None, Some(Duration::from_secs(10))).await.err().unwrap();
    assert!(spent.paused && spent.retry_after >= Duration::from_secs(29), "{spent:?}");
    assert!(start.elapsed() < Duration::from_secs(1));
}

/// A read that is given up at the instant of its turn takes no slot.
#[tokio::test(start_paused = true)]
async fn a_turn_of_somebody_who_has_just_left_goes_to_the_next() {
    let budget = budget(1);
    for _ in 0..200 {
        let first = budget.acquire(Class::Client, None, None).await.unwrap();
        let mut leaving = Box::pin(budget.acquire(Class::Client, None, None));
        assert!(futures_util::poll!(&mut leaving).is_pending());
        let next = tokio::spawn({
            let budget = budget.clone();
            async move { budget.acquire(Class::Client, None, None).await }
        });
        tokio::task::yield_now().await;
        first.answered();
        // Its turn came, unpolled.
        tokio::time::sleep(Duration::from_secs(61)).await;
        drop(leaving);
        let waited = tokio::time::Instant::now();
        next.await.unwrap().unwrap().answered();
        assert!(waited.elapsed() < Duration::from_millis(10), "the slot was given on at once");
        tokio::time::sleep(Duration::from_secs(61)).await;
    }
}

/// The timekeeper runs in the first caller's runtime, which may end before the others.
#[test]
fn somebody_else_keeps_the_time_when_the_runtime_of_the_keeper_ends() {
    let budget = Budget::open(None, None, Clock::system());
    budget.pause(Duration::from_millis(300));
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let ask = |budget: Budget| async move { budget.acquire(Class::Refresh, None, None).await.is_ok() };
    first.spawn(ask(budget.clone()));
    first.block_on(tokio::task::yield_now());
    let waits = second.spawn(ask(budget.clone()));
    second.block_on(tokio::task::yield_now());
    drop(first);
    assert_eq!(budget.view().waiting, 1);
    assert!(second.block_on(async { tokio::time::timeout(Duration::from_secs(20), waits).await.unwrap().unwrap() }));
}

/// Clients' requests may fail while all others work: they do not get every try.
#[tokio::test(start_paused = true)]
async fn an_origin_that_fails_is_tried_by_all_kinds_in_turns() {
    let budget = budget(60);
    budget.try_gently(Some(Duration::from_secs(1)));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut all = Vec::new();
    let wait = |class: Class, demand: Option<Demand>| {
        let (budget, order) = (budget.clone(), order.clone());
        tokio::spawn(async move {
            let stale = demand.is_some();
            let permit = budget.acquire_for(class, None, None, demand).await.unwrap();
            order.lock().push(if stale { "stale" } else { class.as_str() });
            permit.answered();
        })
    };
    for _ in 0..3 {
        for class in [Class::Client, Class::Client, Class::Refresh, Class::Crawl, Class::Details] {
            all.push(wait(class, None));
        }
        all.push(wait(Class::Client, Some(Demand::default())));
    }
    for one in all {
        one.await.unwrap();
    }
    // The very first went before the others had come.
    let order = order.lock().split_off(1);
    assert_eq!(order[..5], ["details", "refresh", "crawl", "stale", "client"], "{order:?}");
    assert_eq!(order[5..10], ["details", "refresh", "crawl", "stale", "client"], "{order:?}");
}
