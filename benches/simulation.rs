//! The simulation of `tests/wire/simulation`, longer: `cargo bench --bench simulation -- --seeds 100 --steps 300`.
//!
//! `--from N` begins at another seed, `--listings N` allows larger worlds. Every failing seed is printed with its story;
//! the exit code is 1 if there is any.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken promise is reported, not handled")]
#![allow(missing_docs, reason = "nothing here is called from outside")]

use std::process::ExitCode;
use std::time::Instant;

#[path = "../tests/wire/origin_faults"]
#[expect(dead_code, reason = "the simulation meets some of them only")]
mod origin_faults {
    pub mod answers;
    pub mod fault;
    pub mod raw;
    pub mod tamper;

    pub use fault::Fault;
}

#[path = "../tests/wire/simulation"]
mod simulation {
    pub mod check;
    pub mod history;
    pub mod rig;
    pub mod scene;
    pub mod script;
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(default, |value| value.parse().unwrap())
    };
    // `cargo test` only checks that it runs.
    let (many, long) = if arguments.iter().any(|argument| argument == "--bench") { (20, 200) } else { (1, 10) };
    let (from, seeds) = (number("--from", 1), number("--seeds", many));
    let (steps, listings) = (number("--steps", long) as usize, number("--listings", 900) as usize);
    let mut failed = Vec::new();
    for seed in from..from + seeds {
        let began = Instant::now();
        match simulation::script::run(seed, steps, listings) {
            Ok(account) => println!("seed {seed} held in {:.1} s: {account}", began.elapsed().as_secs_f64()),
            Err(failure) => {
                println!("{failure}");
                failed.push(seed);
            }
        }
    }
    println!("{} of {seeds} seeds failed: {failed:?}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
