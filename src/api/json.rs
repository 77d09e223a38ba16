//! Lossless slicing of JSON texts: the fields of an object and the elements of an array as slices.
//!
//! Not a parser of ours: `serde_json`'s `RawValue` finds the slices. Values are never re-serialised. Callers: most
//! rooms that read JSON.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr2};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::protocol::excerpt;

/// Deeper nesting is refused: no listing needs it, and a hostile text could exhaust the stack.
pub const MAX_DEPTH: usize = 64;

/// More fields of an object, or elements of an array, are refused while they are read. A taxonomy has tens of thousands
/// of terms at most; a hostile text could make us store millions.
pub const MAX_MEMBERS: usize = 100_000;

const OBJECT: &str = "an object";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The key, decoded.
    pub key: Cow<'a, str>,
    /// The value's text without surrounding white space: a slice of the input.
    pub value: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    #[error("the body is empty")]
    Empty,
    /// Neither a JSON object nor an array with elements.
    #[error("the body is not an object or a filled array: {0:?}")]
    NoDetail(String),
    /// Not JSON, or JSON of another kind.
    #[error("{source} in {excerpt:?}")]
    Syntax { source: serde_json::Error, excerpt: String },
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("more than {most} {what}")]
    TooMany { what: &'static str, most: usize },
}

impl JsonError {
    fn syntax(source: serde_json::Error, text: &str) -> Self {
        if text.trim_ascii().is_empty() {
            return Self::Empty;
        }
        let excerpt = shorten(text);
        Self::Syntax { source, excerpt }
    }
}

/// The start of a text, short enough for a message.
pub fn shorten(text: &str) -> String {
    excerpt::first(text, 80)
}

/// The fields of a JSON object in the order of the text, repeated keys included. Refuses an object with more than
/// [`MAX_MEMBERS`] fields.
pub fn fields(text: &str) -> Result<Vec<Field<'_>>, JsonError> {
    fields_up_to(text, MAX_MEMBERS)
}

/// [`fields`] of an object with at most so many; reading stops at the next field.
pub fn fields_up_to(text: &str, most: usize) -> Result<Vec<Field<'_>>, JsonError> {
    let mut fields = Vec::with_capacity(16);
    each(text, OBJECT, most, |key, value| fields.push(Field { key, value }))?;
    Ok(fields)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Picked<'a> {
    #[default]
    Absent,
    Once(&'a str),
    /// The texts of the first two values: the key is repeated.
    Repeated(&'a str, &'a str),
}

/// The values of some keys of a JSON object, as from [`fields`], in one pass and without storing the rest.
pub fn pick<'a, const N: usize>(text: &'a str, keys: &[&str; N]) -> Result<[Picked<'a>; N], JsonError> {
    let mut picked = [Picked::Absent; N];
    each(text, OBJECT, usize::MAX, |key, value| {
        if let Some(place) = keys.iter().position(|known| *known == key) {
            picked[place] = match picked[place] {
                Picked::Absent => Picked::Once(value),
                Picked::Once(first) => Picked::Repeated(first, value),
                repeated @ Picked::Repeated(..) => repeated,
            };
        }
    })?;
    Ok(picked)
}

/// The elements of a JSON array. Refuses an array with more than [`MAX_MEMBERS`] elements.
pub fn elements(text: &str) -> Result<Vec<&str>, JsonError> {
    elements_up_to(text, MAX_MEMBERS)
}

/// [`elements`] of an array with at most so many; reading stops at the next element.
pub fn elements_up_to(text: &str, most: usize) -> Result<Vec<&str>, JsonError> {
    let mut elements = Vec::new();
    each(text, "an array", most, |_, value| elements.push(value))?;
    Ok(elements)
}

/// A whole number, also one in quotes, as some databases hand out what they count.
pub(crate) fn whole(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| string(text)?.parse().ok())
}

/// The decoded string, or `None` when the text is not a JSON string. Half a surrogate pair is U+FFFD.
pub fn string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let (mut decoded, mut at) = (decoded(text)?, 0);
    while let Some(next) = memchr(0xed, &decoded[at..]) {
        at += next + 3;
        // Only halves have a second byte like this. U+FFFD has as many bytes.
        if decoded[at - 2] >= 0xa0 {
            decoded[at - 3..at].copy_from_slice("\u{fffd}".as_bytes());
        }
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

/// The bytes of a decoded string, in WTF-8: halves of surrogate pairs differ.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    struct BytesVisitor;

    impl Visitor<'_> for BytesVisitor {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_owned())
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    let decoded = deserializer.deserialize_bytes(BytesVisitor).ok()?;
    deserializer.end().ok().map(|()| decoded)
}

