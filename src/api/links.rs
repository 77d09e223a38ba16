//! Rewriting of links: the `Link` field (RFC 8288) written and read, and addresses of the origin that become ours
//! (`api_url` in a taxonomy, `Location` in a head).
//!
//! Every other byte of a text stays. Callers: [`crate::edge::answer`] for rendered answers, [`crate::edge::proxy`] for
//! those of the origin; [`crate::server`] builds the rules.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderValue;
use url::Url;

use crate::protocol::target::path_below;

use super::json::{self, JsonError, MAX_MEMBERS, Token};
use super::query::search::SearchQuery;
use super::query::{self, ListQuery};

/// A longer licence is no link target, in bytes: it stands in every head.
const MOST_OF_A_LICENSE: usize = 1_000;

/// The licence as a link target: only an http(s) URI is one.
pub fn license_target(text: &str) -> Option<String> {
    let url = url::Url::parse(text).ok().filter(|url| url.as_str().len() <= MOST_OF_A_LICENSE)?;
    matches!(url.scheme(), "http" | "https").then(|| url.to_string())
}

/// `Link` of a detail or a taxonomy.
pub fn license(license: Option<&str>) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("<{}>; rel=\"license\"", license?)).ok()
}

/// `Link` of a list: the licence, then first, prev, next and last. `pin` is the snapshot that the client named.
pub fn list(
    license: Option<&str>,
    (query, page_size): (&ListQuery, u16),
    total: u64,
    public_url: &str,
    pin: Option<&str>,
) -> Option<HeaderValue> {
    pages(license, query, total, public_url, |page, out| {
        let mut separator = query.write(page, out);
        if query.per_page == ListQuery::DEFAULT_PER_PAGE && page_size != query.per_page {
            out.push(separator);
            out.push_str("per_page=50");
            separator = '&';
        }
        if let Some(pin) = pin {
            out.push(separator);
            out.push_str("snapshot=");
            query::encode(pin, out);
        }
    })
}

/// `Link` of a search.
pub(crate) fn search(license: Option<&str>, query: &SearchQuery, total: u64, public_url: &str) -> Option<HeaderValue> {
    pages(license, &query.list, total, public_url, |page, out| query.write(page, out))
}

