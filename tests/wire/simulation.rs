//! Thousands of virtual seconds of edits, faults and refreshes: all that is published keeps its certificate's promise.
//!
//! The bench of the same name runs more and longer seeds: `cargo bench --bench simulation -- --seeds 100`. A failing
//! seed prints how, and fails again.

mod check;
mod contradicting;
mod hanging;
mod history;
mod rig;
mod scene;
mod script;

use std::time::Duration;

/// Seeds that this suite runs; the bench runs more. Each has another kind of cache in front, or none.
const SEEDS: [u64; 4] = [2, 4, 26, 38];

/// Waits until this holds, an hour of virtual time at most.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..3600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("waited in vain until {what}");
}

#[test]
fn whatever_is_published_keeps_what_its_certificate_says() {
    for seed in SEEDS {
        match script::run(seed, 25, 200) {
            Ok(account) => {
                println!("seed {seed}: {account}");
                let count = |name: &str| account.counts.get(name).copied().unwrap_or(0);
                assert!(count("queries") > 0, "nothing was compared: {account}");
                assert!(count("full") + count("incremental") > 0, "nothing was certified: {account}");
            }
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn the_seeds_have_stamps_that_stand_still_and_stamps_that_run_ahead() {
    let drawn = |seed: &u64| scene::Scene::draw(*seed, 200).0.switches.generated;
    let all: Vec<_> =
        SEEDS.iter().map(drawn).flat_map(|drawn| [drawn.lists, drawn.taxonomies, drawn.details]).collect();
    for odd in ["StandsStill", "Ahead"] {
        let first: Vec<_> = (1..10).map(|seed| (seed, drawn(&seed))).collect();
        assert!(all.iter().any(|says| format!("{says:?}").starts_with(odd)), "no {odd}: {all:?} of {first:#?}");
    }
}
