//! The life of a request, as decisions: what it asks for, and what the answer's head says.
//!
//! [`admit`] comes first, [`find`] looks the answer up and [`render`]s it, [`compose`] evaluates conditions and writes the
//! [`head`]. No sockets here. Callers: [`crate::serve`] moves the bytes.

pub(crate) mod admit;
mod basis;
mod changes;
pub(crate) mod compose;
pub(crate) mod find;
pub(crate) mod head;
pub(crate) mod purge;
mod render;
