//! A synthetic world of sports venues: the data behind the sample origin.
//!
//! `grandstand origin` answers from it as the API's documentation says. The test origin (`tests/origin`) serves the same
//! world in every dialect and with every fault. All data is invented, except names and rough positions of states and
//! cities, and says so in each body.
//!
//! Callers: `grandstand demo`, `grandstand origin`, the test origin.

pub mod data;
pub mod dice;
pub mod map;
pub mod venue;
pub mod world;

pub use venue::{Decimal, Digits, Stamp, Venue, Zone};
pub use world::{Term, World};
