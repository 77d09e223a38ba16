//! The HTTP client of object stores: the wire to the origin with the options of `object_store`, with redirects, and for
//! web servers that send chunks or compress.
//!
//! It knows no object. Retries are up to `object_store`, deadlines of whole calls to [`super`]. Callers: [`super::open`].

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, LOCATION, USER_AGENT};
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use parking_lot::Mutex;
use tokio::time::Instant;
use url::{Position, Url};

use super::Expected;
use crate::config::{Proxy, UNSUPPORTED, parse_duration};
use crate::origin::connector::Connector;
use crate::origin::trust::tls;
use crate::origin::wire::{TransportError, Wire, decoded, next_piece};

const NAME: &str = concat!("grandstand/", env!("CARGO_PKG_VERSION"));

const MOST_REDIRECTS: usize = 10;

/// The most bytes of an answer that is no object: a list, a confirmation, an error.
const MOST_TOLD: usize = 16 << 20;

/// No request takes longer, whatever the options say.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Makes the clients of one object store.
#[derive(Debug)]
pub(super) struct StoreConnector {
    pub(super) proxy: Proxy,
    /// What a web server asks for; `None`: nothing, or the requests have their own.
    pub(super) authorization: Option<HeaderValue>,
}

impl HttpConnector for StoreConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        use ClientConfigKey as K;
        let is_on = |key| value(options, key, "true or false", as_switch).map(Option::unwrap_or_default);
        let time = |key| value(options, key, "duration such as \"10s\"", parse_duration);
        // Options are checked before; these come from the environment. One is on by default.
        for (key, instead) in UNSUPPORTED.into_iter().filter(|(key, _)| *key != K::RandomizeAddresses) {
            if options.get_config_value(&key).is_some_and(|text| as_switch(&text) != Some(false)) {
                return Err(refused(format!("`{}` in the environment is not supported: {instead}", key.as_ref())));
            }
        }
        let mut http = Wire::http();
        http.retry_canceled_requests(true).pool_idle_timeout(Duration::from_secs(90)).http2_only(is_on(K::Http2Only)?);
        let mut tls = tls(None).map_err(|error| refused(error.to_string()))?;
        tls.alpn_protocols = match (is_on(K::Http1Only)?, is_on(K::Http2Only)?) {
            (_, true) => vec![b"h2".to_vec()],
            (true, false) => vec![b"http/1.1".to_vec()],
            (false, false) => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let name = |text: &str| HeaderValue::from_str(text).ok();
        let name = value(options, K::UserAgent, "text for a header", name)?;
        let timeout = time(K::Timeout)?.unwrap_or(LONGEST).min(LONGEST);
        let piece = time(K::ReadTimeout)?.unwrap_or(timeout).min(timeout);
        let connecting = time(K::ConnectTimeout)?.unwrap_or(timeout).min(timeout);
        let name = name.unwrap_or(HeaderValue::from_static(NAME));
        let wire = Wire::over(&http, Connector::new(connecting, tls, self.proxy.clone()), piece, name);
        let (allows_http, authorization) = (is_on(K::AllowHttp)?, self.authorization.clone());
        Ok(HttpClient::new(StoreClient { wire, timeout, piece, allows_http, authorization }))
    }
}

/// The value of an option; the message does not show it.
fn value<T>(
    options: &ClientOptions,
    key: ClientConfigKey,
    kind: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> object_store::Result<Option<T>> {
    let Some(text) = options.get_config_value(&key) else { return Ok(None) };
    let wrong = || refused(format!("the value (not shown) of `{}` is not a {kind}", key.as_ref()));
    parse(&text).map(Some).ok_or_else(wrong)
}

/// As `object_store` reads it.
fn as_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" | "y" => Some(true),
        "0" | "false" | "off" | "no" | "n" => Some(false),
        _ => None,
    }
}

fn refused(why: String) -> object_store::Error {
    object_store::Error::Generic { store: "HTTP client", source: why.into() }
}

#[derive(Debug)]
struct StoreClient {
    wire: Wire,
    /// For a whole request.
    timeout: Duration,
    /// For the head of an answer, and for each piece of its body.
    piece: Duration,
    allows_http: bool,
    authorization: Option<HeaderValue>,
}

