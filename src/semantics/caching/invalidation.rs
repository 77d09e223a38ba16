//! What an unsafe request makes void (RFC 9111 §4.4), and the one answer to such a request that may be stored
//! (RFC 9110 §9.3.3).
//!
//! What it is: targets, from a method, a status and an answer's header. What it is not: the removal. Who calls it: the
//! cache, for methods that the operator lets pass.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, LOCATION};
use http::{Method, StatusCode};
use url::Url;

use super::directives::ResponseDirectives;

/// The targets (path and query, as clients ask for them) whose stored answers are void after this answer: none for a
/// safe method or an error; else the request's own, and those that `Location` and `Content-Location` name.
///
/// `bases` are the addresses under which clients and the origin name the resources; the first is the one that
/// relative references resolve against. What lies beyond them stays: one origin must not void another's answers.
pub fn invalidated(
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

/// Whether an answer to POST may be stored as one to GET for the same target: it succeeded, states how long it is
/// fresh, and says by `Content-Location` that it is what a GET would get (RFC 9110 §9.3.3). [`super::may_store`] then
/// has the last word, asked as for GET.
pub fn stores_for_get(method: &Method, target: &str, status: StatusCode, response: &HeaderMap, bases: &[Url]) -> bool {
    *method == Method::POST
        && status == StatusCode::OK
        && is_explicit(response)
        && bases.first().is_some_and(|own| {
            let named = named(response, &CONTENT_LOCATION, target, bases);
            // The reference has gone through a parser: so must the target, or an escape could tell them apart.
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

/// What is left of a URL below a base, path and query; `None` where it is not below it.
fn below(base: &Url, url: &Url) -> Option<String> {
    let web = |url: &Url| matches!(url.scheme(), "http" | "https");
    if !web(base) || !web(url) || base.host() != url.host() || port(base) != port(url) {
        return None;
    }
    let path = url.path().strip_prefix(base.path().trim_end_matches('/')).filter(|rest| rest.starts_with('/'))?;
    Some(url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
}

/// The port, where it is not the scheme's own: `http` and `https` are one origin to a mirror of both.
fn port(url: &Url) -> Option<u16> {
    url.port()
}
