//! The fields of answers: their names as both protocols spell them, and lists of fields that become lines of HTTP/1 or a
//! map for HTTP/2.
//!
//! It knows how fields are written, but not what they mean. Callers: [`super::compose`] and [`super::documents`] choose
//! them, [`super::write`] sends them.

use http::header;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::telemetry::request_id;

#[derive(Debug)]
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
    CACHE_STATUS = HeaderName::from_static("cache-status"), "Cache-Status: ";
    /// RFC 6266.
    CONTENT_DISPOSITION = header::CONTENT_DISPOSITION, "Content-Disposition: ";
    /// RFC 9110 §8.4.
    CONTENT_ENCODING = header::CONTENT_ENCODING, "Content-Encoding: ";
    /// RFC 9110 §8.6.
    CONTENT_LENGTH = header::CONTENT_LENGTH, "Content-Length: ";
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
    MIRROR_CONFIRMED = HeaderName::from_static("mirror-confirmed"), "Mirror-Confirmed: ";
    MIRROR_SNAPSHOT = HeaderName::from_static("mirror-snapshot"), "Mirror-Snapshot: ";
    /// draft-ietf-httpapi-ratelimit-headers.
    RATE_LIMIT = HeaderName::from_static("ratelimit"), "RateLimit: ";
    /// draft-ietf-httpapi-ratelimit-headers.
    RATE_LIMIT_POLICY = HeaderName::from_static("ratelimit-policy"), "RateLimit-Policy: ";
    /// The Referrer Policy standard.
    REFERRER_POLICY = header::REFERRER_POLICY, "Referrer-Policy: ";
    /// The HTML standard: browsers load the page again.
    REFRESH = header::REFRESH, "Refresh: ";
    /// RFC 9110 §10.2.3.
    RETRY_AFTER = header::RETRY_AFTER, "Retry-After: ";
    /// How long nginx may keep an answer, in seconds; it is not sent on.
    X_ACCEL_EXPIRES = HeaderName::from_static("x-accel-expires"), "X-Accel-Expires: ";
    /// The Fetch standard.
    X_CONTENT_TYPE_OPTIONS = header::X_CONTENT_TYPE_OPTIONS, "X-Content-Type-Options: ";
    X_REQUEST_ID = HeaderName::from_static(request_id::NAME), "X-Request-Id: ";
    /// RFC 9110 §12.5.5.
    VARY = header::VARY, "Vary: ";
}

#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|field| field.name.as_str())
}

#[derive(Clone, Debug)]
enum Name {
    /// One of the table above.
    Ours(&'static Field),
    /// Any other, or the same from the origin.
    Theirs(HeaderName),
}

impl Name {
    fn as_header_name(&self) -> &HeaderName {
        match self {
            Self::Ours(field) => &field.name,
            Self::Theirs(name) => name,
        }
    }
}

/// Fields that were made for one answer, in order.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<(Name, HeaderValue)>);

impl Fields {
    pub(crate) fn put(&mut self, field: &'static Field, value: HeaderValue) {
        if self.0.is_empty() {
            self.0.reserve(ROOM);
        }
        self.0.push((Name::Ours(field), value));
    }

    /// Adds a field that never changes: visible ASCII.
    pub(crate) fn put_static(&mut self, field: &'static Field, value: &'static str) {
        self.put(field, HeaderValue::from_static(value));
    }

    pub(crate) fn put_number(&mut self, field: &'static Field, number: u64) {
        self.put(field, HeaderValue::from(number));
    }

    /// The body is sent in chunks (RFC 9112 §7.1).
    pub(crate) fn put_chunked(&mut self) {
        self.0.push((Name::Theirs(header::TRANSFER_ENCODING), HeaderValue::from_static("chunked")));
    }

    /// Names and values, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name.as_header_name(), value))
    }

    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            match name {
                Name::Ours(field) => field.write_to(out, |out| out.extend_from_slice(value.as_bytes())),
                Name::Theirs(name) => {
                    out.extend_from_slice(name.as_str().as_bytes());
                    out.extend_from_slice(b": ");
                    out.extend_from_slice(value.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
    }

    pub(crate) fn has(&self, wanted: &HeaderName) -> bool {
        self.iter().any(|(name, _)| name == wanted)
    }

    /// Replaces the value of a field that is there once, unless `other` is `None`.
    pub(super) fn replace(&mut self, wanted: &HeaderName, other: impl FnOnce(&HeaderValue) -> Option<HeaderValue>) {
        let mut found = self.0.iter_mut().filter(|(name, _)| name.as_header_name() == wanted);
        if let (Some((_, value)), None) = (found.next(), found.next())
            && let Some(other) = other(value)
        {
            *value = other;
        }
    }
}

/// The fields that somebody else made. `Date` and `Connection` are said of our own connection.
impl From<HeaderMap> for Fields {
    fn from(mut map: HeaderMap) -> Self {
        // DEVIATION: `Date` is when the answer is sent, also for a stored one (RFC 9110 §6.6.1); its `Age` is counted
        // for that.
        map.remove(header::DATE);
        map.remove(header::CONNECTION);
        // A name stands once, in front of its first value.
        let mut last = None;
        let named = map.into_iter().map(|(name, value)| {
            last = name.or(last.take());
            (last.clone(), value)
        });
        Self(named.filter_map(|(name, value)| Some((Name::Theirs(name?), value))).collect())
    }
}

/// Room for the fields of most answers.
const ROOM: usize = 12;

impl Field {
    pub(super) const fn name(&self) -> &HeaderName {
        &self.name
    }

    /// Appends it to a head as a line, with a value that `write` appends.
    pub(super) fn write_to(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(self.line.as_bytes());
        write(out);
        out.extend_from_slice(b"\r\n");
    }
}

/// Fields that many answers share, ready for both protocols.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub lines: Vec<u8>,
    pub map: HeaderMap,
}

impl From<&Fields> for Block {
    fn from(fields: &Fields) -> Self {
        let mut lines = Vec::new();
        fields.write_to(&mut lines);
        Self { lines, map: fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_both_spellings() {
        for Field { name, line } in ALL {
            assert_eq!(line.to_ascii_lowercase(), format!("{name}: "));
        }
    }

    #[test]
    fn fields_of_an_origin_stay_in_order_and_repeated() {
        let mut map = HeaderMap::new();
        for (name, value) in [("set-cookie", "a"), ("date", "now"), ("x-two", "2"), ("set-cookie", "b")] {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut fields = Fields::from(map);
        let double = |value: &HeaderValue| HeaderValue::from_bytes(&value.as_bytes().repeat(2)).ok();
        fields.replace(&HeaderName::from_static("x-two"), double);
        fields.replace(&header::SET_COOKIE, double);
        fields.put_number(&AGE, 7);
        let mut out = Vec::new();
        fields.write_to(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "set-cookie: a\r\nset-cookie: b\r\nx-two: 22\r\nAge: 7\r\n");
        assert!(fields.has(&header::AGE) && !fields.has(&header::DATE));
    }
}
