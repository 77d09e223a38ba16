//! Faults that need the right answer first: its text altered, its header falsified, or its bytes past the library.
//!
//! Which request is struck is decided in `fault`. Called by the server.

use std::io::{self, Write as _};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;

use crate::clock::Clock;

use super::raw::Raw;
use super::tamper::Tamper;
use super::wire::{self, Body};

/// Names the hops that are left in the query of a redirect.
const HOPS: &str = "hops=";

/// A right answer as JSON, its text altered.
pub(super) fn tampered(method: &Method, tamper: Tamper, text: &str) -> Response<Body> {
    wire::plain(method, 200, "application/json", tamper.apply(text))
}

/// A status with `Retry-After` as an HTTP-date.
pub(super) fn later(method: &Method, status: u16, seconds: u64) -> Response<Body> {
    let mut response = wire::error(method, status);
    let date = Clock::system().now_wall().plus(Duration::from_secs(seconds)).http_date().unwrap_or_default();
    set(response.headers_mut(), RETRY_AFTER, date.as_bytes());
    response
}

/// The header of a right answer, falsified.
pub(super) fn falsified(mut response: Response<Body>, fields: &[(&'static str, Vec<u8>)]) -> Response<Body> {
    for (name, value) in fields {
        set(response.headers_mut(), HeaderName::from_static(name), value);
    }
    response
}

/// A redirect to the same place with one hop less to go, as a relative reference; `None` at the end of the way.
pub(super) fn detour(target: &str, hops: u32) -> Option<Response<Body>> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let left = match query.split('&').find_map(|pair| pair.strip_prefix(HOPS)) {
        Some(left) => left.parse().unwrap_or(0),
        None => hops,
    };
    if left == 0 {
        return None;
    }
    let others = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with(HOPS));
    let pairs: Vec<String> = others.map(str::to_owned).chain([format!("{HOPS}{}", left - 1)]).collect();
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut response = wire::redirect("");
    set(response.headers_mut(), LOCATION, format!("{name}?{}", pairs.join("&")).as_bytes());
    Some(response)
}

/// 200 with a gzip body of a few bytes per megabyte, without end.
pub(super) fn gzip_bomb() -> io::Result<Response<Body>> {
    let zeros = "0,".repeat(512 * 1024);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"[")?;
    encoder.write_all(zeros.as_bytes())?;
    encoder.flush()?;
    let start = Bytes::from(std::mem::take(encoder.get_mut()));
    // What follows looks back at the same text each time, so that it can be sent again and again.
    encoder.write_all(zeros.as_bytes())?;
    encoder.flush()?;
    let more = Bytes::from(std::mem::take(encoder.get_mut()));
    let pieces = stream::once(async { start }).chain(stream::repeat(more));
    let mut response = Response::new(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync());
    set(response.headers_mut(), CONTENT_TYPE, b"application/json");
    set(response.headers_mut(), CONTENT_ENCODING, b"gzip");
    Ok(response)
}

/// Writes the answer past the library, and ends the connection.
pub(super) async fn raw(raw: Raw, text: &str, twin: &super::raw::Twin) -> io::Error {
    match super::raw::write(raw, text, twin).await {
        Ok(()) => io::ErrorKind::ConnectionAborted.into(),
        Err(error) => error,
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detour_counts_down_and_keeps_the_query() {
        let location = |target| {
            let response = detour(target, 2)?;
            Some(response.headers()[LOCATION].to_str().unwrap().to_owned())
        };
        assert_eq!(location("/v1/a.json?x=1").as_deref(), Some("a.json?x=1&hops=1"));
        assert_eq!(location("/v1/a.json?x=1&hops=1").as_deref(), Some("a.json?x=1&hops=0"));
        assert_eq!(location("/v1/a.json?x=1&hops=0"), None);
    }
}
