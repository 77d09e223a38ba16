//! The wire of what is passed through: one request as it is, one answer as it comes, body and interim answers included.
//!
//! It knows neither caches nor what an answer means, and follows nothing. Every request takes a slot of the origin's
//! budget, and every wait has an end. Callers: [`crate::proxy::pass_through`].

mod interim;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, RETRY_AFTER, TRANSFER_ENCODING, USER_AGENT};
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{HttpConnector, HttpInfo};
use hyper_util::client::legacy::{Client, Error as HyperError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rustls::crypto::aws_lc_rs;
use rustls_platform_verifier::Verifier;

use crate::clock::{self, Clock, Monotonic, WallTime};
use crate::semantics::caching::{Vary, is_bare};
use crate::semantics::{framing, freshness};
use crate::upstream::client::{AskError, Asker, ClientError, OriginClient, read_ca_file};
use crate::upstream::transport::{self, is_malformed};
use crate::upstream::window::Class;

use interim::Interims;

/// How often the time for one step may pass before an answer must have ended.
const MOST_STEPS: u32 = 60;

/// How many idle connections may turn out to be closed under one request.
const MOST_RETRIES: u32 = 2;
/// How many connections are remembered; more make it forget all, which costs at most a retry each.
const MOST_CONNECTIONS: usize = 1024;

/// An interim answer (RFC 9110 §15.2).
pub(crate) type Interim = (StatusCode, HeaderMap);

/// What is sent.
#[derive(Clone, Debug)]
pub struct Sending {
    /// The method.
    pub method: Method,
    /// Path and raw query, byte for byte.
    pub target: Bytes,
    /// The end-to-end fields.
    pub fields: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// The version of HTTP in which the client asked.
    pub received: Version,
    /// Who asks, and how patiently.
    pub asker: Asker,
}

/// The head of an answer, and its body as it arrives.
#[derive(Debug)]
pub struct Arrived {
    /// The status.
    pub status: StatusCode,
    /// The header as it came.
    pub headers: HeaderMap,
    /// What follows.
    pub body: Pieces,
    /// When the request was sent.
    pub asked: WallTime,
    /// When the head arrived.
    pub received: WallTime,
}

impl Arrived {
    /// Whether a client that has the head has everything.
    pub fn ends_with_head(&self) -> bool {
        let no_length = HeaderValue::from_static("0");
        self.body.are_all_here() || self.headers.get(CONTENT_LENGTH) == Some(&no_length)
    }

    /// When the origin wants to be asked again, if it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = self.headers.get(RETRY_AFTER)?;
        let seconds = freshness::parse_retry_after(wait.as_bytes(), self.received)?;
        Some(Duration::from_secs(u64::from(seconds)))
    }
}

/// The body of an answer as it arrives, bounded in time.
#[derive(Debug)]
pub struct Pieces {
    incoming: Incoming,
    step: Duration,
    deadline: Monotonic,
    clock: Clock,
}

