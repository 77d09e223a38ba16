//! Forwarding of a client's request as it is, and of its answer as it comes, body and interim answers included.
//!
//! It knows neither caches nor what an answer means, and follows no redirect. Each request takes a slot of the origin's
//! budget; each wait has an end. Callers: [`crate::edge::proxy`].

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, DATE, RETRY_AFTER, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};

use crate::clock::{Clock, Monotonic, WallTime};
use crate::protocol::caching::{Vary, is_bare};
use crate::protocol::freshness;

use super::client::{Answered, AskError, Asker, OriginClient, Place};
use super::wire::{Listener, Wire};

/// An answer must end within so many times the time for one step.
const MOST_STEPS: u32 = 60;

#[derive(Clone, Debug)]
pub struct Sending {
    pub method: Method,
    /// Path and raw query, byte for byte.
    pub target: Bytes,
    /// The end-to-end fields.
    pub fields: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// The client's HTTP version.
    pub received: Version,
    /// Who asks, and how patiently.
    pub asker: Asker,
}

/// The head of an answer, and its body as it arrives.
#[derive(Debug)]
pub struct Arrived {
    pub status: StatusCode,
    /// The header as it came.
    pub headers: HeaderMap,
    pub body: Pieces,
    /// When the request was sent.
    pub asked: WallTime,
    /// When the head arrived.
    pub received: WallTime,
}

impl Arrived {
    /// Whether the head is the whole answer.
    pub fn ends_with_head(&self) -> bool {
        let no_length = HeaderValue::from_static("0");
        self.body.are_all_here() || self.headers.get(CONTENT_LENGTH) == Some(&no_length)
    }

    /// When the origin wants the next request, if it says so.
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
    _place: Option<Place>,
}

impl Pieces {
    /// Whether nothing follows; `false` if only the end can tell.
    pub fn are_all_here(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, AskError>> {
        loop {
            let left = self.deadline.since(self.clock.now_mono()).min(self.step);
            let frame = match tokio::time::timeout(left, self.incoming.frame()).await {
                Ok(frame) => frame?,
                Err(_elapsed) => return Some(Err(AskError::Timeout { path: "a body".into(), after: left })),
            };
            match frame {
                Ok(frame) => {
                    // Trailers are hop-by-hop unless defined otherwise (RFC 9110 §6.5.1).
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

/// Forwards requests; cheap to clone.
#[derive(Clone)]
pub struct Forwarder {
    wire: Wire,
    origin: OriginClient,
    clock: Clock,
}

impl Forwarder {
    /// To the origin of `origin`, with its budget and health policy, over the same wire.
    pub const fn new(origin: OriginClient, wire: Wire, clock: Clock) -> Self {
        Self { wire, origin, clock }
    }

    /// The client whose origin, budget and health this shares.
    pub const fn origin(&self) -> &OriginClient {
        &self.origin
    }

    /// Sends one request; `interim` receives interim answers on the way. Any status is an answer.
    pub async fn send(&self, sending: Sending, interim: Option<Listener>) -> Result<Arrived, AskError> {
        let path = String::from_utf8_lossy(&sending.target).into_owned();
        let request = self.request(&sending).map_err(|reason| AskError::nonsense(&path, reason))?;
        let exchange = || self.wire.exchange(request.clone(), interim.clone());
        let answered = self
            .origin
            .attempt(&sending.method, &path, (&sending.asker, true), exchange, |answer| answer.status().as_u16())
            .await;
        let failed = |error: &AskError| self.origin.failed(error, self.origin.witness(&sending.asker, false));
        let answered = answered.map_err(|error| self.origin.named(error));
        let arrived = self.arrived(answered.inspect_err(failed)?);
        self.heed(&path, &arrived, &sending);
        Ok(arrived)
    }

    /// Applies what an answer says about the origin's health, and about pauses.
    fn heed(&self, path: &str, arrived: &Arrived, sending: &Sending) {
        let status = arrived.status.as_u16();
        if status != 429 && status < 500 {
            self.origin.succeeded(false);
            return;
        }
        let error = AskError::Status { status, path: path.to_owned(), retry_after: arrived.retry_after() };
        let error = self.origin.named(error);
        if status == 429 && !speaks_for_all(sending) {
            // Perhaps only that client's own allowance is used up.
            self.origin.unusable(&error);
        } else {
            self.origin.failed(&error, self.origin.witness(&sending.asker, false));
        }
    }

    fn arrived(&self, answered: Answered<Response<Incoming>>) -> Arrived {
        let Answered { answer, asked, received, place } = answered;
        let (parts, incoming) = answer.into_parts();
        let mut headers = parts.headers;
        match parts.status {
            // RFC 9110 §8.6 and §15.3.6: 204 has no length, 205 only zero.
            StatusCode::NO_CONTENT => drop(headers.remove(CONTENT_LENGTH)),
            StatusCode::RESET_CONTENT => drop(headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"))),
            // RFC 9112 §6.3: an origin that sends both means the coding, or harm.
            _ if headers.contains_key(TRANSFER_ENCODING) => drop(headers.remove(CONTENT_LENGTH)),
            _ => {}
        }
        let step = self.origin.config().timeout;
        let deadline = self.clock.now_mono().plus(step.saturating_mul(MOST_STEPS));
        let body = Pieces { incoming, step, deadline, clock: self.clock.clone(), _place: place };
        if !headers.contains_key(DATE) {
            // RFC 9110 §6.6.1.
            if let Some(Ok(date)) = received.http_date().as_deref().map(HeaderValue::from_str) {
                headers.insert(DATE, date);
            }
        }
        Arrived { status: parts.status, headers, body, asked, received }
    }

    fn request(&self, sending: &Sending) -> Result<Request<Full<Bytes>>, String> {
        let base = self.origin.base().as_str().trim_end_matches('/');
        let uri = [base.as_bytes(), &sending.target].concat();
        let uri = Uri::from_maybe_shared(uri).map_err(|error| error.to_string())?;
        let mut request = Request::new(Full::new(sending.body.clone()));
        *request.method_mut() = sending.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = sending.fields.clone();
        // A body's length is that of this body.
        let announced = request.headers_mut().remove(CONTENT_LENGTH).is_some();
        if announced && sending.body.is_empty() && !matches!(sending.method, Method::GET | Method::HEAD) {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        self.origin.name().sign_forwarded(request.headers_mut(), sending.received);
        if !request.headers().contains_key(USER_AGENT) {
            request.headers_mut().insert(USER_AGENT, self.wire.user_agent().clone());
        }
        Ok(request)
    }
}

/// Whether the result of a request tells of the origin, not of the method or of fields that one client chose.
fn speaks_for_all(sending: &Sending) -> bool {
    sending.method == Method::GET && is_bare(&sending.fields, &Vary::NOTHING)
}
