//! Why Redis does not decide.
//!
//! Callers: [`super`]; `/status` shows the text.

use std::time::Duration;

use redis::RedisError;

/// A reason, for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lost {
    /// The server has only just started.
    #[error("Redis has not answered yet")]
    NotYet,
    /// No connection, or none any more.
    #[error("Redis cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("Redis did not answer within {0} ms")]
    Slow(u64),
    /// More decisions wait than there is room for.
    #[error("too many requests wait for Redis")]
    Crowded,
    /// AUTH failed, or was needed.
    #[error("Redis refuses the user name or password: check rate_limit.store")]
    Password,
    /// The file cannot be read.
    #[error("rate_limit.store_password_file cannot be read: {0}")]
    PasswordFile(String),
    /// It accepts no writes.
    #[error("Redis is a read-only replica: rate_limit.store must name the primary")]
    ReadOnly,
    /// It accepts no more data.
    #[error("Redis has reached its memory limit (maxmemory)")]
    Full,
    /// It has just started.
    #[error("Redis is still loading its data")]
    Loading,
    /// Another error of Redis.
    #[error("Redis answered with an error: {0}")]
    Refused(String),
    /// An answer that no script of ours gives.
    #[error("Redis gave an answer of an unknown form; is it another program?")]
    Unknown,
}

impl Lost {
    /// Whether it may be about the key that was asked for, and not about Redis: the key of the probe shows that.
    pub(super) const fn is_about_one_key(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Unknown)
    }

    /// No answer within this time.
    pub(super) fn slow(timeout: Duration) -> Self {
        Self::Slow(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<std::io::Error> for Lost {
    fn from(error: std::io::Error) -> Self {
        Self::Unreachable(error.to_string())
    }
}

impl From<RedisError> for Lost {
    fn from(error: RedisError) -> Self {
        let text = error.to_string();
        // Before Redis 7 the code of an error inside a script is in the middle of its text.
        let says = |code: &str| error.code() == Some(code) || text.contains(code);
        if ["WRONGPASS", "NOAUTH", "NOPERM"].into_iter().any(says)
            || error.kind() == redis::ErrorKind::AuthenticationFailed
        {
            Self::Password
        } else if says("READONLY") {
            Self::ReadOnly
        } else if says("OOM") {
            Self::Full
        } else if says("LOADING") || text.contains("loading the dataset") {
            Self::Loading
        } else if error.is_io_error() || error.is_connection_dropped() {
            Self::Unreachable(text)
        } else {
            Self::Refused(text)
        }
    }
}
