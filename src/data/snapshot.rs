//! The immutable data set that answers come from.
//!
//! In memory only, and swapped as a whole. Callers: [`crate::mirror`] builds it, [`crate::data::store`] reads it back.

pub(crate) mod columns;
pub mod content;
pub mod dataset;
mod index;
pub mod journal;
pub mod membership;
pub mod meta;
pub(crate) mod odd;
pub mod pointer;
pub(crate) mod seconds;
pub mod verdicts;
