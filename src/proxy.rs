//! The caching reverse proxy: what the snapshot does not cover is asked for once, kept, and served on when the origin
//! fails.
//!
//! An HTTP cache by RFC 9111, whose decisions are in [`crate::semantics::caching`] and whose storage is
//! [`crate::cache`]. [`ladder`] decides what is done about a request, whether [`read_through`] knows its endpoint or
//! [`pass_through`] does not. Callers: [`crate::answer`], [`crate::serve`].

pub(crate) mod demand;
pub(crate) mod ladder;
pub(crate) mod pass_through;
pub(crate) mod read_through;
pub(crate) mod recent;
pub(crate) mod spool;
