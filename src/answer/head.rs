//! The head of an answer while it is made: a map of fields for further work, or at once the lines of HTTP/1.1.
//!
//! It knows how fields are written, but not what they mean. Callers: [`super::compose`] fills it,
//! [`crate::serve`] sends it.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{HeaderName as Name, StatusCode, header};

use crate::telemetry::request_id;

/// A field that answers have, with its name as both kinds of head spell it.
pub struct Field {
    name: HeaderName,
    /// As HTTP/1.1 writes it, with the colon and the space.
    line: &'static str,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $constant:ident = $name:expr, $line:literal;)*) => {
        $($(#[$doc])* pub(crate) static $constant: Field = Field { name: $name, line: $line };)*

        #[cfg(test)]
        static ALL: &[&Field] = &[$(&$constant),*];
    };
}

fields! {
    /// RFC 9110 §14.3.
    ACCEPT_RANGES = header::ACCEPT_RANGES, "Accept-Ranges: ";
    /// The Fetch standard.
    ACCESS_CONTROL_ALLOW_HEADERS = header::ACCESS_CONTROL_ALLOW_HEADERS, "Access-Control-Allow-Headers: ";
    /// The Fetch standard.
    ACCESS_CONTROL_ALLOW_METHODS = header::ACCESS_CONTROL_ALLOW_METHODS, "Access-Control-Allow-Methods: ";
    /// The Fetch standard.
    ACCESS_CONTROL_ALLOW_ORIGIN = header::ACCESS_CONTROL_ALLOW_ORIGIN, "Access-Control-Allow-Origin: ";
    /// The Fetch standard.
    ACCESS_CONTROL_EXPOSE_HEADERS = header::ACCESS_CONTROL_EXPOSE_HEADERS, "Access-Control-Expose-Headers: ";
    /// The Fetch standard.
    ACCESS_CONTROL_MAX_AGE = header::ACCESS_CONTROL_MAX_AGE, "Access-Control-Max-Age: ";
    /// RFC 9111 §5.1.
    AGE = header::AGE, "Age: ";
    /// RFC 9110 §10.2.1.
    ALLOW = header::ALLOW, "Allow: ";
    /// RFC 9111 §5.2.
    CACHE_CONTROL = header::CACHE_CONTROL, "Cache-Control: ";
    /// RFC 9211.
    CACHE_STATUS = Name::from_static("cache-status"), "Cache-Status: ";
    /// RFC 6266.
    CONTENT_DISPOSITION = header::CONTENT_DISPOSITION, "Content-Disposition: ";
    /// RFC 9110 §8.4.
    CONTENT_ENCODING = header::CONTENT_ENCODING, "Content-Encoding: ";
    /// RFC 9110 §8.6.
    CONTENT_LENGTH = header::CONTENT_LENGTH, "Content-Length: ";
    /// RFC 9110 §14.4.
    CONTENT_RANGE = header::CONTENT_RANGE, "Content-Range: ";
    /// The CSP standard.
    CONTENT_SECURITY_POLICY = header::CONTENT_SECURITY_POLICY, "Content-Security-Policy: ";
    /// RFC 9110 §8.3.
    CONTENT_TYPE = header::CONTENT_TYPE, "Content-Type: ";
    /// RFC 9110 §8.8.3.
    ETAG = header::ETAG, "ETag: ";
    /// RFC 8288.
    LINK = header::LINK, "Link: ";
    /// RFC 9110 §10.2.2.
    LOCATION = header::LOCATION, "Location: ";
    /// The instant for which the data is confirmed.
    MIRROR_CONFIRMED = Name::from_static("mirror-confirmed"), "Mirror-Confirmed: ";
    /// The snapshot that answered.
    MIRROR_SNAPSHOT = Name::from_static("mirror-snapshot"), "Mirror-Snapshot: ";
    /// draft-ietf-httpapi-ratelimit-headers.
    RATE_LIMIT = Name::from_static("ratelimit"), "RateLimit: ";
    /// draft-ietf-httpapi-ratelimit-headers.
    RATE_LIMIT_POLICY = Name::from_static("ratelimit-policy"), "RateLimit-Policy: ";
    /// The Referrer Policy standard.
    REFERRER_POLICY = header::REFERRER_POLICY, "Referrer-Policy: ";
    /// The HTML standard: browsers load the page again.
    REFRESH = header::REFRESH, "Refresh: ";
    /// RFC 9110 §10.2.3.
    RETRY_AFTER = header::RETRY_AFTER, "Retry-After: ";
    /// How long nginx may keep an answer, in seconds; it is not sent on.
    X_ACCEL_EXPIRES = Name::from_static("x-accel-expires"), "X-Accel-Expires: ";
    /// The Fetch standard.
    X_CONTENT_TYPE_OPTIONS = header::X_CONTENT_TYPE_OPTIONS, "X-Content-Type-Options: ";
    /// The id of the request.
    X_REQUEST_ID = Name::from_static(request_id::NAME), "X-Request-Id: ";
    /// RFC 9110 §12.5.5.
    VARY = header::VARY, "Vary: ";
}

/// The names of all fields that answers may have.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|field| field.name.as_str())
}

