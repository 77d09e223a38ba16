//! The scripts that run inside Redis. Each begins with the same part, which reads the clock.
//!
//! Callers: [`super::link`] loads them; tests run them against a model.

/// Decides on one request.
pub const ADMIT: &str = concat!(include_str!("clock.lua"), include_str!("admit.lua"));
/// Counts what was admitted without asking.
pub const REPLAY: &str = concat!(include_str!("clock.lua"), include_str!("replay.lua"));
