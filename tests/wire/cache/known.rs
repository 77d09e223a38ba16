//! Known endpoints as an HTTP cache serves them, in a shield and in a mirror that has no snapshot yet.

mod failing;
mod fields;
mod freshness;
mod shedding;
mod stale;
mod validation;
