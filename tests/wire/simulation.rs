//! Thousands of virtual seconds of edits, faults and refreshes: whatever is published keeps what its certificate says.
//!
//! The bench of the same name runs more and longer seeds: `cargo bench --bench simulation -- --seeds 100`. A seed that
//! fails prints how, and fails again.

mod check;
mod history;
mod rig;
mod scene;
mod script;

/// Seeds that this suite runs; the bench runs more.
const SEEDS: [u64; 2] = [2, 4];

#[test]
fn whatever_is_published_keeps_what_its_certificate_says() {
    for seed in SEEDS {
        match script::run(seed, 40, 200) {
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
