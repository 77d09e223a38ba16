//! Detail for people: the fields whose meaning a name gives away, wherever they are nested, and all others.
//!
//! Nobody documented the names, types and nesting of a detail. What is recognised is moved to a place of its own; nothing
//! is lost. Callers: [`super::venue`].

use std::borrow::Cow;

use crate::api::json::{self, Token};

/// So many values of a detail are taken apart; the rest is in its JSON.
const MOST_VALUES: usize = 3000;

/// No known name is longer, in characters.
const MOST_OF_A_NAME: usize = 200;

/// A JSON value; strings are decoded and trimmed, other scalars are spelled as the origin does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    /// A number, `true` or `false`.
    Literal(&'a str),
    Null,
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
    Array(Vec<Value<'a>>),
}

impl<'a> Value<'a> {
    /// Takes a JSON text apart, and says whether that is all of it.
    pub(super) fn read(text: &'a str) -> Option<(Self, bool)> {
        let mut open: Vec<(Option<Cow<'a, str>>, Value<'a>)> = vec![(None, Value::Array(Vec::new()))];
        let (mut count, mut left_out) = (0, 0_usize);
        json::walk(text, |token| {
            // What begins beyond the bound ends without being shown.
            if left_out > 0 || count >= MOST_VALUES {
                match token {
                    Token::Begin { .. } => left_out += 1,
                    Token::End if left_out > 0 => left_out -= 1,
                    Token::End => close(&mut open),
                    Token::Scalar { .. } => {}
                }
                return;
            }
            count += usize::from(token != Token::End);
            let named = |key: Option<&'a str>| key.map(|key| json::string(key).unwrap_or(Cow::Borrowed(key)));
            match token {
                Token::Begin { key, object } => {
                    let empty = if object { Value::Object(Vec::new()) } else { Value::Array(Vec::new()) };
                    open.push((named(key), empty));
                }
                Token::End => close(&mut open),
                Token::Scalar { key, value } => {
                    let scalar = match value {
                        "null" => Value::Null,
                        text if text.starts_with('"') => Value::Text(match json::string(text) {
                            Some(Cow::Owned(text)) => text.trim().to_owned().into(),
                            Some(Cow::Borrowed(text)) => text.trim().into(),
                            None => text.into(),
                        }),
                        text => Value::Literal(text),
                    };
                    add(&mut open, named(key), scalar);
                }
            }
        })
        .ok()?;
        let Some((_, Value::Array(mut whole))) = open.pop() else { return None };
        Some((whole.pop()?, count < MOST_VALUES))
    }

    pub(super) fn scalar(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&**text).filter(|text| !text.is_empty()),
            Self::Literal(text) => Some(text),
            Self::Null | Self::Object(_) | Self::Array(_) => None,
        }
    }

    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Literal(_) => false,
            Self::Null => true,
            Self::Object(fields) => fields.iter().all(|(_, value)| value.is_empty()),
            Self::Array(elements) => elements.iter().all(Self::is_empty),
        }
    }

    /// The first scalar of an object's field of that plain name, or of an object in it.
    pub(super) fn field(&self, names: &[&str]) -> Option<&str> {
        let Self::Object(fields) = self else { return None };
        let named = |name: &&str| fields.iter().find(|(key, _)| plain(key) == **name)?.1.scalar();
        names.iter().find_map(named)
    }

    /// Every scalar inside, in order, with the name of its field.
    pub(super) fn scalars(&self) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect<'v>(&'v self, name: &'v str, found: &mut Vec<(&'v str, &'v str)>) {
        match self {
            Self::Object(fields) => fields.iter().for_each(|(key, value)| value.collect(key, found)),
            Self::Array(elements) => elements.iter().for_each(|value| value.collect(name, found)),
            scalar => found.extend(scalar.scalar().map(|text| (name, text))),
        }
    }
}

fn add<'a>(open: &mut [(Option<Cow<'a, str>>, Value<'a>)], key: Option<Cow<'a, str>>, value: Value<'a>) {
    match open.last_mut() {
        Some((_, Value::Object(fields))) => fields.push((key.unwrap_or_default(), value)),
        Some((_, Value::Array(elements))) => elements.push(value),
        _ => {}
    }
}

fn close<'a>(open: &mut Vec<(Option<Cow<'a, str>>, Value<'a>)>) {
    if open.len() > 1
        && let Some((key, value)) = open.pop()
    {
        add(open, key, value);
    }
}