impl Pieces {
    /// Whether nothing follows; `false` where only the end itself can tell.
    pub fn are_all_here(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When the body breaks off, or takes too long.
    pub async fn next(&mut self) -> Option<Result<Bytes, AskError>> {
        loop {
            let left = self.deadline.since(self.clock.now_mono()).min(self.step);
            let frame = match tokio::time::timeout(left, self.incoming.frame()).await {
                Ok(frame) => frame?,
                Err(_elapsed) => return Some(Err(AskError::Timeout { path: "a body".into(), after: left })),
            };
            match frame {
                Ok(frame) => {
                    // Trailers are hop-by-hop unless somebody knows better (RFC 9110 §6.5.1).
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => {
                    let (path, reason) = ("a body".into(), error.to_string());
                    return Some(Err(AskError::Connection { path, reason, reached: true }));
                }
            }
        }
    }
}

/// The way to the origin for what is passed through; cheap to clone.
#[derive(Clone)]
pub struct Upstream {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    origin: OriginClient,
    clock: Clock,
    /// Connections, by our end of them, that gave an answer: one of these that ends without another was idle too long.
    proven: Arc<Mutex<HashSet<SocketAddr>>>,
}

impl Upstream {
    /// To the origin that `origin` asks, with its budget, its timeouts and its certificates.
    ///
    /// # Errors
    /// When the CA file or the TLS library is not usable.
    pub fn new(origin: OriginClient, ca_file: Option<&std::path::Path>, clock: Clock) -> Result<Self, ClientError> {
        let failed = |error: &dyn std::fmt::Display| ClientError::Tls(error.to_string());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let more = ca_file.map(read_ca_file).transpose()?.unwrap_or_default();
        let verifier = Verifier::new_with_extra_roots(more, provider.clone()).map_err(|error| failed(&error))?;
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(origin.config().timeout));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let https =
            hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions();
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            // Many servers close a connection that is idle for 5 s; a method that is not safe must not meet one.
            .pool_idle_timeout(Duration::from_secs(4))
            .pool_max_idle_per_host(32)
            .http1_max_buf_size(256 * 1024)
            .http2_max_header_list_size(64 * 1024)
            // Each request on the wire takes a slot of the budget: none is sent twice behind its back.
            .retry_canceled_requests(false)
            .build(https.wrap_connector(tcp));
        Ok(Self { http, origin, clock, proven: Arc::default() })
    }

    /// The client whose origin, budget and health this shares.
    pub fn origin(&self) -> &OriginClient {
        &self.origin
    }

    /// Sends one request; `interim` is told of interim answers on the way.
    ///
    /// # Errors
    /// When no head of an answer arrives. Any status is an answer.
    pub async fn send(
        &self,
        sending: Sending,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Arrived, AskError> {
        let path = String::from_utf8_lossy(&sending.target).into_owned();
        let mut outcome = self.once(&sending, &path, interim.clone()).await;
        for _ in 0..MOST_RETRIES {
            // The connection was closed before the origin can have answered on it (RFC 9112 §9.3.1, §9.6).
            if let Err((error, fate)) = &outcome
                && (*fate == Fate::Unsent || (*fate == Fate::Idle && sending.method.is_safe()))
            {
                tracing::debug!(%error, "an idle connection was closed under a request");
                outcome = self.once(&sending, &path, interim.clone()).await;
            }
        }
        match outcome {
            Ok(arrived) => {
                self.heed(&path, &arrived, &sending);
                Ok(arrived)
            }
            Err((error, _)) => {
                if !matches!(error, AskError::Spent(_)) {
                    self.origin.failed(&error, self.origin.witness(&sending.asker, false));
                }
                Err(error)
            }
        }
    }

    /// What an answer says about the origin's health, and about when it wants to be asked again.
    fn heed(&self, path: &str, arrived: &Arrived, sending: &Sending) {
        let status = arrived.status.as_u16();
        if status != 429 && status < 500 {
            self.origin.succeeded();
            return;
        }
        let error = AskError::Status { status, path: path.to_owned(), retry_after: arrived.retry_after() };
        if status == 429 && !speaks_for_all(sending) {
            // It may be that client's own allowance that is used up.
            self.origin.unusable(&error);
        } else {
            self.origin.failed(&error, self.origin.witness(&sending.asker, false));
        }
    }

    /// One request on the wire; with an error goes what became of the request.
    async fn once(
        &self,
        sending: &Sending,
        path: &str,
        interim: impl Fn(Interim) + Send + Sync + 'static,
    ) -> Result<Arrived, (AskError, Fate)> {
        let timeout = self.origin.config().timeout;
        let mut request = self.request(sending).map_err(|reason| (AskError::nonsense(path, reason), Fate::Sent))?;
        let interims = Arc::<Interims>::default();
        let listening = interims.clone();
        hyper::ext::on_informational(&mut request, move |answer| {
            if listening.hear(answer.status(), answer.headers()) {
                interim((answer.status(), answer.headers().clone()));
            }
        });
        let budget = self.origin.budget();
        let Asker { class, client, patience, demand, .. } = sending.asker.clone();
        let permit = budget.acquire_for(class, client, patience, demand).await;
        let permit = permit.map_err(|spent| (AskError::from(spent), Fate::Sent))?;
        self.origin.status().sent(Class::Client);
        if request.uri().scheme_str() == Some("https") && clock::is_before_1970() {
            let reason = transport::NO_TIME.to_owned();
            let error = AskError::Connection { path: path.to_owned(), reason, reached: false };
            return Err((error, Fate::Unconnected));
        }
        let asked = self.clock.now_wall();
        let nonsense = |reason: &dyn std::fmt::Display| (AskError::nonsense(path, reason), Fate::Sent);
        let answered = async {
            tokio::select! {
                biased;
                bad = interims.bad() => Err(bad),
                sent = self.http.request(request) => Ok(sent),
            }
        };
        let sent = match tokio::time::timeout(timeout, answered).await {
            Ok(Err(bad)) => return Err(nonsense(&bad)),
            Ok(Ok(sent)) => Ok(sent),
            Err(elapsed) => Err(elapsed),
        };
        let answer = match sent {
            Err(_elapsed) => return Err((AskError::Timeout { path: path.to_owned(), after: timeout }, Fate::Sent)),
            Ok(Err(error)) if is_malformed(&error) => return Err(nonsense(&chain(&error))),
            Ok(Err(error)) if has_ended(&error) && interims.came() => {
                return Err(nonsense(&"interim answers came, and no final one"));
            }
            Ok(Err(error)) => {
                let fate = if error.is_connect() {
                    Fate::Unconnected
                } else if was_not_sent(&error) {
                    Fate::Unsent
                } else if has_ended(&error) && self.gave_answers(&error) {
                    Fate::Idle
                } else {
                    Fate::Sent
                };
                let reached = fate != Fate::Unconnected;
                return Err((AskError::Connection { path: path.to_owned(), reason: chain(&error), reached }, fate));
            }
            Ok(Ok(answer)) => answer,
        };
        if let Some(info) = answer.extensions().get::<HttpInfo>() {
            let mut proven = self.proven.lock();
            if proven.len() >= MOST_CONNECTIONS {
                proven.clear();
            }
            proven.insert(info.local_addr());
        }
        // The origin has counted the request by now.
        permit.answered();
        let received = self.clock.now_wall();
        let (mut parts, incoming) = answer.into_parts();
        // Written anew: how a length is spelled here is not how it is passed on.
        if let Some(length) = framing::check(parts.status, &parts.headers).map_err(|bad| nonsense(&bad))? {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        match parts.status {
            // RFC 9110 §8.6 and §15.3.6: the one has no length, the other none but zero.
            StatusCode::NO_CONTENT => drop(parts.headers.remove(CONTENT_LENGTH)),
            StatusCode::RESET_CONTENT => drop(parts.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"))),
            // RFC 9112 §6.3: who sends both means the coding, or no good.
            _ if parts.headers.contains_key(TRANSFER_ENCODING) => drop(parts.headers.remove(CONTENT_LENGTH)),
            _ => {}
        }
        let deadline = self.clock.now_mono().plus(timeout.saturating_mul(MOST_STEPS));
        let body = Pieces { incoming, step: timeout, deadline, clock: self.clock.clone() };
        let mut headers = parts.headers;
        if !headers.contains_key(DATE) {
            // RFC 9110 §6.6.1.
            if let Some(Ok(date)) = received.http_date().as_deref().map(HeaderValue::from_str) {
                headers.insert(DATE, date);
            }
        }
        Ok(Arrived { status: parts.status, headers, body, asked, received })
    }

    /// Whether the connection that broke had given answers before.
    fn gave_answers(&self, error: &HyperError) -> bool {
        let mut extra = Extensions::new();
        if let Some(connected) = error.connect_info() {
            connected.get_extras(&mut extra);
        }
        extra.get::<HttpInfo>().is_some_and(|info| self.proven.lock().remove(&info.local_addr()))
    }

    fn request(&self, sending: &Sending) -> Result<Request<Full<Bytes>>, String> {
        let base = self.origin.base().as_str().trim_end_matches('/');
        let uri = [base.as_bytes(), &sending.target].concat();
        let uri = Uri::from_maybe_shared(uri).map_err(|error| error.to_string())?;
        let mut request = Request::new(Full::new(sending.body.clone()));
        *request.method_mut() = sending.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = sending.fields.clone();
        // How long a body is, is said of this one.
        let announced = request.headers_mut().remove(CONTENT_LENGTH).is_some();
        if announced && sending.body.is_empty() && !matches!(sending.method, Method::GET | Method::HEAD) {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        self.origin.name().sign_forwarded(request.headers_mut(), sending.received);
        if !request.headers().contains_key(USER_AGENT) {
            let own = HeaderValue::from_str(&self.origin.config().user_agent).map_err(|error| error.to_string())?;
            request.headers_mut().insert(USER_AGENT, own);
        }
        Ok(request)
    }
}

/// What became of a request that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// There was no connection.
    Unconnected,
    /// It never left.
    Unsent,
    /// Its connection had been idle and was closed under it: worth another one.
    Idle,
    /// It may have arrived.
    Sent,
}

/// Whether what becomes of a request tells of the origin, and not of fields that one client chose.
fn speaks_for_all(sending: &Sending) -> bool {
    is_bare(&sending.fields, &Vary::Nothing)
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

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
