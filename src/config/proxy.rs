//! The proxy of the origin or of an object store: the one that a key names, or those of the usual variables.
//!
//! Nothing is connected here. Callers: [`super::keys`], [`super::checks`]; [`crate::origin`] asks it about each address.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

use super::address::{brackets, is_loopback, masked, unbracketed};
use super::errors::quoted;
use super::reader::KeyReader;
use super::sources::Node;
use super::values::{Values, Written, expected};

/// The variables for http, https, both, and none; of two names the first one that is set counts.
///
/// Not `HTTP_PROXY`: for a program that a web server starts, a client can set it with a header field `Proxy`.
const VARIABLES: [&[&str]; 4] =
    [&["http_proxy"], &["https_proxy", "HTTPS_PROXY"], &["all_proxy", "ALL_PROXY"], &["no_proxy", "NO_PROXY"]];

/// It tells a machine about itself; behind a proxy it would tell about the proxy's machine.
const METADATA: &str = "metadata.google.internal";

/// How a server is reached: directly, or through an HTTP proxy.
#[derive(Clone, Default)]
pub struct Proxy {
    setting: Setting,
    /// `None`: there is no proxy for anything.
    matcher: Option<Arc<Matcher>>,
}

#[derive(Clone, PartialEq, Eq)]
enum Setting {
    Variables(ProxyVariables),
    /// The value of a key; empty: no proxy.
    Key(String),
}

impl Default for Setting {
    fn default() -> Self {
        Self::Variables(ProxyVariables::default())
    }
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        self.setting == other.setting
    }
}

impl fmt::Debug for Proxy {
    /// Without user names and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.setting {
            Setting::Variables(variables) => write!(f, "{variables}"),
            Setting::Key(url) => write!(f, "{:?}", masked(url)),
        }
    }
}

impl Proxy {
    /// One for every address, or none.
    fn of_key(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self { setting: Setting::Key(String::new()), matcher: None });
        }
        let url = proxy_url(text)?;
        let matcher = Some(Arc::new(Matcher::builder().all(&url).build()));
        Ok(Self { setting: Setting::Key(url), matcher })
    }

    /// The proxy on the way to an address; `None`: it is asked directly.
    pub(crate) fn on_the_way_to(&self, uri: &Uri) -> Option<Intercept> {
        let (matcher, host) = (self.matcher.as_ref()?, uri.host()?);
        let is_near = matches!(self.setting, Setting::Variables(_)) && is_loopback(host);
        if is_near || is_metadata(host) { None } else { matcher.intercept(uri) }
    }

    /// The address of the proxy on the way to a URL, without user name and password; `None`: it is asked directly.
    pub(crate) fn shown_for(&self, url: &str) -> Option<String> {
        self.on_the_way_to(&url.parse().ok()?).as_ref().map(proxy_name)
    }
}

/// The address of a proxy without user name and password.
pub(crate) fn proxy_name(proxy: &Intercept) -> String {
    proxy.uri().to_string().trim_end_matches('/').to_owned()
}

/// Whether a cloud's machines ask this host about themselves.
fn is_metadata(host: &str) -> bool {
    match unbracketed(host).parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.is_unicast_link_local(),
        Err(_) => host.eq_ignore_ascii_case(METADATA),
    }
}

/// The URL of an HTTP proxy, as `curl` takes it: `http://` may be left out.
fn proxy_url(text: &str) -> Result<String, String> {
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&full).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.port() != Some(0)
            && url.path() == "/"
            && !text.contains(['?', '#', '\\'])
            && !text.contains(|c: char| c.is_whitespace() || c.is_control())
    });
    let url = url.map(|url| url.as_str().trim_end_matches('/').to_owned());
    // The matcher reads by other rules, and would be silent.
    let is_read = |url: &String| {
        let matcher = Matcher::builder().all(url).build();
        matcher.intercept(&Uri::from_static("http://origin.invalid")).is_some()
    };
    url.filter(is_read).ok_or_else(|| {
        format!(
            "{} is not the URL of an HTTP proxy, such as \"http://proxy.example:3128\"{}",
            quoted(&masked(text)),
            brackets(text)
        )
    })
}

/// The variables about proxies that are set and count.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct ProxyVariables(BTreeMap<String, String>);

impl fmt::Display for ProxyVariables {
    /// Without user names and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={}", masked(value))).collect();
        f.write_str(&shown.join(", "))
    }
}

