//! The right answer with one thing wrong in its text.
//!
//! Text only; on the wire it is a normal answer with status 200 and no entity tag. It expects the default spelling
//! (dense bodies) and leaves a text unchanged that lacks what it would alter. Callers: `fault`.

use std::ops::Range;

/// Levels of [`Tamper::DeepItem`].
const DEEP: usize = 100_000;

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tamper {
    /// The first item has a member of 100,000 nested arrays.
    DeepItem,
    /// The second item has the id of the first.
    RepeatedId,
    /// The first item of every page has this id.
    SharedId(u64),
    /// `total` is this text.
    Total(&'static str),
    /// `per_page` is this text.
    PerPage(&'static str),
    /// The id of the first item is this text.
    FirstId(&'static str),
    /// The first item has no id.
    NoId,
    /// The first item has a second `id` with another value.
    TwoIds,
    /// The envelope has a second `total` with another value.
    TwoTotals,
    /// The first item has a number for a name, an object for a city and an array for `modified`.
    OddTypes,
    /// The first item has two names.
    RepeatedKey,
    /// The first name holds half a surrogate pair, escaped: grammatically JSON, but no text.
    LoneSurrogate,
    /// The first item has half a surrogate pair for a key.
    LoneSurrogateKey,
    /// The first name holds a byte that is no UTF-8.
    BadUtf8,
    /// The first latitude is `NaN`.
    NotANumber,
    /// The first name holds a NUL.
    Nul,
    /// The document is followed by a word.
    Garbage,
    /// The document is followed by itself.
    Twice,
    /// The document follows a byte order mark.
    Bom,
    /// The document is the only element of an array.
    InArray,
    /// The document is in UTF-16, with a byte order mark.
    Utf16,
}

impl Tamper {
    /// The body to be sent instead of `text`.
    pub(super) fn apply(self, text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        match self {
            Self::DeepItem => {
                let deep = format!("\"deep\":{}{},", "[".repeat(DEEP), "]".repeat(DEEP));
                insert(&mut bytes, key(text, "id", 0).map(|at| at.start), deep.as_bytes());
            }
            Self::RepeatedId => {
                if let (Some(first), Some(second)) = (value(text, "id", 0), value(text, "id", 1)) {
                    bytes.splice(second, text.as_bytes()[first].iter().copied());
                }
            }
            Self::SharedId(id) => replace(&mut bytes, value(text, "id", 0), &id.to_string()),
            Self::Total(total) => replace(&mut bytes, value(text, "total", 0), total),
            Self::PerPage(size) => replace(&mut bytes, value(text, "per_page", 0), size),
            Self::FirstId(id) => replace(&mut bytes, value(text, "id", 0), id),
            Self::NoId => {
                let whole = key(text, "id", 0).zip(value(text, "id", 0)).map(|(key, value)| key.start..value.end + 1);
                replace(&mut bytes, whole, "");
            }
            Self::TwoIds => insert(&mut bytes, key(text, "name", 0).map(|at| at.start), b"\"id\":7,"),
            Self::TwoTotals => insert(&mut bytes, key(text, "total", 0).map(|at| at.start), b"\"total\":7,"),
            Self::OddTypes => {
                // From back to front, so that what was found stays where it is.
                let modified = value(text, "modified", 0);
                replace(&mut bytes, modified, "[1,\"x\"]");
                replace(&mut bytes, value(text, "city", 0), "{\"name\":null}");
                replace(&mut bytes, value(text, "name", 0), "4.50");
            }
            Self::RepeatedKey => insert(&mut bytes, key(text, "name", 0).map(|at| at.start), b"\"name\":\"once\","),
            Self::LoneSurrogate => insert(&mut bytes, in_name(text), b"\\ud800"),
            Self::LoneSurrogateKey => {
                insert(&mut bytes, key(text, "name", 0).map(|at| at.start), b"\"\\ud800\":{\"\\udc00\":[]},");
            }
            Self::NotANumber => replace(&mut bytes, value(text, "lat", 0), "NaN"),
            Self::BadUtf8 => insert(&mut bytes, in_name(text), b"\xff"),
            Self::Nul => insert(&mut bytes, in_name(text), b"\0"),
            Self::Garbage => bytes.extend_from_slice(b" garbage"),
            Self::Twice => bytes.extend_from_within(..),
            Self::Bom => insert(&mut bytes, Some(0), "\u{feff}".as_bytes()),
            Self::InArray => bytes = format!("[{text}]").into_bytes(),
            Self::Utf16 => bytes = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
        }
        bytes
    }
}

/// Where the key stands for the `nth` time, from 0, quotes and colon included.
fn key(text: &str, name: &str, nth: usize) -> Option<Range<usize>> {
    let key = format!("\"{name}\":");
    let (start, _) = text.match_indices(&key).nth(nth)?;
    Some(start..start + key.len())
}

/// Where the key's value stands, a string or a number.
fn value(text: &str, name: &str, nth: usize) -> Option<Range<usize>> {
    let start = key(text, name, nth)?.end;
    let rest = &text[start..];
    let length = match rest.strip_prefix('"') {
        Some(inside) => inside.match_indices('"').find(|(at, _)| !inside[..*at].ends_with('\\'))?.0 + 2,
        None => rest.find([',', '}', ']'])?,
    };
    Some(start..start + length)
}

/// Just inside the string that is the first name.
fn in_name(text: &str) -> Option<usize> {
    key(text, "name", 0).map(|at| at.end + 1)
}

fn insert(bytes: &mut Vec<u8>, at: Option<usize>, what: &[u8]) {
    if let Some(at) = at {
        bytes.splice(at..at, what.iter().copied());
    }
}

fn replace(bytes: &mut Vec<u8>, range: Option<Range<usize>>, with: &str) {
    if let Some(range) = range {
        bytes.splice(range, with.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"{"per_page":100,"total":2,"items":[{"id":11,"name":"A \"b\"","city":"C","modified":"M"},{"id":12,"name":"D"}]}"#;

    fn tampered(tamper: Tamper) -> String {
        String::from_utf8(tamper.apply(PAGE)).unwrap()
    }

    #[test]
    fn one_thing_is_altered_and_the_rest_stays() {
        for (tamper, from, to) in [
            (Tamper::RepeatedId, "\"id\":12", "\"id\":11"),
            (Tamper::SharedId(5), "\"id\":11", "\"id\":5"),
            (Tamper::Total("-1"), "\"total\":2", "\"total\":-1"),
            (Tamper::PerPage("50"), "\"per_page\":100", "\"per_page\":50"),
            (Tamper::FirstId("\"x\""), "\"id\":11", "\"id\":\"x\""),
            (Tamper::NoId, "\"id\":11,", ""),
            (Tamper::TwoIds, "\"id\":11,", "\"id\":11,\"id\":7,"),
            (Tamper::TwoTotals, "\"total\":2", "\"total\":7,\"total\":2"),
            (Tamper::RepeatedKey, "\"name\":\"A", "\"name\":\"once\",\"name\":\"A"),
            (Tamper::LoneSurrogate, "\"A ", "\"\\ud800A "),
            (Tamper::Nul, "\"A ", "\"\0A "),
            (
                Tamper::OddTypes,
                r#""name":"A \"b\"","city":"C","modified":"M""#,
                r#""name":4.50,"city":{"name":null},"modified":[1,"x"]"#,
            ),
        ] {
            assert_eq!(tampered(tamper), PAGE.replacen(from, to, 1), "{tamper:?}");
        }
        assert_eq!(tampered(Tamper::Twice), PAGE.repeat(2));
        assert_eq!(tampered(Tamper::DeepItem).len(), PAGE.len() + "\"deep\":,".len() + 2 * DEEP);
        assert!(String::from_utf8(Tamper::BadUtf8.apply(PAGE)).is_err());
        assert_eq!(Tamper::Utf16.apply(PAGE).len(), 2 + 2 * PAGE.len());
    }
}