/// The head of an answer.
pub trait Head {
    /// Says how the answer went: first, and once.
    fn begin(&mut self, status: StatusCode);
    /// Adds a field that is ready.
    fn put(&mut self, field: &Field, value: &HeaderValue);
    /// Adds a field that never changes: visible ASCII.
    fn put_static(&mut self, field: &Field, value: &'static str);
    /// Adds a field that `write` appends: visible ASCII, at most 256 bytes.
    fn put_with(&mut self, field: &Field, write: impl FnOnce(&mut Vec<u8>));
    /// Takes over a head that was made as a map, instead of all else.
    fn adopt(&mut self, status: StatusCode, fields: HeaderMap);

    /// Adds a number.
    fn put_number(&mut self, field: &Field, number: impl itoa::Integer) {
        self.put_with(field, |out| out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()));
    }
}

impl Head for HeaderMap {
    fn begin(&mut self, _status: StatusCode) {
        self.reserve(ROOM);
    }

    fn put(&mut self, field: &Field, value: &HeaderValue) {
        self.insert(field.name.clone(), value.clone());
    }

    fn put_static(&mut self, field: &Field, value: &'static str) {
        self.insert(field.name.clone(), HeaderValue::from_static(value));
    }

    fn put_with(&mut self, field: &Field, write: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::with_capacity(80);
        write(&mut text);
        let value = HeaderValue::from_maybe_shared(Bytes::from(text));
        self.insert(field.name.clone(), value.unwrap_or(HeaderValue::from_static("")));
    }

    fn adopt(&mut self, _status: StatusCode, fields: HeaderMap) {
        *self = fields;
    }
}

/// Room for every field of an answer, so that the map is allocated once.
const ROOM: usize = 22;

/// The state of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It waits for the next request.
    KeepAlive,
    /// It is closed.
    Close,
}

/// A head as HTTP/1.1 sends it (RFC 9112 §2.1), in a buffer that is used again and again.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// An empty head in a buffer that was [given back](Self::into_buffer).
    pub fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self(buffer)
    }

    /// Ends the head. `date`: an HTTP-date; `None`: the clock shows no time that one can say, and so does the head (RFC 9110
    /// §6.6.1).
    pub fn end(&mut self, date: Option<&[u8]>, persistence: Persistence) {
        if let Some(date) = date {
            self.line(b"Date: ", date);
        }
        self.0.extend_from_slice(match persistence {
            Persistence::KeepAlive => b"Connection: keep-alive\r\n\r\n",
            Persistence::Close => b"Connection: close\r\n\r\n",
        });
    }

    /// What is on the wire so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The buffer, for the next head.
    pub fn into_buffer(self) -> Vec<u8> {
        self.0
    }

    fn line(&mut self, name: &[u8], value: &[u8]) {
        self.0.reserve(name.len() + value.len() + 2);
        self.0.extend_from_slice(name);
        self.0.extend_from_slice(value);
        self.0.extend_from_slice(b"\r\n");
    }
}

