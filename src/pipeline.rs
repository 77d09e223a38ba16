//! The life of a request, as decisions: what it asks for, and what the answer's head says.
//!
//! [`admit`] comes before anything is looked up, [`coverage`] while it is, [`answer`] after it, into a [`head`]. Pure but for the
//! limiter's count. Callers: [`crate::serve`], which moves the bytes between them.

pub mod admit;
pub mod answer;
pub mod coverage;
pub mod head;
pub mod purge;
