//! The answers that an unsafe request invalidates (RFC 9111 §4.4), and its one answer that may be stored (RFC 9110
//! §9.3.3).
//!
//! Targets, from a method, a status and an answer's header. Not the removal.
//! Callers: the cache, for methods that the operator lets pass.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, LOCATION};
use http::{Method, StatusCode};
use url::Url;

use super::directives::ResponseDirectives;

/// The targets (path and query, as clients ask for them) whose stored answers this answer invalidates: none for a safe
/// method or an error; else the request's own, and those that `Location` and `Content-Location` name.
///
/// `bases` are the addresses under which clients and the origin name the resources; the first is the one that relative
/// references resolve against. Targets outside them stay: one origin must not invalidate another's answers.
pub(crate) fn invalidated(
    method: &Method,
    status: StatusCode,
    target: &str,
    response: &HeaderMap,
    bases: &[Url],
) -> Vec<String> {
    if method.is_safe() || !(status.is_success() || status.is_redirection()) {
        return Vec::new();
    }
    let mut targets = vec![target.to_owned()];
    for name in [LOCATION, CONTENT_LOCATION] {
        if let Some(named) = named(response, &name, target, bases)
            && !targets.contains(&named)
        {
            targets.push(named);
        }
    }
    targets
}

/// Whether an answer to POST may be stored as one to GET for the same target: it succeeded, states its lifetime, and
/// `Content-Location` says that a GET would get the same (RFC 9110 §9.3.3). [`super::may_store`] must agree, as for a
/// GET.
pub(crate) fn stores_for_get(
    method: &Method,
    target: &str,
    status: StatusCode,
    response: &HeaderMap,
    bases: &[Url],
) -> bool {
    *method == Method::POST
        && status == StatusCode::OK
        && is_explicit(response)
        && bases.first().is_some_and(|own| {
            let named = named(response, &CONTENT_LOCATION, target, bases);
            // The reference went through a parser, so the target must, too; otherwise escapes could differ.
            named.is_some() && (named.as_deref() == Some(target) || named == below(own, &absolute(own, target)))
        })
}

fn is_explicit(response: &HeaderMap) -> bool {
    let directives = ResponseDirectives::of(response);
    directives.lifetime().is_some() || (!directives.targeted && response.contains_key(http::header::EXPIRES))
}

/// The target that a field names, as clients ask for it.
fn named(response: &HeaderMap, name: &HeaderName, target: &str, bases: &[Url]) -> Option<String> {
    let reference = response.get(name)?.to_str().ok()?;
    let url = absolute(bases.first()?, target).join(reference).ok()?;
    bases.iter().find_map(|base| below(base, &url))
}

/// The request's own URL.
fn absolute(base: &Url, target: &str) -> Url {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url.set_query(query);
    url.set_fragment(None);
    url
}

/// The path and query of a URL below a base; `None` if it is not below.
fn below(base: &Url, url: &Url) -> Option<String> {
    let web = |url: &Url| matches!(url.scheme(), "http" | "https");
    if !web(base) || !web(url) || base.host() != url.host() || port(base) != port(url) {
        return None;
    }
    let path = url.path().strip_prefix(base.path().trim_end_matches('/')).filter(|rest| rest.starts_with('/'))?;
    Some(url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}

/// The port, unless it is the scheme's default: `http` and `https` are one origin to a mirror of both.
fn port(url: &Url) -> Option<u16> {
    url.port()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_headers, headers};
    use super::*;
    use proptest::prelude::*;

    fn bases() -> Vec<Url> {
        ["https://api.example.org/v1", "http://mirror.example"].map(|base| Url::parse(base).unwrap()).to_vec()
    }

    fn after(method: &str, status: u16, pairs: &[(&str, &str)]) -> Vec<String> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        invalidated(&method, StatusCode::from_u16(status).unwrap(), "/api/a?b=c", &headers(pairs), &bases())
    }

    #[test]
    fn an_unsafe_request_that_succeeds_voids_its_target() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
            assert_eq!(after(method, 200, &[]), ["/api/a?b=c"], "{method}");
            assert_eq!(after(method, 303, &[]), ["/api/a?b=c"], "{method}");
            for status in [100, 404, 500] {
                assert!(after(method, status, &[]).is_empty(), "{method} {status}");
            }
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert!(after(method, 200, &[("location", "/v1/x")]).is_empty(), "{method}");
        }
    }

    #[test]
    fn what_the_answer_names_is_void_too_on_the_same_origin() {
        for (location, expected) in [
            ("/v1/api/x?y#z", Some("/api/x?y")),
            ("x", Some("/api/x")),
            ("", None),
            ("https://api.example.org/v1/x", Some("/x")),
            ("http://api.example.org/v1/x", Some("/x")),
            ("https://api.example.org:443/v1/x", Some("/x")),
            ("http://mirror.example/api/x", Some("/api/x")),
            ("https://api.example.org:8443/v1/x", None),
            ("https://api.example.org/v2/x", None),
            ("https://api.example.org/v10/x", None),
            ("https://evil.example/v1/x", None),
            ("//evil.example/v1/x", None),
            ("ftp://api.example.org/v1/x", None),
            ("http://[", None),
        ] {
            for field in ["location", "content-location"] {
                let mut targets = vec!["/api/a?b=c"];
                targets.extend(expected);
                assert_eq!(after("POST", 201, &[(field, location)]), targets, "{field} {location:?}");
            }
        }
        let both = [("location", "x"), ("content-location", "x")];
        assert_eq!(after("POST", 201, &both), ["/api/a?b=c", "/api/x"]);
        assert_eq!(invalidated(&Method::PUT, StatusCode::OK, "/a", &headers(&both), &[]), ["/a"]);
    }

    #[test]
    fn an_answer_to_post_is_one_to_get_only_if_it_says_so() {
        let fresh = ("cache-control", "max-age=3600");
        for (method, status, pairs, expected) in [
            (Method::POST, 200, &[fresh, ("content-location", "/v1/api/a?b=c")][..], true),
            (Method::POST, 200, &[fresh, ("content-location", "")], true),
            (Method::POST, 200, &[("expires", "x"), ("content-location", "a?b=c")], true),
            (Method::POST, 200, &[fresh, ("content-location", "/v1/api/other")], false),
            (Method::POST, 200, &[fresh, ("content-location", "https://evil.example/v1/api/a?b=c")], false),
            (Method::POST, 200, &[fresh], false),
            (Method::POST, 200, &[("content-location", "")], false),
            (Method::POST, 201, &[fresh, ("content-location", "")], false),
            (Method::PUT, 200, &[fresh, ("content-location", "")], false),
            (Method::GET, 200, &[fresh, ("content-location", "")], false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let answer = stores_for_get(&method, "/api/a?b=c", status, &headers(pairs), &bases());
            assert_eq!(answer, expected, "{method} {status} {pairs:?}");
        }
        let escaped = headers(&[fresh, ("content-location", "")]);
        assert!(stores_for_get(&Method::POST, "/a|b?c d", StatusCode::OK, &escaped, &bases()));
    }

    proptest! {
        #[test]
        fn targets_are_paths_of_ours_and_the_requests_own_is_first(response in any_headers(), path in "/[a-z/%.?]{0,9}") {
            let targets = invalidated(&Method::POST, StatusCode::OK, &path, &response, &bases());
            prop_assert_eq!(&targets[0], &path);
            prop_assert!(targets.len() <= 3 && targets.iter().all(|target| target.starts_with('/')));
        }
    }
}
