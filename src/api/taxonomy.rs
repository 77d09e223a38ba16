//! The three taxonomies: their texts, their terms, and the volatile fields of a body.
//!
//! The origin chooses the names of a term's fields, so a term is any object with a `slug`;
//! [`crate::data::snapshot::membership`] learns the meaning of the other fields. Callers: [`crate::mirror`],
//! [`crate::data::snapshot`], [`crate::data::store`], [`crate::api::render`].

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::words::named;

use super::hash::ContentHash;
use super::json::{self, Field, JsonError, MAX_MEMBERS, Token};
use super::values;

named! {
    /// Which taxonomy, by its path under the origin's base address; in the order in which they are stored and hashed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TaxonomyKind, path {
        Sports = "/api/sports.json",
        States = "/api/states.json",
        Cities = "/api/cities.json",
    }
}

impl TaxonomyKind {
    /// The list parameter that takes this taxonomy's slugs.
    pub const fn parameter(self) -> &'static str {
        match self {
            Self::Sports => "sport",
            Self::States => "state",
            Self::Cities => "city",
        }
    }

    /// Its place in [`TaxonomyKind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Names of top-level fields whose values are not part of the content, and of fields of listings whose changes are none
/// (`items[].views`). Always contains `generated_at`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VolatileKeys(BTreeSet<String>);

impl Default for VolatileKeys {
    fn default() -> Self {
        Self(BTreeSet::from(["generated_at".to_owned()]))
    }
}

impl VolatileKeys {
    /// The names of fields of listings begin so.
    const IN_ITEMS: &str = "items[].";

    /// Whether a top-level field of that name is volatile.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// Adds a name; `true` when it is new.
    pub fn insert(&mut self, key: &str) -> bool {
        const MOST: usize = 64;
        self.0.len() < MOST && self.0.insert(key.to_owned())
    }

    pub fn contains_in_items(&self, key: &str) -> bool {
        self.0.iter().any(|own| own.strip_prefix(Self::IN_ITEMS) == Some(key))
    }

