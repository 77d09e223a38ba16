//! Whether a stored answer may be used for a request without asking the origin, and whether it may stand in for an
//! origin that fails (RFC 9111 §4, §4.2.4, RFC 5861).
//!
//! The two decisions. Not the choice of the stored answer (`selecting`), or the asking.
//! Callers: the cache, for each request that finds a stored answer.

use std::time::Duration;

use super::directives::RequestDirectives;
use super::terms::Terms;

/// The operator's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Whether it is an endpoint of the mirrored API: the operator's windows are the defaults, and directives of
    /// requests are ignored.
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
    /// It is stale, and the request allows it (`max-stale`); use it.
    Stale {
        /// For how long it has been stale.
        stale_for: Duration,
    },
    /// The origin must be asked first.
    Validate(ValidationReason),
}

/// Why the origin must be asked before a stored answer is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValidationReason {
    /// It is stale.
    Stale,
    /// The origin said `no-cache`.
    NoCache,
    /// The request asks for it.
    Request,
}

impl Reuse {
    /// Whether the stored answer is used at once.
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
        return Reuse::Validate(ValidationReason::NoCache);
    }
    let too_old = request.max_age.is_some_and(|most| age > most || most.is_zero());
    if request.no_cache || too_old {
        return Reuse::Validate(ValidationReason::Request);
    }
    let left = terms.lifetime.saturating_sub(age);
    if !left.is_zero() {
        let enough = request.min_fresh.is_none_or(|least| left >= least);
        return if enough { Reuse::Fresh { left } } else { Reuse::Validate(ValidationReason::Request) };
    }
    let stale_for = age.saturating_sub(terms.lifetime);
    if terms.must_revalidate || terms.s_maxage {
        return Reuse::Validate(ValidationReason::Stale);
    }
    // RFC 9111 §5.2.1.1, §5.2.1.3: a client that wants fresh answers wants no stale ones, unless it says so.
    let wants_fresh = request.min_fresh.is_some() || (request.max_age.is_some() && request.max_stale.is_none());
    // An answer that the origin never calls fresh must be revalidated each time.
    let own = if policy.known && !terms.lifetime.is_zero() { policy.stale_while_revalidate } else { Duration::ZERO };
    if !wants_fresh && stale_for < terms.stale_while_revalidate.unwrap_or(own) {
        return Reuse::WhileRevalidating { stale_for };
    }
    let tolerated = request.min_fresh.is_none()
        && request.max_stale.is_some_and(|bound| bound.is_none_or(|most| stale_for <= most));
    if tolerated { Reuse::Stale { stale_for } } else { Reuse::Validate(ValidationReason::Stale) }
}

/// Whether an answer of this age may be served when the origin fails: 5xx, 429 or no answer.
///
/// DEVIATION: on known endpoints `s-maxage` does not forbid it, although RFC 9111 §5.2.2.10 gives it the meaning of
/// `proxy-revalidate`: origins use it as a lifetime for CDNs, and an API that is down helps nobody.
pub(crate) fn may_stand_in(terms: &Terms, age: Duration, policy: &Policy) -> bool {
    if terms.always_validate {
        return false;
    }
    if age < terms.lifetime {
        return true;
    }
    let forbidden = terms.must_revalidate || (terms.s_maxage && !policy.known);
    !forbidden && age.saturating_sub(terms.lifetime) < terms.stale_if_error.unwrap_or(policy.stale_if_error)
}

#[cfg(test)]
mod tests {
    use super::super::directives::ResponseDirectives;
    use super::super::terms::Exchange;
    use super::super::testing::{NOW, headers};
    use super::*;
    use Reuse::{Fresh, Stale, Validate, WhileRevalidating};
    use http::StatusCode;
    use proptest::prelude::*;

    const KNOWN: Policy = Policy {
        known: true,
        stale_while_revalidate: Duration::from_secs(60),
        stale_if_error: Duration::from_secs(86_400),
    };
    const UNKNOWN: Policy = Policy { known: false, ..KNOWN };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn terms(control: &str) -> Terms {
        let headers = headers(&[("cache-control", control)]);
        let exchange = Exchange { asked: NOW, received: NOW };
        Terms::of(StatusCode::OK, &headers, &ResponseDirectives::of(&headers), exchange, None)
    }

