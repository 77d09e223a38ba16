//! The next turn by hand, and the budget as its callers see it.

mod clients;
mod coming_back;
mod joined;
mod promises;
mod shares;

use parking_lot::Mutex;

use super::choice::{ChoiceView, ClientTurn, ProbeKind, choose, choose_probe, refresh_reserve};
use super::queue::Queue;
use super::*;

fn waiting(class: Class, client: Option<u8>) -> Waiting {
    Waiting { class, client: client.map(|last| IpAddr::from([10, 0, 0, last])), demand: None, until: None }
}

/// The tickets are 1, 2, 3 and so on.
fn queue<const N: usize>(all: [(Class, Option<u8>); N]) -> Queue {
    let mut queue = Queue::default();
    for (class, client) in all {
        queue.push(waiting(class, client));
    }
    queue
}

fn view(queue: &Queue) -> ChoiceView<'_> {
    ChoiceView {
        queue,
        free: 60,
        limit: 60,
        client_used: 0,
        reserve: 5,
        background_used: 0,
        detail_due: true,
        clients: ClientTurn::Stale,
        crawl_has_work: true,
        wanted: true,
        now: Monotonic::from_seconds(0),
    }
}

#[test]
fn the_order_is_refresh_clients_crawl_then_the_rest() {
    let mut all = queue([
        (Class::Background, None),
        (Class::Details, None),
        (Class::Crawl, None),
        (Class::Client, Some(1)),
        (Class::Refresh, None),
    ]);
    assert_eq!(choose(&ChoiceView { free: 0, ..view(&all) }), None);
    for last in (1..=5).rev() {
        assert_eq!(choose(&ChoiceView { background_used: 3, ..view(&all) }), (last > 1).then_some(last));
        all.remove(last);
    }
    // Background checks get a twentieth before details, and more only when nothing else waits.
    let both = queue([(Class::Background, None), (Class::Details, None)]);
    assert_eq!(choose(&view(&both)), Some(1));
    let one = queue([(Class::Background, None)]);
    assert_eq!(choose(&ChoiceView { background_used: 3, crawl_has_work: false, ..view(&one) }), Some(1));
}

#[test]
fn one_greedy_client_starves_neither_another_client_nor_the_crawl() {
    let mut all = queue([(Class::Client, Some(1)), (Class::Client, Some(2)), (Class::Crawl, None)]);
    all.had_turn(IpAddr::from([10, 0, 0, 1]));
    assert_eq!(choose(&view(&all)), Some(2));
    assert_eq!(choose(&ChoiceView { client_used: 45, ..view(&all) }), Some(3));
    let idle = ChoiceView { client_used: 45, crawl_has_work: false, ..view(&all) };
    assert_eq!(choose(&idle), Some(2));
}

#[test]
fn all_others_leave_the_slots_of_the_next_refresh_free() {
    for (class, client) in
        [(Class::Client, Some(1)), (Class::Crawl, None), (Class::Details, None), (Class::Background, None)]
    {
        let one = queue([(class, client)]);
        for (free, reserve, expected) in [(5, 5, None), (6, 5, Some(1)), (1, 0, Some(1)), (1, 5, None), (0, 0, None)] {
            let view = ChoiceView { free, reserve, ..view(&one) };
            assert_eq!(choose(&view), expected, "{class:?} {free} {reserve}");
            assert_eq!(choose_probe(&view, None), expected, "{class:?} {free} {reserve}");
        }
        let both = queue([(class, client), (Class::Refresh, None)]);
        assert_eq!(choose(&ChoiceView { free: 1, ..view(&both) }), Some(2), "a refresh takes them");
        assert_eq!(choose_probe(&ChoiceView { free: 1, ..view(&both) }, Some(ProbeKind::Refresh)), Some(2));
    }
    for (limit, reserve) in [(0, 0), (1, 0), (3, 0), (4, 1), (12, 3), (19, 4), (20, 5), (60, 5), (6_000, 5)] {
        assert_eq!(refresh_reserve(limit, Duration::from_secs(210), 0), reserve, "{limit}");
    }
    for (limit, every, used, reserve) in
        [(600, 5, 0, 65), (600, 5, 20, 45), (600, 5, 60, 5), (600, 7, 0, 45), (100, 5, 0, 25), (600, 61, 0, 5)]
    {
        assert_eq!(refresh_reserve(limit, Duration::from_secs(every), used), reserve, "{limit} {every} {used}");
    }
}

#[test]
fn background_takes_a_tenth_and_details_are_paced() {
    let background = queue([(Class::Background, None)]);
    assert_eq!(choose(&ChoiceView { background_used: 6, ..view(&background) }), None);
    let details = queue([(Class::Details, None)]);
    assert_eq!(choose(&ChoiceView { detail_due: false, ..view(&details) }), None);
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
    assert_eq!(order.len(), 40);
    for turn in order[..20].chunks(4) {
        let mut turn = turn.to_vec();
        turn.sort_unstable();
        assert_eq!(turn, [1, 2, 3, 4], "{order:?}");
    }
}
