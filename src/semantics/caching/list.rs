//! The members of a list-valued field (RFC 9110 §5.6.1), quoted strings respected.
//!
//! The split at commas that every field of this layer shares. Not a reading of the members.
//! Callers: the files beside it.

use http::HeaderMap;
use http::header::{AsHeaderName, HeaderValue};

use crate::semantics::trim;

/// All members of a field, over all its lines, trimmed, without the empty ones.
pub(super) fn members<K: AsHeaderName>(headers: &HeaderMap, name: K) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().map(HeaderValue::as_bytes).flat_map(Members)
}

struct Members<'a>(&'a [u8]);

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let end = end_of_member(self.0);
            let (member, rest) = self.0.split_at(end);
            self.0 = rest.get(1..).unwrap_or_default();
            let member = trim(member);
            if !member.is_empty() {
                return Some(member);
            }
        }
    }
}

/// Where the first member ends: at a comma outside of quotes, or at the end.
fn end_of_member(text: &[u8]) -> usize {
    let mut at = 0;
    let mut opener = true;
    while let Some(&byte) = text.get(at) {
        match byte {
            b',' => return at,
            // A quoted string is a value: elsewhere, or without an end, a quotation mark is a byte as any other, and
            // hides no comma.
            b'"' if opener => at += quoted(&text[at..]).unwrap_or(1),
            _ => at += 1,
        }
        opener = byte == b'=' || (opener && matches!(byte, b' ' | b'\t'));
    }
    text.len()
}

/// The length of the quoted string that `text` starts with, marks included.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commas_in_quotes_split_nothing_and_an_open_quote_hides_nothing() {
        for (line, expected) in [
            ("", &[][..]),
            (" , ,", &[]),
            ("a, b", &["a", "b"]),
            ("x=\"a, b\", c", &["x=\"a, b\"", "c"]),
            ("x=\"a\\\", b\", c", &["x=\"a\\\", b\"", "c"]),
            ("\"a,b\",c", &["\"a,b\"", "c"]),
            ("x=\"a, no-store", &["x=\"a", "no-store"]),
            ("x \"y, no-store\"", &["x \"y", "no-store\""]),
            ("a, \t\"b,c\"", &["a", "\"b,c\""]),
            ("x\"y, no-store, z\"", &["x\"y", "no-store", "z\""]),
            ("x=\"a\\", &["x=\"a\\"]),
        ] {
            let members: Vec<_> = Members(line.as_bytes()).map(|member| String::from_utf8_lossy(member)).collect();
            assert_eq!(members, expected, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn splitting_is_total(bytes: Vec<u8>) {
            prop_assert!(Members(&bytes).all(|member| !member.is_empty()));
        }
    }
}
