//! `Link` (RFC 8288): the licence, and the pages around a page of the list.
//!
//! Pure. Callers: [`crate::answer`] for rendered answers, [`crate::proxy`] for those of the origin.

use bytes::Bytes;
use http::HeaderValue;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::Parameters;

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
}