/// The licence and the pages, of which `write` appends path and query.
fn pages(
    license: Option<&str>,
    query: &ListQuery,
    total: u64,
    public_url: &str,
    write: impl Fn(u64, &mut String),
) -> Option<HeaderValue> {
    let mut out = String::with_capacity(128 + 4 * (public_url.len() + 96));
    if let Some(license) = license {
        out.extend(["<", license, ">; rel=\"license\""]);
    }
    let last = query.total_pages(total).max(1);
    let mut link = |page: u64, rel: &str| {
        out.push_str(if out.is_empty() { "<" } else { ", <" });
        out.push_str(public_url);
        write(page, &mut out);
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

/// The origin's addresses and their replacement.
#[derive(Clone, Debug)]
pub struct Rewrite {
    bases: Vec<Url>,
    from: Option<Url>,
    public_url: String,
}

impl Rewrite {
    /// `origin` and `aliases` are base addresses, perhaps with a path; `public_url` replaces them. Without an origin
    /// (offline) only the aliases are recognised.
    pub fn new(origin: Option<&Url>, aliases: &[Url], public_url: &str) -> Self {
        let bases = origin.into_iter().chain(aliases).cloned().collect();
        let public_url = public_url.trim_end_matches('/').to_owned();
        Self { bases, from: origin.or(aliases.first()).cloned(), public_url }
    }

    /// The same for data from an origin at another address than the present one.
    #[must_use]
    pub fn of_origin(&self, address: Option<&str>) -> Cow<'_, Self> {
        let origin = address.and_then(|address| Url::parse(address).ok());
        match origin.filter(|origin| self.from.as_ref() != Some(origin)) {
            None => Cow::Borrowed(self),
            Some(origin) => {
                Cow::Owned(Self { public_url: self.public_url.clone(), ..Self::new(Some(&origin), &self.bases, "") })
            }
        }
    }

    /// The text of the document at `path` under the origin with its `api_url`s rewritten; borrowed where there are
    /// none.
    pub fn apply<'a>(&self, text: &'a str, path: &str) -> Result<Cow<'a, str>, JsonError> {
        // Where an address stands, how long it is, and how many bytes of `addresses` take its place.
        let (mut edits, mut addresses) = (Vec::<(usize, usize, usize)>::new(), String::new());
        let from = self.from.as_ref().map(|base| {
            let mut url = base.clone();
            url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
            url
        });
        // Levels entered below an `api_url` that is not a text: they are skipped.
        let (mut below, mut found) = (0_usize, 0_usize);
        json::walk(text, |token| match token {
            Token::Begin { .. } if below > 0 => below += 1,
            Token::Begin { key, .. } => below = usize::from(is_address(key)),
            Token::End => below = below.saturating_sub(1),
            Token::Scalar { key, value } if below == 0 && is_address(key) => {
                let address = json::string(value).and_then(|url| self.target(&url, from.as_ref()));
                found += usize::from(address.is_some());
                if let Some(url) = address.filter(|_| found <= MAX_MEMBERS) {
                    let address = spelled(&url, value);
                    edits.push((json::offset_in(text, value), value.len(), address.len()));
                    addresses.push_str(&address);
                }
            }
            Token::Scalar { .. } => {}
        })?;
        if found > MAX_MEMBERS {
            return Err(JsonError::TooMany { what: "addresses of the origin", most: MAX_MEMBERS });
        }
        if edits.is_empty() {
            return Ok(Cow::Borrowed(text));
        }
        // Exactly as much as it needs: a text that grows has two copies for a moment.
        let cut: usize = edits.iter().map(|(_, length, _)| length).sum();
        let mut out = String::with_capacity(text.len() - cut + addresses.len());
        let (mut at, mut rest) = (0, addresses.as_str());
        for (start, length, new_length) in edits {
            let (address, others) = rest.split_at(new_length);
            out.push_str(&text[at..start]);
            out.push_str(address);
            (at, rest) = (start + length, others);
        }
        out.push_str(&text[at..]);
        Ok(Cow::Owned(out))
    }

    /// The replacement of an address; `None` if it is not the origin's.
    pub fn target(&self, address: &str, from: Option<&Url>) -> Option<String> {
        self.rest(address, from).map(|rest| format!("{}{rest}", self.public_url))
    }

    /// What follows the origin's base in an address: path, query and fragment. `None` if it is not the origin's.
    pub(crate) fn rest(&self, address: &str, from: Option<&Url>) -> Option<String> {
        let url = match from {
            Some(from) => from.join(address).ok()?,
            None => Url::parse(address).ok()?,
        };
        self.bases.iter().find_map(|base| {
            let rest = path_below(&url, base)?;
            let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
            let fragment = url.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
            Some(format!("{rest}{query}{fragment}"))
        })
    }

    /// Replaces a reference in a header of the origin, like nginx's `proxy_redirect default`: an address or path below
    /// the origin or an alias becomes ours. `None`: unchanged.
    pub fn reference(&self, reference: &str) -> Option<String> {
        let origin = self.from.as_ref()?;
        let is_path = reference.starts_with('/') && !reference.starts_with("//");
        if !is_path {
            let is_absolute = reference.starts_with("//") || Url::parse(reference).is_ok();
            return self.target(reference, Some(origin)).filter(|_| is_absolute);
        }
        let public = Url::parse(&self.public_url).ok()?;
        let (theirs, ours) = (origin.path().trim_end_matches('/'), public.path().trim_end_matches('/'));
        let rest =
            reference.strip_prefix(theirs).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))?;
        (theirs != ours).then(|| format!("{ours}{rest}"))
    }
}

