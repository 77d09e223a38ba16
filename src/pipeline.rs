//! The life of a request, as decisions: what it asks for, and what the answer's head says.
//!
//! [`admit`] comes before anything is looked up, [`coverage`] while it is, [`answer`] after it, into a [`head`]. Pure but for the
//! limiter's count. Callers: [`crate::serve`], which moves the bytes between them.

pub(crate) mod admit;
pub(crate) mod answer;
pub(crate) mod coverage;
pub(crate) mod head;
pub(crate) mod purge;
