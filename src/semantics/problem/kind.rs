//! The kinds of problems: each has one status, one title and one URI.
//!
//! Callers: [`super`], and all that make a [`super::Problem`].

use http::StatusCode;

/// The kind of a problem: one status, one title and one URI.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProblemKind {
    /// 400: a request that cannot be read.
    BadRequest,
    /// 400: an invalid query parameter.
    BadParameter,
    /// 400: a path without a single reading.
    BadPath,
    /// 400: an unexpected request body.
    UnexpectedBody,
    /// 404: no such listing, endpoint or path.
    NotFound,
    /// 405: not a method of this resource.
    MethodNotAllowed,
    /// 410: a snapshot that is not kept.
    SnapshotGone,
    /// 412: a condition of the request is false.
    PreconditionFailed,
    /// 413: a body beyond its bound.
    ContentTooLarge,
    /// 414: a request line beyond its bound.
    UriTooLong,
    /// 416: a range that has no byte of the dump.
    RangeNotSatisfiable,
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
    /// 503: a dump that is not at hand now.
    DumpUnavailable,
    /// 503: no room for another connection.
    TooManyConnections,
    /// 503: a kept snapshot that cannot answer now.
    SnapshotUnavailable,
    /// 504: `only-if-cached`, and nothing usable is cached.
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
            Self::UriTooLong => Some(Self::RangeNotSatisfiable),
            Self::RangeNotSatisfiable => Some(Self::RateLimited),
            Self::RateLimited => Some(Self::HeadersTooLarge),
            Self::HeadersTooLarge => Some(Self::Internal),
            Self::Internal => Some(Self::BadOriginAnswer),
            Self::BadOriginAnswer => Some(Self::Unavailable),
            Self::Unavailable => Some(Self::TooManyConnections),
            Self::TooManyConnections => Some(Self::SnapshotUnavailable),
            Self::SnapshotUnavailable => Some(Self::DumpUnavailable),
            Self::DumpUnavailable => Some(Self::OnlyIfCached),
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
            Self::RangeNotSatisfiable => "range-not-satisfiable",
            Self::RateLimited => "rate-limited",
            Self::HeadersTooLarge => "headers-too-large",
            Self::Internal => "internal",
            Self::BadOriginAnswer => "bad-origin-answer",
            Self::Unavailable => "unavailable",
            Self::DumpUnavailable => "dump-unavailable",
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
            Self::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::BadOriginAnswer => StatusCode::BAD_GATEWAY,
            Self::Unavailable | Self::DumpUnavailable | Self::TooManyConnections | Self::SnapshotUnavailable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
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
            Self::RangeNotSatisfiable => "Range not satisfiable",
            Self::RateLimited => "Too many requests",
            Self::HeadersTooLarge => "Request headers too large",
            Self::Internal => "Internal error",
            Self::BadOriginAnswer => "Unusable answer from the origin",
            Self::Unavailable => "Origin unavailable",
            Self::DumpUnavailable => "Dump unavailable",
            Self::TooManyConnections => "Too many connections",
            Self::SnapshotUnavailable => "Snapshot unavailable",
            Self::OnlyIfCached => "Not in the cache",
            Self::LoopDetected => "Loop detected",
        }
    }
}
