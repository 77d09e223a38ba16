//! The public listener, kept thin.
//!
//! Sockets only: [`crate::answer`] finds and makes the answers. [`public`] moves the bytes, [`tls`] makes connections secure,
//! [`gate`] tells protocols apart, `http2` holds connections of HTTP/2, [`proxy_header`] reads what a load balancer announces, `connection` holds clients to deadlines, [`request_head`] to sizes and [`connections`] to
//! numbers, [`listener`] holds the sockets. Callers: [`crate::app`].

mod connection;
pub(crate) mod connections;
pub(crate) mod farewell;
pub(crate) mod gate;
mod http2;
pub(crate) mod in_flight;
pub(crate) mod listener;
mod pass;
pub(crate) mod proxy_header;
pub(crate) mod public;
pub(crate) mod request_head;
mod rest;
pub(crate) mod tls;
mod write;
