//! One pass over a whole JSON text of any depth: opening and closing brackets, and the values between.
//!
//! Nothing is stored. Callers: [`crate::api::rewrite`], [`crate::api::taxonomy`].

use super::{JsonError, MAX_DEPTH, check};

/// One step of the walk. A `key` is the text of a field's name with its quotes; `None` in an array and at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// An object or an array begins.
    Begin {
        /// Its key.
        key: Option<&'a str>,
        /// Whether it is an object.
        object: bool,
    },
    /// The innermost open object or array ends.
    End,
    /// A string, a number, `true`, `false` or `null`.
    Scalar {
        /// Its key.
        key: Option<&'a str>,
        /// Its text.
        value: &'a str,
    },
}

/// Shows each step, in the order of the text.
///
/// # Errors
/// When the text is not one whole JSON value of bounded depth; then nothing was shown.
pub fn walk<'a>(text: &'a str, mut show: impl FnMut(Token<'a>)) -> Result<(), JsonError> {
    check(text)?;
    // From here on the text is known to be JSON: brackets match, and strings end.
    let bytes = text.as_bytes();
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
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

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

    /// The walk of a value, by serde_json.
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
