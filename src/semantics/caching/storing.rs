//! Whether an answer may be stored by a shared cache (RFC 9111 §3).
//!
//! The decision and its reason. `terms` says how long an answer is fresh; `reuse` and `selecting` say which requests it
//! answers.
//! Callers: the cache, once per answer of the origin.

use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE, ETAG, EXPIRES, HeaderMap, LAST_MODIFIED, SET_COOKIE};
use http::{Method, StatusCode};

use super::directives::{RequestDirectives, ResponseDirectives};
use super::selecting::Vary;
use super::terms::may_guess;

/// Why an answer is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NotStored {
    /// Only answers to GET are stored.
    Method,
    /// The status is interim, or `must-understand` is set and we do not know it.
    Status,
    /// `no-store`, of the answer or of the request.
    NoStore,
    Private,
    /// The request was authorized, and the answer does not allow sharing (RFC 9111 §3.5).
    Authorization,
    /// The request carried cookies, as above.
    Cookie,
    /// The answer sets a cookie without `public`.
    SetCookie,
    /// No lifetime is stated and none may be guessed, or it can never be used.
    NoFreshness,
    /// The answer to a range or a condition.
    Partial,
    VaryStar,
}

/// Whether the answer may be stored for others. `request` is the request to the origin (on known endpoints without
/// client fields); `default_lifetime` is the operator's, for a known endpoint.
///
/// Our own rules, stricter than RFC 9111: a request with `Cookie` is treated like one with `Authorization`, unless
/// `Vary` names `Cookie` (much of the web sends no `private`); an answer with `Set-Cookie` must say `public` (RFC 9111
/// §7.3). On known endpoints the field is dropped.
///
/// # Errors
/// The first reason that forbids it.
pub(crate) fn may_store(
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
    directives: &ResponseDirectives,
    default_lifetime: Option<Duration>,
) -> Result<(), NotStored> {
    let explicit = directives.lifetime().is_some() || (!directives.targeted && response.contains_key(EXPIRES));
    let for_others = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    let vary = Vary::of(response);
    let reasons = [
        (NotStored::Method, *method != Method::GET),
        (NotStored::Partial, depends_on_request(status)),
        (NotStored::Status, status.is_informational() || (directives.must_understand && !is_understood(status))),
        // RFC 9111 §5.2.2.3: with must-understand, an understood status overrides no-store.
        (NotStored::NoStore, directives.no_store && !directives.must_understand),
        (NotStored::NoStore, RequestDirectives::of(request).no_store),
        (NotStored::Private, directives.private),
        (NotStored::Authorization, request.contains_key(AUTHORIZATION) && !for_others),
        (NotStored::Cookie, request.contains_key(COOKIE) && !for_others && !vary.names(&COOKIE)),
        (NotStored::VaryStar, vary == Vary::Star),
    ];
    if let Some((reason, _)) = reasons.into_iter().find(|(_, forbids)| *forbids) {
        return Err(reason);
    }
    if response.contains_key(SET_COOKIE) && !directives.public && default_lifetime.is_none() {
        return Err(NotStored::SetCookie);
    }
    let validator = response.contains_key(ETAG) || response.contains_key(LAST_MODIFIED);
    // Without lifetime and validator it is stale at once: it serves only waiting clients, and outages.
    let guessed = may_guess(status, directives);
    let reusable = validator || !directives.no_cache;
    if (explicit || guessed) && reusable { Ok(()) } else { Err(NotStored::NoFreshness) }
}

/// The statuses that a request field may have caused: any error, since firewalls and frameworks reject fields with any
/// status. Such an answer says nothing about requests without the field.
pub(crate) fn blames_the_request(status: StatusCode) -> bool {
    status.as_u16() >= 400
}

/// The statuses that a range or a condition causes: 206, 304, 412 and 416.
fn depends_on_request(status: StatusCode) -> bool {
    matches!(status.as_u16(), 206 | 304 | 412 | 416)
}

