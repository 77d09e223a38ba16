//! What carries one request to the origin and brings back what was answered.
//!
//! It knows nothing of budgets, redirects or what an answer means, and never tries twice. [`super::wire`] is the real one;
//! behind the trait a test can put an origin that lives in its own process and its own time. Callers:
//! [`super::client`].

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderMap, Method};
use url::Url;

/// What comes in pieces after the head of an answer, decoded.
pub(crate) type Body = BoxStream<'static, Result<Bytes, TransportError>>;

/// The head of an answer, and its body as it arrives.
pub struct Arrival {
    /// The status.
    pub status: u16,
    /// The header as it came.
    pub headers: HeaderMap,
    /// The body, free of content codings. Who drops it stops reading.
    pub body: Body,
}

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Not in time.
    #[error("no answer in time")]
    Timeout,
    /// No connection; the chain of causes.
    #[error("{0}")]
    Unreached(String),
    /// The connection was gone before the request left; the chain of causes.
    #[error("{0}")]
    Unsent(String),
    /// The connection had been idle and was closed under the request; the chain of causes.
    #[error("{0}")]
    Idle(String),
    /// A connection that broke; the chain of causes.
    #[error("{0}")]
    Connection(String),
    /// The body is not in the coding that it claims; the chain of causes.
    #[error("{0}")]
    Decode(String),
    /// What came is not HTTP as it must be.
    #[error("{0}")]
    Malformed(String),
}

impl TransportError {
    /// Whether another try, which takes a slot of its own, does no harm: the origin cannot have acted upon the request (RFC
    /// 9112 §9.3.1, §9.6). One that may have arrived, and have been counted there, is worth it only if it `is_awaited`.
    pub(super) fn allows_another_try(&self, method: &Method, is_awaited: bool) -> bool {
        match self {
            Self::Unsent(_) => true,
            Self::Idle(_) => method.is_safe() && is_awaited,
            _ => false,
        }
    }
}

/// Carries requests. Whoever implements it bounds the time of the whole of an answer, body included.
#[async_trait]
pub trait Transport: Send + Sync {
    /// GETs `url` with these header fields; no redirect is followed.
    ///
    /// # Errors
    /// When the head of an answer does not arrive.
    async fn get(&self, url: Url, headers: HeaderMap) -> Result<Arrival, TransportError>;
}
