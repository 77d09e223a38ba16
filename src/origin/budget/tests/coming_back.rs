//! Answers to requests that leave the queue; how many may wait.

use futures_util::FutureExt;

use super::super::queue::Queue;
use crate::clock::WallTime;
use crate::origin::budget::*;

fn budget(limit: usize) -> Budget {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    Budget::open(Some(limit), None, clock)
}

fn address(number: usize) -> IpAddr {
    IpAddr::from(u32::try_from(number).unwrap().to_be_bytes())
}

async fn taken(budget: &Budget, class: Class, many: usize) {
    for _ in 0..many {
        budget.acquire(class, None, None).await.unwrap().answered();
    }
}

async fn seconds(budget: &Budget, patience: u64) -> u64 {
    let patience = Some(Duration::from_secs(patience));
    let spent = budget.acquire(Class::Client, Some(address(1)), patience).await.err().unwrap();
    spent.retry_after.as_millis().div_ceil(1000) as u64
}

#[tokio::test(start_paused = true)]
async fn the_window_says_when_to_come_back_and_not_the_pace_of_details() {
    let budget = budget(6);
    taken(&budget, Class::Client, 5).await;
    taken(&budget, Class::Details, 1).await;
    assert_eq!(seconds(&budget, 0).await, 61);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(seconds(&budget, 1).await, 31);
    budget.pause(Duration::from_secs(50));
    assert_eq!(seconds(&budget, 1).await, 50, "a pause may end later");
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_go_before_and_those_who_were_refused_do_not() {
    let budget = budget(6);
    taken(&budget, Class::Client, 6).await;
    let wait = |patience: Option<Duration>, households: std::ops::Range<usize>| {
        for number in households {
            let budget = budget.clone();
            tokio::spawn(async move { budget.acquire(Class::Client, Some(address(number)), patience).await });
        }
    };
    wait(Some(Duration::from_secs(10)), 100..109);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(budget.view().waiting, 0, "no slot comes in time");
    assert_eq!(seconds(&budget, 0).await, 60);
    wait(None, 100..105);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seconds(&budget, 0).await, 59, "the sixth slot");
    wait(None, 100..103);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seconds(&budget, 0).await, 58, "a first read goes before the second reads of others");
    wait(None, 105..108);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seconds(&budget, 0).await, 80, "a slot of the next minute: those before it by the rate");
}

#[tokio::test(start_paused = true)]
async fn while_a_crawl_has_work_it_is_the_share_of_clients_that_says_when() {
    let budget = budget(8);
    let _work = budget.crawl_work();
    taken(&budget, Class::Client, 6).await;
    assert_eq!(seconds(&budget, 0).await, 61, "two are free, but not for clients");
}

#[tokio::test(start_paused = true)]
async fn clients_that_wait_lock_out_neither_one_another_nor_the_mirror() {
    let budget = budget(60);
    // Nothing is free for clients, and the mirror has room.
    let _work = budget.crawl_work();
    taken(&budget, Class::Client, 45).await;
    let fill = |many: usize, of: fn(usize) -> IpAddr| {
        budget.dispatcher.look(|desk, _| {
            desk.state.queue = Queue::default();
            for number in 0..many {
                let client = Some(of(number));
                desk.state.queue.push(Waiting { class: Class::Client, client, wanted: None, until: None });
            }
        });
    };
    let many_wait = || budget.view().waiting;
    let soon = Some(Duration::from_millis(5));
    fill(256, |_| address(1));
    let refused = |number| {
        let before = many_wait();
        let asked = budget.acquire(Class::Client, Some(address(number)), None).now_or_never();
        assert_eq!(many_wait(), before, "it has left in any case");
        asked.is_some_and(|answer| answer.is_err())
    };
    assert!(refused(1), "it has as many as it may");
    assert!(!refused(2));
    fill(4096, address);
    assert!(refused(1 << 20));
    assert!(budget.acquire(Class::Refresh, None, soon).await.is_ok(), "the mirror is no client");
}
