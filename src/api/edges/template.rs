//! The body of a learned answer: fixed text, with gaps where the origin repeats what was asked for.
//!
//! The answer comes from our host, so a repeated value must never become markup: only values of harmless characters are
//! filled in. Callers: [`super::judge`] learns, [`super::lesson`] keeps.

use serde::{Deserialize, Serialize};

/// The longest value that is filled in, in bytes.
const LONGEST: usize = 64;

/// A body with gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Piece {
    Text(String),
    /// The asked value with this number.
    Value(u8),
}

impl Template {
    /// What two bodies have in common, each with the values that were asked for; `None`: they differ in more than these.
    pub(crate) fn of(bodies: [&str; 2], values: [&[&str]; 2]) -> Option<Self> {
        let [one, other] = [0, 1].map(|at| Self::cut(bodies[at], values[at]));
        (one == other).then_some(one)
    }

    /// Cuts the values out of a body, where they stand alone.
    fn cut(body: &str, values: &[&str]) -> Self {
        let mut pieces = Vec::new();
        let (mut text, mut before) = (String::new(), None);
        let mut rest = body;
        while let Some(next) = rest.chars().next() {
            let is_start = !before.is_some_and(|before: char| before.is_ascii_alphanumeric());
            let here = |(_, value): &(usize, &&str)| {
                let after = rest.strip_prefix(**value);
                !value.is_empty() && after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
            };
            let found = values.iter().enumerate().filter(here).max_by_key(|(_, value)| value.len());
            if let Some((number, value)) = found.filter(|_| is_start) {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Value(number as u8));
                before = value.chars().last();
                rest = &rest[value.len()..];
            } else {
                text.push(next);
                before = Some(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Self(pieces)
    }

    /// The body for these values; `None`: one that is missing or not harmless would have to be filled in.
    pub(crate) fn fill(&self, values: &[&str]) -> Option<String> {
        let mut body = String::with_capacity(self.len());
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => body.push_str(text),
                Piece::Value(number) => {
                    body.push_str(values.get(usize::from(*number)).filter(|value| is_harmless(value))?);
                }
            }
        }
        Some(body)
    }

    /// Whether it repeats any value.
    #[cfg(test)]
    pub(crate) fn repeats(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Value(_)))
    }

    /// The length of its text, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|piece| if let Piece::Text(text) = piece { text.len() } else { 1 }).sum()
    }
}

/// Whether a value cannot become markup, or part of an address, wherever it is put.
pub(crate) fn is_harmless(value: &str) -> bool {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST).contains(&value.len()) && value.bytes().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_body_that_repeats_the_value_becomes_a_template() {
        let template = Template::of(
            [r#"{"error":"no sport 'golf9'","docs":"/golf9"}"#, r#"{"error":"no sport 'x'","docs":"/x"}"#],
            [&["golf9"], &["x"]],
        );
        let template = template.unwrap();
        assert!(template.repeats());
        let filled = template.fill(&["a-b.c_D"]).unwrap();
        assert_eq!(filled, r#"{"error":"no sport 'a-b.c_D'","docs":"/a-b.c_D"}"#);
    }

    #[test]
    fn a_reflected_value_never_becomes_markup() {
        let template = Template::of(["<p>a</p>", "<p>b</p>"], [&["a"], &["b"]]).unwrap();
        let long = "x".repeat(65);
        for value in ["<b>", "a b", "\"", "'", "&lt;", "a/b", "é", "", "a\n", "%3C", "a:b", "{", "\u{202e}", &long] {
            assert_eq!(template.fill(&[value]), None, "{value:?}");
        }
        assert_eq!(template.fill(&[]), None);
        assert!(template.fill(&[&long[1..]]).is_some());
    }

    #[test]
    fn bodies_that_differ_in_anything_else_are_no_template() {
        for (one, other) in [("a at 1", "b at 2"), ("a", "b "), ("a a", "b"), ("about a", "bbout b"), ("", "b")] {
            assert_eq!(Template::of([one, other], [&["a"], &["b"]]), None, "{one:?} {other:?}");
        }
        let fixed = Template::of(["not found", "not found"], [&["a"], &["b"]]).unwrap();
        assert!(!fixed.repeats());
        assert_eq!(fixed.fill(&["<b>"]).as_deref(), Some("not found"), "it is not put in");
    }

    #[test]
    fn values_are_found_where_they_stand_alone_the_longest_first() {
        let template = Template::of(["100 < 1000", "100 < 101"], [&["1000"], &["101"]]).unwrap();
        assert_eq!(template.fill(&["7"]).as_deref(), Some("100 < 7"));
        let both = Template::of(["a-1 a", "b-1 b"], [&["a", "a-1"], &["b", "b-1"]]).unwrap();
        assert_eq!(both.fill(&["x", "y"]).as_deref(), Some("y x"));
    }

    proptest! {
        #[test]
        fn what_was_learned_of_two_bodies_gives_both_back(text in ".{0,40}", one in "[a-z]{5,9}", other in "[A-Z]{5,9}") {
            let body = |value: &str| format!("{text} {value}; {text}");
            let (first, second) = (body(&one), body(&other));
            let template = Template::of([&first, &second], [&[one.as_str()], &[other.as_str()]]);
            if let Some(template) = template {
                prop_assert_eq!(template.fill(&[one.as_str()]), Some(first));
                prop_assert_eq!(template.fill(&[other.as_str()]), Some(second));
            } else {
                prop_assert!(text.contains(&one) || text.contains(&other));
            }
        }
    }
}