/// A string as JSON text, quotes included.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends a string as JSON text, quotes included.
pub fn quote_into(out: &mut Vec<u8>, text: &str) {
    if text.bytes().any(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        out.extend_from_slice(quote(text).as_bytes());
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

/// Where `part`, a slice of `whole`, starts.
pub fn offset_in(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

/// Checks that a text is one whole JSON value, of bounded depth.
pub fn check(text: &str) -> Result<(), JsonError> {
    let (mut depth, mut rest) = (0_usize, text.as_bytes());
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(JsonError::TooDeep);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    serde_json::from_str::<&RawValue>(text).map(|_| ()).map_err(|error| JsonError::syntax(error, text))
}

/// What follows a string whose opening quotation mark was read; nothing if it does not end.
pub(super) fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let is_end = rest[at] == b'"';
        // The byte after a backslash is escaped.
        rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
}

/// Checks that a text is a listing in full: a JSON object, or an array that is not empty. An origin that answers with
/// the rows of a query sends `[]` for a row that it does not have.
pub fn check_detail(text: &str) -> Result<(), JsonError> {
    check(text)?;
    let text = text.trim_ascii_start();
    let is_filled = |inside: &str| !inside.trim_ascii_start().starts_with(']');
    if text.starts_with('{') || text.strip_prefix('[').is_some_and(is_filled) {
        return Ok(());
    }
    Err(JsonError::NoDetail(shorten(text)))
}

/// The members of an object or an array: each with its key, which is empty in an array, and its text.
struct MemberVisitor<'a, S> {
    of: &'static str,
    most: usize,
    /// Set when there are more; reading ends there.
    exceeded: &'a mut bool,
    see: S,
}

impl<'de, S: FnMut(Cow<'de, str>, &'de str)> MemberVisitor<'_, S> {
    fn see<E: de::Error>(&mut self, number: usize, key: Cow<'de, str>, value: &'de RawValue) -> Result<(), E> {
        if number == self.most {
            *self.exceeded = true;
            return Err(E::custom("too many members"));
        }
        (self.see)(key, value.get());
        Ok(())
    }
}

impl<'de, S: FnMut(Cow<'de, str>, &'de str)> Visitor<'de> for MemberVisitor<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some((key, value)) = map.next_entry::<&RawValue, _>()? {
            let key = string(key.get()).ok_or_else(|| de::Error::custom("a key is no string"))?;
            self.see(number, key, value)?;
            number += 1;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(value) = seq.next_element()? {
            self.see(number, Cow::Borrowed(""), value)?;
            number += 1;
        }
        Ok(())
    }
}

fn each<'a>(
    text: &'a str,
    of: &'static str,
    most: usize,
    see: impl FnMut(Cow<'a, str>, &'a str),
) -> Result<(), JsonError> {
    let mut exceeded = false;
    let members = MemberVisitor { of, most, exceeded: &mut exceeded, see };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = if of == OBJECT { deserializer.deserialize_map(members) } else { deserializer.deserialize_seq(members) };
    match read.and_then(|()| deserializer.end()) {
        Err(_) if exceeded => Err(JsonError::TooMany { what: if of == OBJECT { "fields" } else { "elements" }, most }),
        read => read.map_err(|error| JsonError::syntax(error, text)),
    }
}

/// One step of the walk. A `key` is the text of a field's name with its quotes; `None` in an array and at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    Begin {
        key: Option<&'a str>,
        object: bool,
    },
    End,
    /// A string, a number, `true`, `false` or `null`.
    Scalar {
        key: Option<&'a str>,
        value: &'a str,
    },
}