#[async_trait]
impl HttpService for StoreClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        // Bodies are one piece in memory already.
        let body = body.collect().await?.to_bytes();
        parts.headers.extend(self.authorization.iter().map(|value| (AUTHORIZATION, value.clone())));
        parts.headers.entry(USER_AGENT).or_insert_with(|| self.wire.user_agent().clone());
        parts.headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        if parts.uri.scheme() == Some(&Scheme::HTTP) && !self.allows_http {
            return Err(given_up("it would be asked without TLS; set the option `allow_http` if that is meant"));
        }
        let deadline = Instant::now() + self.timeout;
        let mut redirects = 0;
        let answer = loop {
            let request = Request::from_parts(parts.clone(), Full::new(body.clone()));
            let answer = self.wire.exchange(request, None).await.map_err(failed)?;
            let Some(next) = redirect(&parts, &answer)? else { break answer };
            redirects += 1;
            if redirects > MOST_REDIRECTS {
                return Err(given_up(&format!("it redirects more than {MOST_REDIRECTS} times")));
            }
            parts.uri = next;
        };
        let is_object = parts.method == Method::GET && answer.status().is_success() && !is_list(&parts.uri);
        let most = if is_object { usize::MAX } else { MOST_TOLD };
        let (mut head, incoming) = answer.into_parts();
        let piece = self.piece;
        let next = move |incoming| next_piece(incoming, deadline.min(Instant::now() + piece));
        let mut body = stream::unfold(Some(incoming), next).boxed();
        if is_coded(&head.headers) {
            if head.status == StatusCode::PARTIAL_CONTENT {
                // Part of the compressed file is no part of the object: the caller begins again.
                head.status = StatusCode::OK;
            }
            body = decoded(&mut head.headers, body);
        }
        if let Some(Expected(bytes)) = parts.extensions.get().filter(|_| is_object) {
            // `object_store` refuses an answer without a length; the caller compares what arrives.
            head.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(*bytes));
        }
        let mut left = most;
        let frames = body.map(move |piece| {
            let piece = piece.map_err(|error| match error {
                TransportError::Malformed(_) => HttpError::new(HttpErrorKind::Interrupted, error),
                error => failed(error),
            })?;
            let too_long = || given_up(&format!("its answer has more than {MOST_TOLD} bytes"));
            left = left.checked_sub(piece.len()).ok_or_else(too_long)?;
            Ok(Frame::data(piece))
        });
        // Never locked: the type of bodies asks for a stream that threads could share.
        let mut frames = Mutex::new(frames.fuse());
        let frames = stream::poll_fn(move |context| frames.get_mut().poll_next_unpin(context));
        Ok(Response::from_parts(head, HttpResponseBody::new(StreamBody::new(frames))))
    }
}

/// Whether a body is in a coding that can be removed. Under any other word it is judged as it is, by its hash.
fn is_coded(headers: &HeaderMap) -> bool {
    let coding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes).unwrap_or_default();
    [&b"gzip"[..], b"x-gzip", b"br", b"zstd"].iter().any(|known| coding.eq_ignore_ascii_case(known))
}

/// Whether an answer to GET is a list of objects.
fn is_list(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|part| matches!(part, "list-type=2" | "comp=list")))
}

/// Where an answer redirects to; `None`: it is none of the redirects that are followed.
fn redirect(asked: &Parts, answer: &Response<Incoming>) -> Result<Option<Uri>, HttpError> {
    let is_followed = match answer.status().as_u16() {
        307 | 308 => true,
        // Others than these would become GET.
        301..=303 => matches!(asked.method, Method::GET | Method::HEAD),
        _ => false,
    };
    let to = answer.headers().get(LOCATION).filter(|_| is_followed).and_then(|to| to.to_str().ok());
    let from = Url::parse(&asked.uri.to_string()).ok();
    let Some((from, to)) = from.and_then(|from| Some((from.clone(), from.join(to?).ok()?))) else { return Ok(None) };
    if (from.scheme(), from.host(), from.port()) != (to.scheme(), to.host(), to.port()) {
        let to = &to[..Position::BeforePath];
        let why = format!("it redirects to {to}; only redirects to the same scheme, host and port are followed");
        return Err(given_up(&why));
    }
    Ok(to[..Position::AfterQuery].parse().ok())
}

/// An error after which no retry helps.
fn given_up(why: &str) -> HttpError {
    HttpError::new_boxed(HttpErrorKind::Unknown, why.into())
}

fn failed(error: TransportError) -> HttpError {
    let kind = match error {
        TransportError::Timeout => HttpErrorKind::Timeout,
        TransportError::Unreached(_) => HttpErrorKind::Connect,
        // DEVIATION: RFC 9112 §9.3.1 retries only idempotent requests on an idle connection that was closed under them.
        // A second write of an object has the same content, or finds out that the first one has arrived.
        TransportError::Unsent(_) | TransportError::Idle(_) => HttpErrorKind::Request,
        TransportError::Connection(_) => HttpErrorKind::Interrupted,
        TransportError::Decode(_) | TransportError::Malformed(_) => HttpErrorKind::Decode,
    };
    HttpError::new(kind, error)
}