/// The statuses whose caching requirements this cache knows (RFC 9110 §15, RFC 6585, RFC 7725).
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451 | 500..=505
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_headers, headers};
    use super::*;
    use proptest::prelude::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn stored(request: Pairs<'_>, status: u16, response: Pairs<'_>) -> Result<(), NotStored> {
        decide(&Method::GET, request, status, response, None)
    }

    fn decide(
        method: &Method,
        request: Pairs<'_>,
        status: u16,
        response: Pairs<'_>,
        default: Option<Duration>,
    ) -> Result<(), NotStored> {
        let (request, response) = (headers(request), headers(response));
        let status = StatusCode::from_u16(status).unwrap();
        may_store(method, &request, status, &response, &ResponseDirectives::of(&response), default)
    }

    #[test]
    fn the_directives_of_an_answer_decide() {
        for (control, expected) in [
            ("max-age=3600", Ok(())),
            ("s-maxage=3600", Ok(())),
            ("max-age=0", Ok(())),
            ("max-age=10000, no-store", Err(NotStored::NoStore)),
            ("private, max-age=3600", Err(NotStored::Private)),
            ("private=\"set-cookie\", max-age=3600", Err(NotStored::Private)),
            ("no-cache, max-age=3600", Err(NotStored::NoFreshness)),
            ("no-store, must-understand, max-age=3600", Ok(())),
            ("no-cache", Err(NotStored::NoFreshness)),
            ("public", Ok(())),
            ("", Ok(())),
        ] {
            assert_eq!(stored(&[], 200, &[("cache-control", control)]), expected, "{control:?}");
        }
        assert_eq!(stored(&[], 200, &[("cache-control", "no-cache"), ("etag", "\"a\"")]), Ok(()));
        let targeted = [("cache-control", "no-store"), ("cdn-cache-control", "max-age=5")];
        assert_eq!(stored(&[], 200, &targeted), Ok(()));
        let targeted = [("cache-control", "max-age=5"), ("cdn-cache-control", "private")];
        assert_eq!(stored(&[], 200, &targeted), Err(NotStored::Private));
    }

    #[test]
    fn any_final_status_is_stored_with_a_lifetime_and_few_without() {
        for status in [200, 201, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
            assert_eq!(stored(&[], status, &[("cache-control", "max-age=5")]), Ok(()), "{status}");
            assert_eq!(stored(&[], status, &[("expires", "0")]), Ok(()), "{status}");
        }
        for (status, expected) in [
            (200, Ok(())),
            (404, Ok(())),
            (501, Ok(())),
            (201, Err(NotStored::NoFreshness)),
            (302, Err(NotStored::NoFreshness)),
            (403, Err(NotStored::NoFreshness)),
            (503, Err(NotStored::NoFreshness)),
            (599, Err(NotStored::NoFreshness)),
        ] {
            assert_eq!(stored(&[], status, &[("etag", "\"a\"")]), expected, "{status}");
            assert_eq!(decide(&Method::GET, &[], status, &[], Some(Duration::from_secs(5))), expected, "{status}");
        }
        assert_eq!(stored(&[], 599, &[("cache-control", "public"), ("last-modified", "x")]), Ok(()));
        let unknown = [("cache-control", "max-age=3600, no-store, must-understand")];
        assert_eq!(stored(&[], 599, &unknown), Err(NotStored::Status));
        assert_eq!(stored(&[], 103, &[("cache-control", "max-age=5")]), Err(NotStored::Status));
    }

    #[test]
    fn answers_to_ranges_conditions_and_other_methods_are_never_stored() {
        for status in [206, 304, 412, 416] {
            assert_eq!(stored(&[], status, &[("cache-control", "max-age=5")]), Err(NotStored::Partial), "{status}");
        }
        for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let refused = decide(&method, &[], 200, &[("cache-control", "max-age=5")], None);
            assert_eq!(refused, Err(NotStored::Method), "{method}");
        }
    }

    #[test]
    fn what_one_client_was_given_is_others_only_where_the_origin_says_so() {
        for (request, response, expected) in [
            (("authorization", "FOO"), ("cache-control", "max-age=3600"), Err(NotStored::Authorization)),
            (("authorization", "FOO"), ("cache-control", "max-age=3600, public"), Ok(())),
            (("authorization", "FOO"), ("cache-control", "max-age=3600, must-revalidate"), Ok(())),
            (("authorization", "FOO"), ("cache-control", "s-maxage=3600"), Ok(())),
            (("cookie", "a=b"), ("cache-control", "max-age=3600"), Err(NotStored::Cookie)),
            (("cookie", "a=b"), ("cache-control", "max-age=3600, public"), Ok(())),
            (("cache-control", "no-store"), ("cache-control", "max-age=3600"), Err(NotStored::NoStore)),
        ] {
            assert_eq!(stored(&[request], 200, &[response]), expected, "{request:?} {response:?}");
        }
        let keyed = [("cache-control", "max-age=3600"), ("vary", "foo, Cookie")];
        assert_eq!(stored(&[("cookie", "a=b")], 200, &keyed), Ok(()));
        assert_eq!(stored(&[("authorization", "x")], 200, &keyed), Err(NotStored::Authorization));
        assert_eq!(stored(&[], 200, &[("cache-control", "max-age=5"), ("vary", "a, *")]), Err(NotStored::VaryStar));
        assert_eq!(stored(&[], 200, &[("etag", "\"a\""), ("set-cookie", "a=b")]), Err(NotStored::SetCookie));
        for control in ["max-age=5", "s-maxage=5", "max-age=5, must-revalidate"] {
            let answer = [("cache-control", control), ("set-cookie", "a=b")];
            assert_eq!(stored(&[], 200, &answer), Err(NotStored::SetCookie), "{control}");
        }
        assert_eq!(stored(&[], 200, &[("cache-control", "public, max-age=5"), ("set-cookie", "a=b")]), Ok(()));
    }

    proptest! {
        #[test]
        fn nothing_is_stored_against_its_directives(
            request in any_headers(), response in any_headers(), status in 100_u16..600, known: bool,
        ) {
            let directives = ResponseDirectives::of(&response);
            let status = StatusCode::from_u16(status).unwrap();
            let default = known.then_some(Duration::from_secs(300));
            if may_store(&Method::GET, &request, status, &response, &directives, default).is_ok() {
                prop_assert!(!directives.private);
                prop_assert!(!directives.no_store || directives.must_understand);
                prop_assert!(Vary::of(&response) != Vary::Star);
                prop_assert!(!request.contains_key(AUTHORIZATION)
                    || directives.public || directives.must_revalidate || directives.s_maxage.is_some());
            }
        }
    }
}
