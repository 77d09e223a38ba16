//! The fleet: a publisher writes its current snapshot to an object store, and replicas follow it.
//!
//! | question | file |
//! |---|---|
//! | how are objects in the store named | [`keys`] |
//! | what does the head say, and who signed it | [`head`] |
//! | how is a store read and written | [`bundle_store`] |
//! | what is written to it, and when | [`publisher`] |
//! | what does a replica do about a head, and how does it get the data | [`replica`] |
//!
//! The publisher writes objects, then a record of the chain in this server's store, then the head. So a crash never
//! leaves a head without its objects. Independently, it reads its objects back; if one is lost or altered, it writes a
//! new chain. What a replica does about a head is one pure function: nothing, note the confirmation, fetch deltas,
//! fetch everything, or refuse. Downloads go to files in the data directory whose names are the hashes of the objects,
//! so that the next process can continue an unfinished one. The import says where the replica then stands
//! ([`crate::data::snapshots::follow`]): the number of the head, and the digest of its last bundle. An import by hand, or a
//! repair, removes the digest; the same head is then taken again.
//!
//! Not here: what is in a bundle ([`crate::data::bundle`]), and how it becomes the newest snapshot
//! ([`crate::data::snapshots`]). Three types to know: [`head::Head`], `Publisher`, `Follower`.
//!
//! Callers: [`crate::server`].
//!
#![doc = include_str!("fleet/FORMAT.md")]

pub(crate) mod bundle_store;
pub mod head;
pub(crate) mod keys;
pub(crate) mod publisher;
pub(crate) mod replica;
#[cfg(test)]
mod tests;
