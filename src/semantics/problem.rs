//! Problem documents: every error that a client sees, as RFC 9457 wants it.
//!
//! What it is: the list of errors and their JSON. What it is not: the headers around them (`Allow`, `Retry-After`,
//! CORS), which `answer` adds to every answer alike. Who calls it: `answer`, wherever a request ends in an error.

use bytes::Bytes;
use http::StatusCode;

use super::path::PathError;

/// The media type of a problem document (RFC 9457 §6.1).
pub(crate) const CONTENT_TYPE: &str = "application/problem+json";
/// How many characters of a value that the client sent are repeated to it.
const MAX_VALUE: usize = 200;

/// What went wrong. Each kind has one status, one title and one URI.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProblemKind {
    /// 400: a request that cannot be read.
    BadRequest,
    /// 400: a query parameter that can't be obeyed.
    BadParameter,
    /// 400: a path without a single reading.
    BadPath,
    /// 400: a request with a body where none belongs.
    UnexpectedBody,
    /// 404: no such listing, endpoint or path.
    NotFound,
    /// 405: not a method of this resource.
    MethodNotAllowed,
    /// 410: a snapshot that is not kept, or never was.
    SnapshotGone,
    /// 412: a condition of the request is false.
    PreconditionFailed,
    /// 413: a body beyond its bound.
    ContentTooLarge,
    /// 414: a request line beyond its bound.
    UriTooLong,
    /// 429: over the rate limit.
    RateLimited,
    /// 431: headers beyond their bounds.
    HeadersTooLarge,
    /// 500: a fault of ours.
    Internal,
    /// 502: the origin answered nonsense or a redirect.
    BadOriginAnswer,
    /// 503: the origin can't be asked, or does not answer, and nothing stale may be served.
    Unavailable,
    /// 503: no room for another connection.
    TooManyConnections,
    /// 503: a kept snapshot that is not at hand now, or that cannot answer.
    SnapshotUnavailable,
    /// 504: the client wants what is kept or nothing, and that is nothing.
    OnlyIfCached,
    /// 508: the request came through this server before.
    LoopDetected,
}

impl ProblemKind {
    /// Every kind: each names the next one, so that none can be forgotten.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::BadRequest), |kind| match kind {
            Self::BadRequest => Some(Self::BadParameter),
            Self::BadParameter => Some(Self::BadPath),
            Self::BadPath => Some(Self::UnexpectedBody),
            Self::UnexpectedBody => Some(Self::NotFound),
            Self::NotFound => Some(Self::MethodNotAllowed),
            Self::MethodNotAllowed => Some(Self::SnapshotGone),
            Self::SnapshotGone => Some(Self::PreconditionFailed),
            Self::PreconditionFailed => Some(Self::ContentTooLarge),
            Self::ContentTooLarge => Some(Self::UriTooLong),
            Self::UriTooLong => Some(Self::RateLimited),
            Self::RateLimited => Some(Self::HeadersTooLarge),
            Self::HeadersTooLarge => Some(Self::Internal),
            Self::Internal => Some(Self::BadOriginAnswer),
            Self::BadOriginAnswer => Some(Self::Unavailable),
            Self::Unavailable => Some(Self::TooManyConnections),
            Self::TooManyConnections => Some(Self::SnapshotUnavailable),
            Self::SnapshotUnavailable => Some(Self::OnlyIfCached),
            Self::OnlyIfCached => Some(Self::LoopDetected),
            Self::LoopDetected => None,
        })
    }

    /// The last part of the `type` URI, also the label for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::BadParameter => "bad-parameter",
            Self::BadPath => "bad-path",
            Self::UnexpectedBody => "unexpected-body",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::SnapshotGone => "snapshot-gone",
            Self::PreconditionFailed => "precondition-failed",
            Self::ContentTooLarge => "content-too-large",
            Self::UriTooLong => "uri-too-long",
            Self::RateLimited => "rate-limited",
            Self::HeadersTooLarge => "headers-too-large",
            Self::Internal => "internal",
            Self::BadOriginAnswer => "bad-origin-answer",
            Self::Unavailable => "unavailable",
            Self::TooManyConnections => "too-many-connections",
            Self::SnapshotUnavailable => "snapshot-unavailable",
            Self::OnlyIfCached => "only-if-cached",
            Self::LoopDetected => "loop-detected",
        }
    }

    /// The status code that goes with it.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::BadParameter | Self::BadPath | Self::UnexpectedBody => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::SnapshotGone => StatusCode::GONE,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::ContentTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::BadOriginAnswer => StatusCode::BAD_GATEWAY,
            Self::Unavailable | Self::TooManyConnections | Self::SnapshotUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::OnlyIfCached => StatusCode::GATEWAY_TIMEOUT,
            Self::LoopDetected => StatusCode::LOOP_DETECTED,
        }
    }

    /// The title: the same for every problem of the kind (RFC 9457 §3.1.3).
    pub const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "Bad request",
            Self::BadParameter => "Bad query parameter",
            Self::BadPath => "Bad path",
            Self::UnexpectedBody => "Unexpected request body",
            Self::NotFound => "Not found",
            Self::MethodNotAllowed => "Method not allowed",
            Self::SnapshotGone => "Snapshot not kept",
            Self::PreconditionFailed => "Precondition failed",
            Self::ContentTooLarge => "Request body too large",
            Self::UriTooLong => "Request line too long",
            Self::RateLimited => "Too many requests",
            Self::HeadersTooLarge => "Request headers too large",
            Self::Internal => "Internal error",
            Self::BadOriginAnswer => "Unusable answer from the origin",
            Self::Unavailable => "Origin unavailable",
            Self::TooManyConnections => "Too many connections",
            Self::SnapshotUnavailable => "Snapshot unavailable",
            Self::OnlyIfCached => "Not in the cache",
            Self::LoopDetected => "Loop detected",
        }
    }
}

