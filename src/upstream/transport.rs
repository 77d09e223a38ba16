//! The wire: carries one request to the origin and brings back what was answered.
//!
//! It knows nothing of budgets, redirects or what an answer means, and never tries twice. [`Http`] is the real one;
//! behind the trait a test can put an origin that lives in its own process and its own time. Callers:
//! [`super::client`].

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::HeaderMap;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use crate::clock;
use crate::semantics::framing;

use super::client::ClientError;

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

/// Carries requests. Whoever implements it bounds the time of the whole of an answer, body included.
#[async_trait]
pub trait Transport: Send + Sync {
    /// GETs `url` with these header fields; no redirect is followed.
    ///
    /// # Errors
    /// When the head of an answer does not arrive.
    async fn get(&self, url: Url, headers: HeaderMap) -> Result<Arrival, TransportError>;
}

/// Why nothing is asked over TLS then: the library would panic.
pub(crate) const NO_TIME: &str = "the system clock shows a time before 1970, and TLS needs a true one: set the clock";

/// HTTP over sockets.
pub(crate) struct Http(reqwest::Client);

impl Http {
    /// A pool of connections; `timeout` is for connecting, and for the whole of one answer.
    ///
    /// # Errors
    /// When the CA file or the TLS library is not usable.
    pub(crate) fn new(timeout: Duration, user_agent: &str, ca_file: Option<&Path>) -> Result<Self, ClientError> {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(timeout)
            .timeout(timeout)
            .pool_idle_timeout(Duration::from_secs(30))
            .user_agent(user_agent);
        if let Some(path) = ca_file {
            let certificates = read_ca_file(path)?;
            let certificates = certificates.iter().map(|certificate| reqwest::Certificate::from_der(certificate));
            builder = builder.tls_certs_merge(certificates.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Self(builder.build()?))
    }
}

#[async_trait]
impl Transport for Http {
    async fn get(&self, url: Url, headers: HeaderMap) -> Result<Arrival, TransportError> {
        if url.scheme() == "https" && clock::is_before_1970() {
            return Err(TransportError::Unreached(NO_TIME.to_owned()));
        }
        let response = self.0.get(url).headers(headers).send().await.map_err(failure)?;
        framing::check(response.status(), response.headers())
            .map_err(|error| TransportError::Malformed(error.to_string()))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Arrival { status, headers, body: response.bytes_stream().map(|piece| piece.map_err(failure)).boxed() })
    }
}

/// The certificates of a CA file (PEM).
///
/// # Errors
/// When it cannot be read, or holds none.
pub(crate) fn read_ca_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let bad = |error: &dyn std::fmt::Display| ClientError::CaFile(format!("{}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(|error| bad(&error))?;
    if certificates.is_empty() { Err(bad(&"it holds no certificate")) } else { Ok(certificates) }
}

fn failure(error: reqwest::Error) -> TransportError {
    if error.is_timeout() {
        TransportError::Timeout
    } else if error.is_decode() {
        TransportError::Decode(chain(&error))
    } else if is_malformed(&error) {
        TransportError::Malformed(chain(&error.without_url()))
    } else if error.is_connect() {
        TransportError::Unreached(chain(&error.without_url()))
    } else {
        TransportError::Connection(chain(&error.without_url()))
    }
}

/// Whether an error is that something came which is not HTTP.
pub(crate) fn is_malformed(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
