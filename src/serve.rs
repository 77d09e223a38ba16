//! The public listener, kept thin.
//!
//! Sockets only: [`crate::answer`] finds and makes the answers. [`public`] moves the bytes, [`tls`] makes connections
//! secure, [`gate`] tells protocols apart, `http2` serves HTTP/2, and [`proxy_header`] reads what a load balancer
//! announces. `connection` limits the time of clients, [`request_head`] the size of heads, and [`connections`] the number
//! of connections, and `unread` what waits for slow clients. [`listener`] holds the sockets. Callers: [`crate::app`].

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
mod unread;
mod write;
