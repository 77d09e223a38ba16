//! The public listener, kept thin.
//!
//! Layer 4. What to answer is decided in [`crate::pipeline`]; [`find`] looks it up, [`public`] moves the
//! bytes, [`tls`] makes connections secure, [`gate`] tells protocols apart, `connection` holds clients to deadlines,
//! [`request_head`] to sizes and [`connections`] to numbers, [`listener`] holds the sockets. Callers: [`crate::app`].

mod basis;
mod changes;
mod connection;
pub mod connections;
pub mod farewell;
pub mod find;
pub mod gate;
pub mod in_flight;
pub mod listener;
mod pass;
pub(crate) mod public;
pub(crate) mod render;
pub(crate) mod request_head;
pub(crate) mod tls;
