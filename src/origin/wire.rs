//! The wire: one HTTP client and one pool of connections for all requests to the origin.
//!
//! It knows nothing of budgets, redirects or what an answer means, and never retries; it says whether a retry is safe. It
//! is hyper, not pingora's connector, because pingora's (0.9.1) reads no interim answers over HTTP/2, replaces the
//! system's authorities by a CA file instead of adding them, and does not verify the certificate of an origin named by
//! its address. With [`Transport`] a test can use an origin in its own process and its own time. Callers:
//! [`super::client`] through [`Transport`], [`super::forward`]; [`crate::fleet`] for object stores.

mod decode;

use std::error::Error;
use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::Scheme;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Builder, Client, Error as HyperError};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::config::Proxy;
use crate::protocol::framing::{self, BadAnswer, check_interim};
use crate::words::with_causes;

pub(crate) use decode::decoded;

use super::ask::ClientError;
use super::connector::{Answers, Connector, Pipe, ProxyError};
use super::trust::tls;

/// An interim answer (RFC 9110 §15.2).
pub(crate) type Interim = (StatusCode, HeaderMap);

/// Hears each interim answer as it comes.
pub(crate) type Listener = Arc<dyn Fn(Interim) + Send + Sync>;

/// How long a connection is given requests: then a new one follows a name that has moved.
pub(crate) const CONNECTION_LIFE: Duration = Duration::from_secs(5 * 60);

type HttpClient = Client<Connector, Full<Bytes>>;

/// The wire; cheap to clone.
#[derive(Clone)]
pub struct Wire {
    connections: Arc<Connections>,
    /// For connecting, for the head of an answer, and for the whole of one that is read whole.
    timeout: Duration,
    user_agent: HeaderValue,
    proxy: Proxy,
}

/// The pool of connections, replaced as a whole: whether one is in use all the time, and how many requests share it, does
/// not matter. What is under way on the old ones ends there.
struct Connections {
    builder: Builder,
    connector: Connector,
    current: Mutex<(Instant, HttpClient)>,
}

impl Connections {
    fn http(&self) -> HttpClient {
        // Held only to copy the client; connections are made without it.
        let mut current = self.current.lock();
        if current.0.elapsed() >= CONNECTION_LIFE {
            *current = (Instant::now(), self.builder.build(self.connector.clone()));
        }
        current.1.clone()
    }
}

impl Debug for Wire {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Wire {
    /// A wire that trusts the system's authorities and `ca_file`.
    pub fn new(timeout: Duration, user_agent: &str, ca_file: Option<&Path>, proxy: Proxy) -> Result<Self, ClientError> {
        Self::through(None, timeout, user_agent, ca_file, proxy)
    }

    /// The same; with a pipe, every connection is one of it.
    pub(crate) fn through(
        pipe: Option<Pipe>,
        timeout: Duration,
        user_agent: &str,
        ca_file: Option<&Path>,
        proxy: Proxy,
    ) -> Result<Self, ClientError> {
        let user_agent =
            HeaderValue::from_str(user_agent).map_err(|error| ClientError::UserAgent(error.to_string()))?;
        let mut tls = tls(ca_file)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self::over(&Self::http(), Connector::over(pipe, timeout, tls, proxy), timeout, user_agent))
    }

    pub(crate) fn over(http: &Builder, connector: Connector, timeout: Duration, user_agent: HeaderValue) -> Self {
        let proxy = connector.proxy().clone();
        let current = Mutex::new((Instant::now(), http.build(connector.clone())));
        let connections = Arc::new(Connections { builder: http.clone(), connector, current });
        Self { connections, timeout, user_agent, proxy }
    }