/// A name without case and separators: `openingHours`, `opening_hours` and `Opening Hours` are one.
pub(super) fn plain(name: &str) -> String {
    // A name may be as long as its detail, and thousands of values may have it.
    let start = name.chars().take(MOST_OF_A_NAME);
    start.filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Address,
    Hours,
    Phone,
    Website,
    Images,
    Rating,
    ReviewCount,
    Reviews,
}

/// Plain names of fields.
const NAMES: [(Topic, &[&str]); 8] = [
    (Topic::Address, &["address", "fulladdress", "formattedaddress", "streetaddress", "postaladdress"]),
    (Topic::Hours, &["hours", "openinghours", "openinghoursspecification", "businesshours", "workinghours"]),
    (Topic::Phone, &["phone", "telephone", "phonenumber", "tel", "formattedphonenumber", "internationalphonenumber"]),
    (Topic::Website, &["website", "homepage", "websiteurl", "web", "siteurl"]),
    (Topic::Images, &["image", "images", "photo", "photos", "picture", "pictures", "gallery", "thumbnail", "logo"]),
    (Topic::Rating, &["rating", "ratingvalue", "aggregaterating", "averagerating"]),
    (Topic::ReviewCount, &["reviewcount", "ratingcount", "reviewscount", "userratingstotal"]),
    (Topic::Reviews, &["reviews", "samplereviews", "review", "testimonials"]),
];

impl Topic {
    fn of(name: &str) -> Option<Self> {
        let plain = plain(name);
        NAMES.iter().find(|(_, names)| names.contains(&plain.as_str())).map(|(topic, _)| *topic)
    }
}

/// The recognised fields, in the order of the text.
pub(super) type Recognised<'a> = Vec<(Topic, Value<'a>)>;

/// Moves every recognised field out of a value. A field that says nothing stays.
pub(super) fn recognise<'a>(value: &mut Value<'a>, found: &mut Recognised<'a>) {
    match value {
        Value::Object(fields) => {
            for (key, mut value) in std::mem::take(fields) {
                let was_empty = value.is_empty();
                if let Some(topic) = Topic::of(&key).filter(|_| !was_empty) {
                    found.push((topic, value));
                    continue;
                }
                recognise(&mut value, found);
                // Nothing is left of an object that held only what was recognised.
                if was_empty || !value.is_empty() {
                    fields.push((key, value));
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|value| recognise(value, found)),
        Value::Text(_) | Value::Literal(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> (Recognised<'_>, Value<'_>) {
        let (mut value, _) = Value::read(text).unwrap();
        let mut found = Vec::new();
        recognise(&mut value, &mut found);
        (found, value)
    }

    #[test]
    fn names_are_recognised_however_they_are_spelled_and_nested() {
        let text = r#"{"a":{"Opening_Hours":{"Mo":"9-5"},"contact":[{"phoneNumber":"1 2","x":4.50}]},
            "PHOTOS":["u"],"address":"","aggregateRating":{"ratingValue":4.0},"hours":null}"#;
        let (found, rest) = taken(text);
        let topics: Vec<Topic> = found.iter().map(|(topic, _)| *topic).collect();
        assert_eq!(topics, [Topic::Hours, Topic::Phone, Topic::Images, Topic::Rating]);
        assert_eq!(rest.scalars(), [("x", "4.50")]);
        let Value::Object(fields) = rest else { panic!("an object") };
        let keys: Vec<&str> = fields.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["a", "address", "hours"], "what says nothing stays under its name");
    }

    #[test]
    fn a_value_keeps_order_repetition_and_spelling() {
        let (value, is_all) = Value::read(r#"[{"b":1e3,"a":"x\ny","b":[true,null]}]"#).unwrap();
        assert!(is_all);
        assert_eq!(value.scalars(), [("b", "1e3"), ("a", "x\ny"), ("b", "true")]);
        assert!(Value::read("{").is_none());
    }

    #[test]
    fn a_detail_without_end_is_cut_and_stays_whole_otherwise() {
        let text = format!("{{\"a\":[{}],\"b\":{{\"c\":[1]}},\"d\":2}}", vec!["1"; MOST_VALUES].join(","));
        let (value, is_all) = Value::read(&text).unwrap();
        assert!(!is_all && value.scalars().len() < MOST_VALUES && value.scalars().len() > MOST_VALUES - 10);
        assert!(matches!(value, Value::Object(fields) if fields.len() == 1));
    }
}
