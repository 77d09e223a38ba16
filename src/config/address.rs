//! Addresses: base URLs, sockets to listen on, networks.
//!
//! Nothing is resolved or connected here. Callers: [`super::keys`], [`super::checks`].

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use url::Url;

use crate::protocol::client_address::canonical;
use crate::protocol::target;

use super::errors::quoted;
use super::sources::Node;
use super::values::{Values, Written, expected};

/// An absolute `http` or `https` URL under which an API lives: no userinfo, query or fragment, and no slash
/// at the end.
///
/// Scheme and host are in lower case, a default port is left out, as in the WHATWG URL standard.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    text: String,
    https: bool,
    host: String,
    port: u16,
    path: String,
}

impl BaseUrl {
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |what: &str| Err(format!("{} is not {what}", quoted(&masked(text))));
        let Some((_, rest)) = text.split_once("://") else {
            return refuse("an absolute URL that begins with http:// or https://");
        };
        let Ok(url) = Url::parse(text) else {
            return refuse(&format!("a URL{}", brackets(text)));
        };
        let path = text.split(['?', '#']).next().map(|path| path.trim_end_matches('/'));
        if let Some((base, _)) = path.and_then(|path| path.strip_suffix(".json")?.rsplit_once("/api/")) {
            return refuse(&format!("a base URL, which ends before /api; write {}", quoted(&masked(base))));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("an http or https URL");
        }
        // The parser would repair these silently.
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') || rest.starts_with('/') {
            return refuse("a valid URL (it has white space, a backslash or no host)");
        }
        if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return refuse("a URL without user name and password");
        }
        if text.contains(['?', '#']) {
            return refuse("a URL without query and fragment");
        }
        if url.port() == Some(0) {
            return refuse("a URL with a port from 1 to 65535");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path.contains("//") {
            return refuse("a URL without empty path segments");
        }
        let https = url.scheme() == "https";
        Ok(Self {
            text: format!("{}{path}", url.origin().ascii_serialization()),
            https,
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port().unwrap_or(if https { 443 } else { 80 }),
            path,
        })
    }

    /// The URL under which programs on this machine reach a cleartext listener. A wildcard address (`0.0.0.0`, `[::]`)
    /// becomes `localhost`. Port 0 stays: it is not known before the socket is bound.
    pub fn of_listener(address: SocketAddr) -> Self {
        let host = match address.ip().to_canonical() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let port = address.port();
        let text = if port == 80 { format!("http://{host}") } else { format!("http://{host}:{port}") };
        Self { text, https: false, host, port, path: String::new() }
    }

    /// Whether the host is this machine, for programs on it alone: `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// The URL, without a slash at the end: `https://example.org/mirror`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path without a slash at the end: empty, or `/mirror`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The host in lower case, international names in their ASCII form; an IPv6 address is in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, 80 or 443 when none is written.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_https(&self) -> bool {
        self.https
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

/// The host of a URL, an IPv6 address without its brackets.
pub(super) fn unbracketed(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Whether a host in lower case is this machine, for programs on it alone.
pub(super) fn is_loopback(host: &str) -> bool {
    let address = unbracketed(host).parse::<IpAddr>();
    address.map_or_else(|_| host == "localhost" || host.ends_with(".localhost"), |ip| ip.to_canonical().is_loopback())
}

/// A URL without the part before its last `@`, which may be a password.
pub(crate) fn masked(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    match text.rfind('@').filter(|at| *at >= start) {
        Some(at) => format!("{}***{}", &text[..start], &text[at..]),
        None => text.to_owned(),
    }
}

/// What helps if an address has an IPv6 address without brackets.
pub(super) fn brackets(address: &str) -> &'static str {
    let (_, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split('/').next().and_then(|authority| authority.rsplit('@').next()).unwrap_or_default();
    let is_bare = host.matches(':').count() > 1 && !host.contains('[');
    if is_bare { "; an IPv6 address needs brackets, such as [::1]:8080" } else { "" }
}

pub(super) fn base_url() -> Values<BaseUrl> {
    let parse = |node: &Node| match node.as_text() {
        Some(text) => BaseUrl::parse(text),
        None => expected(node, "a URL in quotes"),
    };
    Values::single("URL, may have a path", parse, |url| url.as_str().to_owned())
}

/// The address that clients use. With port 0 it follows a listener that is not bound yet.
pub(super) fn public_url() -> Values<BaseUrl> {
    let Values { form, read, write } = base_url().default_is("the first address of `listen`");
    let absent = || "absent: the first listener, with the port that the system chooses".to_owned();
    let write = move |url: &BaseUrl| if url.port() == 0 { Written::Comment(absent()) } else { write(url) };
    Values { form, read, write: Box::new(write) }
}

/// An address and a port to listen on; port 0 lets the system choose.
pub(super) fn socket() -> Values<SocketAddr> {
    let parse = |node: &Node| {
        let example = "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"";
        let refuse = || expected(node, &format!("{example}{}", brackets(&node.text)));
        node.as_text().and_then(|text| text.parse().ok()).map_or_else(refuse, Ok)
    };
    Values::single("address with port", parse, SocketAddr::to_string)
}

/// A network or a single address. Host bits are cleared; IPv4-mapped IPv6 becomes IPv4.
pub(super) fn network() -> Values<IpNet> {
    const WHAT: &str = "a network or an address, such as \"10.0.0.0/8\" or \"2001:db8::1\"";
    Values::text("network or address", WHAT, parse_network, IpNet::to_string)
}

fn parse_network(text: &str) -> Option<IpNet> {
    let single = text.parse::<IpAddr>().map(IpNet::from);
    single.ok().or_else(|| text.parse().ok()).map(canonical)
}

/// A name or an address that `Host` may have, without a port.
pub(super) fn own_name() -> Values<String> {
    const WHAT: &str = "a host name or an IP address without a port, such as \"mirror.internal\"";
    let parse = |text: &str| {
        let address = text.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string());
        address.or_else(|| target::host_of(text.as_bytes()).filter(|_| !text.contains(':')))
    };
    Values::text("host name", WHAT, parse, String::clone)
}

