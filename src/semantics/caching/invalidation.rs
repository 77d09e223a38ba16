//! The answers that an unsafe request invalidates (RFC 9111 §4.4).
//!
//! Targets, from a method, a status and an answer's header. Not the removal.
//! Callers: the cache, for methods that the operator lets pass.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, LOCATION};
use http::{Method, StatusCode};
use url::Url;

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

    proptest! {
        #[test]
        fn targets_are_paths_of_ours_and_the_requests_own_is_first(response in any_headers(), path in "/[a-z/%.?]{0,9}") {
            let targets = invalidated(&Method::POST, StatusCode::OK, &path, &response, &bases());
            prop_assert_eq!(&targets[0], &path);
            prop_assert!(targets.len() <= 3 && targets.iter().all(|target| target.starts_with('/')));
        }
    }
}
