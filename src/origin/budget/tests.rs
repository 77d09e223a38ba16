//! Turns by hand, and the budget as its callers see it.

mod bursts;
mod clients;
mod coming_back;
mod in_time;
mod joined;
mod shares;

use parking_lot::Mutex;

use super::state::Lane;
use super::*;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_seconds(seconds)
}

fn waiting(class: Class, client: Option<u8>) -> Waiting {
    Waiting { class, client: client.map(|last| IpAddr::from([10, 0, 0, last])), wanted: None, until: None }
}

/// A budget of 60 of which so many slots are used. The tickets are 1, 2, 3 and so on.
fn state<const N: usize>(used: &[(Class, usize)], all: [(Class, Option<u8>); N]) -> BudgetState {
    let mut state = BudgetState::new(Some(Window::new(60)), None, Duration::ZERO, at(0));
    for (class, many) in used {
        (0..*many).for_each(|_| assert!(state.window.as_mut().unwrap().take(*class, at(0)).is_some()));
    }
    for (class, client) in all {
        state.queue.push(waiting(class, client));
    }
    state
}

fn next(state: &mut BudgetState) -> Option<u64> {
    state.chosen(at(0)).map(|(_, ticket)| ticket)
}

#[test]
fn the_order_is_refresh_clients_crawl_then_the_rest() {
    let all =
        [Class::Background, Class::Details, Class::Crawl, Class::Client, Class::Refresh].map(|class| (class, None));
    let mut some = state(&[(Class::Background, 3)], all);
    some.crawl_work = 1;
    for last in [5, 4, 3, 2] {
        assert_eq!(next(&mut some), Some(last));
        some.queue.remove(last);
    }
    // Background checks get a twentieth before details, and more only when nothing else waits.
    assert_eq!(next(&mut some), None);
    some.crawl_work = 0;
    assert_eq!(next(&mut some), Some(1));
    let mut both = state(&[], [(Class::Background, None), (Class::Details, None)]);
    both.crawl_work = 1;
    assert_eq!(next(&mut both), Some(1));
    assert_eq!(next(&mut state(&[(Class::Client, 60)], all)), None);
}

#[test]
fn one_greedy_client_starves_neither_another_client_nor_the_crawl() {
    let all = [(Class::Client, Some(1)), (Class::Client, Some(2)), (Class::Crawl, None)];
    let mut few = state(&[], all);
    few.queue.had_turn(IpAddr::from([10, 0, 0, 1]));
    assert_eq!(next(&mut few), Some(2));
    let mut many = state(&[(Class::Client, 45)], all);
    assert_eq!(next(&mut many), Some(1));
    many.crawl_work = 1;
    assert_eq!(next(&mut many), Some(3));
}

#[test]
fn all_others_leave_the_slots_of_the_next_refresh_free() {
    for class in [Class::Client, Class::Crawl, Class::Details, Class::Background] {
        for gentle in [None, Some(Duration::from_secs(1))] {
            let with = |used, all: &[Class]| {
                let mut state = state(&[(Class::Crawl, used)], []);
                (state.refreshes, state.gentle) = (Some(Duration::from_secs(210)), gentle);
                for class in all {
                    state.queue.push(waiting(*class, None));
                }
                state.chosen(at(0))
            };
            assert_eq!(with(55, &[class]), None, "{class:?}");
            assert!(with(54, &[class]).is_some(), "{class:?}");
            assert_eq!(with(59, &[class, Class::Refresh]), Some((Lane::Refresh, 2)), "a refresh takes them");
        }
    }
    let reserve = |limit, every, used| {
        let mut state = BudgetState::new(Some(Window::new(limit)), None, Duration::ZERO, at(0));
        state.refreshes = Some(Duration::from_secs(every));
        (0..used).for_each(|_| _ = state.window.as_mut().unwrap().take(Class::Refresh, at(0)));
        state.reserve(at(0))
    };
    for (limit, kept) in [(0, 0), (1, 0), (3, 0), (4, 1), (12, 3), (19, 4), (20, 5), (60, 5), (6_000, 5)] {
        assert_eq!(reserve(limit, 210, 0), kept, "{limit}");
    }
    for (limit, every, used, kept) in
        [(600, 5, 0, 65), (600, 5, 20, 45), (600, 5, 60, 5), (600, 7, 0, 45), (100, 5, 0, 25), (600, 61, 0, 5)]
    {
        assert_eq!(reserve(limit, every, used), kept, "{limit} {every} {used}");
    }
}

