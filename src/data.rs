//! Data: snapshots, details and cached answers, in memory and on disk. It decides neither what is fetched nor what is
//! answered.
//!
//! | room | what it is |
//! |---|---|
//! | [`snapshots`] | which snapshots are kept, and which one is current; publication, rollback, import, export |
//! | [`bundle`] | the file that carries a snapshot, or the changes since another one |
//! | [`store`] | disk: snapshots, details, copies and state in one redb file |
//! | [`details`] | the details of listings, read and stored |
//! | [`snapshot`] | memory: the immutable data set that answers come from, its indexes, the verdicts, the journal |
//! | [`cache`] | memory: hot answers, bounded by bytes. Here, because the mirror and the origin's client use its keys |
//!
//! All that blocks says so; async callers wrap it ([`crate::tasks::blocking`]). A change is durable before it is visible.
//!
//! Three types to know: [`snapshot::dataset::Dataset`]; [`snapshots::Snapshots`], which alone changes what is current;
//! [`store::Store`].
//!
//! Callers: the rooms above it.

pub mod bundle;
pub mod cache;
pub mod details;
mod fields;
pub mod snapshot;
pub mod snapshots;
pub mod store;
