//! Client reads: cache misses and stale resources in turns, spread over time under overload, one at a time while the
//! origin fails.

use parking_lot::Mutex;

use crate::clock::WallTime;
use crate::origin::budget::*;

fn budget(limit: usize) -> Budget {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    Budget::open(Some(limit), None, clock)
}

#[test]
fn what_is_served_stale_and_what_nobody_has_take_turns_the_most_wanted_first() {
    let order = |demands: &[Option<u8>]| {
        let mut state = BudgetState::new(Some(Window::new(60)), None, Duration::ZERO, Monotonic::from_seconds(0));
        for households in demands {
            let households = households.map(|many| (0..many).map(|last| IpAddr::from([10, 0, 1, last])).collect());
            let wanted = households.map(|households| Wanted {
                households,
                is_refused: false,
                since: Monotonic::from_seconds(0),
            });
            state.queue.push(Waiting { class: Class::Client, client: None, wanted, until: None });
        }
        let mut order = Vec::new();
        while let Some(chosen) = state.chosen(Monotonic::from_seconds(0)) {
            state.give(chosen, Monotonic::from_seconds(0));
            order.push(chosen.1);
        }
        order
    };
    assert_eq!(order(&[Some(3), Some(9), Some(9), Some(5), None, None]), [2, 3, 5, 4, 1, 6]);
    assert_eq!(order(&[None, Some(3), None, Some(9)]), [1, 4, 2, 3], "what came before waits for none that came later");
    assert_eq!(order(&[None, None]), [1, 2]);
    assert_eq!(order(&[Some(1), Some(2)]), [2, 1]);
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
                    tokio::time::sleep(Duration::from_millis(200)).await;
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
    assert!(spent.reason == SpentReason::Paused && spent.retry_after >= Duration::from_secs(29), "{spent:?}");
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
    let wait = |class: Class| {
        let (budget, order) = (budget.clone(), order.clone());
        tokio::spawn(async move {
            let permit = budget.acquire(class, None, None).await.unwrap();
            order.lock().push(class.as_str());
            permit.answered();
        })
    };
    for _ in 0..3 {
        for class in [Class::Client, Class::Client, Class::Refresh, Class::Crawl, Class::Details] {
            all.push(wait(class));
        }
        let (stale, order) = (budget.want([10, 0, 0, 1].into(), false).unwrap(), order.clone());
        all.push(tokio::spawn(async move {
            let permit = stale.turn().await.unwrap().sent();
            order.lock().push("stale");
            permit.answered();
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    // The very first stale one went before the others had come.
    let order = order.lock().split_off(1);
    assert_eq!(order[..5], ["client", "crawl", "details", "refresh", "stale"], "{order:?}");
    assert_eq!(order[5..10], ["client", "crawl", "details", "refresh", "stale"], "{order:?}");
}