/// Shows each step, in the order of the text. If the text is not one whole JSON value of bounded depth, nothing is
/// shown.
pub fn walk<'a>(text: &'a str, mut show: impl FnMut(Token<'a>)) -> Result<(), JsonError> {
    check(text)?;
    // From here on the text is known to be JSON: brackets match, and strings end.
    let bytes = text.as_bytes();
    // `check` has refused what is deeper.
    let mut in_object = [false; MAX_DEPTH];
    let (mut depth, mut at) = (0_usize, 0_usize);
    let mut key: Option<&str> = None;
    while let Some(&byte) = bytes.get(at) {
        let begun = at;
        match byte {
            b'{' | b'[' => {
                at += 1;
                if let Some(place) = in_object.get_mut(depth) {
                    *place = byte == b'{';
                }
                depth += 1;
                show(Token::Begin { key: key.take(), object: byte == b'{' });
            }
            b'}' | b']' => {
                at += 1;
                depth = depth.saturating_sub(1);
                show(Token::End);
            }
            b'"' => {
                at = string_end(bytes, at);
                let inside = depth.checked_sub(1).and_then(|depth| in_object.get(depth)).copied();
                // In an object every other string is the name of a field.
                if inside == Some(true) && key.is_none() {
                    key = text.get(begun..at);
                } else {
                    show(Token::Scalar { key: key.take(), value: text.get(begun..at).unwrap_or_default() });
                }
            }
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => at += 1,
            _ => {
                let ends = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b'}' | b']');
                at += bytes[at..].iter().position(ends).unwrap_or(bytes.len() - at);
                show(Token::Scalar { key: key.take(), value: text.get(begun..at).unwrap_or_default() });
            }
        }
    }
    Ok(())
}

