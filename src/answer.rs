//! The life of a request: [`respond`] has all steps.
//!
//! [`admit`] comes first, [`find`] looks the answer up and [`render`]s it, [`compose`] evaluates conditions and writes
//! the [`head`]. No sockets here. Callers: [`crate::serve`] moves the bytes.

pub mod admit;
mod basis;
mod changes;
pub mod compose;
mod documents;
mod dump;
pub(crate) mod find;
pub mod head;
pub(crate) mod purge;
mod render;
pub(crate) mod respond;