/// One error, ready to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
}

impl Problem {
    /// A problem with a detail that says what, for whom there is no constructor below.
    pub const fn new(kind: ProblemKind, detail: String) -> Self {
        Self { kind, detail }
    }

    /// 400: the request is not HTTP as it should be.
    pub fn unreadable() -> Self {
        Self::new(ProblemKind::BadRequest, "The request cannot be read as HTTP.".to_owned())
    }

    /// 400: the request does not say whom it is for, or not in a way that can be read (RFC 9112 §3.2).
    pub fn bad_host(value: Option<impl AsRef<[u8]>>) -> Self {
        let detail = match value {
            None => "An HTTP/1.1 request names its host once, in the field Host; this one does not.".to_owned(),
            Some(value) => format!("The field Host has the value {}, which is no host.", quoted(value)),
        };
        Self::new(ProblemKind::BadRequest, detail)
    }

    /// 400: the head of the request takes too many reads.
    pub fn in_pieces() -> Self {
        Self::new(ProblemKind::BadRequest, "The head of the request comes in too many small pieces.".to_owned())
    }

    /// 400: the target of the request has a byte that ends it, or that has no place in it (RFC 9112 §3.2).
    pub fn bad_target() -> Self {
        let detail = "The request target has a space or a control character in it; a space is written %20.".to_owned();
        Self::new(ProblemKind::BadRequest, detail)
    }

    /// 400: the parameter's value can't be obeyed; `why` completes "...: it ". The value may be any bytes.
    pub fn bad_parameter(name: &str, value: impl AsRef<[u8]>, why: &str) -> Self {
        let (name, value) = (quoted(name), quoted(value));
        Self::new(ProblemKind::BadParameter, format!("The parameter {name} has the value {value}: it {why}."))
    }

    /// 400: the parameter has to be there; `what` completes "...: it is ".
    pub fn missing_parameter(name: &str, what: &str) -> Self {
        Self::new(ProblemKind::BadParameter, format!("The parameter {} is missing: it is {what}.", quoted(name)))
    }

    /// 400: the parameter was given twice, with two values.
    pub fn repeated_parameter(name: &str, first: impl AsRef<[u8]>, second: impl AsRef<[u8]>) -> Self {
        let (name, first, second) = (quoted(name), quoted(first), quoted(second));
        let detail = format!("The parameter {name} is given twice, with the values {first} and {second}.");
        Self::new(ProblemKind::BadParameter, detail)
    }

    /// 400: the path has no single reading.
    pub fn bad_path(path: impl AsRef<[u8]>, why: PathError) -> Self {
        Self::new(ProblemKind::BadPath, format!("The path {} is refused: {why}.", quoted(path)))
    }

    /// 400: a body on a request that has none.
    pub fn unexpected_body() -> Self {
        Self::new(ProblemKind::UnexpectedBody, "Requests to this endpoint have no body.".to_owned())
    }

    /// 404: no such listing.
    pub fn unknown_listing(id: impl AsRef<[u8]>) -> Self {
        Self::new(ProblemKind::NotFound, format!("There is no listing with the id {}.", quoted(id)))
    }

    /// 404: nothing lives at this path.
    pub fn unknown_path(path: impl AsRef<[u8]>) -> Self {
        Self::new(ProblemKind::NotFound, format!("There is nothing at {}.", quoted(path)))
    }

    /// 405: `allow` is what the `Allow` header says.
    pub fn method_not_allowed(method: &str, allow: &str) -> Self {
        let detail = format!("The method {} is not allowed here; {allow} are.", quoted(method));
        Self::new(ProblemKind::MethodNotAllowed, detail)
    }

    /// 410: the parameter names a snapshot that is not kept; `current` is the one that is served, if any.
    pub fn snapshot_gone(parameter: &str, id: impl AsRef<[u8]>, current: Option<&str>) -> Self {
        let now = current
            .map_or_else(|| "there is no snapshot now".to_owned(), |id| format!("the current one is {}", quoted(id)));
        let (parameter, id) = (quoted(parameter), quoted(id));
        let detail = format!("The parameter {parameter} names the snapshot {id}, which is not kept; {now}.");
        Self::new(ProblemKind::SnapshotGone, detail)
    }

