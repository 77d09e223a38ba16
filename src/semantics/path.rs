//! Request paths: one spelling per resource, or a reason why there is none.
//!
//! The normalisation that comes before routing, and the path of `public_url` in front. Not the router, the query, or
//! what is sent to the origin - a pass-through request keeps its bytes. A refused path gets 400 and is never forwarded:
//! a path that two parsers read differently can poison caches. Callers: `answer::admit` before `api::route`;
//! `answer::purge`.

use std::borrow::Cow;

/// Why a path is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathError {
    /// It does not start with a slash.
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
///
/// # Errors
/// [`PathError`] for a path that has no single reading.
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
    ///
    /// # Errors
    /// [`PathError`] for a path that no request could have in front.
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
}
