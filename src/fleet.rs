//! The fleet: one instance writes what it serves to an object store, others follow it.
//!
//! | question | file |
//! |---|---|
//! | what is a name in the store | [`keys`] |
//! | what does the head say, and who signed it | [`head`] |
//! | how does the journal of changes travel | [`journal`] |
//! | how is a store read and written | [`place`] |
//! | what is written to it, and when | [`publisher`] |
//!
//! Callers: [`crate::app`].
//!
#![doc = include_str!("fleet/FORMAT.md")]

pub(crate) mod follow;
pub(crate) mod head;
pub(crate) mod journal;
pub(crate) mod keys;
pub(crate) mod place;
pub(crate) mod publisher;
pub(crate) mod replica;