/// Where the string that begins at `at` ends.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(next) = bytes.get(end..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        end += next;
        if bytes[end] == b'"' {
            return end + 1;
        }
        end += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    #[test]
    fn a_detail_is_an_object_or_an_array_that_is_not_empty() {
        for text in ["{}", " \n{\"a\":1}", "[{}]", " [ [] ]", "[null]", "[\n1]"] {
            assert!(check_detail(text).is_ok(), "{text:?}");
        }
        for (text, why) in [
            ("[]", "not an object or a filled array"),
            (" [ \r\n\t] ", "not an object or a filled array"),
            ("7", "not an object or a filled array"),
            ("\"[1]\"", "not an object or a filled array"),
            ("[1", "EOF"),
            ("", "the body is empty"),
            (" \n", "the body is empty"),
        ] {
            let error = check_detail(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn fields_keep_order_spelling_and_repetition() {
        let text = r#" { "a" : 4.50 , "b\u0041":[ 1e3 ], "a":"x\/y"} "#;
        let fields = fields(text).unwrap();
        let pairs: Vec<_> = fields.iter().map(|f| (f.key.as_ref(), f.value)).collect();
        assert_eq!(pairs, [("a", "4.50"), ("bA", "[ 1e3 ]"), ("a", r#""x\/y""#)]);
        assert_eq!(offset_in(text, fields[0].value), 9);
        assert!(super::fields("{} x").is_err());
        assert!(super::fields("[]").is_err());
    }

    #[test]
    fn no_more_members_are_remembered_than_may_be() {
        let object = |count: usize| format!("{{{}}}", vec![r#""a":1"#; count].join(","));
        let array = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert_eq!(fields_up_to(&object(3), 3).unwrap().len(), 3);
        assert_eq!(elements_up_to(&array(3), 3).unwrap().len(), 3);
        let error = fields_up_to(&object(4), 3).unwrap_err().to_string();
        assert!(error.contains("more than 3 fields"), "{error}");
        let error = elements_up_to(&array(4), 3).unwrap_err().to_string();
        assert!(error.contains("more than 3 elements"), "{error}");
        assert!(fields(&object(MAX_MEMBERS)).is_ok() && fields(&object(MAX_MEMBERS + 1)).is_err());
        assert!(elements(&array(MAX_MEMBERS)).is_ok() && elements(&array(MAX_MEMBERS + 1)).is_err());
    }

    #[test]
    fn what_is_picked_is_what_the_fields_say() {
        for text in [
            r#" { "a" : 4.50 , "b\u0041":[ 1e3 ], "a":"x\/y", "c": null, "a":{}} "#,
            "{}",
            r#"{"c":{"a":[]},"a":01}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"x":"\ud800"}"#,
            r#"{"x":"\q"}"#,
            r#"{"a":1} x"#,
            "[]",
        ] {
            let picked = pick(text, &["a", "bA", "d"]);
            let expected = super::fields(text);
            assert_eq!(
                picked.as_ref().err().map(ToString::to_string),
                expected.as_ref().err().map(ToString::to_string)
            );
            let (Ok(picked), Ok(fields)) = (picked, expected) else { continue };
            for (key, picked) in ["a", "bA", "d"].into_iter().zip(picked) {
                let mut values = fields.iter().filter(|field| field.key == key).map(|field| field.value);
                let expected = match (values.next(), values.next()) {
                    (None, _) => Picked::Absent,
                    (Some(value), None) => Picked::Once(value),
                    (Some(first), Some(second)) => Picked::Repeated(first, second),
                };
                assert_eq!(picked, expected, "{key} of {text}");
            }
        }
    }

    #[test]
    fn quoting_into_a_buffer_is_quoting() {
        for text in ["", "golf", "a\"b", "\\", "\u{1}\n", "São", "\u{7f}\u{2028}"] {
            let mut out = Vec::new();
            quote_into(&mut out, text);
            assert_eq!(out, quote(text).as_bytes());
        }
    }

    #[test]
    fn strings_are_decoded() {
        assert_eq!(string(r#""a\/b""#).as_deref(), Some("a/b"));
        assert_eq!(
            string(r#""\ud800a\uDC00 \ud83d\udc4d\ud7ffé\ud800""#).as_deref(),
            Some("\u{fffd}a\u{fffd} 👍\u{d7ff}é\u{fffd}")
        );
        assert_eq!(string(r#""\q""#), None);
        let keys = fields(r#"{"\ud800":1,"a":2}"#).unwrap();
        assert_eq!(keys.iter().map(|field| &*field.key).collect::<Vec<_>>(), ["\u{fffd}", "a"]);
        assert_eq!(string("5"), None);
        assert_eq!(quote("a\"b"), r#""a\"b""#);
    }

    #[test]
    fn deep_texts_are_refused() {
        let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
        assert!(matches!(check(&deep), Err(JsonError::TooDeep)));
        assert!(check(&deep[1..deep.len() - 1]).is_ok());
        assert!(check(r#"{"a":"[[[\"[["}"#).is_ok());
        assert!(check("{").is_err());
    }

    fn shown(text: &str) -> Result<String, JsonError> {
        let mut out = Vec::new();
        walk(text, |token| {
            out.push(match token {
                Token::Begin { key, object } => format!("{}{} ", key.unwrap_or(""), if object { "{" } else { "[" }),
                Token::End => "end ".to_owned(),
                Token::Scalar { key, value } => format!("{}={value} ", key.unwrap_or("")),
            });
        })?;
        Ok(out.concat())
    }

    #[test]
    fn everything_is_shown_in_order_and_as_it_is_spelled() {
        let text = r#" { "a" : 4.50 , "b\"\\":[ 1e999,"x:\"}]\\" , {} , [] ,null],"c":{"a":true, "":"\ud800"}} "#;
        assert_eq!(
            shown(text).unwrap(),
            r#"{ "a"=4.50 "b\"\\"[ =1e999 ="x:\"}]\\" { end [ end =null end "c"{ "a"=true ""="\ud800" end end "#
        );
        assert_eq!(shown("5").unwrap(), "=5 ");
        assert_eq!(shown(" \"x\" ").unwrap(), "=\"x\" ");
        for broken in ["", "{", "[1,]", "{\"a\"}", "[1] x", &"[".repeat(65)] {
            assert!(shown(broken).is_err(), "{broken}");
        }
    }

    fn expected(key: &str, value: &Value) -> String {
        match value {
            Value::Object(fields) => {
                let quoted = |key: &str| Value::from(key).to_string();
                let inside: Vec<_> = fields.iter().map(|(key, value)| expected(&quoted(key), value)).collect();
                format!("{key}{{ {}end ", inside.concat())
            }
            Value::Array(elements) => {
                let inside: Vec<_> = elements.iter().map(|value| expected("", value)).collect();
                format!("{key}[ {}end ", inside.concat())
            }
            scalar => format!("{key}={scalar} "),
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        scalar.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_walk_shows_what_a_parser_reads(value in any_value(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            prop_assert_eq!(shown(&text).unwrap(), expected("", &value));
        }

        #[test]
        fn the_walk_is_total(text: String) {
            let _ = shown(&text);
        }
    }
}
