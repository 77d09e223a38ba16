//! Responses as they go over the wire, and what faults do to them.
//!
//! Headers and bodies only; what to send is decided in `server`. Called by the server.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{
    ACCEPT_RANGES, AGE, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, LOCATION,
    RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;

use super::cdn::Copy;
use super::switches::Switches;

/// A response body, whole or streamed.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

const JSON: &str = "application/json";

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// All of it.
    Whole,
    /// The first half, then the end of the connection.
    Half,
    /// In small pieces, each after this pause.
    Drip(Duration),
}

/// The headers that depend on when an answer is sent.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// The value of `Date`.
    pub(super) date: String,
    /// Age and whether it was a hit, of an answer by the CDN.
    pub(super) age: Option<(u64, bool)>,
}

/// The response for a copy; 304 if `not_modified`.
pub(super) fn respond(
    method: &Method,
    copy: &Copy,
    not_modified: bool,
    switches: &Switches,
    times: &Times,
    delivery: Delivery,
) -> Response<Body> {
    let mut headers = HeaderMap::new();
    put(&mut headers, DATE, &times.date);
    if let Some(tag) = &copy.etag {
        put(&mut headers, ETAG, tag);
    }
    if let Some(value) = switches.cache_control.as_deref().filter(|_| copy.status == 200) {
        put(&mut headers, CACHE_CONTROL, value);
    }
    if switches.gzip {
        put(&mut headers, VARY, "Accept-Encoding");
    }
    if let Some((age, hit)) = times.age {
        put(&mut headers, AGE, &age.to_string());
        put(&mut headers, HeaderName::from_static("x-cache"), if hit { "HIT" } else { "MISS" });
    }
    if not_modified {
        return assemble(304, headers, empty());
    }
    put(&mut headers, CONTENT_TYPE, JSON);
    put(&mut headers, ACCEPT_RANGES, "none");
    put(&mut headers, CONTENT_LENGTH, &copy.bytes.len().to_string());
    if copy.gzip {
        put(&mut headers, CONTENT_ENCODING, "gzip");
    }
    let body = if method == Method::HEAD { empty() } else { deliver(copy.bytes.clone(), delivery) };
    assemble(copy.status, headers, body)
}

/// A small answer without entity tag: errors, HTML, anything given.
pub(super) fn plain(method: &Method, status: u16, content_type: &str, text: impl Into<Bytes>) -> Response<Body> {
    let text = text.into();
    let mut headers = HeaderMap::new();
    put(&mut headers, CONTENT_TYPE, content_type);
    put(&mut headers, CONTENT_LENGTH, &text.len().to_string());
    let body = if method == Method::HEAD { empty() } else { deliver(text, Delivery::Whole) };
    assemble(status, headers, body)
}

/// A small JSON error.
pub(super) fn error(method: &Method, status: u16) -> Response<Body> {
    plain(method, status, JSON, format!("{{\"error\":{{\"status\":{status}}}}}"))
}

/// 429, with `Retry-After` if there is one.
pub(super) fn too_many(method: &Method, retry_after: Option<u64>) -> Response<Body> {
    let mut response = error(method, 429);
    if let Some(seconds) = retry_after {
        put(response.headers_mut(), RETRY_AFTER, &seconds.to_string());
    }
    response
}

/// 405.
pub(super) fn not_allowed(method: &Method) -> Response<Body> {
    let mut response = error(method, 405);
    put(response.headers_mut(), ALLOW, "GET, HEAD");
    response
}

/// 304 without any field.
pub(super) fn bare_not_modified() -> Response<Body> {
    assemble(304, HeaderMap::new(), empty())
}

/// 302.
pub(super) fn redirect(to: &str) -> Response<Body> {
    let mut headers = HeaderMap::new();
    put(&mut headers, LOCATION, to);
    put(&mut headers, CONTENT_LENGTH, "0");
    assemble(302, headers, empty())
}

/// 200 with JSON of which the text is given.
pub(super) fn json(method: &Method, text: String) -> Response<Body> {
    plain(method, 200, JSON, text)
}

/// 200 with a page of HTML, as captive portals and tired proxies send it.
pub(super) fn html(method: &Method) -> Response<Body> {
    let page = "<!doctype html><title>Just a moment...</title><p>Checking your browser.</p>\n";
    plain(method, 200, "text/html; charset=utf-8", page.to_owned())
}

/// 200 with an array that never ends.
pub(super) fn endless() -> Response<Body> {
    let mut headers = HeaderMap::new();
    put(&mut headers, CONTENT_TYPE, JSON);
    let more = Bytes::from("0,".repeat(8 * 1024));
    let pieces = stream::once(async { Bytes::from_static(b"[") }).chain(stream::repeat(more));
    assemble(200, headers, StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync())
}

fn deliver(bytes: Bytes, delivery: Delivery) -> Body {
    match delivery {
        Delivery::Whole => Full::new(bytes).map_err(never).boxed_unsync(),
        Delivery::Half => {
            let half = bytes.slice(..bytes.len() / 2);
            let cut = async {
                // Lets the first half leave before the connection is closed.
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(io::Error::from(io::ErrorKind::ConnectionAborted))
            };
            let pieces = stream::once(async { Ok(Frame::data(half)) }).chain(stream::once(cut));
            StreamBody::new(pieces).boxed_unsync()
        }
        Delivery::Drip(pause) => {
            let pieces = stream::unfold(bytes, move |mut rest| async move {
                if rest.is_empty() {
                    return None;
                }
                tokio::time::sleep(pause).await;
                let piece = rest.split_to(rest.len().min(64));
                Some((Ok(Frame::data(piece)), rest))
            });
            StreamBody::new(pieces).boxed_unsync()
        }
    }
}

fn empty() -> Body {
    Empty::new().map_err(never).boxed_unsync()
}

fn never(impossible: Infallible) -> io::Error {
    match impossible {}
}

fn assemble(status: u16, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    // A status that a test made up and HTTP does not know becomes a 500.
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

/// Sets a header; a value that HTTP does not allow is left out.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
