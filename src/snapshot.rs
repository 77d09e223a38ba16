//! The immutable data set that answers come from.
//!
//! In memory only, and swapped as a whole. Callers: [`crate::mirror`] builds it, [`crate::store`] reads it back.

mod beside;
pub(crate) mod columns;
pub(crate) mod content;
pub(crate) mod coverage;
pub(crate) mod dataset;
pub(crate) mod edges;
mod ids;
mod index;
pub(crate) mod journal;
pub(crate) mod membership;
pub(crate) mod meta;
pub(crate) mod pointer;
mod since;
