//! Problem documents (RFC 9457): every error that a client sees.
//!
//! The list of errors, their JSON, and when another try makes sense. Not the headers around them (`Allow`, CORS), which
//! [`crate::edge::answer`] adds to every answer alike.
//! Callers: [`crate::edge::answer`], wherever a request ends in an error.

use bytes::Bytes;
use http::StatusCode;

use super::excerpt;
use super::target::PathError;
use crate::words::counted;

/// The media type of a problem document (RFC 9457 §6.1).
pub(crate) const CONTENT_TYPE: &str = "application/problem+json";
/// The dumps: a server without them says no more than that.
const FILES: [&[u8]; 5] =
    [b"/listings.csv", b"/listings.geojson", b"/listings.ndjson", b"/details.csv", b"/details.ndjson"];
/// The most characters of a client's value that are repeated.
const MAX_VALUE: usize = 200;

/// The kind of a problem: one status, one title and one URI.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProblemKind {
    /// A request that cannot be read.
    BadRequest,
    BadParameter,
    /// A path without a single reading.
    BadPath,
    UnexpectedBody,
    /// No such listing, endpoint or path.
    NotFound,
    /// Not a method of this resource.
    MethodNotAllowed,
    /// What the origin refuses with 410.
    Gone,
    /// A snapshot that is not in memory.
    SnapshotGone,
    PreconditionFailed,
    /// A body beyond its bound.
    ContentTooLarge,
    UriTooLong,
    /// What the origin refuses with 422.
    UnprocessableContent,
    RateLimited,
    HeadersTooLarge,
    Internal,
    /// The origin answered nonsense or a redirect.
    BadOriginAnswer,
    /// There is nothing to answer with now: the origin can't be asked, or gives no answer, and nothing stale may be served.
    Unavailable,
    /// A dump that is not at hand now.
    DumpUnavailable,
    TooManyConnections,
    /// A kept snapshot that cannot answer now.
    SnapshotUnavailable,
    /// `only-if-cached`, and nothing usable is cached.
    OnlyIfCached,
    /// The request came through this server before.
    LoopDetected,
}

impl ProblemKind {
    /// Its status, the last part of its `type` URI, which is also the label for logs and metrics, and its title, which is
    /// the same for every problem of the kind (RFC 9457 §3.1.3).
    const fn row(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::BadRequest => (StatusCode::BAD_REQUEST, "bad-request", "Bad request"),
            Self::BadParameter => (StatusCode::BAD_REQUEST, "bad-parameter", "Bad query parameter"),
            Self::BadPath => (StatusCode::BAD_REQUEST, "bad-path", "Bad path"),
            Self::UnexpectedBody => (StatusCode::BAD_REQUEST, "unexpected-body", "Unexpected request body"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "Not found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed"),
            Self::Gone => (StatusCode::GONE, "gone", "Gone"),
            Self::SnapshotGone => (StatusCode::GONE, "snapshot-gone", "Snapshot not kept"),
            Self::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, "precondition-failed", "Precondition failed"),
            Self::ContentTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "content-too-large", "Request body too large"),
            Self::UriTooLong => (StatusCode::URI_TOO_LONG, "uri-too-long", "Request line too long"),
            Self::UnprocessableContent => {
                (StatusCode::UNPROCESSABLE_ENTITY, "unprocessable-content", "Unprocessable content")
            }
            Self::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "rate-limited", "Too many requests"),
            Self::HeadersTooLarge => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large", "Request headers too large")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error"),
            Self::BadOriginAnswer => (StatusCode::BAD_GATEWAY, "bad-origin-answer", "Unusable answer from the origin"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Temporarily unavailable"),
            Self::DumpUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "dump-unavailable", "Dump unavailable"),
            Self::TooManyConnections => {
                (StatusCode::SERVICE_UNAVAILABLE, "too-many-connections", "Too many connections")
            }
            Self::SnapshotUnavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "snapshot-unavailable", "Snapshot unavailable")
            }
            Self::OnlyIfCached => (StatusCode::GATEWAY_TIMEOUT, "only-if-cached", "Not in the cache"),
            Self::LoopDetected => (StatusCode::LOOP_DETECTED, "loop-detected", "Loop detected"),
        }
    }

    pub const fn status(self) -> StatusCode {
        self.row().0
    }

    pub const fn as_str(self) -> &'static str {
        self.row().1
    }

    pub const fn title(self) -> &'static str {
        self.row().2
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    retry_after: Option<u64>,
}