    /// HTTP with bounds, without hidden retries.
    pub(crate) fn http() -> Builder {
        let mut http = Client::builder(TokioExecutor::new());
        http.pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            // Many servers close a connection that is idle for 5 s; an unsafe method must not meet one.
            .pool_idle_timeout(Duration::from_secs(4))
            .pool_max_idle_per_host(32)
            .http1_max_buf_size(256 * 1024)
            .http2_max_header_list_size(64 * 1024)
            // Each request on the wire takes a slot of the budget: no hidden retries.
            .retry_canceled_requests(false);
        http
    }

    pub(crate) const fn user_agent(&self) -> &HeaderValue {
        &self.user_agent
    }

    /// Sends one request and waits for the head of its answer, with reliable framing; `interim` receives interim
    /// answers on the way.
    pub(crate) async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        interim: Option<Listener>,
    ) -> Result<Response<Incoming>, TransportError> {
        let interims = Arc::<Interims>::default();
        let listening = interims.clone();
        hyper::ext::on_informational(&mut request, move |answer| {
            let passes = listening.hear(answer.status(), answer.headers());
            if let Some(interim) = interim.as_ref().filter(|_| passes) {
                interim((answer.status(), answer.headers().clone()));
            }
        });
        // The proxy of an https URL gets them when the connection is made.
        let proxy = self.proxy.on_the_way_to(request.uri()).filter(|_| request.uri().scheme() == Some(&Scheme::HTTP));
        if let Some(credentials) = proxy.as_ref().and_then(Intercept::basic_auth) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credentials.clone());
        }
        let malformed = |reason: &dyn std::fmt::Display| TransportError::Malformed(reason.to_string());
        let http = self.connections.http();
        let answered = async {
            tokio::select! {
                biased;
                // First: no final answer makes a bad interim one good.
                Some(bad) = interims.bad() => Err(malformed(&bad)),
                sent = http.request(request) => sent.map_err(|error| failure(&error, interims.came())),
            }
        };
        let mut answer = timeout(self.timeout, answered).await.map_err(|_elapsed| TransportError::Timeout)??;
        if let Some(answers) = answer.extensions().get::<Answers>() {
            answers.came();
        }
        if let Some(proxy) = proxy.filter(|_| answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            return Err(TransportError::Unreached(ProxyError::unauthorized(&proxy).to_string()));
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
    let source = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    let broken = source.and_then(|source| source.source()?.downcast_ref::<io::Error>()).map(io::Error::kind);
    // Before the first byte of an answer.
    let has_ended = source.is_some_and(hyper::Error::is_incomplete_message)
        || matches!(broken, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    let first: &(dyn Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| (**error).source());
    if causes.any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)) {
        TransportError::Malformed(reason(error))
    } else if has_ended && interims {
        TransportError::Malformed("only interim answers came, and no final one".to_owned())
    } else if error.is_connect() {
        TransportError::Unreached(reason(error))
    } else if source.is_some_and(hyper::Error::is_canceled) {
        TransportError::Unsent(reason(error))
    } else if has_ended && gave_answers(error) {
        TransportError::Idle(reason(error))
    } else {
        TransportError::Connection(reason(error))
    }
}

/// Why there is no answer: the causes, without the client's word for the step that failed.
pub(crate) fn reason(error: &HyperError) -> String {
    let text = error.source().map_or_else(|| error.to_string(), with_causes);
    let text = text.replace("received corrupt message of type InvalidContentType", "the answer is not TLS");
    text.replace("unexpected error: ", "")
}

/// Whether the connection that broke had given answers before: then it was idle too long.
fn gave_answers(error: &HyperError) -> bool {
    let mut extra = Extensions::new();
    error.connect_info().inspect(|connected| connected.get_extras(&mut extra));
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
        let body = decoded(&mut headers, pieces.boxed());
        Ok(Arrival { status: parts.status.as_u16(), headers, body })
    }
}

