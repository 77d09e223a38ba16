//! Answers of a broken origin, a tired proxy or a captive portal. Callers: `fault`.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;
use sample_origin::{Asked, Body};

/// Names the hops that are left in the query of a redirect.
const HOPS: &str = "hops=";
const JSON: &str = "application/json";

/// A small answer without entity tag.
fn plain(asked: &Asked<'_>, status: u16, content_type: &str, text: impl Into<Bytes>) -> Response<Body> {
    let text = text.into();
    let length = text.len().to_string();
    let body = if asked.method == Method::HEAD { empty() } else { Full::new(text).map_err(never).boxed_unsync() };
    answer(status, &[(CONTENT_TYPE, content_type), (CONTENT_LENGTH, &length)], body)
}

/// A small JSON error.
pub fn error(asked: &Asked<'_>, status: u16) -> Response<Body> {
    plain(asked, status, JSON, format!("{{\"error\":{{\"status\":{status}}}}}"))
}

/// 429, with `Retry-After` if there is one.
pub fn too_many(asked: &Asked<'_>, retry_after: Option<u64>) -> Response<Body> {
    let mut response = error(asked, 429);
    if let Some(seconds) = retry_after {
        set(response.headers_mut(), RETRY_AFTER, seconds.to_string().as_bytes());
    }
    response
}

/// A status with `Retry-After` as an HTTP-date.
pub fn later(asked: &Asked<'_>, status: u16, seconds: u64) -> Response<Body> {
    let mut response = error(asked, status);
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds));
    set(response.headers_mut(), RETRY_AFTER, date.as_bytes());
    response
}

/// 304 without any field.
pub fn bare_not_modified() -> Response<Body> {
    answer(304, &[], empty())
}

/// 302.
pub fn redirect(to: &str) -> Response<Body> {
    answer(302, &[(LOCATION, to), (CONTENT_LENGTH, "0")], empty())
}

/// A redirect to the same place with one hop less to go, as a relative reference; `None` at the end of the way.
pub fn detour(target: &str, hops: u32) -> Option<Response<Body>> {
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
    Some(redirect(&format!("{name}?{}", pairs.join("&"))))
}

/// 200 with this text as JSON.
pub fn json(asked: &Asked<'_>, text: impl Into<Bytes>) -> Response<Body> {
    plain(asked, 200, JSON, text)
}

/// 200 with a page of HTML.
pub fn html(asked: &Asked<'_>) -> Response<Body> {
    let page = "<!doctype html><title>Just a moment...</title><p>Checking your browser.</p>\n";
    plain(asked, 200, "text/html; charset=utf-8", page)
}

/// 200 with an array that never ends.
pub fn endless() -> Response<Body> {
    let more = Bytes::from("0,".repeat(8 * 1024));
    forever(&[(CONTENT_TYPE, JSON)], Bytes::from_static(b"["), more)
}

/// 200 with a gzip body of a few bytes per megabyte, without end.
pub fn gzip_bomb() -> io::Result<Response<Body>> {
    let zeros = "0,".repeat(512 * 1024);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"[")?;
    encoder.write_all(zeros.as_bytes())?;
    encoder.flush()?;
    let start = Bytes::from(std::mem::take(encoder.get_mut()));
    // The rest repeats the same text, so that it can be sent again and again.
    encoder.write_all(zeros.as_bytes())?;
    encoder.flush()?;
    let more = Bytes::from(std::mem::take(encoder.get_mut()));
    Ok(forever(&[(CONTENT_TYPE, JSON), (CONTENT_ENCODING, "gzip")], start, more))
}

/// The header of a right answer, falsified.
pub fn falsified(mut response: Response<Body>, fields: &[(&'static str, Vec<u8>)]) -> Response<Body> {
    for (name, value) in fields {
        set(response.headers_mut(), HeaderName::from_static(name), value);
    }
    response
}

/// The first half of a right answer, then the end of the connection.
pub async fn cut_in_half(response: Response<Body>) -> Response<Body> {
    with_body(response, |bytes| {
        let half = bytes.slice(..bytes.len() / 2);
        let cut = async {
            // Lets the first half leave before the connection is closed.
            tokio::time::sleep(Duration::from_millis(20)).await;
            Err(io::Error::from(io::ErrorKind::ConnectionAborted))
        };
        let pieces = stream::once(async { Ok(Frame::data(half)) }).chain(stream::once(cut));
        StreamBody::new(pieces).boxed_unsync()
    })
    .await
}

/// A right answer in small pieces, each after this pause.
pub async fn dripping(response: Response<Body>, pause: Duration) -> Response<Body> {
    with_body(response, |bytes| {
        let pieces = stream::unfold(bytes, move |mut rest| async move {
            if rest.is_empty() {
                return None;
            }
            tokio::time::sleep(pause).await;
            let piece = rest.split_to(rest.len().min(64));
            Some((Ok(Frame::data(piece)), rest))
        });
        StreamBody::new(pieces).boxed_unsync()
    })
    .await
}

/// A right answer with another text, if it has one, and without a tag.
pub async fn rewritten(response: Response<Body>, rewrite: impl FnOnce(Bytes) -> String) -> Response<Body> {
    let mut length = 0;
    let mut response = with_body(response, |bytes| {
        let text = rewrite(bytes);
        length = text.len();
        Full::new(Bytes::from(text)).map_err(never).boxed_unsync()
    })
    .await;
    response.headers_mut().remove(ETAG);
    if length > 0 {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// The same answer with another body, if it has one.
async fn with_body(response: Response<Body>, deliver: impl FnOnce(Bytes) -> Body) -> Response<Body> {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, if bytes.is_empty() { empty() } else { deliver(bytes) })
}

fn forever(fields: &[(HeaderName, &str)], start: Bytes, more: Bytes) -> Response<Body> {
    let pieces = stream::once(async { start }).chain(stream::repeat(more));
    answer(200, fields, StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync())
}

fn answer(status: u16, fields: &[(HeaderName, &str)], body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    // A status that a test made up and HTTP does not know becomes a 500.
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in fields {
        set(response.headers_mut(), name.clone(), value.as_bytes());
    }
    response
}

fn empty() -> Body {
    Empty::new().map_err(never).boxed_unsync()
}

fn never(impossible: Infallible) -> io::Error {
    match impossible {}
}

/// Sets a header; a value that HTTP does not allow is left out.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(name, value);
    }
}
