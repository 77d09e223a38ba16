//! Reads that share a fetch, and reads that nobody waits for: what they may take from others.

use super::super::queue::MOST_WANTED;
use crate::clock::WallTime;
use crate::origin::budget::*;
use crate::origin::window::SPAN;

const SECOND: Duration = Duration::from_secs(1);

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// A budget whose slots are spent, one each second; the first is free in so many seconds.
async fn spent(limit: u64, seconds: u64) -> Budget {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    let budget = Budget::open(Some(limit as usize), None, clock);
    for _ in 0..limit {
        budget.acquire(Class::Client, Some(address(200)), None).await.unwrap().answered();
        tokio::time::sleep(SECOND).await;
    }
    tokio::time::sleep(SPAN.saturating_sub(SECOND * (limit + seconds) as u32)).await;
    budget
}

/// A read that waits: whether it got a slot.
fn waits(budget: &Budget, client: IpAddr, patience: Duration) -> tokio::task::JoinHandle<bool> {
    let budget = budget.clone();
    tokio::spawn(async move {
        let permit = budget.acquire(Class::Client, Some(client), Some(patience)).await;
        permit.map(Permit::answered).is_ok()
    })
}

async fn queued(budget: &Budget, many: usize) {
    while budget.view().waiting < many {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_shares_a_fetch_is_judged_by_its_own_place_and_takes_nobodys() {
    let budget = spent(4, 3).await;
    let long = 5_500 * SECOND / 1_000;
    let patience = Some(long);
    // Slots in 3, 4 and 5 s.
    let reads: Vec<_> = (0..3).map(|_| waits(&budget, address(1), long)).collect();
    queued(&budget, 3).await;
    let told = budget.judge(Some(address(1)), patience).expect("a fourth read of one household comes too late");
    assert_eq!(told.retry_after.as_millis().div_ceil(1_000), 6);
    assert_eq!(budget.judge(Some(address(2)), patience), None, "another household goes before the second read of one");
    assert!(budget.judge(Some(address(2)), Some(SECOND)).is_some(), "its patience ends before");
    assert_eq!(budget.judge(Some(address(2)), None), None);
    for read in reads {
        assert!(read.await.unwrap(), "a judgement takes no place");
    }
    assert_eq!(budget.view().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn whose_patience_has_ended_is_refused_even_if_a_slot_is_free() {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    let budget = Budget::open(Some(4), None, clock);
    assert_eq!(budget.judge(Some(address(1)), Some(Duration::ZERO)), Some(Spent::soon()));
    assert_eq!(budget.judge(Some(address(1)), Some(SECOND)), None);
}

#[tokio::test(start_paused = true)]
async fn reads_that_nobody_waits_for_push_out_none_that_a_client_waits_for() {
    let budget = spent(4, 30).await;
    while !budget.is_overloaded() {
        assert!(budget.acquire(Class::Client, None, Some(SECOND)).await.is_err());
    }
    let wants = |is_refused: bool, households: std::ops::Range<u8>| -> Vec<_> {
        let asked = households.flat_map(|household| (0..300).map(move |_| address(household)));
        asked.filter_map(|client| budget.want(client, is_refused)).collect()
    };
    let refused = wants(true, 0..9);
    assert_eq!(refused.len(), MOST_WANTED);
    assert_eq!(wants(false, 0..1).len(), 256, "each kind has its bound, and each household");
    assert_eq!(wants(false, 0..9).len(), MOST_WANTED, "those before have left");
    let awaited = waits(&budget, address(1), 60 * SECOND);
    queued(&budget, refused.len() + 1).await;
    assert!(awaited.await.unwrap(), "neither fills the places of reads with a client");
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_was_not_needed_is_free_again() {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    let budget = Budget::open(Some(1), None, clock);
    let stale = budget.want(address(1), false).unwrap();
    let permit = stale.turn().await.unwrap();
    assert_eq!(budget.view().free, 0);
    drop(permit);
    assert_eq!(budget.view().free, 1);
    drop(budget.want(address(1), false).unwrap().turn().await.unwrap().sent());
    assert_eq!(budget.view().free, 0);
}
