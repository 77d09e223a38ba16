//! The immutable data set that answers come from.
//!
//! In memory only, and swapped as a whole. Callers: [`crate::mirror`] builds it, [`crate::store`] reads it back.

mod beside;
pub(crate) mod columns;
pub mod content;
pub(crate) mod coverage;
pub mod dataset;
pub mod edges;
mod ids;
mod index;
pub(crate) mod journal;
pub mod membership;
pub mod meta;
pub mod pointer;
mod since;
