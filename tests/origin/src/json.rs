//! A JSON writer with full control over the spelling.
//!
//! serde_json chooses the spelling of numbers and strings; the sample origin has to vary it. The writer also notes the
//! volatile parts of a body, so that its ETag can leave them out. It trusts its callers to open and close in pairs.
//! Callers: the endpoints.

use std::fmt::Write as _;
use std::ops::Range;

use sample::world::quoted;

/// A JSON text being written.
#[derive(Debug)]
pub(super) struct Json {
    text: String,
    pretty: bool,
    /// `/` is written `\/` in all strings.
    slashes: bool,
    /// One entry per open object or array: whether it has a member yet.
    open: Vec<bool>,
    after_key: bool,
    volatile: Vec<Range<usize>>,
}

/// A finished JSON text.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) text: String,
    /// The parts that differ between two otherwise equal answers.
    pub(super) volatile: Vec<Range<usize>>,
}

impl Json {
    /// An empty text; `pretty` puts each member on a line of its own, `slashes` escapes them in all strings.
    pub(super) fn new(pretty: bool, slashes: bool) -> Self {
        let text = String::with_capacity(16 * 1024);
        Self { text, pretty, slashes, open: Vec::new(), after_key: false, volatile: Vec::new() }
    }

    /// Writes an object; `members` writes its keys and values.
    pub(super) fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.nest(['{', '}'], members);
    }

    /// Writes an array; `elements` writes its values.
    pub(super) fn array(&mut self, elements: impl FnOnce(&mut Self)) {
        self.nest(['[', ']'], elements);
    }

    /// Writes a key; a value must follow.
    pub(super) fn key(&mut self, key: &str) -> &mut Self {
        self.string(key);
        self.text.push_str(if self.pretty { ": " } else { ":" });
        self.after_key = true;
        self
    }

    /// Writes a string.
    pub(super) fn string(&mut self, value: &str) {
        self.separate();
        self.text.push_str(&quoted(value, self.slashes, false));
    }

    /// Writes members that are dense JSON, in the spelling of this text.
    pub(super) fn members(&mut self, members: &str) {
        self.separate();
        let (mut in_string, mut escaped) = (false, false);
        for letter in members.chars() {
            // The first member of an object or array that is not empty.
            if !in_string && !matches!(letter, '}' | ']') && self.open.last() == Some(&false) {
                self.separate();
            }
            match letter {
                '/' if in_string && self.slashes && !escaped => self.text.push_str("\\/"),
                '{' | '[' if !in_string => {
                    self.text.push(letter);
                    self.open.push(false);
                }
                '}' | ']' if !in_string => self.close(letter),
                ',' if !in_string => {
                    self.text.push(',');
                    self.new_line();
                }
                ':' if !in_string && self.pretty => self.text.push_str(": "),
                _ => self.text.push(letter),
            }
            in_string ^= letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
        }
    }

    /// Writes a number, `true`, `false` or `null`, exactly as it is displayed.
    pub(super) fn raw(&mut self, value: impl std::fmt::Display) {
        self.separate();
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// Writes a member with a string value.
    pub(super) fn field(&mut self, key: &str, value: &str) {
        self.key(key).string(value);
    }

    /// Writes a member whose value differs from answer to answer.
    pub(super) fn volatile_field(&mut self, key: &str, value: &str) {
        self.key(key);
        let start = self.text.len();
        self.string(value);
        self.volatile.push(start..self.text.len());
    }

    /// The text, once everything is closed.
    pub(super) fn finish(mut self) -> Text {
        if self.pretty {
            self.text.push('\n');
        }
        Text { text: self.text, volatile: self.volatile }
    }

    fn nest(&mut self, [open, close]: [char; 2], inside: impl FnOnce(&mut Self)) {
        self.separate();
        self.text.push(open);
        self.open.push(false);
        inside(self);
        self.close(close);
    }

    fn close(&mut self, bracket: char) {
        if self.open.pop() == Some(true) {
            self.new_line();
        }
        self.text.push(bracket);
    }

    fn separate(&mut self) {
        if std::mem::take(&mut self.after_key) {
            return;
        }
        if let Some(has_member) = self.open.last_mut() {
            if std::mem::replace(has_member, true) {
                self.text.push(',');
            }
            self.new_line();
        }
    }

    fn new_line(&mut self) {
        if self.pretty {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n("    ", self.open.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pretty: bool, slashes: bool) -> Text {
        let mut json = Json::new(pretty, slashes);
        json.object(|json| {
            json.field("a/b", "q\"\\\u{1}/ñ");
            json.key("n").raw("4.50");
            json.key("none").array(|_| {});
            json.volatile_field("at", "now");
            json.key("list").array(|json| {
                json.raw(1);
                json.string("é👍");
                json.object(|_| {});
            });
            json.members(r#""deep":{"a":"x/y","b":[1,{"c":"{,\/\\\"/"}],"e":[]}"#);
            json.key("last").object(|json| {
                json.members(r#""f":null,"g":{}"#);
            });
        });
        json.finish()
    }

    #[test]
    fn texts_are_spelled_as_asked() {
        let dense = sample(false, false);
        assert_eq!(
            dense.text,
            concat!(
                r#"{"a/b":"q\"\\\u0001/ñ","n":4.50,"none":[],"at":"now","list":[1,"é👍",{}],"#,
                r#""deep":{"a":"x/y","b":[1,{"c":"{,\/\\\"/"}],"e":[]},"last":{"f":null,"g":{}}}"#
            )
        );
        assert_eq!(&dense.text[dense.volatile[0].clone()], "\"now\"");
        assert!(sample(false, true).text.starts_with(r#"{"a\/b":"q\"\\\u0001\/ñ""#));
        let pretty = sample(true, true).text;
        assert!(pretty.contains("\n    \"n\": 4.50,\n    \"none\": [],\n"), "{pretty}");
        let deep = "\n    \"deep\": {\n        \"a\": \"x\\/y\",\n        \"b\": [\n            1,\n            {\n                ";
        assert!(pretty.contains(deep), "{pretty}");
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&dense.text), parse(&pretty));
    }
}