#[test]
fn background_takes_a_tenth_and_details_are_paced() {
    assert_eq!(next(&mut state(&[(Class::Background, 6)], [(Class::Background, None)])), None);
    let mut details = state(&[], [(Class::Details, None), (Class::Details, None)]);
    let first = details.chosen(at(0)).unwrap();
    details.give(first, at(0));
    assert_eq!(next(&mut details), None);
    assert_eq!(details.chosen(at(1)), Some((Lane::Details, 2)));
}

#[tokio::test]
async fn requests_in_bytes_that_clients_chose_take_a_tenth_and_only_what_nobody_needs() {
    let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
    let open = || Budget::open(Some(60), None, Clock::system());
    let budget = open();
    for of in [1, 1, 2, 2, 3, 3] {
        budget.acquire_spare(address(of)).await.unwrap().answered();
    }
    assert!(budget.acquire_spare(address(4)).await.is_err(), "a tenth is spent");
    assert_eq!((budget.view().free, budget.is_overloaded()), (54, false));
    budget.acquire(Class::Client, None, Some(Duration::ZERO)).await.unwrap().answered();

    // Five slots stay free for a refresh.
    let budget = open();
    budget.expect_refreshes(Duration::from_secs(210));
    for _ in 0..54 {
        budget.acquire(Class::Client, None, None).await.unwrap().answered();
    }
    budget.acquire_spare(None).await.unwrap().answered();
    assert!(budget.acquire_spare(None).await.is_err());

    // They are no test of whether the origin answers again, and wait for no pause.
    for budget in [open(), Budget::open(None, None, Clock::system())] {
        budget.try_gently(Some(Duration::from_secs(1)));
        assert!(budget.acquire_spare(None).await.is_err());
        budget.try_gently(None);
        drop(budget.acquire_spare(None).await.unwrap());
        budget.pause(Duration::from_secs(30));
        assert!(budget.acquire_spare(None).await.is_err());
    }
}

#[tokio::test]
async fn a_spent_budget_says_when_to_come_back() {
    let budget = Budget::open(Some(1), None, Clock::system());
    budget.acquire(Class::Client, None, None).await.unwrap().answered();
    let patience = Some(Duration::from_millis(5));
    let spent = budget.acquire(Class::Client, None, patience).await.err().unwrap();
    assert!((58..=61).contains(&spent.retry_after.as_secs()), "{spent:?}");
    assert_eq!(budget.view().waiting, 0);
}

#[tokio::test]
async fn an_unlimited_budget_waits_only_while_paused() {
    let budget = Budget::open(None, None, Clock::system());
    for _ in 0..200 {
        budget.acquire(Class::Details, None, None).await.unwrap().answered();
    }
    budget.pause(Duration::from_secs(30));
    let spent = budget.acquire(Class::Refresh, None, Some(Duration::from_millis(5))).await.err().unwrap();
    assert!((28..=30).contains(&spent.retry_after.as_secs()), "{spent:?}");
}

/// A client with a long queue of old tickets gets turns as others do.
#[tokio::test]
async fn a_client_with_many_waiting_reads_takes_turns_with_the_others() {
    let budget = Budget::open(Some(40), None, Clock::system());
    budget.pause(Duration::from_millis(200));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut reads = Vec::new();
    for (client, many) in [(1_u8, 100), (2, 5), (3, 5), (4, 5)] {
        for _ in 0..many {
            let (budget, order) = (budget.clone(), order.clone());
            reads.push(tokio::spawn(async move {
                let address = Some(IpAddr::from([10, 0, 0, client]));
                let permit = budget.acquire(Class::Client, address, Some(Duration::from_secs(2))).await;
                if permit.is_ok() {
                    order.lock().push(client);
                }
            }));
        }
    }
    for read in reads {
        read.await.unwrap();
    }
    let order = order.lock().clone();
    let mut given = [0; 5];
    for client in &order {
        given[usize::from(*client)] += 1;
    }
    assert_eq!(given, [0, 19, 5, 5, 5], "the first one leaves the others six slots");
    for turn in order[..20].chunks(4) {
        let mut turn = turn.to_vec();
        turn.sort_unstable();
        assert_eq!(turn, [1, 2, 3, 4], "{order:?}");
    }
}
