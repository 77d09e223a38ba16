//! Whether the links of two answers lead to the same places.
//!
//! Pure. Relations that only one side has, and targets that only the origin understands, are no difference. Callers:
//! [`super::Auditor`] reads them, [`super::verdict`] compares.

use std::collections::BTreeMap;

use url::Url;

use crate::api::links::{Rewrite, WebLink};
use crate::api::query::{self, ListQuery, Parameters};

use super::compare::{Difference, DifferenceKind};

/// The links of an answer by relation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links(BTreeMap<String, Vec<Link>>);

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    /// As it is written.
    text: String,
    target: Target,
}

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// To this page of the list.
    Page(ListQuery),
    /// To this address, without what its spelling can differ in.
    Address(String),
    /// To what cannot be compared: another host, or parameters that only the origin understands.
    Unclear,
}

impl Links {
    /// The links of our own answers: the licence, and for a page of the list those around it.
    pub(super) fn ours(license: Option<&str>, page: Option<(&ListQuery, u64)>, rewrite: &Rewrite) -> Self {
        let mut links = Self::default();
        if let Some(license) = license {
            links.put("license", license.to_owned(), address(license, None, rewrite));
        }
        if let Some((query, total)) = page {
            let last = query.total_pages(total).max(1);
            let around = [
                ("first", Some(1)),
                ("prev", (query.page > 1).then(|| (query.page - 1).min(last))),
                ("next", (query.page < last).then(|| query.page + 1)),
                ("last", Some(last)),
            ];
            for (relation, page) in around {
                let Some(query) = page.map(|page| query.with_page(page)) else { continue };
                links.put(relation, query.path_and_query(), Target::Page(plain(query)));
            }
        }
        links
    }

    /// The links of the origin's answer to a request for `url`.
    pub(super) fn theirs(links: Vec<WebLink>, url: &Url, rewrite: &Rewrite) -> Self {
        let mut read = Self::default();
        for WebLink { target, relations } in links {
            for relation in relations {
                let to = if relation == "license" {
                    address(&target, Some(url), rewrite)
                } else {
                    page(&target, url, rewrite)
                };
                read.put(&relation, target.clone(), to);
            }
        }
        read
    }

    fn put(&mut self, relation: &str, text: String, target: Target) {
        self.0.entry(relation.to_owned()).or_default().push(Link { text, target });
    }

    /// The differences of the relations that both have.
    pub(super) fn differences(&self, theirs: &Self) -> Vec<Difference> {
        let both =
            self.0.iter().filter_map(|(relation, ours)| Some((relation, ours.first()?, theirs.0.get(relation)?)));
        let differing = both.filter(|(_, ours, theirs)| {
            theirs.iter().all(|link| link.target != Target::Unclear && link.target != ours.target)
        });
        let told = differing.filter_map(|(relation, ours, theirs)| {
            let theirs = theirs.first()?;
            Some(Difference::new(DifferenceKind::Header, format!("Link rel={relation}"), &ours.text, &theirs.text))
        });
        told.collect()
    }
}

/// The page of the list to which a target leads.
fn page(target: &str, from: &Url, rewrite: &Rewrite) -> Target {
    let Some(rest) = rewrite.rest(target, Some(from)) else { return Target::Unclear };
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_known = |pair: &str| {
        let name = query::decode(pair.split('=').next().unwrap_or_default());
        name.is_ok_and(|name| name.is_empty() || (name != "snapshot" && query::KNOWN.contains(&&*name)))
    };
    match Parameters::parse(query) {
        Ok(Parameters { list, is_odd: false, .. })
            if path == "/api/listings.json" && query.split('&').all(is_known) =>
        {
            Target::Page(plain(list))
        }
        _ => Target::Unclear,
    }
}

/// A query without the spelling of its instant.
fn plain(mut query: ListQuery) -> ListQuery {
    if let Some(since) = &mut query.modified_since {
        since.text = Box::default();
    }
    query
}

