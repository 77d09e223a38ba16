//! Responses as they go over the wire.
//!
//! Headers and bodies only; `server` decides what to send. Callers: the server.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, AGE, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, LOCATION,
    RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};

use super::cdn::Copy;
use super::switches::Switches;

/// A response body, whole or streamed.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

const JSON: &str = "application/json";

/// The headers that depend on when an answer is sent.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// The value of `Date`.
    pub(super) date: String,
    /// `Age` of a CDN's copy.
    pub(super) age: Option<u64>,
    /// Whether it was a hit, as the CDN says.
    pub(super) hit: Option<bool>,
}

/// The response for a copy; 304 if `not_modified`.
pub(super) fn respond(
    method: &Method,
    copy: &Copy,
    not_modified: bool,
    switches: &Switches,
    times: &Times,
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
    if let Some(age) = times.age {
        put(&mut headers, AGE, &age.to_string());
    }
    if let Some(hit) = times.hit {
        put(&mut headers, HeaderName::from_static("x-cache"), if hit { "HIT" } else { "MISS" });
    }
    if not_modified {
        return assemble(304, headers, empty());
    }
    put(&mut headers, CONTENT_TYPE, copy.media_type);
    if let Some(location) = &copy.location {
        put(&mut headers, LOCATION, location);
    }
    put(&mut headers, ACCEPT_RANGES, "none");
    put(&mut headers, CONTENT_LENGTH, &copy.bytes.len().to_string());
    if copy.gzip {
        put(&mut headers, CONTENT_ENCODING, "gzip");
    }
    let body = if method == Method::HEAD { empty() } else { whole(copy.bytes.clone()) };
    assemble(copy.status, headers, body)
}

/// A small JSON error.
fn error(method: &Method, status: u16) -> Response<Body> {
    let text = Bytes::from(format!("{{\"error\":{{\"status\":{status}}}}}"));
    let mut headers = HeaderMap::new();
    put(&mut headers, CONTENT_TYPE, JSON);
    put(&mut headers, CONTENT_LENGTH, &text.len().to_string());
    let body = if method == Method::HEAD { empty() } else { whole(text) };
    assemble(status, headers, body)
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

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(never).boxed_unsync()
}

fn empty() -> Body {
    Empty::new().map_err(never).boxed_unsync()
}

fn never(impossible: Infallible) -> io::Error {
    match impossible {}
}

fn assemble(status: u16, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    // Each is one that HTTP knows.
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

/// Sets a header; skips a value that HTTP forbids.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
