//! The `grandstand` command. See the crate documentation for what it is made of.

use std::process::ExitCode;

/// Chosen by measurement: see `benches/runs`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    grandstand::run()
}
