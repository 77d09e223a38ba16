//! The decision of the limiter, and its headers.
//!
//! The outcome and its rendering as `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers). `table`
//! makes the decision.
//! Callers: `answer`.

use super::WINDOW_SECONDS;

/// The decision on one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// No limit applies to the address: not counted, no headers.
    Unlimited,
    /// The request is admitted and was counted.
    Admitted {
        /// Admissions in 60 s that the client may have.
        quota: u32,
        /// How many of them are left at this instant.
        remaining: u32,
        /// Seconds, rounded up, until the oldest counted admission leaves; 0 if there is none (only from a peek).
        reset_seconds: u32,
    },
    /// The request is refused and was not counted.
    Refused {
        /// Admissions in 60 s that the client may have.
        quota: u32,
        /// Whole seconds after which the next request is admitted: never early, less than 1 s late, at least 1.
        retry_after_seconds: u32,
    },
}

impl Decision {
    /// Whether the request is admitted.
    pub const fn is_admitted(self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// The label for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unlimited => "unlimited",
            Self::Admitted { .. } => "admitted",
            Self::Refused { .. } => "refused",
        }
    }

    /// Admissions in 60 s; `None` without a limit.
    pub const fn quota(self) -> Option<u32> {
        match self {
            Self::Unlimited => None,
            Self::Admitted { quota, .. } | Self::Refused { quota, .. } => Some(quota),
        }
    }

    /// For `Retry-After`; `None` unless refused.
    pub const fn retry_after_seconds(self) -> Option<u32> {
        match self {
            Self::Refused { retry_after_seconds, .. } => Some(retry_after_seconds),
            _ => None,
        }
    }

    /// Appends the value of `RateLimit`, `"default";r=59;t=60` for example; nothing, and `false`, without a limit.
    pub fn write_rate_limit(self, out: &mut Vec<u8>) -> bool {
        let (remaining, reset) = match self {
            Self::Unlimited => return false,
            Self::Admitted { remaining, reset_seconds, .. } => (remaining, reset_seconds),
            Self::Refused { retry_after_seconds, .. } => (0, retry_after_seconds),
        };
        write(out, b"\"default\";r=", remaining);
        write(out, b";t=", reset);
        true
    }

    /// Appends the value of `RateLimit-Policy`, `"default";q=60;w=60` for example; nothing, and `false`, without a limit.
    pub fn write_policy(self, out: &mut Vec<u8>) -> bool {
        let Some(quota) = self.quota() else {
            return false;
        };
        write(out, b"\"default\";q=", quota);
        write(out, b";w=", WINDOW_SECONDS);
        true
    }
}

fn write(out: &mut Vec<u8>, name: &[u8], value: u32) {
    out.extend_from_slice(name);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_repeat_the_decision() {
        for (decision, limit, policy) in [
            (Decision::Unlimited, "", ""),
            (
                Decision::Admitted { quota: 60, remaining: 59, reset_seconds: 60 },
                "\"default\";r=59;t=60",
                "\"default\";q=60;w=60",
            ),
            (Decision::Refused { quota: 600, retry_after_seconds: 7 }, "\"default\";r=0;t=7", "\"default\";q=600;w=60"),
        ] {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            let written = (decision.write_rate_limit(&mut first), decision.write_policy(&mut second));
            assert_eq!(written, (!limit.is_empty(), !policy.is_empty()));
            assert_eq!((first.as_slice(), second.as_slice()), (limit.as_bytes(), policy.as_bytes()));
        }
    }
}
