//! Carries one request to the origin and brings back its answer.
//!
//! It knows nothing of budgets, redirects or what an answer means, and never retries. [`super::wire`] is the real one;
//! with the trait a test can use an origin in its own process and its own time. Callers: [`super::client`].

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderMap, Method};
use url::Url;

/// The decoded pieces after the head of an answer.
pub(crate) type Body = BoxStream<'static, Result<Bytes, TransportError>>;

/// The head of an answer, and its body as it arrives.
pub struct Arrival {
    /// The status.
    pub status: u16,
    /// The header as it came.
    pub headers: HeaderMap,
    /// The body, without content codings. Dropping it stops reading.
    pub body: Body,
}

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No answer, or no next piece, in time.
    #[error("no answer in time")]
    Timeout,
    /// No connection; the chain of causes.
    #[error("{0}")]
    Unreached(String),
    /// The connection was gone before the request left; the chain of causes.
    #[error("{0}")]
    Unsent(String),
    /// An idle connection was closed under the request; the chain of causes.
    #[error("{0}")]
    Idle(String),
    /// A connection that broke; the chain of causes.
    #[error("{0}")]
    Connection(String),
    /// The body is not in its declared coding; the chain of causes.
    #[error("{0}")]
    Decode(String),
    /// Invalid HTTP.
    #[error("{0}")]
    Malformed(String),
}

impl TransportError {
    /// Whether a retry, which takes a slot of its own, does no harm: the origin cannot have acted upon the request (RFC
    /// 9112 §9.3.1, §9.6). If the request may have arrived and counted there, a retry is worth it only if it
    /// `is_awaited`.
    pub(super) fn allows_another_try(&self, method: &Method, is_awaited: bool) -> bool {
        match self {
            Self::Unsent(_) => true,
            Self::Idle(_) => method.is_safe() && is_awaited,
            _ => false,
        }
    }
}

/// Carries requests. An implementation bounds the time of the whole answer, body included.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends GET or HEAD for `url` with these header fields; no redirect is followed.
    ///
    /// # Errors
    /// When the head of an answer does not arrive.
    async fn fetch(&self, method: &Method, url: Url, headers: HeaderMap) -> Result<Arrival, TransportError>;
}