impl fmt::Debug for ProxyVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ProxyVariables {
    /// Keeps a variable if it is about proxies. An empty one counts as not set.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        if !value.is_empty() && VARIABLES.concat().contains(&name) {
            self.0.insert(name.to_owned(), value.to_owned());
        }
    }

    /// The first of these names that is set, and its value.
    fn first(&self, names: &[&str]) -> Option<(&str, &str)> {
        let found = names.iter().find_map(|name| self.0.get_key_value(*name));
        found.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The proxies that they name. An error has the name of the variable, and what is wrong with its value.
    pub(super) fn proxy(&self) -> Result<Proxy, (&str, String)> {
        let url = |names| match self.first(names) {
            Some((name, value)) => proxy_url(value).map_err(|problem| (name, problem)),
            None => Ok(String::new()),
        };
        let [for_http, for_https, for_all, for_none] = VARIABLES;
        let (http, https) = (url(for_http)?, url(for_https)?);
        let all = if http.is_empty() || https.is_empty() { url(for_all)? } else { String::new() };
        let none = self.first(for_none).map_or("", |(_, hosts)| hosts);
        if http.is_empty() && https.is_empty() && all.is_empty() {
            return Ok(Proxy::default());
        }
        let counts = VARIABLES.iter().filter_map(|names| self.first(names));
        let counting = Self(counts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        let matcher = Matcher::builder().http(http).https(https).all(all).no(none).build();
        Ok(Proxy { setting: Setting::Variables(counting), matcher: Some(Arc::new(matcher)) })
    }
}

pub(super) fn proxy() -> Values<Proxy> {
    let parse = |node: &Node| match node.as_text() {
        Some(text) => Proxy::of_key(text),
        None => expected(node, "the URL of an HTTP proxy in quotes, such as \"http://proxy.example:3128\""),
    };
    let read = move |reader: &mut KeyReader, path: &str, node: Node| reader.parsed(path, &node, parse);
    Values::new("URL of an HTTP proxy; `\"\"`: none", read, |proxy: &Proxy| match &proxy.setting {
        Setting::Key(url) if masked(url) == *url => Written::Value(url.as_str().into()),
        Setting::Key(url) => Written::Comment(format!("{}, user name and password not shown", masked(url))),
        Setting::Variables(_) if proxy.matcher.is_none() => Written::Comment("absent: no proxy".to_owned()),
        Setting::Variables(variables) => Written::Comment(format!("from the environment: {variables}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &[(&str, &str)]) -> ProxyVariables {
        let mut variables = ProxyVariables::default();
        for (name, value) in set {
            variables.note(name, value);
        }
        variables
    }

    #[test]
    fn the_usual_variables_say_what_is_asked_through_a_proxy() {
        let (one, two) = ("http://one.test:3128", "http://two.test:3128");
        for (set, url, by) in [
            (&[("http_proxy", one)][..], "http://a.test/x", Some(one)),
            (&[("http_proxy", one)], "https://a.test/x", None),
            (&[("HTTP_PROXY", one)], "http://a.test/x", None),
            (&[("https_proxy", one)], "https://a.test", Some(one)),
            (&[("HTTPS_PROXY", one)], "https://a.test", Some(one)),
            (&[("HTTPS_PROXY", one), ("https_proxy", two)], "https://a.test", Some(two)),
            (&[("https_proxy", ""), ("all_proxy", one)], "https://a.test", Some(one)),
            (&[("ALL_PROXY", one)], "http://a.test", Some(one)),
            (&[("all_proxy", one), ("http_proxy", two)], "http://a.test", Some(two)),
            (&[("http_proxy", "one.test:3128")], "http://a.test", Some(one)),
            (&[("http_proxy", "http://me:hunter2@one.test:3128/")], "http://a.test", Some(one)),
            (&[("all_proxy", one), ("no_proxy", "b.test, .a.test")], "http://x.a.test", None),
            (&[("all_proxy", one), ("NO_PROXY", "192.0.2.0/24")], "http://192.0.2.9:81", None),
            (&[("all_proxy", one), ("no_proxy", "*")], "https://a.test", None),
            (&[("all_proxy", one), ("no_proxy", "b.test")], "https://ab.test", Some(one)),
            (&[("all_proxy", one)], "http://127.0.0.1:8080", None),
            (&[("all_proxy", one)], "http://[::1]:8080", None),
            (&[("all_proxy", one)], "https://localhost", None),
            (&[("all_proxy", one)], "http://169.254.169.254/latest", None),
        ] {
            let proxy = variables(set).proxy().unwrap();
            assert_eq!(proxy.shown_for(url).as_deref(), by, "{set:?} {url}");
        }
    }

    #[test]
    fn a_key_wins_over_the_variables_and_covers_loopback() {
        let proxy = Proxy::of_key("http://one.test").unwrap();
        for (url, by) in [
            ("http://127.0.0.1:8080", Some("http://one.test")),
            ("https://a.test", Some("http://one.test")),
            ("http://metadata.google.internal/computeMetadata", None),
        ] {
            assert_eq!(proxy.shown_for(url).as_deref(), by, "{url}");
        }
        assert_eq!(Proxy::of_key("").unwrap().shown_for("http://a.test"), None);
    }

    #[test]
    fn what_is_no_http_proxy_is_refused_and_its_password_not_shown() {
        for bad in ["socks5://me:hunter2@one.test", "http://me:hunter2@", "http://me:hunter2@one.test/x", "http://a b"]
        {
            let refused = Proxy::of_key(bad).unwrap_err();
            assert!(refused.contains("is not the URL of an HTTP proxy") && !refused.contains("hunter2"), "{refused}");
            let set = variables(&[("ALL_PROXY", bad)]);
            assert_eq!(set.proxy().unwrap_err(), ("ALL_PROXY", refused));
            assert!(!format!("{set:?}").contains("hunter2"));
        }
        let both = [("all_proxy", "socks5://one.test"), ("http_proxy", "two.test"), ("https_proxy", "two.test")];
        assert!(variables(&both).proxy().is_ok(), "it is not used");
        let shown = format!("{:?}", Proxy::of_key("http://me:hunter2@one.test").unwrap());
        assert_eq!(shown, "\"http://***@one.test\"");
    }
}