impl Head for Lines {
    fn begin(&mut self, status: StatusCode) {
        match status {
            StatusCode::OK => self.0.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
            StatusCode::NOT_MODIFIED => self.0.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n"),
            _ => {
                self.0.extend_from_slice(b"HTTP/1.1 ");
                self.0.extend_from_slice(status.as_str().as_bytes());
                // The space stays when there is no phrase (RFC 9112 §4).
                self.line(b" ", status.canonical_reason().unwrap_or_default().as_bytes());
            }
        }
    }

    fn put(&mut self, field: &Field, value: &HeaderValue) {
        self.line(field.line.as_bytes(), value.as_bytes());
    }

    fn put_static(&mut self, field: &Field, value: &'static str) {
        self.line(field.line.as_bytes(), value.as_bytes());
    }

    fn put_with(&mut self, field: &Field, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(field.line.as_bytes());
        write(&mut self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    fn adopt(&mut self, status: StatusCode, fields: HeaderMap) {
        self.0.clear();
        self.begin(status);
        // Those two are said of this connection, at the end.
        for (name, value) in fields.iter().filter(|(name, _)| !matches!(**name, header::DATE | header::CONNECTION)) {
            self.0.extend_from_slice(name.as_str().as_bytes());
            self.line(b": ", value.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled<H: Head>(mut head: H) -> H {
        head.begin(StatusCode::OK);
        head.put(&ETAG, &HeaderValue::from_static("W/\"a\""));
        head.put_static(&VARY, "accept-encoding");
        head.put_number(&AGE, 7_u32);
        head
    }

    #[test]
    fn both_kinds_say_the_same() {
        let map = filled(HeaderMap::new());
        let mut lines = filled(Lines::default());
        lines.end(Some(b"Sun, 06 Nov 1994 08:49:37 GMT"), Persistence::KeepAlive);
        let text = std::str::from_utf8(lines.as_bytes()).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nETag: W/\"a\"\r\nVary: accept-encoding\r\nAge: 7\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Connection: keep-alive\r\n\r\n"
        );
        let spelled: Vec<String> =
            map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        for line in &spelled {
            assert!(text.to_lowercase().contains(&line.to_lowercase()), "{line}");
        }
        assert_eq!(spelled.len(), 3);
    }

    #[test]
    fn names_are_the_same_in_both_spellings() {
        for Field { name, line } in ALL {
            assert_eq!(line.to_ascii_lowercase(), format!("{name}: "));
        }
    }

    #[test]
    fn a_head_made_as_a_map_replaces_what_there_was() {
        let mut lines = filled(Lines::default());
        let mut map = HeaderMap::new();
        map.append(header::SET_COOKIE, HeaderValue::from_static("a"));
        map.append(header::SET_COOKIE, HeaderValue::from_static("b"));
        lines.adopt(StatusCode::from_u16(299).unwrap(), map);
        assert_eq!(lines.as_bytes(), b"HTTP/1.1 299 \r\nset-cookie: a\r\nset-cookie: b\r\n");
    }

    #[test]
    fn an_end_is_announced() {
        let mut lines = Lines::default();
        lines.end(Some(b"now"), Persistence::Close);
        assert_eq!(lines.as_bytes(), b"Date: now\r\nConnection: close\r\n\r\n");
        let mut timeless = Lines::default();
        timeless.end(None, Persistence::KeepAlive);
        assert_eq!(timeless.as_bytes(), b"Connection: keep-alive\r\n\r\n");
    }

    #[test]
    fn a_buffer_is_used_again() {
        let buffer = filled(Lines::default()).into_buffer();
        let capacity = buffer.capacity();
        let lines = Lines::new(buffer);
        assert_eq!((lines.as_bytes().len(), lines.into_buffer().capacity()), (0, capacity));
    }
}
