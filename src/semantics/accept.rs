//! Whether a client wants HTML (RFC 9110 §12.5.1).
//!
//! Not a negotiation between any two types: only pages for people are HTML here, and programs get something else. Callers:
//! `answer::admit`.

use http::header::{ACCEPT, HeaderMap};

use super::trim;

/// How many members of `Accept` are read, over all its lines; the rest is as if absent.
const MAX_MEMBERS: usize = 64;

/// Whether `Accept` names `text/html`, other than with a weight of 0. Wildcards do not count: every tool sends them.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter();
    let members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).take(MAX_MEMBERS);
    members.into_iter().any(|member| {
        let mut parts = member.split(|byte| *byte == b';').map(trim);
        parts.next().is_some_and(|range| range.eq_ignore_ascii_case(b"text/html")) && !parts.any(is_zero)
    })
}

/// Whether a parameter is a weight of 0.
fn is_zero(parameter: &[u8]) -> bool {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return false };
    value.starts_with(b"0") && value.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn only_who_names_html_gets_it() {
        for (lines, wants) in [
            (&[][..], false),
            (&["*/*"], false),
            (&["text/*"], false),
            (&["application/json"], false),
            (&["text/html"], true),
            (&["TEXT/HTML;level=1"], true),
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], true),
            (&["application/json, text/html;q=0.1"], true),
            (&["application/json", "text/html"], true),
            (&["text/html;q=0"], false),
            (&["text/html; q=0.000, */*"], false),
            (&["text/html; q=0.001"], true),
            (&["text/htmlx, xtext/html"], false),
            (&[""], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT, HeaderValue::from_static(line));
            }
            assert_eq!(names_html(&headers), wants, "{lines:?}");
        }
    }
}