/// An address of any host. `http` and `https`, and a slash at the end, make no difference.
fn address(target: &str, from: Option<&Url>, rewrite: &Rewrite) -> Target {
    let rest = |url: &Url| {
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{}{query}", url.host_str().unwrap_or_default(), url.path().trim_end_matches('/'))
    };
    let url = from.map_or_else(|| Url::parse(target), |from| from.join(target));
    match (rewrite.rest(target, from), url) {
        (Some(own), _) => Target::Address(own.trim_end_matches('/').to_owned()),
        (None, Ok(url)) if matches!(url.scheme(), "http" | "https") => Target::Address(rest(&url)),
        _ => Target::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::links;
    use http::{HeaderMap, HeaderValue, header};

    const LICENSE: &str = "https://creativecommons.org/licenses/by/4.0/";

    fn rewrite() -> Rewrite {
        let parse = |url: &str| url.parse::<Url>().unwrap();
        Rewrite::new(Some(&parse("http://origin.test:8000/v1")), &[parse("https://www.origin.test")], "http://m.test")
    }

    /// What differs for the second of three pages of golf since an instant.
    fn told(field: &str) -> Vec<String> {
        let query = "page=2&per_page=10&sport=golf&modified_since=2024-05-06T00:00:00Z";
        let query = Parameters::parse(query).unwrap().list;
        let ours = Links::ours(Some(LICENSE), Some((&query, 25)), &rewrite());
        let mut headers = HeaderMap::new();
        headers.insert(header::LINK, HeaderValue::from_str(field).unwrap());
        let url = "http://origin.test:8000/v1/api/listings.json?page=2".parse().unwrap();
        let theirs = Links::theirs(links::links(&headers), &url, &rewrite());
        ours.differences(&theirs).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_to_the_same_pages_are_equal_in_any_spelling_and_order() {
        let rest = "api/listings.json?per_page=10&sport=golf&modified_since=2024-05-06";
        for target in [
            format!("http://origin.test:8000/v1/{rest}&page=3"),
            format!("https://www.origin.test/{rest}&page=3"),
            format!("/v1/{rest}&page=3#x"),
            "?page=3&sport=%67olf&per_page=10&modified_since=2024-05-06T00:00:00%2B00:00".to_owned(),
        ] {
            assert_eq!(told(&format!("<{target}>; rel=next")), [] as [&str; 0], "{target}");
        }
        for license in [LICENSE, "http://creativecommons.org/licenses/by/4.0"] {
            assert_eq!(told(&format!("<x>; rel=help, <{license}>; rel=license")), [] as [&str; 0]);
        }
        let several = format!("<https://else.test/>; rel=license, <{LICENSE}>; rel=\"license\"");
        assert_eq!(told(&several), [] as [&str; 0], "one of them is ours");
    }

    #[test]
    fn what_only_one_side_has_or_only_the_origin_understands_is_no_difference() {
        for field in [
            "</v1/api/listings.json>; rel=self",
            "<?after=abc>; rel=next",
            "<?page=0>; rel=next",
            "<?page=3&per_page=1000>; rel=next",
            "<https://cdn.test/list/3>; rel=next",
            "<urn:x>; rel=license",
            "<?page=7>; rel=next; anchor=\"/other\"",
            "nonsense",
        ] {
            assert_eq!(told(field), [] as [&str; 0], "{field}");
        }
    }

    #[test]
    fn links_that_lead_elsewhere_are_told() {
        let differing =
            told("<?page=4&per_page=10&sport=golf&modified_since=2024-05-06>; rel=next, <?page=1>; rel=first");
        assert_eq!(differing.len(), 2, "{differing:?}");
        assert!(differing[0].starts_with("header Link rel=first: the mirror has /api/listings.json?sport=golf"));
        assert!(differing[1].starts_with("header Link rel=next: ") && differing[1].contains("the origin ?page=4"));
        assert_eq!(told("<https://else.test/terms>; rel=license").len(), 1);
    }
}