/// Whether two listeners need the same port of the same address. Port 0 never collides; an unspecified address includes
/// all addresses.
pub(super) fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let same_address = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && same_address
}

#[cfg(test)]
mod tests {
    use super::super::errors::ValueSource;
    use super::super::reader::KeyReader;
    use super::*;

    #[test]
    fn a_base_url_is_kept_without_its_slash() {
        let base = BaseUrl::parse("HTTPS://Example.org:443/mirror/").unwrap();
        assert_eq!(base.as_str(), "https://example.org/mirror");
        assert_eq!((base.path(), base.host(), base.port()), ("/mirror", "example.org", 443));
        assert!(base.is_https());
        let root = BaseUrl::parse("http://[::1]:8080").unwrap();
        assert_eq!((root.path(), root.as_str()), ("", "http://[::1]:8080"));
    }

    #[test]
    fn a_listener_is_a_base_url_that_this_machine_can_use() {
        for (address, want, loopback) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("0.0.0.0:20010", "http://localhost:20010", true),
            ("[::]:8080", "http://localhost:8080", true),
            ("[::ffff:0.0.0.0]:8080", "http://localhost:8080", true),
            ("[::ffff:127.0.0.1]:8080", "http://127.0.0.1:8080", true),
            ("[::1]:8080", "http://[::1]:8080", true),
            ("[2001:db8::1]:80", "http://[2001:db8::1]", false),
            ("192.0.2.1:80", "http://192.0.2.1", false),
        ] {
            let base = BaseUrl::of_listener(address.parse().unwrap());
            assert_eq!(base, BaseUrl::parse(want).unwrap(), "{address}");
            assert_eq!(base.is_loopback(), loopback, "{address}");
        }
        for (text, loopback) in [("http://a.localhost", true), ("https://localhost.example", false)] {
            assert_eq!(BaseUrl::parse(text).unwrap().is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_base_url_is_refused() {
        for text in [
            "",
            "example.org",
            "//example.org",
            "http:example.org",
            "ftp://example.org",
            "http://",
            "http:///path",
            "http://a b",
            " http://example.org",
            "http://example.org\\x",
            "http://u:p@example.org",
            "http://@example.org",
            "http://example.org?q",
            "http://example.org/#f",
            "http://example.org:0",
            "http://example.org:99999",
            "http://example.org/a//b",
        ] {
            let problem = BaseUrl::parse(text).unwrap_err();
            assert!(problem.contains(" is not ") && !problem.contains("u:p"), "{text}: {problem}");
        }
    }

    #[test]
    fn the_right_value_is_named() {
        for (text, right) in [
            ("https://api.example.org/api/listings.json", "before /api; write \"https://api.example.org\""),
            ("http://a/base/api/cities.json?per_page=100#x", "before /api; write \"http://a/base\""),
            ("http://a/api/listings/7.json/", "before /api; write \"http://a\""),
            ("http://::1:8080", "is not a URL; an IPv6 address needs brackets, such as [::1]:8080"),
            ("http://2001:db8::1/base", "needs brackets"),
        ] {
            let problem = BaseUrl::parse(text).unwrap_err();
            assert!(problem.contains(right), "{text}: {problem}");
        }
        for (text, is_bare) in [("::1:8080", true), ("::1", true), ("localhost:8080", false), ("[::1]", false)] {
            let mut reader = KeyReader::new(false);
            (socket().read)(&mut reader, "listen", Node::string(text, ValueSource::Set));
            assert_eq!(reader.errors[0].to_string().contains("needs brackets"), is_bare, "{text}");
        }
        assert!(!BaseUrl::parse("http://a b").unwrap_err().contains("brackets"));
        assert!(BaseUrl::parse("http://a/api").is_ok() && BaseUrl::parse("http://a/apis.json").is_ok());
    }

    #[test]
    fn networks_are_truncated_and_unmapped() {
        let cases = [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("::ffff:10.0.0.1", "10.0.0.1/32"),
            ("::ffff:10.1.0.0/104", "10.0.0.0/8"),
            ("::/0", "::/0"),
        ];
        for (text, want) in cases {
            let got = parse_network(text).unwrap();
            assert_eq!(got.to_string(), want, "{text}");
        }
        for text in ["", "10.0.0.0/33", "localhost", "10.0.0/8", "10.0.0.0/-1"] {
            assert_eq!(parse_network(text), None, "{text}");
        }
    }
}
