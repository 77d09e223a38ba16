//! The target of a request: its path, in one spelling per resource, and its `Host`.
//!
//! The normalisation that comes before routing, and the path of `public_url` in front. Not the router, the query, whose
//! host it is, or what is sent to the origin - a pass-through request keeps its bytes. A refused path gets 400 and is
//! never forwarded: a path that two parsers read differently can poison caches. Callers:
//! `edge::answer::admit` before `api::route`; `edge::answer::purge`; `server::admin::guard` and `config` read hosts.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use url::Url;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathError {
    #[error("it does not start with a slash")]
    NotAbsolute,
    /// It has `.` or `..` as a segment, escaped or not, with parameters (`..;x`) or without.
    #[error("it has a dot segment")]
    DotSegment,
    /// It has `//` in it.
    #[error("it has an empty segment")]
    EmptySegment,
    /// It has `%2F` in it.
    #[error("it has an escaped slash")]
    EscapedSlash,
    /// It has `\` or `%5C` in it.
    #[error("it has a backslash")]
    Backslash,
    /// It has a NUL in it, escaped or not.
    #[error("it has a NUL")]
    Nul,
    /// It has a `%` without two hexadecimal digits after it.
    #[error("it has an incomplete percent-escape")]
    BrokenEscape,
    /// It has a byte that must be escaped: a control character, a space, `?`, `#` or anything beyond ASCII.
    #[error("it has the byte 0x{0:02X}, which must be escaped")]
    Unescaped(u8),
}

/// Normalises a path as received, without its query: escapes of unreserved characters are decoded (RFC 3986 §6.2.2.2),
/// once; others stay as they are. Borrows unless something changes. A trailing slash stays: it makes another path.
pub fn normalise(raw: &[u8]) -> Result<Cow<'_, str>, PathError> {
    if raw.first() != Some(&b'/') {
        return Err(PathError::NotAbsolute);
    }
    let mut decoded = None::<Vec<u8>>;
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        let (length, literal) = match byte {
            b'%' => (3, literal_of(raw, at)?),
            b'\\' => return Err(PathError::Backslash),
            0 => return Err(PathError::Nul),
            b'?' | b'#' | ..=b' ' | 0x7F.. => return Err(PathError::Unescaped(byte)),
            _ => (1, None),
        };
        if let Some(literal) = literal {
            decoded.get_or_insert_with(|| raw[..at].to_vec()).push(literal);
        } else if let Some(decoded) = &mut decoded {
            decoded.extend_from_slice(&raw[at..at + length]);
        }
        at += length;
    }
    let path = match decoded {
        // Both hold nothing but ASCII here.
        Some(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| PathError::BrokenEscape)?),
        None => Cow::Borrowed(std::str::from_utf8(raw).map_err(|_| PathError::BrokenEscape)?),
    };
    check_segments(&path)?;
    Ok(path)
}

/// The unreserved character (RFC 3986 §2.3) that the escape at `at` stands for; `None` if it stays an escape.
fn literal_of(raw: &[u8], at: usize) -> Result<Option<u8>, PathError> {
    let digit = |offset: usize| raw.get(at + offset).and_then(|&byte| char::from(byte).to_digit(16));
    let (Some(high), Some(low)) = (digit(1), digit(2)) else {
        return Err(PathError::BrokenEscape);
    };
    match (high * 16 + low) as u8 {
        b'/' => Err(PathError::EscapedSlash),
        b'\\' => Err(PathError::Backslash),
        0 => Err(PathError::Nul),
        byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') => Ok(Some(byte)),
        _ => Ok(None),
    }
}

/// Looks at the segments after decoding, so that `%2e%2e` is `..`.
fn check_segments(path: &str) -> Result<(), PathError> {
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match name(segment) {
            "." | ".." => return Err(PathError::DotSegment),
            "" if segments.peek().is_some() => return Err(PathError::EmptySegment),
            _ => {}
        }
    }
    Ok(())
}

/// A segment without its parameters (RFC 3986 §3.3): for servers that drop them, `..;x` is `..`.
fn name(segment: &str) -> &str {
    let end = segment.find(';').into_iter().chain(segment.find("%3B")).chain(segment.find("%3b")).min();
    &segment[..end.unwrap_or(segment.len())]
}

/// The path of `public_url`, normalised and without trailing slash; empty when the mirror lives at the root.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BasePath(String);

impl BasePath {
    /// Reads the path of a URL; `/` and the empty path are the root.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        let trimmed = path.strip_suffix('/').unwrap_or(path);
        if trimmed.is_empty() {
            return Ok(Self::default());
        }
        normalise(trimmed.as_bytes()).map(|normal| Self(normal.into_owned()))
    }

    /// The path, `/mirror` for example; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The rest of a normalised path below this base, at least `/`; `None` if the path is not below it. Only whole
    /// segments count: `/mirrored` does not lie under `/mirror`.
    pub fn strip<'a>(&self, path: &'a str) -> Option<&'a str> {
        match path.strip_prefix(self.0.as_str())? {
            "" => Some("/"),
            rest => rest.starts_with('/').then_some(rest),
        }
    }
}

