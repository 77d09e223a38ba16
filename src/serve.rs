//! The public listener: pingora's proxy, kept thin.
//!
//! Layer 4. What to answer is decided in [`crate::pipeline`]; [`find`] looks it up, [`public`] moves the bytes,
//! [`gate`] holds clients to deadlines, [`listener`] holds the sockets. Callers: [`crate::app`].

pub mod find;
pub mod gate;
pub mod listener;
pub mod public;
pub mod render;
