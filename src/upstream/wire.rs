//! The wire: one HTTP client and one pool of connections for all requests to the origin.
//!
//! It knows nothing of budgets and never retries; it says whether a retry is safe. It is hyper, not pingora's
//! connector, because pingora's (0.9.1) reads no interim answers over HTTP/2, replaces the system's authorities by a CA
//! file instead of adding them, and does not verify the certificate of an origin named by its address. Callers:
//! [`super::client`] through [`Transport`], [`super::forward`].

mod connection;
mod decode;
mod interim;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, USER_AGENT};
use http::uri::Scheme;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, Error as HyperError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::clock;
use crate::semantics::framing;
use crate::words::with_causes;

use super::connector;
use super::error::ClientError;
use super::transport::{Arrival, Transport, TransportError};

use connection::{Answers, Connector};
use interim::Interims;

/// Why no TLS request is sent then: the library would panic.
const NO_TIME: &str = "the system clock shows a time before 1970; set the clock, because TLS needs the right time";

/// An interim answer (RFC 9110 §15.2).
pub(crate) type Interim = (StatusCode, HeaderMap);

/// Hears each interim answer as it comes.
pub(crate) type Listener = Arc<dyn Fn(Interim) + Send + Sync>;

/// The wire; cheap to clone.
#[derive(Clone)]
pub struct Wire {
    http: Client<HttpsConnector<Connector>, Full<Bytes>>,
    /// For connecting, for the head of an answer, and for the whole of one that is read whole.
    timeout: Duration,
    user_agent: HeaderValue,
}

impl Wire {
    /// A wire that trusts the system's authorities and `ca_file`.
    ///
    /// # Errors
    /// When the CA file, the TLS library or this program's name is not usable.
    pub fn new(timeout: Duration, user_agent: &str, ca_file: Option<&Path>) -> Result<Self, ClientError> {
        let user_agent =
            HeaderValue::from_str(user_agent).map_err(|error| ClientError::UserAgent(error.to_string()))?;
        let connector = connector::over(Connector(connector::tcp(timeout)), ca_file)?;
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            // Many servers close a connection that is idle for 5 s; an unsafe method must not meet one.
            .pool_idle_timeout(Duration::from_secs(4))
            .pool_max_idle_per_host(32)
            .http1_max_buf_size(256 * 1024)
            .http2_max_header_list_size(64 * 1024)
            // Each request on the wire takes a slot of the budget: no hidden retries.
            .retry_canceled_requests(false)
            .build(connector);
        Ok(Self { http, timeout, user_agent })
    }

    /// The value of `User-Agent`.
    pub(super) const fn user_agent(&self) -> &HeaderValue {
        &self.user_agent
    }

    /// Sends one request and waits for the head of its answer, with reliable framing; `interim` receives interim
    /// answers on the way.
    ///
    /// # Errors
    /// When no such head arrives in time.
    pub(crate) async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        interim: Option<Listener>,
    ) -> Result<Response<Incoming>, TransportError> {
        if request.uri().scheme() == Some(&Scheme::HTTPS) && clock::is_before_1970() {
            return Err(TransportError::Unreached(NO_TIME.to_owned()));
        }
        let interims = Arc::<Interims>::default();
        let listening = interims.clone();
        hyper::ext::on_informational(&mut request, move |answer| {
            let passes = listening.hear(answer.status(), answer.headers());
            if let Some(interim) = interim.as_ref().filter(|_| passes) {
                interim((answer.status(), answer.headers().clone()));
            }
        });
        let malformed = |reason: &dyn std::fmt::Display| TransportError::Malformed(reason.to_string());
        let answered = async {
            tokio::select! {
                biased;
                bad = interims.bad() => Err(malformed(&bad)),
                sent = self.http.request(request) => sent.map_err(|error| failure(&error, interims.came())),
            }
        };
        let mut answer = timeout(self.timeout, answered).await.map_err(|_elapsed| TransportError::Timeout)??;
        if let Some(answers) = answer.extensions().get::<Answers>() {
            answers.came();
        }
        // Written again: the origin's spelling of a length is not passed on.
        if let Some(length) = framing::check(answer.status(), answer.headers()).map_err(|bad| malformed(&bad))? {
            answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Ok(answer)
    }
}

/// What an error says of the request. `interims`: some came before.
fn failure(error: &HyperError, interims: bool) -> TransportError {
    if is_malformed(error) {
        TransportError::Malformed(with_causes(error))
    } else if has_ended(error) && interims {
        TransportError::Malformed("only interim answers came, and no final one".to_owned())
    } else if error.is_connect() {
        TransportError::Unreached(with_causes(error))
    } else if was_not_sent(error) {
        TransportError::Unsent(with_causes(error))
    } else if has_ended(error) && gave_answers(error) {
        TransportError::Idle(with_causes(error))
    } else {
        TransportError::Connection(with_causes(error))
    }
}

/// Whether the connection that broke had given answers before: then it was idle too long.
fn gave_answers(error: &HyperError) -> bool {
    let mut extra = Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extra);
    }
    extra.get::<Answers>().is_some_and(Answers::any)
}

#[async_trait]
impl Transport for Wire {
    async fn fetch(&self, method: &Method, url: Url, mut headers: HeaderMap) -> Result<Arrival, TransportError> {
        let deadline = Instant::now() + self.timeout;
        let uri: Uri = url.as_str().parse().map_err(|error| TransportError::Malformed(format!("{url}: {error}")))?;
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(decode::ACCEPTED));
        let mut request = Request::new(Full::default());
        (*request.uri_mut(), *request.headers_mut(), *request.method_mut()) = (uri, headers, method.clone());
        let (parts, incoming) = self.exchange(request, None).await?.into_parts();
        let mut headers = parts.headers;
        let pieces = stream::unfold(Some(incoming), move |incoming| next_piece(incoming, deadline));
        let body = decode::decoded(&mut headers, pieces.boxed());
        Ok(Arrival { status: parts.status.as_u16(), headers, body })
    }
}

/// The next piece of a body that must end by then; nothing follows an error.
async fn next_piece(
    incoming: Option<Incoming>,
    deadline: Instant,
) -> Option<(Result<Bytes, TransportError>, Option<Incoming>)> {
    let mut incoming = incoming?;
    loop {
        match timeout_at(deadline, incoming.frame()).await {
            Err(_elapsed) => return Some((Err(TransportError::Timeout), None)),
            Ok(None) => return None,
            // The head came, and what it announced did not: a bad answer.
            Ok(Some(Err(error))) => return Some((Err(TransportError::Malformed(with_causes(&error))), None)),
            // Trailers are not needed.
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Some((Ok(data), Some(incoming)));
                }
            }
        }
    }
}

/// Whether an error is that something came which is not HTTP.
fn is_malformed(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse))
}

/// Whether the connection was gone before the request left.
fn was_not_sent(error: &HyperError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<hyper::Error>());
    source.is_some_and(hyper::Error::is_canceled)
}

/// Whether the connection ended before the first byte of an answer.
fn has_ended(error: &HyperError) -> bool {
    let Some(source) = std::error::Error::source(error).and_then(|source| source.downcast_ref::<hyper::Error>()) else {
        return false;
    };
    let broken = std::error::Error::source(source).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_incomplete_message()
        || broken.is_some_and(|error| {
            matches!(error.kind(), std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe)
        })
}
