//! Whether an answer shows something of its request that other requests do not have.
//!
//! Not which fields are sent at all (`fields`). Callers: `proxy`, and `upstream::forward`.

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST, HeaderMap, HeaderName,
    HeaderValue, PRAGMA, VARY,
};

use super::fields::OF_THE_CACHE;
use super::selecting::Vary;

/// Values that many clients send and many answers have in them, whoever asked.
const ORDINARY: [&str; 6] = ["*/*", "application/json", "max-age=0", "no-cache", "no-store", "text/html"];
/// A shorter value shows by chance.
const MIN_REFLECTED: usize = 3;
/// Fields of an answer whose grammar is full of words that requests know, too, and that show nothing to anybody; and
/// `Date`, which is written anew.
const UNTOLD: [HeaderName; 6] =
    [CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_TYPE, DATE, HeaderName::from_static("cdn-cache-control"), VARY];

/// Whether a request says nothing but what everybody says, and what `Vary` names: what the origin answers is due to the
/// resource, and to no field that one client chose. Conditions are the cache's own.
pub(crate) fn is_bare(sent: &HeaderMap, vary: &Vary) -> bool {
    sent.iter().all(|(name, value)| {
        OF_THE_CACHE.contains(&name.as_str())
            || vary.names(name)
            || ([ACCEPT, CACHE_CONTROL, PRAGMA].contains(name) && is_ordinary(value))
    })
}

fn is_ordinary(value: &HeaderValue) -> bool {
    ORDINARY.iter().any(|ordinary| value.as_bytes().eq_ignore_ascii_case(ordinary.as_bytes()))
}

/// Whether a field of a request could show in an answer that others get.
fn could_show(name: &HeaderName, value: &HeaderValue, vary: &Vary) -> bool {
    value.len() >= MIN_REFLECTED
        && !is_ordinary(value)
        && *name != CONTENT_LENGTH
        && !OF_THE_CACHE.contains(&name.as_str())
        && *name != HOST
        && !vary.names(name)
}

/// Whether a request has nothing but ordinary values, conditions and what `Vary` names: then its answer cannot show
/// anything of it that other requests have not.
pub(crate) fn is_plain(request: &HeaderMap, vary: &Vary) -> bool {
    request.iter().all(|(name, value)| !could_show(name, value, vary))
}

/// Whether an answer shows a field of the request that `Vary` does not name: it must not be stored for others.
/// `request` is what [`super::onward`] sent on; conditions and ranges, which the cache adds, are overlooked.
///
/// Values shorter than 3 bytes are overlooked: they are everywhere. So are values that the origin shows in another
/// form, escaped for example: this is a second line of defence, behind [`super::onward`].
pub(crate) fn reflects(request: &HeaderMap, vary: &Vary, response: &HeaderMap, body: &[u8]) -> bool {
    let told: Vec<&[u8]> =
        response.iter().filter(|(name, _)| !UNTOLD.contains(name)).map(|(_, line)| line.as_bytes()).collect();
    let unkeyed = request.iter().filter(|(name, value)| could_show(name, value, vary));
    unkeyed.map(|(_, value)| value.as_bytes()).any(|value| {
        let finder = memchr::memmem::Finder::new(value);
        told.iter().any(|line| finder.find(line).is_some()) || finder.find(body).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_headers, headers};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_that_shows_an_unkeyed_field_is_noticed() {
        let request = headers(&[("custom", "evil.example"), ("short", "ab"), ("accept", "text/html")]);
        let nothing = HeaderMap::new();
        let shown = headers(&[("location", "https://evil.example/x")]);
        assert!(reflects(&request, &Vary::Nothing, &shown, b""));
        assert!(reflects(&request, &Vary::Nothing, &nothing, b"<a href=//evil.example>"));
        assert!(!reflects(&request, &Vary::Nothing, &nothing, b"ab text/html example"));
        let words =
            headers(&[("test-id", "stale-while-revalidate"), ("if-none-match", "\"abc\""), ("host", "api.example")]);
        let ordinary = headers(&[
            ("cache-control", "max-age=1, stale-while-revalidate=5"),
            ("etag", "\"abc\""),
            ("location", "http://api.example/"),
        ]);
        assert!(!reflects(&words, &Vary::Nothing, &ordinary, b""));
        let vary = Vary::of(&headers(&[("vary", "custom")]));
        assert!(!reflects(&request, &vary, &shown, b"evil.example"));
    }

    proptest! {
        #[test]
        fn looking_for_reflections_is_total(request in any_headers(), response in any_headers(), body: Vec<u8>) {
            let _ = reflects(&request, &Vary::of(&response), &response, &body);
        }
    }
}