/// A request target in absolute form (RFC 9112 §3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absolute<'a> {
    /// As it is: perhaps no valid one.
    pub authority: &'a [u8],
    /// Path and query as they are; either may be empty.
    pub rest: &'a [u8],
}

/// Splits a target with the scheme http or https; `None`: it is none in absolute form.
pub(crate) fn absolute(target: &[u8]) -> Option<Absolute<'_>> {
    let after = [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })?;
    let end = after.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(after.len());
    let (authority, rest) = after.split_at(end);
    Some(Absolute { authority, rest })
}

/// Whether a value is `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2) with a host that is not empty (required
/// for http and https, RFC 9110 §4.2). Only ASCII. A port may be empty.
pub(crate) fn is_host(value: &[u8]) -> bool {
    if let Some(rest) = value.strip_prefix(b"[") {
        let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
        return is_ip_literal(&rest[..end]) && is_port(&rest[end + 1..]);
    }
    let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    end > 0 && is_registered_name(&value[..end]) && is_port(&value[end..])
}

/// The host of a value in its canonical form: an address as an address (IPv4-mapped IPv6 as IPv4), a name in lower case
/// without the dot at its end; no port. `None`: the value is no host.
pub(crate) fn host_of(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok().filter(|_| is_host(value))?;
    let name = match text.strip_prefix('[') {
        Some(literal) => literal.split(']').next()?,
        None => text.split(':').next()?,
    };
    Some(match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
    })
}

/// The text between brackets.
fn is_ip_literal(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// A name or an IPv4 address: unreserved characters, sub-delims and percent-escapes.
fn is_registered_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            _ if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte) => after,
            b'%' => match after {
                [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => after,
                _ => return false,
            },
            _ => return false,
        };
    }
    true
}

/// Nothing, or a colon and a port, which may be empty (RFC 3986 §3.2.3).
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => {
            let number = digits.iter().try_fold(0_u16, |number, digit| match digit {
                b'0'..=b'9' => number.checked_mul(10)?.checked_add(u16::from(digit - b'0')),
                _ => None,
            });
            number.is_some()
        }
        Some(_) => false,
    }
}

