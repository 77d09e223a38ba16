//! The caching reverse proxy: what the snapshot does not cover is asked for once, kept, and served on when the origin
//! fails.
//!
//! An HTTP cache by RFC 9111, whose decisions are in [`crate::semantics::caching`] and whose storage is
//! [`crate::cache`]. [`read_through`] serves the endpoints that it knows, [`pass_through`] all others, over
//! [`crate::upstream`]. Callers: [`crate::answer`], [`crate::serve`].

pub(crate) mod demand;
pub(crate) mod pass_through;
pub(crate) mod read_through;
pub(crate) mod recent;
pub(crate) mod spool;