    fn decide(control: &str, age: u64, request: &str, policy: &Policy) -> Reuse {
        let request = RequestDirectives::of(&headers(&[("cache-control", request)]));
        reuse(&terms(control), seconds(age), &request, policy)
    }

    #[test]
    fn a_fresh_answer_is_used_and_a_stale_one_validated() {
        for policy in [KNOWN, UNKNOWN] {
            assert_eq!(decide("max-age=100", 40, "", &policy), Fresh { left: seconds(60) });
            assert_eq!(decide("max-age=100, must-revalidate", 40, "", &policy), Fresh { left: seconds(60) });
            assert_eq!(decide("max-age=100, no-cache", 0, "", &policy), Validate(ValidationReason::NoCache));
            assert_eq!(decide("max-age=100", 160, "", &policy), Validate(ValidationReason::Stale));
            assert_eq!(decide("max-age=0", 60, "", &policy), Validate(ValidationReason::Stale));
        }
    }

    #[test]
    fn stale_while_revalidate_is_the_origins_or_for_known_endpoints_the_operators() {
        let stale = |seconds| WhileRevalidating { stale_for: Duration::from_secs(seconds) };
        for (control, age, known, unknown) in [
            ("max-age=100", 100, stale(0), Validate(ValidationReason::Stale)),
            ("max-age=100", 159, stale(59), Validate(ValidationReason::Stale)),
            ("max-age=100", 160, Validate(ValidationReason::Stale), Validate(ValidationReason::Stale)),
            ("max-age=1, stale-while-revalidate=4", 3, stale(2), stale(2)),
            (
                "max-age=1, stale-while-revalidate=4",
                5,
                Validate(ValidationReason::Stale),
                Validate(ValidationReason::Stale),
            ),
            (
                "max-age=1, stale-while-revalidate=0",
                1,
                Validate(ValidationReason::Stale),
                Validate(ValidationReason::Stale),
            ),
        ] {
            assert_eq!(decide(control, age, "", &KNOWN), known, "{control} {age}");
            assert_eq!(decide(control, age, "", &UNKNOWN), unknown, "{control} {age}");
        }
        for forbids in ["must-revalidate", "proxy-revalidate", "s-maxage=1", "no-cache"] {
            let control = format!("max-age=1, stale-while-revalidate=3600, {forbids}");
            assert!(!decide(&control, 2, "", &KNOWN).is_usable(), "{control}");
            assert!(!decide(&control, 2, "max-stale", &UNKNOWN).is_usable(), "{control}");
        }
    }

    #[test]
    fn requests_are_heard_on_unknown_paths_only() {
        for (control, age, request, expected) in [
            ("max-age=100000", 3, "max-age=0", Validate(ValidationReason::Request)),
            ("max-age=100000", 3, "max-age=1", Validate(ValidationReason::Request)),
            ("max-age=100000", 0, "max-age=0", Validate(ValidationReason::Request)),
            ("max-age=100000", 1800, "max-age=600", Validate(ValidationReason::Request)),
            ("max-age=100", 40, "max-age=600", Fresh { left: seconds(60) }),
            ("max-age=1500", 0, "min-fresh=2000", Validate(ValidationReason::Request)),
            ("max-age=1500", 1000, "min-fresh=1000", Validate(ValidationReason::Request)),
            ("max-age=1500", 1000, "min-fresh=100", Fresh { left: seconds(500) }),
            ("max-age=3600", 0, "no-cache", Validate(ValidationReason::Request)),
            ("max-age=3600", 600, "no-store", Fresh { left: seconds(3000) }),
            ("max-age=2", 5, "max-stale=1000", Stale { stale_for: seconds(3) }),
            ("max-age=2", 5, "max-stale", Stale { stale_for: seconds(3) }),
            ("max-age=2", 5, "max-stale=2", Validate(ValidationReason::Stale)),
            ("max-age=2", 5, "max-stale, no-cache", Validate(ValidationReason::Request)),
            ("max-age=2", 5, "max-stale, min-fresh=1", Validate(ValidationReason::Stale)),
            ("max-age=2, stale-while-revalidate=9", 5, "max-age=60", Validate(ValidationReason::Stale)),
            (
                "max-age=2, stale-while-revalidate=9",
                5,
                "max-age=60, max-stale",
                WhileRevalidating { stale_for: seconds(3) },
            ),
            ("max-age=2, must-revalidate", 5, "max-stale", Validate(ValidationReason::Stale)),
        ] {
            assert_eq!(decide(control, age, request, &UNKNOWN), expected, "{control} {age} {request}");
            assert_eq!(decide(control, age, request, &KNOWN), decide(control, age, "", &KNOWN), "{control} {request}");
        }
    }