    /// 412: `If-Match` names no current representation.
    pub fn precondition_failed() -> Self {
        let detail =
            "If-Match does not name the current representation: tags are compared strongly, and a weak tag, which \
                      answers of the API have, never matches."
                .to_owned();
        Self::new(ProblemKind::PreconditionFailed, detail)
    }

    /// 413: more than `limit` bytes of body.
    pub fn content_too_large(limit: u64) -> Self {
        Self::new(ProblemKind::ContentTooLarge, format!("The request body is larger than {limit} bytes."))
    }

    /// 414: more than `limit` bytes of request line.
    pub fn uri_too_long(limit: u64) -> Self {
        Self::new(ProblemKind::UriTooLong, format!("The request line is longer than {limit} bytes."))
    }

    /// 431: more than `limit` bytes of headers.
    pub fn headers_too_large(limit: u64) -> Self {
        Self::new(ProblemKind::HeadersTooLarge, format!("The request headers are larger than {limit} bytes."))
    }

    /// 431: more than `most` header fields.
    pub fn too_many_headers(most: usize) -> Self {
        Self::new(ProblemKind::HeadersTooLarge, format!("The request has more than {most} header fields."))
    }

    /// 429: `quota` admissions in 60 seconds are spent.
    pub fn rate_limited(quota: u32, retry_after_seconds: u32) -> Self {
        let detail = format!(
            "This address was admitted {quota} times within 60 seconds; the next request is admitted in {retry_after_seconds} s."
        );
        Self::new(ProblemKind::RateLimited, detail)
    }

    /// 500: our fault; what happened is in the log, not in the answer.
    pub fn internal() -> Self {
        Self::new(ProblemKind::Internal, "The request failed here; the log says why.".to_owned())
    }

    /// 502: the origin's answer can't be used; `why` completes "The origin's answer ".
    pub fn bad_origin_answer(why: &str) -> Self {
        Self::new(ProblemKind::BadOriginAnswer, format!("The origin's answer {}.", bounded(why)))
    }

    /// 503: the origin can't be asked; `why` is a sentence without its full stop.
    pub fn unavailable(why: &str) -> Self {
        Self::new(ProblemKind::Unavailable, format!("{}.", bounded(why)))
    }

    /// 503: the client has `limit` connections open; `None`: all connections of the server are in use.
    pub fn too_many_connections(limit: Option<usize>) -> Self {
        let detail = match limit {
            Some(limit) => format!("This address has {limit} connections open, the most that it may have."),
            None => "All connections of the server are in use.".to_owned(),
        };
        Self::new(ProblemKind::TooManyConnections, detail)
    }

    /// 503: the snapshot that the client named cannot answer now; `why` is a sentence without its full stop.
    pub fn snapshot_unavailable(id: impl AsRef<[u8]>, why: &str) -> Self {
        let detail = format!("The snapshot {} cannot answer: {}.", quoted(id), bounded(why));
        Self::new(ProblemKind::SnapshotUnavailable, detail)
    }

    /// 504: nothing is kept that could be served (RFC 9111 §5.2.1.7).
    pub fn only_if_cached() -> Self {
        let detail = "Nothing usable is kept, and only-if-cached forbids asking the origin.".to_owned();
        Self::new(ProblemKind::OnlyIfCached, detail)
    }

    /// 508: the request came through this server before (RFC 8586).
    pub fn loop_detected() -> Self {
        let detail = "Via or CDN-Loop names this server: the request came through it before, so the address of its \
                      origin leads back to it.";
        Self::new(ProblemKind::LoopDetected, detail.to_owned())
    }

    /// 503: the listing is known but its detail can't be had now.
    pub fn detail_not_mirrored(id: u64, why: &str) -> Self {
        let detail = format!("The detail of listing {id} is not mirrored yet: {}.", bounded(why));
        Self::new(ProblemKind::Unavailable, detail)
    }

    /// What went wrong.
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The status code to answer with.
    pub const fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// What went wrong this time.
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

/// At most [`MAX_VALUE`] characters of a value, with an ellipsis for the rest. What is not UTF-8 shows as U+FFFD.
fn bounded(value: impl AsRef<[u8]>) -> String {
    let bytes = value.as_ref();
    // Four bytes are the longest character: nothing of what is shown lies beyond.
    let head = &bytes[..bytes.len().min(4 * MAX_VALUE + 4)];
    let text = String::from_utf8_lossy(head);
    match text.char_indices().nth(MAX_VALUE) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.into_owned(),
    }
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
                r#""detail":"The parameter \"page\" has the value \"-1\": it is not a whole number from 1."}"#
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
            (Problem::snapshot_gone("snapshot", "old", Some("new")), 410),
            (Problem::snapshot_gone("since", "old", None), 410),
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
        assert!(Problem::snapshot_gone("snapshot", "old", Some("new")).detail().contains("the current one is \"new\""));
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
