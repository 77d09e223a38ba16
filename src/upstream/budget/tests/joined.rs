//! Reads that share a fetch, and reads that nobody waits for: what they may take from others.

use super::super::state::MOST_WANTED;
use crate::clock::WallTime;
use crate::upstream::budget::*;
use crate::upstream::window::SPAN;

const SECOND: Duration = Duration::from_secs(1);

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// The households that were refused a resource.
fn refused(many: u8) -> Demand {
    Demand::refused((0..many).map(address))
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
fn waits(
    budget: &Budget,
    client: Option<IpAddr>,
    patience: Duration,
    demand: Option<Demand>,
) -> tokio::task::JoinHandle<bool> {
    let budget = budget.clone();
    tokio::spawn(async move {
        let permit = budget.acquire_for(Class::Client, client, Some(patience), demand).await;
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
    let reads: Vec<_> = (0..3).map(|_| waits(&budget, Some(address(1)), long, None)).collect();
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
    let wants = |_| waits(&budget, Some(address(1)), 120 * SECOND, Some(refused(2)));
    let wanted: Vec<_> = (0..2 * MOST_WANTED).map(wants).collect();
    queued(&budget, MOST_WANTED).await;
    for number in 0..300_u64 {
        let stale = Some(Demand::stale(Monotonic::from_seconds(number)));
        waits(&budget, Some(address(1)), 60 * SECOND, stale);
    }
    tokio::time::sleep(SECOND / 10).await;
    let view = budget.view();
    assert_eq!(view.waiting, MOST_WANTED + 256, "each kind has its bound");
    let awaited = waits(&budget, Some(address(1)), 60 * SECOND, None);
    queued(&budget, view.waiting + 1).await;
    assert!(awaited.await.unwrap(), "neither fills the places of reads with a client");
    // The last ones found no place.
    assert_eq!(wanted.iter().filter(|read| read.is_finished()).count(), MOST_WANTED);
}

#[tokio::test(start_paused = true)]
async fn when_too_much_is_wanted_the_least_wanted_makes_room() {
    let budget = spent(4, 30).await;
    let mut wanted: Vec<_> = (0..MOST_WANTED).map(|_| waits(&budget, None, 120 * SECOND, Some(refused(2)))).collect();
    queued(&budget, MOST_WANTED).await;
    let more = waits(&budget, None, 120 * SECOND, Some(refused(3)));
    let last = wanted.pop().unwrap();
    assert!(!last.await.unwrap(), "the latest of those with the fewest households");
    assert_eq!(budget.view().waiting, MOST_WANTED);
    assert!(!waits(&budget, None, 120 * SECOND, Some(refused(2))).await.unwrap(), "no less wanted than the others");
    tokio::time::sleep(31 * SECOND).await;
    assert!(more.is_finished() && more.await.unwrap(), "the most wanted goes first");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_gets_a_slot_in_time_takes_over_what_is_wanted() {
    let budget = spent(4, 3).await;
    let demand = refused(2);
    let fetch = waits(&budget, None, 120 * SECOND, Some(demand.clone()));
    let other = waits(&budget, None, 120 * SECOND, Some(refused(9)));
    queued(&budget, 2).await;
    let told = budget.take_over(&demand, address(1), SECOND).expect("no slot comes within a second");
    assert!(told.retry_after > SECOND && !demand.is_sent(), "{told:?}");
    assert_eq!(budget.take_over(&demand, address(1), 10 * SECOND), None);
    assert!(demand.is_sent(), "clients that come now join it");
    assert_eq!(budget.take_over(&demand, address(2), SECOND), None, "a client waits for it already");
    assert_eq!(budget.view().waiting, 2, "it is the same request");
    let asked = tokio::time::Instant::now();
    assert!(fetch.await.unwrap() && other.await.unwrap());
    assert!(asked.elapsed() < 6 * SECOND, "after {:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_over_ends_with_the_patience_of_its_client_if_its_slot_comes_late() {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    let budget = Budget::open(Some(1), None, clock);
    let on_wire = budget.acquire(Class::Client, Some(address(200)), None).await.unwrap();
    let demand = refused(2);
    let fetch = waits(&budget, None, 120 * SECOND, Some(demand.clone()));
    queued(&budget, 1).await;
    // The slot is promised as if the answer came now.
    assert_eq!(budget.take_over(&demand, address(1), 70 * SECOND), None);
    let asked = tokio::time::Instant::now();
    assert!(!fetch.await.unwrap());
    let took = asked.elapsed();
    assert!(took >= 70 * SECOND && took < 71 * SECOND, "after {took:?}, not after the 120 s of the background");
    assert_eq!(budget.view().waiting, 0);
    on_wire.answered();
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_over_and_then_overtaken_is_refused_at_that_moment() {
    let budget = spent(2, 3).await;
    let demand = refused(2);
    let fetch = waits(&budget, None, 120 * SECOND, Some(demand.clone()));
    queued(&budget, 1).await;
    assert_eq!(budget.take_over(&demand, address(200), 3_500 * SECOND / 1_000), None);
    // This one was never served.
    let next = waits(&budget, Some(address(1)), 3_500 * SECOND / 1_000, None);
    let asked = tokio::time::Instant::now();
    assert!(!fetch.await.unwrap());
    assert!(asked.elapsed() < SECOND, "after {:?}", asked.elapsed());
    assert!(next.await.unwrap());
}
