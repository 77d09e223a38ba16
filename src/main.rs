//! The `grandstand` command. See the crate documentation for what it is made of.

use std::process::ExitCode;

/// Chosen by measurement: see `benches/runs/2026-11-23-soak-memory.md`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    grandstand::run()
}
