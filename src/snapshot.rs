//! The immutable data set that answers come from.
//!
//! Layer 2: in memory only. It is built by [`crate::origin`] or read back by [`crate::store`], and swapped whole.

mod beside;
pub mod columns;
pub mod content;
pub mod dataset;
mod ids;
mod index;
pub mod journal;
pub mod live;
pub mod membership;
mod since;
pub mod version;