/// The next piece of a body that must come by then; nothing follows an error.
pub(crate) async fn next_piece(
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

/// The decoded pieces after the head of an answer.
pub(crate) type Body = BoxStream<'static, Result<Bytes, TransportError>>;

/// The head of an answer, and its body as it arrives.
pub struct Arrival {
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
    async fn fetch(&self, method: &Method, url: Url, headers: HeaderMap) -> Result<Arrival, TransportError>;
}

/// The interim answers to one request (RFC 9110 §15.2): how many came, and what is wrong with the first bad one.
#[derive(Debug, Default)]
struct Interims(watch::Sender<(usize, Option<BadAnswer>)>);

impl Interims {
    /// Receives one more; returns whether to pass it on.
    fn hear(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let mut passes = false;
        self.0.send_modify(|(count, bad)| {
            *bad = bad.or(check_interim(status, headers, *count).err());
            *count += 1;
            passes = bad.is_none();
        });
        passes
    }

    fn came(&self) -> bool {
        self.0.borrow().0 > 0
    }

    /// Waits for the first bad one.
    async fn bad(&self) -> Option<BadAnswer> {
        let mut heard = self.0.subscribe();
        heard.wait_for(|(_, bad)| bad.is_some()).await.ok().and_then(|heard| heard.1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// Answers each request on a connection of HTTP/1.1.
    async fn answer(mut stream: DuplexStream) {
        let mut read = Vec::new();
        while stream.read_buf(&mut read).await.is_ok_and(|read| read > 0) {
            if read.ends_with(b"\r\n\r\n") {
                read.clear();
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            }
        }
    }

    /// The same, of HTTP/2.
    async fn answer_in_streams(stream: DuplexStream) {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            respond.send_response(Response::new(()), true).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_always_in_use_is_renewed_all_the_same() {
        for is_http2 in [false, true] {
            let opened = Arc::new(AtomicUsize::new(0));
            let counter = opened.clone();
            let pipe: Pipe = Arc::new(move || {
                counter.fetch_add(1, Ordering::SeqCst);
                let (ours, theirs) = duplex(1 << 16);
                if is_http2 {
                    tokio::spawn(answer_in_streams(theirs))
                } else {
                    tokio::spawn(answer(theirs))
                };
                ours
            });
            let (timeout, name) = (Duration::from_secs(10), HeaderValue::from_static("test"));
            let tls = tls(None).unwrap();
            let connector = Connector::over(Some(pipe), timeout, tls, Proxy::default());
            let wire = Wire::over(Wire::http().http2_only(is_http2), connector, timeout, name);
            let start = Instant::now();
            let ask = async || {
                let request = Request::get("http://origin.test/").body(Full::default()).unwrap();
                drop(wire.exchange(request, None).await.unwrap().into_body().collect().await);
                tokio::time::sleep(Duration::from_secs(1)).await;
            };
            while start.elapsed() < CONNECTION_LIFE {
                ask().await;
            }
            assert_eq!(opened.load(Ordering::SeqCst), 1);
            ask().await;
            assert_eq!(opened.load(Ordering::SeqCst), 2, "HTTP/2: {is_http2}");
        }
    }

    /// A copy would count for nobody.
    #[tokio::test]
    async fn the_body_of_a_request_is_written_from_where_it_is() {
        let origin = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", origin.local_addr().unwrap());
        let (timeout, name) = (Duration::from_secs(20), HeaderValue::from_static("test"));
        let connector = Connector::over(None, timeout, tls(None).unwrap(), Proxy::default());
        let wire = Wire::over(&Wire::http(), connector, timeout, name);
        // More than the sockets take.
        let body = Bytes::from(vec![b'x'; 16 << 20]);
        let request = Request::post(url).body(Full::new(body.clone())).unwrap();
        let asking = tokio::spawn(async move { wire.exchange(request, None).await.map(drop) });
        let (mut stream, _) = origin.accept().await.unwrap();
        // The head, and the beginning of the body.
        stream.read_exact(&mut vec![0; 4 << 10]).await.unwrap();
        assert!(!body.is_unique(), "what is left of it is a copy");
        asking.abort();
    }
}
