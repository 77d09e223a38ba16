//! Origins and mirrors in virtual time: waits cost nothing, and no busy machine delays anything.
//!
//! For tests with `#[tokio::test(start_paused = true)]`, under the names that the real ones have. The mirror of such an
//! origin runs on the test's runtime, without sockets. Not for what is about sockets, processes or commands. Callers: tests
//! of crawls, refreshes, budgets, stamps, contradictions and clocks.

use grandstand::clock::WallTime;
use sample_origin::{Clock, Origin, Switches, World};

use super::{Server, Setup};

/// When virtual time begins.
pub fn begin() -> WallTime {
    WallTime::parse_rfc3339("2026-11-20T12:00:00Z").unwrap()
}

/// An origin with the defaults.
pub async fn origin(listings: usize) -> Origin {
    origin_with(listings, Switches::default()).await
}

/// An origin in which something is varied.
pub async fn origin_with(listings: usize, switches: Switches) -> Origin {
    Origin::within(World::generate(listings, 42), switches, Clock::of_runtime(begin().as_millis()))
}

/// A mirror of so many listings that has settled.
pub async fn mirrored(listings: usize) -> (Origin, Server) {
    mirrored_by(listings, |setup| setup).await
}

/// The same, with something set differently.
pub async fn mirrored_by(listings: usize, change: impl FnOnce(Setup) -> Setup) -> (Origin, Server) {
    super::mirror_of(origin(listings).await, change).await
}
