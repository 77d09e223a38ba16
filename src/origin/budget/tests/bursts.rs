//! A household that comes with many reads at once, beside others.

use crate::clock::WallTime;
use crate::origin::budget::*;

fn budget() -> Budget {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    Budget::open(Some(60), None, clock)
}

/// How many of so many reads of one household at once get a slot within 10 s.
async fn burst(budget: &Budget, household: u8, reads: usize) -> usize {
    let client = Some(IpAddr::from([10, 0, 0, household]));
    let reads: Vec<_> = (0..reads)
        .map(|_| {
            let budget = budget.clone();
            tokio::spawn(async move {
                let permit = budget.acquire(Class::Client, client, Some(Duration::from_secs(10))).await;
                permit.map(Permit::answered).is_ok()
            })
        })
        .collect();
    let mut answered = 0;
    for read in reads {
        answered += usize::from(read.await.unwrap());
    }
    answered
}

#[tokio::test(start_paused = true)]
async fn a_burst_leaves_slots_for_others_and_takes_the_whole_budget_where_there_are_none() {
    let budget = budget();
    assert_eq!(burst(&budget, 1, 60).await, 60, "it is alone");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(burst(&budget, 2, 1).await, 1);
    for minute in 0..4 {
        let many = burst(&budget, 1, 60).await;
        assert!((40..=50).contains(&many), "{many} in minute {minute}");
        for nth in 0..9 {
            assert_eq!(burst(&budget, 2, 1).await, 1, "read {nth} of another household in minute {minute}");
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(burst(&budget, 1, 60).await, 60, "it is alone again");
}

#[tokio::test(start_paused = true)]
async fn several_bursts_leave_slots_for_the_next_household() {
    let budget = budget();
    let mut given = vec![burst(&budget, 9, 1).await];
    for household in [1, 2] {
        given.push(burst(&budget, household, 60).await);
    }
    assert_eq!(burst(&budget, 3, 1).await, 1, "{given:?}");
    assert!(given.iter().sum::<usize>() > 50, "hardly a slot is left unused: {given:?}");
}
