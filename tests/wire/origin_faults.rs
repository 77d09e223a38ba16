//! Faults in answers of the sample origin, for tests only: the program has none.
//!
//! The sample chooses the requests, and how often ([`sample_origin::FaultRule`]). Callers: tests, and the
//! simulation, which also runs as a bench.

pub mod answers;
pub mod fault;
mod looks;
pub mod raw;
pub mod spelling;
pub mod tamper;

pub use fault::Fault;
pub use raw::Raw;
pub use spelling::Spelling;
pub use tamper::Tamper;