impl Problem {
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), retry_after: None }
    }

    /// 400: the request is not HTTP as it should be.
    pub fn unreadable() -> Self {
        Self::new(ProblemKind::BadRequest, "The request is not valid HTTP.")
    }

    /// 400: HTTP where TLS is expected.
    pub fn not_tls() -> Self {
        Self::new(ProblemKind::BadRequest, "This is a port for HTTPS, and the request is plain HTTP.")
    }

    /// 400: `Host` is missing, repeated or invalid (RFC 9112 §3.2).
    pub fn bad_host(value: Option<impl AsRef<[u8]>>) -> Self {
        let detail = match value {
            None => "The request has no Host header, or more than one; HTTP/1.1 needs exactly one.".to_owned(),
            Some(value) => format!("The Host header {} is not a host name or an address.", quoted(value)),
        };
        Self::new(ProblemKind::BadRequest, detail)
    }

    /// 400: the authority of a target in absolute form is invalid (RFC 9112 §3.2.2).
    pub fn bad_authority(value: impl AsRef<[u8]>) -> Self {
        let value = quoted(value);
        Self::new(
            ProblemKind::BadRequest,
            format!("The host {value} in the request target is not a host name or an address."),
        )
    }

    /// 400: the head of the request takes too many reads.
    pub fn in_pieces() -> Self {
        Self::new(ProblemKind::BadRequest, "The request head arrived in too many small pieces.")
    }

    /// 400: the request target has a space or a control character (RFC 9112 §3.2).
    pub fn bad_target() -> Self {
        let detail = "The request target contains a space or a control character; write a space as %20.";
        Self::new(ProblemKind::BadRequest, detail)
    }

    /// 400: an invalid parameter; `why` completes "...; it ". The value may be any bytes.
    pub fn bad_parameter(name: &str, value: impl AsRef<[u8]>, why: &str) -> Self {
        let (name, value) = (quoted(name), quoted(value));
        Self::new(ProblemKind::BadParameter, format!("The parameter {name} has the value {value}; it {why}."))
    }

    /// A value of a parameter that the origin refuses: 400, 404, 410 or 422.
    pub fn refused_value(status: u16, name: &str, value: &str) -> Self {
        let kind = match status {
            404 => ProblemKind::NotFound,
            410 => ProblemKind::Gone,
            422 => ProblemKind::UnprocessableContent,
            _ => ProblemKind::BadParameter,
        };
        let (name, value) = (quoted(name), quoted(value));
        Self::new(kind, format!("The parameter {name} has the value {value}; the origin refuses such a value."))
    }

    /// 400: a parameter that would have no effect; `known`: those that have one.
    pub fn unknown_parameter(name: &str, known: &str) -> Self {
        let detail = format!("There is no parameter {} here; known parameters: {known}.", quoted(name));
        Self::new(ProblemKind::BadParameter, detail)
    }

    /// 400: a required parameter is missing; `what` completes "...; give ".
    pub fn missing_parameter(name: &str, what: &str) -> Self {
        Self::new(ProblemKind::BadParameter, format!("The parameter {} is missing; give {what}.", quoted(name)))
    }

    /// 400: the parameter was given twice, with two values.
    pub fn repeated_parameter(name: &str, first: impl AsRef<[u8]>, second: impl AsRef<[u8]>) -> Self {
        let (name, first, second) = (quoted(name), quoted(first), quoted(second));
        let detail =
            format!("The parameter {name} is given twice, with the values {first} and {second}; give it once.");
        Self::new(ProblemKind::BadParameter, detail)
    }

    /// 400: the path has no single reading.
    pub fn bad_path(path: impl AsRef<[u8]>, why: PathError) -> Self {
        Self::new(ProblemKind::BadPath, format!("The path {} is refused: {why}.", quoted(path)))
    }

    /// 400: a body on a request that must not have one.
    pub fn unexpected_body() -> Self {
        Self::new(ProblemKind::UnexpectedBody, "Requests to this endpoint must not have a body.")
    }

    /// 404: no such listing.
    pub fn unknown_listing(id: impl AsRef<[u8]>) -> Self {
        Self::new(ProblemKind::NotFound, format!("There is no listing with the id {}.", quoted(id)))
    }

    /// 404: nothing lives at this path; names what is likely meant.
    pub fn unknown_path(path: impl AsRef<[u8]>) -> Self {
        let path = path.as_ref();
        let is_a_file =
            path.windows(7).any(|part| part == b"/dumps/") && !FILES.iter().any(|file| path.ends_with(file));
        let hint = if is_a_file {
            "A mirror's files are listings.csv, listings.geojson, listings.ndjson, details.csv and details.ndjson, below /dumps/"
        } else if path == b"/" {
            "The API begins at /api/listings.json"
        } else {
            "The API begins at /api/listings.json; / lists all that there is"
        };
        Self::new(ProblemKind::NotFound, format!("There is nothing at {}. {hint}.", quoted(path)))
    }

    /// 405: `allow` is what the `Allow` header says.
    pub fn method_not_allowed(method: &str, allow: &str) -> Self {
        let detail = format!("The method {} is not allowed here; allowed: {allow}.", quoted(method));
        Self::new(ProblemKind::MethodNotAllowed, detail)
    }

    /// 410: `snapshot` names one that is not in memory; `current` is the current one, if any.
    pub fn snapshot_gone(id: impl AsRef<[u8]>, current: Option<&str>) -> Self {
        let now = current.map_or_else(
            || "there is no current snapshot".to_owned(),
            |id| format!("the current snapshot is {}", quoted(id)),
        );
        let detail = format!("The snapshot {} (parameter \"snapshot\") is not in memory; {now}.", quoted(id));
        Self::new(ProblemKind::SnapshotGone, detail)
    }

    /// 410: what has changed since then is not known; `current` is the current snapshot.
    pub fn changes_unknown(since: impl AsRef<[u8]>, current: &str) -> Self {
        let (since, current) = (quoted(since), quoted(current));
        let detail = format!(
            "What has changed since {since} (parameter \"since\") is not known: this mirror never had that snapshot, or no \
             longer knows what came after it. Read everything again, for example the dumps, and go on from there; the \
             current snapshot is {current}."
        );
        Self::new(ProblemKind::SnapshotGone, detail)
    }

    /// 412: `If-Match` names no current representation.
    pub fn precondition_failed() -> Self {
        let detail =
            "If-Match does not match: it compares strongly, and answers of the API have weak ETags, so only * matches.";
        Self::new(ProblemKind::PreconditionFailed, detail)
    }

    /// 412: `If-Match` does not name the dump as it is now.
    pub fn file_changed() -> Self {
        Self::new(ProblemKind::PreconditionFailed, "If-Match does not match the current ETag.")
    }

    /// 413: more than `limit` bytes of body.
    pub fn content_too_large(limit: u64) -> Self {
        Self::new(ProblemKind::ContentTooLarge, format!("The request body is larger than the limit of {limit} bytes."))
    }

    /// 414: more than `limit` bytes of request line.
    pub fn uri_too_long(limit: u64) -> Self {
        Self::new(ProblemKind::UriTooLong, format!("The request line is longer than the limit of {limit} bytes."))
    }

    /// 431: more than `limit` bytes of headers.
    pub fn headers_too_large(limit: u64) -> Self {
        Self::new(
            ProblemKind::HeadersTooLarge,
            format!("The request headers are larger than the limit of {limit} bytes."),
        )
    }

    /// 431: more than `most` header fields.
    pub fn too_many_headers(most: usize) -> Self {
        Self::new(ProblemKind::HeadersTooLarge, format!("The request has more than {most} headers."))
    }

    /// 429: `quota` admissions in 60 seconds are spent.
    pub fn rate_limited(quota: u32, retry_after_seconds: u32) -> Self {
        let quota = counted(u64::from(quota), "request");
        let detail = format!("Limit of {quota} in 60 seconds reached; try again in {retry_after_seconds} s.");
        Self::new(ProblemKind::RateLimited, detail).after(retry_after_seconds.into())
    }

    /// 500: our fault; the log says what happened.
    pub fn internal() -> Self {
        Self::new(ProblemKind::Internal, "The request failed inside the server; its log says why.")
    }

    /// 502: the origin's answer can't be used; `why` completes "The origin's answer ".
    pub fn bad_origin_answer(why: &str) -> Self {
        Self::new(ProblemKind::BadOriginAnswer, format!("The origin's answer {}.", bounded(why)))
    }

    /// 503: the origin can't be asked; `why` is a sentence without its full stop.
    pub fn unavailable(why: &str) -> Self {
        Self::new(ProblemKind::Unavailable, format!("{}.", bounded(why)))
    }

    /// 503: the dump cannot be had now; `why` is a sentence without its full stop.
    pub fn dump_unavailable(why: &str) -> Self {
        Self::new(ProblemKind::DumpUnavailable, format!("{}.", bounded(why)))
    }

    /// 503: the client has `limit` connections open; `None`: all connections of the server are in use.
    pub fn too_many_connections(limit: Option<usize>) -> Self {
        let detail = match limit {
            Some(limit) => {
                let open = counted(limit as u64, "open connection");
                format!("This address already has {open}, the most that are allowed.")
            }
            None => "All connections of the server are in use; try again later.".to_owned(),
        };
        Self::new(ProblemKind::TooManyConnections, detail)
    }

    /// 503: the snapshot that the client named cannot answer now; `why` is a sentence without its full stop.
    pub fn snapshot_unavailable(id: impl AsRef<[u8]>, why: &str) -> Self {
        let detail = format!("The snapshot {} cannot answer: {}.", quoted(id), bounded(why));
        Self::new(ProblemKind::SnapshotUnavailable, detail)
    }

    /// 504: nothing usable is cached (RFC 9111 §5.2.1.7).
    pub fn only_if_cached() -> Self {
        let detail = "No usable answer is cached, and the request forbids asking the origin (only-if-cached).";
        Self::new(ProblemKind::OnlyIfCached, detail)
    }

    /// 508: the request came through this server before (RFC 8586).
    pub fn loop_detected() -> Self {
        let detail = "The request runs in a loop: Via or CDN-Loop already names this server. origin.url leads back to this server.";
        Self::new(ProblemKind::LoopDetected, detail)
    }

    /// 503: the listing is known but its detail can't be had now.
    pub fn detail_not_mirrored(id: u64, why: &str) -> Self {
        let detail = format!("The detail of listing {id} is not mirrored yet: {}.", bounded(why));
        Self::new(ProblemKind::Unavailable, detail)
    }

    /// The same with a further reason; `why` is a sentence without its full stop.
    #[must_use]
    pub fn because(self, why: &str) -> Self {
        Self { detail: format!("{} {}.", self.detail, bounded(why)), ..self }
    }

    /// The same; another try makes sense after so many seconds.
    #[must_use]
    pub fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// For `Retry-After`, at least 1.
    pub const fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    pub const fn status(&self) -> StatusCode {
        self.kind.status()
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The value for `Cache-Control`: a missing listing stays missing for a while, other errors are not to be kept.
    pub const fn cache_control(&self) -> &'static str {
        match self.kind {
            ProblemKind::NotFound => "public, max-age=60",
            _ => "no-store",
        }
    }

    /// The document (RFC 9457 §3), of type [`CONTENT_TYPE`].
    pub fn to_json(&self) -> Bytes {
        let (slug, title, status) = (self.kind.as_str(), self.kind.title(), self.status().as_u16());
        let detail = serde_json::Value::from(self.detail.as_str());
        Bytes::from(format!(
            r#"{{"type":"urn:grandstand:problem:{slug}","title":"{title}","status":{status},"detail":{detail}}}"#
        ))
    }
}