/// The address as JSON text, with slashes escaped where the original escaped them.
fn spelled(url: &str, original: &str) -> String {
    let text = json::quote(url);
    if original.contains("\\/") { text.replace('/', "\\/") } else { text }
}

/// Whether a field is an address by its name, in any spelling.
fn is_address(key: Option<&str>) -> bool {
    key.and_then(json::string).is_some_and(|key| key == "api_url")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::Parameters;
    #[test]
    fn pages_link_to_their_neighbours_and_to_the_licence() {
        let query = |text: &str| Parameters::parse(text).unwrap().list;
        let public = "https://mirror.test/api-of";
        let link =
            list(Some("https://c.test/by"), (&query("sport=golf&page=2&per_page=10"), 50), 35, public, None).unwrap();
        let at = |page: &str| format!("<{public}/api/listings.json?sport=golf&{page}per_page=10>");
        let link = link.to_str().unwrap();
        for (page, rel) in [("", "first"), ("", "prev"), ("page=3&", "next"), ("page=4&", "last")] {
            assert!(link.contains(&format!("{}; rel=\"{rel}\"", at(page))), "{rel}: {link}");
        }
        assert!(link.starts_with("<https://c.test/by>; rel=\"license\", "));
        let alone = list(None, (&query(""), 50), 0, public, Some("a b")).unwrap();
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

    fn rewrite(origin: &str, aliases: &[&str], public: &str) -> Rewrite {
        let aliases: Vec<Url> = aliases.iter().map(|alias| alias.parse().unwrap()).collect();
        Rewrite::new(Some(&origin.parse().unwrap()), &aliases, public)
    }

    #[test]
    fn data_of_another_origin_is_recognised_by_its_own_address() {
        let rewrite = rewrite("https://api.example.org", &["https://www.example.org"], "http://mirror.test");
        let text = r#"[{"api_url":"/v1/a"},{"api_url":"https://old.example.org/v1/b"},{"api_url":"https://www.example.org/c"}]"#;
        let of = |origin| rewrite.of_origin(origin).apply(text, "/api/sports.json").unwrap();
        assert_eq!(
            of(Some("https://old.example.org/v1")),
            r#"[{"api_url":"http://mirror.test/a"},{"api_url":"http://mirror.test/b"},{"api_url":"http://mirror.test/c"}]"#
        );
        let own = r#"[{"api_url":"http://mirror.test/v1/a"},{"api_url":"https://old.example.org/v1/b"},{"api_url":"http://mirror.test/c"}]"#;
        for same in [None, Some("https://api.example.org"), Some("no address")] {
            assert_eq!(of(same), own, "{same:?}");
        }
    }

    #[test]
    fn addresses_of_the_origin_become_ours_in_their_own_spelling() {
        let rules = rewrite("https://api.example.org/v1", &["http://old.example.org:8000"], "http://mirror.test/m");
        for (before, after) in [
            (
                r#""https://api.example.org/v1/api/listings.json?sport=golf""#,
                r#""http://mirror.test/m/api/listings.json?sport=golf""#,
            ),
            (r#""https:\/\/api.example.org\/v1\/x""#, r#""http:\/\/mirror.test\/m\/x""#),
            (r#""http://API.example.org:80/v1/x""#, r#""http://mirror.test/m/x""#),
            (r#""listings.json?sport=golf""#, r#""http://mirror.test/m/api/listings.json?sport=golf""#),
            (r#""/v1/api/x""#, r#""http://mirror.test/m/api/x""#),
            (r#""/api/x""#, r#""/api/x""#),
            (r#""http://old.example.org:8000/y""#, r#""http://mirror.test/m/y""#),
            (r#""https://api.example.org/v12/x""#, r#""https://api.example.org/v12/x""#),
            (r#""https://api.example.org:8443/v1/x""#, r#""https://api.example.org:8443/v1/x""#),
            (r#""https://evil.test/v1/x""#, r#""https://evil.test/v1/x""#),
            ("5", "5"),
        ] {
            let text = format!(r#"{{"a": [ {{"url":{before}, "api_url" : {before} }}]}}"#);
            let expected = format!(r#"{{"a": [ {{"url":{before}, "api_url" : {after} }}]}}"#);
            assert_eq!(rules.apply(&text, "/api/sports.json").unwrap(), expected);
        }
    }

    #[test]
    fn references_in_fields_become_ours_only_where_they_would_mean_something_else() {
        let rules = rewrite("https://api.example.org/v1", &["http://old.example.org:8000"], "http://mirror.test/m");
        for (before, after) in [
            ("https://api.example.org/v1/x?y#z", Some("http://mirror.test/m/x?y#z")),
            ("http://api.example.org/v1", Some("http://mirror.test/m")),
            ("//old.example.org:8000/y", Some("http://mirror.test/m/y")),
            ("/v1/x", Some("/m/x")),
            ("/v1?x", Some("/m?x")),
            ("/v1x", None),
            ("/x", None),
            ("x/y", None),
            ("", None),
            ("mailto:a@b", None),
            ("https://evil.test/v1/x", None),
        ] {
            assert_eq!(rules.reference(before).as_deref(), after, "{before}");
        }
        let same = rewrite("https://api.example.org", &[], "http://mirror.test");
        assert_eq!(same.reference("/api/x"), None);
        let none = Rewrite::new(None, &[], "http://mirror.test");
        assert_eq!(none.reference("https://api.example.org/x"), None);
    }

    #[test]
    fn addresses_are_found_at_any_depth_and_by_any_spelling_of_the_name() {
        let rules = rewrite("https://o", &[], "http://m");
        for (before, after) in [
            (r#"[[[{"x":[{"api_url":"https://o/a"}]}]]]"#, r#"[[[{"x":[{"api_url":"http://m/a"}]}]]]"#),
            (r#"{"api\u005furl":"https://o/a"}"#, r#"{"api\u005furl":"http://m/a"}"#),
            (r#"{"x":"api_url","api_url":"https://o/a"}"#, r#"{"x":"api_url","api_url":"http://m/a"}"#),
            (r#"{"api_url":{"api_url":"https://o/a"}}"#, r#"{"api_url":{"api_url":"https://o/a"}}"#),
            (
                r#"{"api_url":[[1],{"a":{}}],"b":{"api_url":"https://o/a"}}"#,
                r#"{"api_url":[[1],{"a":{}}],"b":{"api_url":"http://m/a"}}"#,
            ),
            (r#"["api_url","https://o/a"]"#, r#"["api_url","https://o/a"]"#),
        ] {
            assert_eq!(rules.apply(before, "/api/sports.json").unwrap(), after);
        }
        let deep = format!("{}{}{}", "[".repeat(63), r#"{"api_url":"https://o/a"}"#, "]".repeat(63));
        assert!(rules.apply(&deep, "/api/sports.json").unwrap().contains("http://m/a"));
        assert!(rules.apply(&format!("[{deep}]"), "/api/sports.json").is_err());
        assert!(rules.apply("[1,", "/api/sports.json").is_err());
    }

    #[test]
    fn without_an_origin_only_aliases_are_known() {
        let alias = "https://api.example.org".parse().unwrap();
        let rules = Rewrite::new(None, &[alias], "http://mirror.test");
        let text = r#"[{"api_url":"https://api.example.org/x"}]"#;
        assert_eq!(rules.apply(text, "/api/sports.json").unwrap(), r#"[{"api_url":"http://mirror.test/x"}]"#);
        let none = Rewrite::new(None, &[], "http://mirror.test");
        assert!(matches!(none.apply(text, "/api/sports.json").unwrap(), Cow::Borrowed(same) if same == text));
    }
}
