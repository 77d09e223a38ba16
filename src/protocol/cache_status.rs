//! `Cache-Status` (RFC 9211): how an answer came about, for the header, the access log and the metrics alike.
//!
//! The outcomes and their rendering. Not the decision between them ([`crate::edge::answer`], [`crate::edge::proxy`]).
//! Callers: [`crate::edge::answer::compose`] on every answer but errors of our own and preflights, which carry none.

use http::HeaderValue;

/// How an answer came about. `fwd_status` is the status of the origin's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheOutcome {
    /// From the snapshot or the cache, without asking the origin.
    Hit {
        /// Seconds of freshness left, negative when stale (RFC 9211 §2.4); `None` for answers that do not age.
        ttl: Option<i64>,
    },
    /// Nothing was kept under this key.
    Miss(Forwarded),
    /// The cached answers of this key are for other request headers.
    VaryMiss(Forwarded),
    /// The cached answer was stale and was revalidated; status 304 if it was still current.
    Revalidated(Forwarded),
    /// The cached answer was fresh, but the client requested revalidation.
    Requested(Forwarded),
    /// The cached answer was stale and was served because the origin failed (RFC 5861 §4).
    StaleIfError {
        /// `None`: no answer, or no budget to ask.
        fwd_status: Option<u16>,
    },
    /// Not for the cache at all.
    Bypass { fwd_status: u16 },
    /// The method asks for the origin.
    Method(Forwarded),
}

/// The origin's answer, as `Cache-Status` describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forwarded {
    pub fwd_status: u16,
    /// Whether the answer was kept (RFC 9211 §2.5).
    pub stored: bool,
    /// Whether it shared the request of another client (RFC 9211 §2.6).
    pub collapsed: bool,
}

impl CacheOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit { ttl: Some(i64::MIN..0) } => "hit-stale",
            Self::Hit { .. } => "hit",
            Self::Miss(_) => "uri-miss",
            Self::VaryMiss(_) => "vary-miss",
            Self::Revalidated(_) => "stale",
            Self::Requested(_) => "request",
            Self::StaleIfError { .. } => "stale-if-error",
            Self::Bypass { .. } => "bypass",
            Self::Method(_) => "method",
        }
    }

    /// The origin's answer; `None` if there is none.
    pub const fn forwarded(self) -> Option<Forwarded> {
        match self {
            Self::Hit { .. } | Self::StaleIfError { fwd_status: None } => None,
            Self::Miss(forwarded)
            | Self::VaryMiss(forwarded)
            | Self::Revalidated(forwarded)
            | Self::Requested(forwarded)
            | Self::Method(forwarded) => Some(forwarded),
            Self::StaleIfError { fwd_status: Some(fwd_status) } | Self::Bypass { fwd_status } => {
                Some(Forwarded { fwd_status, stored: false, collapsed: false })
            }
        }
    }

    /// Appends our member of the list to `out`, `grandstand; hit; ttl=240` for example: at most 80 bytes.
    pub fn write_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"grandstand; ");
        match self {
            Self::Hit { ttl } => {
                out.extend_from_slice(b"hit");
                if let Some(ttl) = ttl {
                    parameter(out, b"; ttl=", ttl);
                }
                return;
            }
            Self::StaleIfError { .. } => out.extend_from_slice(b"fwd=stale"),
            _ => out.extend([b"fwd=", self.as_str().as_bytes()].into_iter().flatten()),
        }
        if let Some(Forwarded { fwd_status, stored, collapsed }) = self.forwarded() {
            parameter(out, b"; fwd-status=", fwd_status);
            out.extend_from_slice(if stored { b"; stored" } else { b"" });
            out.extend_from_slice(if collapsed { b"; collapsed" } else { b"" });
        }
        if matches!(self, Self::StaleIfError { .. }) {
            out.extend_from_slice(b"; detail=stale-if-error");
        }
    }

    /// The header value; one allocation.
    pub fn to_header_value(self) -> HeaderValue {
        let mut out = Vec::with_capacity(80);
        self.write_to(&mut out);
        // All that is written is visible ASCII and spaces.
        HeaderValue::from_maybe_shared(bytes::Bytes::from(out)).unwrap_or(HeaderValue::from_static("grandstand"))
    }
}

fn parameter(out: &mut Vec<u8>, name: &[u8], value: impl itoa::Integer) {
    out.extend_from_slice(name);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_render_as_rfc_9211_spells_them() {
        let asked = |fwd_status, stored, collapsed| Forwarded { fwd_status, stored, collapsed };
        for (outcome, label, value) in [
            (CacheOutcome::Hit { ttl: Some(240) }, "hit", "grandstand; hit; ttl=240"),
            (CacheOutcome::Hit { ttl: Some(0) }, "hit", "grandstand; hit; ttl=0"),
            (CacheOutcome::Hit { ttl: Some(-12) }, "hit-stale", "grandstand; hit; ttl=-12"),
            (CacheOutcome::Hit { ttl: None }, "hit", "grandstand; hit"),
            (
                CacheOutcome::Miss(asked(200, true, true)),
                "uri-miss",
                "grandstand; fwd=uri-miss; fwd-status=200; stored; collapsed",
            ),
            (CacheOutcome::Miss(asked(404, false, false)), "uri-miss", "grandstand; fwd=uri-miss; fwd-status=404"),
            (
                CacheOutcome::VaryMiss(asked(200, true, false)),
                "vary-miss",
                "grandstand; fwd=vary-miss; fwd-status=200; stored",
            ),
            (
                CacheOutcome::Requested(asked(304, true, false)),
                "request",
                "grandstand; fwd=request; fwd-status=304; stored",
            ),
            (
                CacheOutcome::Revalidated(asked(304, true, false)),
                "stale",
                "grandstand; fwd=stale; fwd-status=304; stored",
            ),
            (
                CacheOutcome::StaleIfError { fwd_status: Some(503) },
                "stale-if-error",
                "grandstand; fwd=stale; fwd-status=503; detail=stale-if-error",
            ),
            (
                CacheOutcome::StaleIfError { fwd_status: None },
                "stale-if-error",
                "grandstand; fwd=stale; detail=stale-if-error",
            ),
            (CacheOutcome::Bypass { fwd_status: 200 }, "bypass", "grandstand; fwd=bypass; fwd-status=200"),
            (CacheOutcome::Method(asked(201, false, false)), "method", "grandstand; fwd=method; fwd-status=201"),
        ] {
            assert_eq!((outcome.as_str(), outcome.to_header_value().as_bytes()), (label, value.as_bytes()));
        }
    }
}