/// At most [`MAX_VALUE`] characters of a value, with an ellipsis for the rest. Invalid UTF-8 shows as U+FFFD.
fn bounded(value: impl AsRef<[u8]>) -> String {
    let bytes = value.as_ref();
    // A character has at most four bytes, so the shown part lies within.
    let head = &bytes[..bytes.len().min(4 * MAX_VALUE + 4)];
    excerpt::first(&String::from_utf8_lossy(head), MAX_VALUE)
}

/// [`bounded`], in quotation marks.
fn quoted(value: impl AsRef<[u8]>) -> String {
    format!("\"{}\"", bounded(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    fn parsed(problem: &Problem) -> serde_json::Value {
        serde_json::from_slice(&problem.to_json()).unwrap()
    }

    #[test]
    fn a_bad_parameter_is_named_with_its_value() {
        let problem = Problem::bad_parameter("page", "-1", "is not a whole number from 1");
        assert_eq!(
            problem.to_json(),
            concat!(
                r#"{"type":"urn:grandstand:problem:bad-parameter","title":"Bad query parameter","status":400,"#,
                r#""detail":"The parameter \"page\" has the value \"-1\"; it is not a whole number from 1."}"#
            )
        );
        assert_eq!(problem.cache_control(), "no-store");
    }

    #[test]
    fn every_constructor_has_its_status_and_says_the_same_in_the_document() {
        for (problem, status) in [
            (Problem::unreadable(), 400),
            (Problem::bad_host(None::<&str>), 400),
            (Problem::bad_host(Some("a b")), 400),
            (Problem::bad_authority("user@host"), 400),
            (Problem::in_pieces(), 400),
            (Problem::bad_target(), 400),
            (Problem::too_many_headers(1), 431),
            (Problem::only_if_cached(), 504),
            (Problem::loop_detected(), 508),
            (Problem::repeated_parameter("page", "1", "2"), 400),
            (Problem::missing_parameter("since", "a snapshot"), 400),
            (Problem::bad_path(b"/a//b", PathError::EmptySegment), 400),
            (Problem::unexpected_body(), 400),
            (Problem::unknown_listing("007"), 404),
            (Problem::unknown_path("/nowhere"), 404),
            (Problem::method_not_allowed("POST", "GET, HEAD"), 405),
            (Problem::snapshot_gone("old", Some("new")), 410),
            (Problem::changes_unknown("old", "new"), 410),
            (Problem::precondition_failed(), 412),
            (Problem::content_too_large(1), 413),
            (Problem::uri_too_long(1), 414),
            (Problem::rate_limited(60, 7), 429),
            (Problem::headers_too_large(1), 431),
            (Problem::internal(), 500),
            (Problem::bad_origin_answer("is no JSON"), 502),
            (Problem::unavailable("The origin's budget is spent"), 503),
            (Problem::too_many_connections(Some(512)), 503),
            (Problem::too_many_connections(None), 503),
            (Problem::detail_not_mirrored(7, "offline"), 503),
            (Problem::snapshot_unavailable("old", "others are being read"), 503),
        ] {
            assert_eq!(problem.status().as_u16(), status, "{problem:?}");
            let document = parsed(&problem);
            assert_eq!(document["status"], status);
            assert_eq!(document["title"], problem.kind().title());
            assert_eq!(document["type"], format!("urn:grandstand:problem:{}", problem.kind().as_str()));
            assert_eq!(problem.cache_control() == "no-store", status != 404);
        }
    }

    #[test]
    fn a_gone_snapshot_names_the_current_one() {
        assert!(Problem::snapshot_gone("old", Some("new")).detail().contains("the current snapshot is \"new\""));
    }

    #[test]
    fn an_unknown_path_names_what_is_likely_meant() {
        for (path, hint, is_named) in [
            ("/dumps/listings.json", "listings.ndjson", true),
            ("/venues/dumps/x", "details.ndjson", true),
            ("/dumps/listings.csv", "details.ndjson", false),
            ("/dumps/details.csv", "details.ndjson", false),
            ("/listings.json", "/api/listings.json; / lists", true),
            ("/api", "/api/listings.json", true),
            ("/", "/ lists", false),
        ] {
            let problem = Problem::unknown_path(path);
            assert_eq!(problem.detail().contains(hint), is_named, "{problem:?}");
        }
    }

    #[test]
    fn a_long_value_is_cut_at_200_characters() {
        let problem = Problem::unknown_listing("é".repeat(10_000));
        assert_eq!(problem.detail().matches('é').count(), MAX_VALUE);
        assert!(problem.detail().contains('…'));
        assert!(!Problem::unknown_listing("é".repeat(MAX_VALUE)).detail().contains('…'));
    }

    proptest! {
        #[test]
        fn any_value_makes_a_valid_document(value: Vec<u8>, why in "\\PC*") {
            let problem = Problem::bad_parameter("sport", &value, "is not known");
            let document = parsed(&problem);
            prop_assert_eq!(document["detail"].as_str(), Some(problem.detail()));
            let _ = parsed(&Problem::unavailable(&why));
        }
    }
}
