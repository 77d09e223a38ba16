//! Whether a stored answer may be used for a request without asking the origin, and whether it may stand in for an
//! origin that fails (RFC 9111 §4, §4.2.4, RFC 5861).
//!
//! What it is: the two decisions. What it is not: the choice of the stored answer (`selecting`), or the asking. Who
//! calls it: the cache, for each request that finds a stored answer.

use std::time::Duration;

use super::directives::RequestDirectives;
use super::terms::Terms;

/// What the operator's configuration says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Whether it is an endpoint of the mirrored API: the operator's windows hold where the origin gives none, and the
    /// directives of requests are ignored.
    pub known: bool,
    /// `cache.stale_while_revalidate`; known endpoints only.
    pub stale_while_revalidate: Duration,
    /// `cache.stale_if_error`.
    pub stale_if_error: Duration,
}

/// How a stored answer serves a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reuse {
    /// It is fresh.
    Fresh {
        /// For how much longer.
        left: Duration,
    },
    /// It is stale; use it and refresh it in the background.
    WhileRevalidating {
        /// For how long it has been stale.
        stale_for: Duration,
    },
    /// It is stale and the request allows that (`max-stale`); use it.
    Stale {
        /// For how long it has been stale.
        stale_for: Duration,
    },
    /// The origin must be asked first.
    Validate(Why),
}

/// Why the origin must be asked before a stored answer is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// It is stale.
    Stale,
    /// The origin said `no-cache`.
    NoCache,
    /// The request asks for it.
    Request,
}

impl Why {
    /// The label for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::NoCache => "no-cache",
            Self::Request => "request",
        }
    }
}

impl Reuse {
    /// The label for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh { .. } => "fresh",
            Self::WhileRevalidating { .. } => "stale-while-revalidate",
            Self::Stale { .. } => "max-stale",
            Self::Validate(why) => why.as_str(),
        }
    }

    /// Whether the stored answer is used without asking first.
    pub const fn is_usable(self) -> bool {
        !matches!(self, Self::Validate(_))
    }
}

/// How an answer of this age serves the request.
///
/// A request's `no-store` does not matter here: it forbids storing, not using (RFC 9111 §5.2.1.5).
pub fn reuse(terms: &Terms, age: Duration, request: &RequestDirectives, policy: &Policy) -> Reuse {
    let request = if policy.known { RequestDirectives::default() } else { *request };
    if terms.always_validate {
        return Reuse::Validate(Why::NoCache);
    }
    let too_old = request.max_age.is_some_and(|most| age > most || most.is_zero());
    if request.no_cache || too_old {
        return Reuse::Validate(Why::Request);
    }
    let left = terms.lifetime.saturating_sub(age);
    if !left.is_zero() {
        let enough = request.min_fresh.is_none_or(|least| left >= least);
        return if enough { Reuse::Fresh { left } } else { Reuse::Validate(Why::Request) };
    }
    let stale_for = age.saturating_sub(terms.lifetime);
    if terms.must_revalidate || terms.s_maxage {
        return Reuse::Validate(Why::Stale);
    }
    // RFC 9111 §5.2.1.1, §5.2.1.3: a client that wants fresh answers wants no stale ones, unless it says so.
    let wants_fresh = request.min_fresh.is_some() || (request.max_age.is_some() && request.max_stale.is_none());
    let own = if policy.known { policy.stale_while_revalidate } else { Duration::ZERO };
    if !wants_fresh && stale_for < terms.stale_while_revalidate.unwrap_or(own) {
        return Reuse::WhileRevalidating { stale_for };
    }
    let tolerated = request.min_fresh.is_none()
        && request.max_stale.is_some_and(|bound| bound.is_none_or(|most| stale_for <= most));
    if tolerated { Reuse::Stale { stale_for } } else { Reuse::Validate(Why::Stale) }
}

/// Whether an answer of this age may stand in when the origin fails: it answers 5xx or 429, or not at all.
///
/// DEVIATION: on known endpoints `s-maxage` does not forbid it, although RFC 9111 §5.2.2.10 gives it the meaning of
/// `proxy-revalidate`: origins use it to tell CDNs a lifetime, and an API that is down helps nobody.
pub fn may_stand_in(terms: &Terms, age: Duration, policy: &Policy) -> bool {
    if terms.always_validate {
        return false;
    }
    if age < terms.lifetime {
        return true;
    }
    let forbidden = terms.must_revalidate || (terms.s_maxage && !policy.known);
    !forbidden && age.saturating_sub(terms.lifetime) < terms.stale_if_error.unwrap_or(policy.stale_if_error)
}
