//! `Link` (RFC 8288): writes the licence and the pages around a page of the list, and reads the field of any answer.
//!
//! Callers: [`crate::answer`] for rendered answers, [`crate::proxy`] for those of the origin; [`crate::audit`] reads.

use bytes::Bytes;
use http::header::LINK;
use http::{HeaderMap, HeaderValue};

use super::query::{self, ListQuery};

/// The licence as a link target: only an http(s) URI is one.
pub fn license_target(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.to_string())
}

/// `Link` of a detail or a taxonomy.
pub fn license(license: Option<&str>) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("<{}>; rel=\"license\"", license?)).ok()
}

/// `Link` of a list: the licence, then first, prev, next and last. `pin` is the snapshot that the client named.
pub fn list(
    license: Option<&str>,
    query: &ListQuery,
    total: u64,
    public_url: &str,
    pin: Option<&str>,
) -> Option<HeaderValue> {
    let mut out = String::with_capacity(128 + 4 * (public_url.len() + 96));
    if let Some(license) = license {
        out.extend(["<", license, ">; rel=\"license\""]);
    }
    let last = query.total_pages(total).max(1);
    let mut link = |page: u64, rel: &str| {
        out.push_str(if out.is_empty() { "<" } else { ", <" });
        out.push_str(public_url);
        let separator = query.write(page, &mut out);
        if let Some(pin) = pin {
            out.push(separator);
            out.push_str("snapshot=");
            query::encode(pin, &mut out);
        }
        out.push_str(">; rel=\"");
        out.push_str(rel);
        out.push('"');
    };
    link(1, "first");
    if query.page > 1 {
        link((query.page - 1).min(last), "prev");
    }
    if query.page < last {
        link(query.page + 1, "next");
    }
    link(last, "last");
    HeaderValue::from_maybe_shared(Bytes::from(out)).ok()
}

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
    use crate::api::query::Parameters;
    use proptest::prelude::*;
    #[test]
    fn pages_link_to_their_neighbours_and_to_the_licence() {
        let query = |text: &str| Parameters::parse(text).unwrap().list;
        let public = "https://mirror.test/api-of";
        let link = list(Some("https://c.test/by"), &query("sport=golf&page=2&per_page=10"), 35, public, None).unwrap();
        let at = |page: &str| format!("<{public}/api/listings.json?sport=golf&{page}per_page=10>");
        let link = link.to_str().unwrap();
        for (page, rel) in [("", "first"), ("", "prev"), ("page=3&", "next"), ("page=4&", "last")] {
            assert!(link.contains(&format!("{}; rel=\"{rel}\"", at(page))), "{rel}: {link}");
        }
        assert!(link.starts_with("<https://c.test/by>; rel=\"license\", "));
        let alone = list(None, &query(""), 0, public, Some("a b")).unwrap();
        assert_eq!(
            alone,
            format!(
                "<{public}/api/listings.json?snapshot=a%20b>; rel=\"first\", \
                 <{public}/api/listings.json?snapshot=a%20b>; rel=\"last\""
            )
        );
        assert_eq!(license_target("CC-BY 4.0"), None);
        assert_eq!(license(None), None);
    }

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
