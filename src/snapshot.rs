//! The immutable data set that answers come from.
//!
//! In memory only. It is built by [`crate::mirror`] or read back by [`crate::store`], and swapped whole.

mod beside;
pub(crate) mod columns;
pub(crate) mod content;
pub(crate) mod coverage;
pub(crate) mod dataset;
mod ids;
mod index;
pub(crate) mod journal;
pub(crate) mod live;
pub(crate) mod membership;
mod since;
pub(crate) mod version;
