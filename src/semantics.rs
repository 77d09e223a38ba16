//! The rules of HTTP as plain functions of values.
//!
//! Validators, preconditions, negotiation, freshness, client addresses, paths and problem documents. No socket, no
//! clock, no configuration, and nothing about the mirrored API. Callers: `answer`, `upstream`, `proxy` and `limit`.

pub(crate) mod accept;
pub(crate) mod cache_status;
pub(crate) mod caching;
pub(crate) mod client_address;
pub(crate) mod coding;
pub(crate) mod etag;
pub(crate) mod excerpt;
pub(crate) mod framing;
pub(crate) mod freshness;
pub(crate) mod hops;
pub(crate) mod host;
pub(crate) mod network;
pub mod path;
pub mod precondition;
pub(crate) mod problem;
pub(crate) mod proxy_protocol;

/// Drops the optional whitespace (RFC 9110 §5.6.3: space and tab) around a field value or list member.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
