//! What goes wrong with answers of the sample origin, in tests alone: the program has none of it.
//!
//! Which requests are struck, and how often, is the sample's business ([`grandstand::sample::FaultRule`]). Called by tests and
//! by the simulation, which also runs as a bench.

pub mod answers;
pub mod fault;
mod looks;
pub mod raw;
pub mod tamper;

pub use fault::Fault;
pub use raw::Raw;
pub use tamper::Tamper;
