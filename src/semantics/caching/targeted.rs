//! `CDN-Cache-Control` (RFC 9213): a targeted field, and so a dictionary of structured fields (RFC 9651).
//!
//! The directives in it, or nothing if the field is absent, empty, malformed or has a value of the wrong type, which
//! counts as absent. Not a general reader of structured fields: items other than integers are checked and dropped.
//! Callers: `directives`.

use http::header::{HeaderMap, HeaderName};

use crate::semantics::freshness::MAX_AGE_SECONDS;

/// Our target is every cache in front of the origin.
const FIELD: HeaderName = HeaderName::from_static("cdn-cache-control");
/// The directives that are a number of seconds.
const DELTAS: [&[u8]; 4] = [b"max-age", b"s-maxage", b"stale-while-revalidate", b"stale-if-error"];

/// The members of a valid field, the one that counts before others of its key, with their seconds; 0 for those that have
/// none.
pub(super) fn members(headers: &HeaderMap) -> Option<Vec<(Vec<u8>, u64)>> {
    let lines: Vec<&[u8]> = headers.get_all(FIELD).iter().map(http::HeaderValue::as_bytes).collect();
    let text = lines.join(&b","[..]);
    let members = dictionary(&text)?;
    if members.is_empty() {
        return None;
    }
    let mut these = Vec::new();
    // The last of repeated members counts (RFC 9651 §4.2.2).
    for (key, value) in members.into_iter().rev() {
        let seconds = match value {
            Value::Integer(seconds) if seconds >= 0 => seconds.unsigned_abs().min(MAX_AGE_SECONDS.into()),
            _ if DELTAS.contains(&key) => return None,
            // `no-store=?0` means absent.
            Value::Boolean(false) => continue,
            _ => 0,
        };
        these.push((key.to_vec(), seconds));
    }
    Some(these)
}

/// A member's value, as far as a directive can use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Integer(i64),
    Boolean(bool),
    Other,
}

fn dictionary(text: &[u8]) -> Option<Vec<(&[u8], Value)>> {
    let mut rest = Cursor(text);
    rest.skip(b" ");
    let mut members = Vec::new();
    while !rest.0.is_empty() {
        let key = rest.key()?;
        let value = if rest.take(b'=') { rest.member()? } else { Value::Boolean(true) };
        rest.parameters()?;
        members.push((key, value));
        rest.skip(b" \t");
        if rest.0.is_empty() {
            break;
        }
        if !rest.take(b',') {
            return None;
        }
        rest.skip(b" \t");
        if rest.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// The rest of the input.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.run(|byte| bytes.contains(&byte));
    }

    /// Takes the longest run of such bytes.
    fn run(&mut self, holds: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !holds(byte)).unwrap_or(self.0.len());
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        run
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        self.0.first().filter(|&&byte| byte.is_ascii_lowercase() || byte == b'*')?;
        Some(self.run(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn member(&mut self) -> Option<Value> {
        if !self.take(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            self.0.first().filter(|byte| b" )".contains(byte))?;
        }
    }

    fn bare_item(&mut self) -> Option<Value> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.run(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
                Some(Value::Other)
            }
            b':' => {
                self.take(b':');
                self.run(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.take(b':').then_some(Value::Other)
            }
            b'?' => {
                self.take(b'?');
                let yes = self.take(b'1');
                (yes || self.take(b'0')).then_some(Value::Boolean(yes))
            }
            b'@' => {
                self.take(b'@');
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => {
                self.take(b'%');
                self.string()
            }
            _ => None,
        }
    }

    /// An integer of up to 15 digits, or a decimal.
    fn number(&mut self) -> Option<Value> {
        let negative = self.take(b'-');
        let whole = self.run(|byte| byte.is_ascii_digit());
        if whole.is_empty() {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.run(|byte| byte.is_ascii_digit());
            return (whole.len() <= 12 && matches!(fraction.len(), 1..=3)).then_some(Value::Other);
        }
        let value = whole.iter().fold(0_i64, |sum, digit| sum.saturating_mul(10).saturating_add((digit - b'0').into()));
        (whole.len() <= 15).then_some(Value::Integer(if negative { -value } else { value }))
    }

    fn string(&mut self) -> Option<Value> {
        if !self.take(b'"') {
            return None;
        }
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            match byte {
                b'"' => return Some(Value::Other),
                b'\\' if !(self.take(b'"') || self.take(b'\\')) => return None,
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::headers;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dictionaries_of_structured_fields_are_told_from_what_is_none() {
        for valid in [
            "a",
            "a, b=1, c=?0, d=tok/en, e=\"s\\\"\", f=:aGk=:, g=(1 \"x\";y=2 z), h=1.5, i=@1659578233, j=%\"x\", *k",
            "a;p;q=1, b",
            "a=-15 ,\tb",
        ] {
            assert!(dictionary(valid.as_bytes()).is_some(), "{valid:?}");
        }
        for invalid in [
            "a,",
            "a b",
            "A",
            "a=",
            "a=\"x",
            "a=\"\\x\"",
            "a=?2",
            "a=(1",
            "a=(1\"x\")",
            "a=1.",
            "a=1.0000",
            "a=:x",
            "1",
            "&",
            "a=1234567890123456",
            "a=-",
            "a=@x",
            "a;",
        ] {
            assert_eq!(dictionary(invalid.as_bytes()), None, "{invalid:?}");
        }
    }

    #[test]
    fn several_lines_are_one_dictionary_the_last_of_a_key_counts_and_a_false_flag_is_none() {
        let lines =
            [("cdn-cache-control", "max-age=5, s-maxage=1"), ("cdn-cache-control", "private=?0, no-cache, max-age=7")];
        let read = members(&headers(&lines)).unwrap();
        let read: Vec<_> = read.iter().map(|(key, seconds)| (std::str::from_utf8(key).unwrap(), *seconds)).collect();
        assert_eq!(read, [("max-age", 7), ("no-cache", 0), ("s-maxage", 1), ("max-age", 5)]);
    }

    proptest! {
        #[test]
        fn reading_is_total(bytes: Vec<u8>, text in "[a-c0-9=;,?()\":@%. -]{0,24}") {
            let _ = (dictionary(&bytes), dictionary(text.as_bytes()));
        }
    }
}
