//! A client's question to the cache, and its answer.
//!
//! Values only. Callers: [`crate::serve`] and [`crate::answer`] ask, and send the answer.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Version};

use crate::cache::stored::Stored;
use crate::clock::Monotonic;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::hops::{Caller, Trail};
use crate::upstream::client::AskError;

use super::spool::Reader;

/// A client's request.
#[derive(Clone, Debug)]
pub struct Question {
    /// The method.
    pub method: Method,
    /// Path and raw query: canonical for a known endpoint, else byte for byte.
    pub target: Bytes,
    /// The header as it came; empty for a known endpoint, so that no client field can poison an entry.
    pub fields: HeaderMap,
    /// The body, if the method has one.
    pub body: Bytes,
    /// The client.
    pub client: IpAddr,
    /// Whether it is asked for many: by a trusted proxy that does not name its client, or in the background.
    pub for_many: bool,
    /// The version of HTTP that the client speaks.
    pub version: Version,
    pub endpoint: Endpoint,
}

#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A known endpoint: its answers are read whole and checked before clients get them.
    Known {
        /// Whether the document holds `api_url`s.
        rewrites: bool,
        /// The processes of this program that the request passed.
        trail: Trail,
        /// Whether the origin is asked only if that costs others nothing: the client chose the bytes.
        spare: bool,
    },
    /// Another path: its answers are passed on while they arrive.
    Unknown,
}

impl Question {
    /// A GET of a canonical path and query of a known endpoint.
    pub(super) fn known(path: &str, rewrites: bool, spare: bool, client: &Caller) -> Self {
        Self {
            method: Method::GET,
            target: Bytes::copy_from_slice(path.as_bytes()),
            fields: HeaderMap::new(),
            body: Bytes::new(),
            client: client.address,
            for_many: false,
            version: Version::HTTP_11,
            endpoint: Endpoint::Known { rewrites, trail: client.trail.clone(), spare },
        }
    }

    /// Whether it is about a known endpoint.
    pub(super) const fn is_known(&self) -> bool {
        matches!(self.endpoint, Endpoint::Known { .. })
    }

    /// Whether the origin is asked only if that costs others nothing.
    pub(super) const fn is_spare(&self) -> bool {
        matches!(self.endpoint, Endpoint::Known { spare: true, .. })
    }
}

/// The head of an answer whose body is still on its way.
#[derive(Debug)]
pub struct Head {
    /// The status.
    pub status: StatusCode,
    /// The end-to-end fields as they came.
    pub fields: HeaderMap,
}

/// An answer.
#[derive(Debug)]
pub enum Passed {
    /// One that is cached, or was read whole.
    Stored {
        /// The answer.
        stored: Arc<Stored>,
        /// For `Cache-Status`.
        outcome: CacheOutcome,
    },
    /// One that still arrives.
    Streamed {
        /// Its head.
        head: Arc<Head>,
        /// Its body; `None` for none.
        body: Option<Reader>,
        /// For `Cache-Status`.
        outcome: CacheOutcome,
    },
}

impl Passed {
    /// The cached answer, as is.
    pub(super) fn hit(stored: Arc<Stored>, now: Monotonic) -> Self {
        let outcome = CacheOutcome::Hit { ttl: Some(stored.ttl(now)) };
        Self::Stored { stored, outcome }
    }

    /// The cached answer, in place of an origin's answer that failed with this status, or of none.
    pub(super) const fn stale(stored: Arc<Stored>, fwd_status: Option<u16>) -> Self {
        Self::Stored { stored, outcome: CacheOutcome::StaleIfError { fwd_status } }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PassError {
    /// The origin gives no answer, and no cached answer may be served.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The client wants a cached answer only (RFC 9111 §5.2.1.7), and there is none.
    #[error("nothing usable is cached, and the request forbids asking the origin")]
    OnlyIfCached,
}
