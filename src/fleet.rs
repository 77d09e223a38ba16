//! The fleet: a publisher writes its current snapshot to an object store, and replicas follow it.
//!
//! | question | file |
//! |---|---|
//! | how are objects in the store named | [`keys`] |
//! | what does the head say, and who signed it | [`head`] |
//! | how is a store read and written | [`place`] |
//! | what is written to it, and when | [`publisher`] |
//! | what does a replica do about a head, and how does it get the data | [`replica`] |
//!
//! Callers: [`crate::app`].
//!
#![doc = include_str!("fleet/FORMAT.md")]

pub mod head;
pub(crate) mod keys;
pub(crate) mod place;
pub(crate) mod publisher;
pub(crate) mod replica;
