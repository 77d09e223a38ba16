//! Reads `Link` (RFC 8288): the relations of an answer and their targets as they are written.
//!
//! Not the links of our own answers, which [`crate::api::links`] writes. Callers: [`crate::audit`].

use http::HeaderMap;
use http::header::LINK;

/// One link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebLink {
    /// The target, perhaps relative.
    pub target: String,
    /// The relations, in small letters.
    pub relations: Vec<String>,
}

/// The links of an answer, in order. A field that breaks the grammar is read up to there. A link with `anchor` is about
/// another document, so it is left out.
pub(crate) fn links(headers: &HeaderMap) -> Vec<WebLink> {
    let mut found = Vec::new();
    for value in headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok()) {
        let mut rest = value;
        while let Some((link, after)) = one(rest) {
            found.extend(link);
            rest = after;
        }
    }
    found
}

/// The first link, and what follows it; `None`: there is no more. The link is `None` if it has an `anchor`.
fn one(text: &str) -> Option<(Option<WebLink>, &str)> {
    let inner = text.trim_start_matches([' ', '\t', ',']).strip_prefix('<')?;
    let (target, mut rest) = inner.split_once('>')?;
    let (mut relations, mut is_elsewhere) = (None, false);
    while let Some(after) = trim(rest).strip_prefix(';') {
        let after = trim(after);
        let (name, after) = after.split_at(after.find(['=', ';', ',', ' ', '\t']).unwrap_or(after.len()));
        let (value, after) = match trim(after).strip_prefix('=') {
            Some(after) => value(trim(after)),
            None => (String::new(), after),
        };
        match name.to_ascii_lowercase().as_str() {
            // The first one counts (RFC 8288 §3.3).
            "rel" if relations.is_none() => {
                relations = Some(value.split_ascii_whitespace().map(str::to_ascii_lowercase).collect());
            }
            "anchor" => is_elsewhere = true,
            _ => {}
        }
        rest = after;
    }
    let link = WebLink { target: target.trim().to_owned(), relations: relations.unwrap_or_default() };
    Some(((!is_elsewhere).then_some(link), rest))
}

/// A parameter's value, quoted or not, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([';', ',', ' ', '\t']).unwrap_or(text.len()));
        return (value.to_owned(), rest);
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, letter) in quoted.char_indices() {
        match letter {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return (value, &quoted[at + 1..]),
            _ => {
                value.push(letter);
                is_escaped = false;
            }
        }
    }
    (value, "")
}

fn trim(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn read(fields: &[&str]) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(LINK, HeaderValue::from_str(field).unwrap());
        }
        links(&headers).into_iter().map(|link| (link.target, link.relations.join(" "))).collect()
    }

    #[test]
    fn links_are_read_in_every_spelling() {
        for (fields, expected) in [
            (&[r#"</a?b=1,2>; rel="next""#][..], &[("/a?b=1,2", "next")][..]),
            (&["<a>;rel=Next, <b> ; REL = prev ;title=x"], &[("a", "next"), ("b", "prev")]),
            (&["<a>; rel=\"next  Last\"", "<b>; rel=first"], &[("a", "next last"), ("b", "first")]),
            (&[r#"<a>; title="x, <y>; rel=\"no\""; rel=next"#], &[("a", "next")]),
            (&["<a>; rel=next; rel=last, <b>"], &[("a", "next"), ("b", "")]),
            (&["<a>; rel=next; anchor=\"#x\", <b>; rel=last"], &[("b", "last")]),
            (&["<a>; rel=next oops, <b>; rel=last"], &[("a", "next")]),
            (&["a; rel=next", "<a; rel=next", ""], &[]),
            (&["<a>; rel=\"next"], &[("a", "next")]),
        ] {
            let expected: Vec<_> = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(read(fields), expected, "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn every_field_is_read_to_its_end(text in "[<>;,=\" \\\\a-cé]{0,40}") {
            if let Ok(value) = HeaderValue::from_str(&text) {
                let mut headers = HeaderMap::new();
                headers.insert(LINK, value);
                prop_assert!(links(&headers).len() <= text.len());
            }
        }
    }
}
