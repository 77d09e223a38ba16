//! The public listener: pingora's proxy, kept thin.
//!
//! Layer 4. What to answer is decided in [`crate::pipeline`]; [`find`] looks it up, [`public`] moves the bytes,
//! [`listener`] holds the sockets. Callers: [`crate::app`].

pub mod find;
pub mod listener;
pub mod public;
pub mod render;