    #[test]
    fn a_stored_answer_stands_in_for_a_day_or_as_long_as_the_origin_says() {
        for (control, age, known, unknown) in [
            ("max-age=2", 5, true, true),
            ("max-age=2", 86_401, true, true),
            ("max-age=2", 86_402, false, false),
            ("max-age=2, stale-if-error=60", 61, true, true),
            ("max-age=2, stale-if-error=60", 62, false, false),
            ("max-age=2, s-maxage=2", 5, true, false),
            ("s-maxage=20", 5, true, true),
            ("max-age=2, must-revalidate", 5, false, false),
            ("max-age=2, must-revalidate", 1, true, true),
            ("max-age=2, proxy-revalidate, stale-if-error=60", 5, false, false),
            ("max-age=2, no-cache", 1, false, false),
        ] {
            assert_eq!(may_stand_in(&terms(control), seconds(age), &KNOWN), known, "{control} {age}");
            assert_eq!(may_stand_in(&terms(control), seconds(age), &UNKNOWN), unknown, "{control} {age}");
        }
    }

    prop_compose! {
        fn any_terms()(
            times in any::<[u16; 2]>(), flags in any::<[bool; 3]>(), graces in any::<[Option<u16>; 2]>(),
        ) -> Terms {
            Terms {
                lifetime: seconds(times[0].into()),
                initial_age: seconds(times[1].into()),
                always_validate: flags[0],
                must_revalidate: flags[1],
                s_maxage: flags[2],
                stale_while_revalidate: graces[0].map(|grace| seconds(grace.into())),
                stale_if_error: graces[1].map(|grace| seconds(grace.into())),
            }
        }
    }

    prop_compose! {
        fn any_request()(flags in any::<[bool; 3]>(), values in any::<[Option<u16>; 2]>(), stale: Option<Option<u16>>)
            -> RequestDirectives {
            RequestDirectives {
                no_cache: flags[0],
                no_store: flags[1],
                only_if_cached: flags[2],
                max_age: values[0].map(|value| seconds(value.into())),
                min_fresh: values[1].map(|value| seconds(value.into())),
                max_stale: stale.map(|bound| bound.map(|bound| seconds(bound.into()))),
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_stale_is_used_where_the_origin_forbids_it(
            terms in any_terms(), age: u16, request in any_request(), known: bool,
        ) {
            let (policy, age) = (Policy { known, ..KNOWN }, seconds(age.into()));
            let (decision, stands_in) = (reuse(&terms, age, &request, &policy), may_stand_in(&terms, age, &policy));
            if terms.always_validate {
                prop_assert!(!decision.is_usable() && !stands_in);
            }
            if terms.must_revalidate && age >= terms.lifetime {
                prop_assert!(!decision.is_usable() && !stands_in);
            }
            if terms.s_maxage && age >= terms.lifetime {
                prop_assert!(!decision.is_usable() && (known || !stands_in));
            }
        }

        #[test]
        fn fresh_means_younger_than_the_lifetime_and_what_is_older_never_gets_better(
            terms in any_terms(), age: u16, more: u16, request in any_request(), known: bool,
        ) {
            let (policy, age) = (Policy { known, ..KNOWN }, seconds(age.into()));
            let (now, later) = (reuse(&terms, age, &request, &policy), reuse(&terms, age + seconds(more.into()), &request, &policy));
            prop_assert!(now.is_usable() || !later.is_usable());
            match now {
                Fresh { left } => prop_assert_eq!(age + left, terms.lifetime),
                WhileRevalidating { stale_for } | Stale { stale_for } => prop_assert_eq!(terms.lifetime + stale_for, age),
                Validate(_) => {}
            }
        }

        #[test]
        fn on_known_endpoints_no_request_changes_anything(terms in any_terms(), age: u16, request in any_request()) {
            let age = seconds(age.into());
            let quiet = RequestDirectives::default();
            prop_assert_eq!(reuse(&terms, age, &request, &KNOWN), reuse(&terms, age, &quiet, &KNOWN));
        }
    }
}
