//! Excerpts of texts from outside: at most 500 bytes.
//!
//! When a message quotes an origin, a bundle, a client or a file, the text is cut and control characters are escaped.
//! Callers: all who quote such texts.

use std::fmt::{self, Write as _};

use serde_json::Value;

/// The most bytes of one text.
pub(crate) const MOST_BYTES: usize = 500;

const REST: char = '…';

/// Cuts a long text between two characters and adds `…`; the result has at most [`MOST_BYTES`].
pub(crate) fn cut(text: &mut String) {
    if text.len() > MOST_BYTES {
        text.truncate(start(text, MOST_BYTES - REST.len_utf8()).len());
        text.push(REST);
        text.shrink_to_fit();
    }
}

/// At most `most` bytes of a text, cut between two characters.
pub(crate) fn start(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// The first `most` characters of a text, and `…` for the rest.
pub(crate) fn first(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}{REST}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a terminal or a reader takes this for more than a letter.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that is safe for terminals and logs: control characters, line separators and direction overrides are escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// The same for JSON, whose strings alone can have such letters; line feeds between its values stay.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if steers(c) && c != '\n' {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Makes every text of a JSON value an [`Excerpt`]. The names of fields stay: they are ours.
pub(crate) fn shorten_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = Excerpt(&text).to_string(),
        Value::Array(items) => items.iter_mut().for_each(shorten_all),
        Value::Object(fields) => fields.values_mut().for_each(shorten_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Excerpt<T>(pub T);

impl<T: fmt::Display> fmt::Display for Excerpt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = escaped(&self.0.to_string());
        cut(&mut text);
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_steers_a_terminal_or_breaks_a_line_is_written_out() {
        let text = "a\u{1b}[31m\u{9b}31m\r\nb\u{202e}c\u{200f}\u{7f} é";
        assert_eq!(Excerpt(text).to_string(), "a\\u{1b}[31m\\u{9b}31m\\r\\nb\\u{202e}c\\u{200f}\\u{7f} é");
    }

    #[test]
    fn json_that_is_shown_stays_json() {
        let value = json!({ "a": "x\u{9b}y\u{202e}\n é" });
        let shown = escaped_json(&format!("{value:#}"));
        assert_eq!(shown, "{\n  \"a\": \"x\\u009by\\u202e\\n é\"\n}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn a_long_text_is_cut_and_a_short_one_stays() {
        for (text, length) in [("x".repeat(500), 500), ("x".repeat(501), 500), ("é".repeat(251), 499)] {
            let shown = Excerpt(&text).to_string();
            assert_eq!((shown.len(), shown == text), (length, text.len() <= 500));
            assert_eq!(shown.ends_with(REST), shown != text);
        }
    }

    #[test]
    fn every_text_of_a_value_is_cut_however_deep() {
        let long = "x".repeat(9999);
        let mut value = json!({ "a": [{ "b": long, "n": 7 }, long], "c": "sho\nrt", "d": null });
        shorten_all(&mut value);
        assert_eq!((&value["c"], &value["a"][0]["n"], &value["d"]), (&json!("sho\\nrt"), &json!(7), &Value::Null));
        for cut in [&value["a"][0]["b"], &value["a"][1]] {
            assert_eq!(cut.as_str().unwrap().len(), MOST_BYTES);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_bounded_and_cut_once(text in "\\PC{0,400}") {
            let shown = Excerpt(&text).to_string();
            prop_assert!(shown.len() <= MOST_BYTES);
            prop_assert_eq!(Excerpt(&shown).to_string(), shown.clone());
            prop_assert!(escaped(&text).starts_with(shown.trim_end_matches(REST)));
        }
    }
}
