//! Fetching details: what is due, one request and what its answer changes, and those that a client waits for.
//!
//! They are stored and read in [`crate::data::details`]. Callers: [`crate::server`] runs the worker,
//! [`crate::edge::answer`] fetches on demand, [`crate::mirror::examiner`] asks what is settled.

mod agenda;
mod fetch;
pub(crate) mod on_demand;
mod retries;
pub mod worker;

pub(crate) use fetch::is_unproven;
