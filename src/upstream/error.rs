//! Why no request can be sent, or why the origin gave no usable answer, and the status and text for a client.
//!
//! Values only: [`super::client`] decides on pauses. Callers: everyone who asks the origin.

use std::time::Duration;

use crate::semantics::excerpt::Excerpt;

use super::budget::Spent;
use super::transport::TransportError;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The CA file cannot be used.
    #[error("origin.ca_file: {0}")]
    CaFile(String),
    /// The name of this program cannot be sent.
    #[error("origin.user_agent: {0}")]
    UserAgent(String),
    /// The TLS library refuses its settings.
    #[error("TLS to the origin cannot be set up: {0}")]
    Tls(String),
}

/// Why there is no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AskError {
    /// The budget is spent, or the origin asked for a pause.
    #[error(transparent)]
    Spent(#[from] Spent),
    /// The origin refused: 429, or another status of failure.
    #[error("the origin answered {status} to {}", Excerpt(path))]
    Status {
        /// The status.
        status: u16,
        /// The path.
        path: String,
        /// The pause that it asks for.
        retry_after: Option<Duration>,
    },
    /// No answer in time.
    #[error("the origin did not answer {} within {} s", Excerpt(path), after.as_secs_f32())]
    Timeout {
        /// The path.
        path: String,
        /// The time it had.
        after: Duration,
    },
    /// No connection, or one that broke.
    #[error("no answer from the origin to {}: {}", Excerpt(path), Excerpt(reason))]
    Connection {
        /// The path.
        path: String,
        /// The chain of causes.
        reason: String,
        /// Whether there was a connection.
        reached: bool,
    },
    /// More bytes than are allowed.
    #[error("the origin's answer to {} is larger than {limit} bytes", Excerpt(path))]
    TooLarge {
        /// The path.
        path: String,
        /// The bound, decoded.
        limit: u64,
    },
    /// A redirect to another host, or too many redirects.
    #[error("the origin redirects {} to {}, which is not followed", Excerpt(path), Excerpt(to))]
    Redirect {
        /// The path.
        path: String,
        /// Where to.
        to: String,
    },
    /// No valid answer to this request.
    #[error("the origin's answer to {} is not usable: {}", Excerpt(path), Excerpt(reason))]
    Nonsense {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl AskError {
    /// The word for `/status`, `Cache-Status` and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Spent(_) => "budget-spent",
            Self::Status { status: 429, .. } => "rate-limited",
            Self::Status { .. } => "error-status",
            Self::Timeout { .. } => "timeout",
            Self::Connection { .. } => "unreachable",
            Self::TooLarge { .. } => "too-large",
            Self::Redirect { .. } => "redirect",
            Self::Nonsense { .. } => "nonsense",
        }
    }

    /// The path; `None` when nothing was asked.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Spent(_) => None,
            Self::Status { path, .. }
            | Self::Timeout { path, .. }
            | Self::Connection { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Redirect { path, .. }
            | Self::Nonsense { path, .. } => Some(path),
        }
    }

    /// Whether the answer itself was bad, rather than absent: 502 instead of 503 for a client.
    pub const fn is_nonsense(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. } | Self::Redirect { .. } | Self::Nonsense { .. } | Self::Status { status: 0..=428 | 430..=499, .. }
        )
    }

    /// Whether the origin wants the next request at once: `Retry-After: 0`.
    pub fn wants_no_pause(&self) -> bool {
        matches!(self, Self::Status { retry_after: Some(wait), .. } if wait.is_zero())
    }

    /// How long a client should wait before it tries again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Spent(spent) => spent.retry_after,
            Self::Status { retry_after: Some(wait), .. } => *wait,
            _ => Duration::from_secs(5),
        }
    }

    /// The same, with a long path cut: for keeping.
    #[must_use]
    pub(super) fn shortened(mut self) -> Self {
        const LONGEST: usize = 200;
        if let Self::Status { path, .. }
        | Self::Timeout { path, .. }
        | Self::Connection { path, .. }
        | Self::TooLarge { path, .. }
        | Self::Redirect { path, .. }
        | Self::Nonsense { path, .. } = &mut self
            && path.len() > LONGEST
        {
            let end = (0..=LONGEST).rev().find(|end| path.is_char_boundary(*end));
            path.truncate(end.unwrap_or_default());
            path.push('\u{2026}');
            path.shrink_to_fit();
        }
        self
    }

    /// No answer to `path` over the wire in that time.
    pub(super) fn of(path: &str, error: TransportError, after: Duration) -> Self {
        let path = path.to_owned();
        match error {
            TransportError::Timeout => Self::Timeout { path, after },
            TransportError::Decode(reason) | TransportError::Malformed(reason) => Self::nonsense(&path, reason),
            TransportError::Connection(reason) | TransportError::Unsent(reason) | TransportError::Idle(reason) => {
                Self::Connection { path, reason, reached: true }
            }
            TransportError::Unreached(reason) => Self::Connection { path, reason, reached: false },
        }
    }

    /// An answer to `path` that is not valid.
    pub fn nonsense(path: &str, reason: impl std::fmt::Display) -> Self {
        Self::Nonsense { path: path.to_owned(), reason: reason.to_string() }
    }
}