    /// Adds or removes a field of listings; `true` when that is new.
    pub fn set_in_items(&mut self, key: &str, is_volatile: bool) -> bool {
        let name = format!("{}{key}", Self::IN_ITEMS);
        if is_volatile { self.insert(&name) } else { self.0.remove(&name) }
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The top-level keys whose values differ, if the bodies are otherwise equal. `None` if anything else differs:
    /// other keys, or more than `MOST_AT_ONCE` values.
    ///
    /// Only scalar fields qualify: a list or an object that changes is content.
    pub fn learn(&self, old: &str, new: &str) -> Option<Vec<String>> {
        const MOST_AT_ONCE: usize = 2;
        let (mut old, mut new) = (json::fields(old).ok()?, json::fields(new).ok()?);
        if old.len() != new.len() {
            return None;
        }
        // Some write another order at each answer.
        for fields in [&mut old, &mut new] {
            fields.sort_by(|one, other| one.key.cmp(&other.key));
        }
        let mut differing = Vec::new();
        for (before, after) in old.iter().zip(&new) {
            if before.key != after.key {
                return None;
            }
            if !self.contains(&before.key) && !values::same(before.value, after.value) {
                let content = [before.value, after.value].iter().any(|value| value.starts_with(['{', '[']));
                let computed = matches!(
                    before.key.as_ref(),
                    "total"
                        | "total_pages"
                        | "page"
                        | "per_page"
                        | "@context"
                        | "@type"
                        | "license"
                        | "attribution"
                        | "docs"
                );
                if content || computed {
                    return None;
                }
                differing.push(before.key.clone().into_owned());
            }
        }
        (!differing.is_empty() && differing.len() <= MOST_AT_ONCE).then_some(differing)
    }

    /// The byte ranges of the volatile values of a body, in order. Empty when the body is no object.
    pub fn spans(&self, text: &str) -> Vec<(String, Range<usize>)> {
        let Ok(fields) = json::fields(text) else {
            return Vec::new();
        };
        fields
            .into_iter()
            .filter(|field| self.contains(&field.key))
            .map(|field| {
                let start = json::offset_in(text, field.value);
                (field.key.into_owned(), start..start + field.value.len())
            })
            .collect()
    }

    /// The hash of a body without its volatile values.
    pub fn hash(&self, text: &str) -> ContentHash {
        let mut parts = Vec::new();
        let mut at = 0;
        for (_, span) in self.spans(text) {
            parts.push(&text.as_bytes()[at..span.start]);
            at = span.end;
        }
        parts.push(&text.as_bytes()[at..]);
        ContentHash::of_parts(parts)
    }

    /// The body with every volatile value replaced by `null`, and those values.
    pub fn blank(&self, text: &str) -> (String, Vec<(String, String)>) {
        let values = self.spans(text).into_iter().map(|(key, span)| (key, text[span].to_owned())).collect();
        (self.fill(text, |_| None), values)
    }

    /// The known body with the volatile values of a new one, if the rest has equal values: so equal content keeps its
    /// bytes. `None`: it differs.
    pub fn settle(&self, known: &str, new: &str) -> Option<String> {
        if !values::same_but_for(known, new, |key| self.contains(key)) {
            return None;
        }
        let values: HashMap<String, String> = self.blank(new).1.into_iter().collect();
        Some(self.fill(known, |key| values.get(key).cloned()))
    }

    /// Puts back the values that [`VolatileKeys::blank`] removed; a value that is not given stays `null`.
    pub fn fill(&self, blanked: &str, value: impl Fn(&str) -> Option<String>) -> String {
        let (mut filled, mut at) = (String::with_capacity(blanked.len() + 64), 0);
        for (key, span) in self.spans(blanked) {
            filled.push_str(&blanked[at..span.start]);
            filled.push_str(value(&key).as_deref().unwrap_or("null"));
            at = span.end;
        }
        filled.push_str(&blanked[at..]);
        filled
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The slug that filters take.
    pub slug: String,
    /// Every other field with a string value, decoded, in order.
    pub strings: Vec<(String, String)>,
    /// Every field with a whole number, in order.
    pub numbers: Vec<(String, u64)>,
}

#[derive(Debug, thiserror::Error)]
pub enum TaxonomyError {
    #[error("the body is not valid JSON: {0}")]
    Json(#[from] JsonError),
    /// The body is JSON, but neither an object nor an array.
    #[error("the body is neither an object nor an array: {0}")]
    NoContainer(String),
}

/// The terms of a taxonomy, at any depth, in the order of the text. An empty taxonomy has none.
pub fn terms(text: &str) -> Result<Vec<Term>, TaxonomyError> {
    let mut objects = Objects::default();
    json::walk(text, |token| objects.see(token))?;
    if !text.trim_start().starts_with(['{', '[']) {
        return Err(TaxonomyError::NoContainer(json::shorten(text)));
    }
    if objects.fields > MOST_FIELDS || objects.terms.len() > MAX_MEMBERS {
        return Err(JsonError::TooMany { what: "terms", most: MAX_MEMBERS }.into());
    }
    // In the order in which their objects begin.
    objects.terms.sort_unstable_by_key(|(number, _)| *number);
    // A slug may occur in several places. If they disagree, the term keeps only its slug, and the origin is asked.
    let mut unique: Vec<Term> = Vec::with_capacity(objects.terms.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    for (_, term) in objects.terms {
        match places.get(&term.slug) {
            None => {
                places.insert(term.slug.clone(), unique.len());
                unique.push(term);
            }
            Some(place) if unique[*place] == term => {}
            Some(place) => {
                unique[*place].strings.clear();
                unique[*place].numbers.clear();
            }
        }
    }
    Ok(unique)
}

/// The most fields that are remembered: some for each of the most terms.
const MOST_FIELDS: usize = 12 * MAX_MEMBERS;

/// The objects of a taxonomy during the walk.
#[derive(Default)]
struct Objects<'a> {
    /// The open objects and arrays, innermost last: their numbers, and the fields read so far.
    open: Vec<(usize, Vec<Field<'a>>)>,
    begun: usize,
    /// The terms, each with the number of its object.
    terms: Vec<(usize, Term)>,
    fields: usize,
}

impl<'a> Objects<'a> {
    fn see(&mut self, token: Token<'a>) {
        match token {
            Token::Begin { key, .. } => {
                self.put(key, "");
                self.open.push((self.begun, Vec::new()));
                self.begun += 1;
            }
            Token::Scalar { key, value } => self.put(key, value),
            Token::End => {
                let ended = self.open.pop().and_then(|(number, fields)| Some((number, Term::of(&fields)?)));
                // One more than allowed says that there are too many.
                self.terms.extend(ended.filter(|_| self.terms.len() <= MAX_MEMBERS));
            }
        }
    }

    /// Remembers a field of the innermost object. The value of an object or array is empty: no text is.
    fn put(&mut self, key: Option<&'a str>, value: &'a str) {
        let Some((key, (_, fields))) = key.and_then(json::string).zip(self.open.last_mut()) else { return };
        self.fields += 1;
        if self.fields <= MOST_FIELDS {
            fields.push(Field { key, value });
        }
    }
}

impl Term {
    /// Any object with a `slug` is a term; of repeated ones the first counts.
    fn of(fields: &[Field<'_>]) -> Option<Self> {
        let slug = json::string(fields.iter().find(|field| field.key == "slug")?.value)?.into_owned();
        let (mut strings, mut numbers) = (Vec::new(), Vec::new());
        for Field { key, value } in fields.iter().filter(|field| field.key != "slug") {
            if let Some(text) = json::string(value).filter(|_| key != "api_url") {
                strings.push((key.to_string(), text.into_owned()));
            } else if let Ok(number) = value.parse() {
                numbers.push((key.to_string(), number));
            }
        }
        Some(Self { slug, strings, numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_found_at_any_depth() {
        for text in [
            r#"[{"slug":"golf","name":"Golf","count":3,"api_url":"x"}]"#,
            r#"{"items":[{"slug":"golf","name":"Golf","count":3}]}"#,
            r#" {"data":{"sports":{"golf":{"slug":"golf","name":"Golf","count":3}}}} "#,
        ] {
            let terms = terms(text).unwrap();
            assert_eq!(terms.len(), 1, "{text}");
            assert_eq!(terms[0].slug, "golf");
            assert_eq!(terms[0].strings, [("name".to_owned(), "Golf".to_owned())]);
            assert_eq!(terms[0].numbers, [("count".to_owned(), 3)]);
        }
        assert!(terms("[]").unwrap().is_empty());
        let twice = terms(r#"[{"slug":"a","n":1},{"slug":"b","x":{"slug":"a","n":2}}]"#).unwrap();
        assert_eq!(twice.len(), 2);
        assert!(twice[0].numbers.is_empty(), "what two places do not agree on proves nothing");
        assert!(terms("\"golf\"").is_err());
        let outer_first = terms(r#"{"a":{"x":{"slug":"in"},"slug":"out","n":1},"b":[[{"slug":"last"}]]}"#).unwrap();
        assert_eq!(outer_first.iter().map(|term| term.slug.as_str()).collect::<Vec<_>>(), ["out", "in", "last"]);
        for none in [r#"[{"slug":5,"slug":"a"}]"#, r#"[{"slug":{"x":1},"slug":"a"}]"#, r#"["slug","a"]"#] {
            assert!(terms(none).unwrap().is_empty(), "{none}");
        }
        assert_eq!(terms(r#"[{"sl\u0075g":"a"}]"#).unwrap()[0].slug, "a");
    }

    #[test]
    fn more_terms_than_there_can_be_are_refused() {
        let many = |count: usize| format!("[{}]", vec![r#"{"slug":"a"}"#; count].join(","));
        assert!(terms(&many(MAX_MEMBERS)).is_ok());
        assert!(terms(&many(MAX_MEMBERS + 1)).is_err());
    }

    #[test]
    fn volatile_values_are_cut_out_and_put_back() {
        let keys = VolatileKeys::default();
        let (one, two) = (r#"{"generated_at": "1", "a":2}"#, r#"{"generated_at": "22", "a":2}"#);
        assert_eq!(keys.hash(one), keys.hash(two));
        assert_ne!(keys.hash(one), keys.hash(r#"{"generated_at": "1", "a":3}"#));
        let (blanked, values) = keys.blank(one);
        assert_eq!(blanked, r#"{"generated_at": null, "a":2}"#);
        let filled = keys.fill(&blanked, |key| values.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone()));
        assert_eq!(filled, one);
    }

    #[test]
    fn equal_values_keep_their_bytes_but_for_volatile_ones() {
        let keys = VolatileKeys::default();
        let known = r#"{"generated_at": "1", "a": [2, {"b":3,"c":4}]}"#;
        let settled = keys.settle(known, r#"{"a":[2,{"c":4,"b":3}],"generated_at":"5"}"#);
        assert_eq!(settled.as_deref(), Some(r#"{"generated_at": "5", "a": [2, {"b":3,"c":4}]}"#));
        assert_eq!(keys.settle(known, r#"{"a":[2,{"c":4,"b":4}],"generated_at":"5"}"#), None);
    }

    #[test]
    fn a_field_that_alone_differs_is_learned_as_volatile() {
        let keys = VolatileKeys::default();
        let learned = keys.learn(r#"{"request_id":"a","x":[1]}"#, r#"{"request_id":"b","x":[1]}"#);
        assert_eq!(learned.unwrap(), ["request_id"]);
        assert_eq!(keys.learn(r#"{"request_id":"a","x":[1]}"#, r#"{"request_id":"b","x":[2]}"#), None);
        let shuffled =
            keys.learn(r#"{"request_id":"a","x":[{"a":1,"b":2}]}"#, r#"{"x":[{"b":2,"a":1}],"request_id":"b"}"#);
        assert_eq!(shuffled.unwrap(), ["request_id"]);
        assert_eq!(keys.learn(r#"{"total":1}"#, r#"{"total":2}"#), None);
        assert_eq!(keys.learn("[1]", "[2]"), None);
    }
}