/// The path of `url` after the path of `base`, when host, port and path segments agree. `http` and `https` are the
/// same, and so are their default ports.
pub(crate) fn path_below<'a>(url: &'a Url, base: &Url) -> Option<&'a str> {
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https");
    // `port()` is `None` for the scheme's default port.
    let port = |url: &Url| url.port().filter(|port| !matches!(port, 80 | 443));
    if !is_web(url) || !is_web(base) || url.host() != base.host() || port(url) != port(base) {
        return None;
    }
    let rest = url.path().strip_prefix(base.path().trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[test]
    fn unreserved_escapes_are_decoded_once_and_the_rest_is_kept() {
        for (raw, expected) in [
            ("/", "/"),
            ("/api/listings.json", "/api/listings.json"),
            ("/api/listings%2Ejson", "/api/listings.json"),
            ("/%61pi/%7Eme", "/api/~me"),
            ("/api/listings/", "/api/listings/"),
            ("/%2541", "/%2541"),
            ("/%252e%252e/x", "/%252e%252e/x"),
            ("/caf%C3%A9", "/caf%C3%A9"),
            ("/caf%c3%a9%61", "/caf%c3%a9a"),
            ("/a%20b", "/a%20b"),
            ("/...", "/..."),
            ("/..a", "/..a"),
            ("/API", "/API"),
            ("/a;b=c:@!$&'()*+,=", "/a;b=c:@!$&'()*+,="),
            ("/a;../b;.", "/a;../b;."),
            ("/...;x/", "/...;x/"),
            ("/a/;x", "/a/;x"),
        ] {
            let normal = normalise(raw.as_bytes()).unwrap();
            assert_eq!(normal, expected);
            assert_eq!(matches!(normal, Cow::Borrowed(_)), raw == expected, "{raw}");
        }
    }

    #[test]
    fn paths_without_a_single_reading_are_refused() {
        for (raw, why) in [
            (&b""[..], PathError::NotAbsolute),
            (b"*", PathError::NotAbsolute),
            (b"api", PathError::NotAbsolute),
            (b"%2Fapi", PathError::NotAbsolute),
            (b"/..", PathError::DotSegment),
            (b"/.", PathError::DotSegment),
            (b"/a/./b", PathError::DotSegment),
            (b"/a/../b", PathError::DotSegment),
            (b"/a/%2e%2E/b", PathError::DotSegment),
            (b"/a/.%2e", PathError::DotSegment),
            (b"/%2e/", PathError::DotSegment),
            (b"/api/..;/x", PathError::DotSegment),
            (b"/api/..;a=b/x", PathError::DotSegment),
            (b"/api/%2e%2e;x/", PathError::DotSegment),
            (b"/api/.;", PathError::DotSegment),
            (b"/api/..;", PathError::DotSegment),
            (b"/api/..%3B/x", PathError::DotSegment),
            (b"/api/%2e%3bx/y", PathError::DotSegment),
            (b"/api/;x/y", PathError::EmptySegment),
            (b"//", PathError::EmptySegment),
            (b"//a", PathError::EmptySegment),
            (b"/a//b", PathError::EmptySegment),
            (b"/a//", PathError::EmptySegment),
            (b"/a%2Fb", PathError::EscapedSlash),
            (b"/a%2fb", PathError::EscapedSlash),
            (b"/a%5cb", PathError::Backslash),
            (b"/a\\b", PathError::Backslash),
            (b"/a%00", PathError::Nul),
            (b"/a\0", PathError::Nul),
            (b"/%", PathError::BrokenEscape),
            (b"/%4", PathError::BrokenEscape),
            (b"/%4g", PathError::BrokenEscape),
            (b"/%+1", PathError::BrokenEscape),
            (b"/a b", PathError::Unescaped(b' ')),
            (b"/a?b", PathError::Unescaped(b'?')),
            (b"/a#b", PathError::Unescaped(b'#')),
            (b"/\x7f", PathError::Unescaped(0x7F)),
            (b"/caf\xc3\xa9", PathError::Unescaped(0xC3)),
        ] {
            assert_eq!(normalise(raw), Err(why), "{}", raw.escape_ascii());
        }
    }

    #[test]
    fn the_base_path_is_accepted_with_or_without() {
        let base = BasePath::parse("/mirror/").unwrap();
        assert_eq!(base.as_str(), "/mirror");
        for (raw, expected) in [
            ("/mirror/api/sports.json", "/api/sports.json"),
            ("/api/sports.json", "/api/sports.json"),
            ("/%6dirror/api/x", "/api/x"),
            ("/mirror", "/"),
            ("/mirror/", "/"),
            ("/mirrored/x", "/mirrored/x"),
            ("/Mirror/x", "/Mirror/x"),
            ("/mirror/mirror/x", "/mirror/x"),
        ] {
            let path = normalise(raw.as_bytes()).unwrap();
            assert_eq!(base.strip(&path).unwrap_or(&path), expected, "{raw}");
        }
        for root in ["", "/"] {
            let base = BasePath::parse(root).unwrap();
            assert_eq!(base.strip("/api/x").unwrap_or("/api/x"), "/api/x");
            assert_eq!(base.strip("/").unwrap_or("/"), "/");
        }
        assert_eq!(BasePath::parse("/a//b"), Err(PathError::EmptySegment));
    }

    proptest! {
        #[test]
        fn normalisation_is_total(bytes: Vec<u8>) {
            let _ = normalise(&bytes);
        }

        #[test]
        fn a_normal_path_stays_as_it_is(raw in "/[a-z%25-7/.~]{0,24}") {
            if let Ok(once) = normalise(raw.as_bytes()) {
                prop_assert!(!once.contains("//") && !once.contains("/../"));
                // `%25` stays, so a second pass finds the same escapes.
                prop_assert_eq!(normalise(once.as_bytes()), Ok(Cow::Borrowed(&*once)));
            }
        }
    }

    #[test]
    fn hosts_are_told_from_what_is_none() {
        for host in [
            "example.org",
            "EXAMPLE.org.",
            "localhost:8080",
            "a_b.example",
            "127.0.0.1",
            "127.0.0.1:65535",
            "[::1]",
            "[2001:db8::1]:443",
            "[::ffff:10.0.0.1]",
            "x%41.example",
            "example.org:",
            "xn--bcher-kva.example:08080",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for none in [
            "",
            ":80",
            "a b",
            "a/b",
            "http://a",
            "user@a",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a, b",
            "a%4",
            "a%zz",
            "::1",
            "[::1",
            "[]",
            "[::1]80",
            "[fe80::1%25eth0]",
            "[127.0.0.1]",
            "b\u{fc}cher.example",
            "a\tb",
            "<script>",
            "a\\b",
            "a?b",
            "a#b",
        ] {
            assert!(!is_host(none.as_bytes()), "{none}");
        }
    }

    #[test]
    fn a_host_has_one_name_however_it_is_written() {
        for (value, name) in [
            ("LOCALHOST:9090", Some("localhost")),
            ("localhost.", Some("localhost")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[0:0:0:0:0:0:0:1]:9090", Some("::1")),
            ("[::ffff:127.0.0.1]", Some("127.0.0.1")),
            ("127.0.0.1.evil.test", Some("127.0.0.1.evil.test")),
            ("a b", None),
            ("::1", None),
        ] {
            assert_eq!(host_of(value.as_bytes()).as_deref(), name, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_judged(value: Vec<u8>) {
            prop_assert_eq!(is_host(&value), host_of(&value).is_some());
        }

        #[test]
        fn what_a_url_library_takes_for_a_host_is_one(host in "[a-z0-9-]{1,20}(\\.[a-z0-9-]{1,10}){0,3}", port: Option<u16>) {
            let value = port.map_or(host.clone(), |port| format!("{host}:{port}"));
            prop_assert!(is_host(value.as_bytes()));
        }
    }
}
