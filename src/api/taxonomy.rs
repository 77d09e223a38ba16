//! The three taxonomies: their texts, their terms, and the volatile fields of a body.
//!
//! Names of a term's fields are the origin's choice, so a term is any object that has a `slug`; what its other fields
//! mean is learned by [`crate::snapshot::membership`]. Callers: [`crate::origin`], [`crate::snapshot`],
//! [`crate::store`], [`crate::api::render`].

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::hash::ContentHash;
use super::json::{self, JsonError, MAX_DEPTH};

/// Which taxonomy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaxonomyKind {
    /// `/api/sports.json`
    Sports,
    /// `/api/states.json`
    States,
    /// `/api/cities.json`
    Cities,
}

impl TaxonomyKind {
    /// All three, in the order in which they are stored and hashed.
    pub const ALL: [Self; 3] = [Self::Sports, Self::States, Self::Cities];

    /// The taxonomy's path under the origin's base address.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Sports => "/api/sports.json",
            Self::States => "/api/states.json",
            Self::Cities => "/api/cities.json",
        }
    }

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

/// Names of top-level fields whose values take no part in identity. `generated_at` is always one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VolatileKeys(BTreeSet<String>);

impl Default for VolatileKeys {
    fn default() -> Self {
        Self(BTreeSet::from(["generated_at".to_owned()]))
    }
}

impl VolatileKeys {
    /// Whether a top-level field of that name is volatile.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains(key)
    }

    /// Adds a name; `true` when it is new.
    pub fn insert(&mut self, key: &str) -> bool {
        const MOST: usize = 64;
        self.0.len() < MOST && self.0.insert(key.to_owned())
    }

    /// The names in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The keys at the top level in which two bodies differ although nothing else does, or `None` when something other
    /// than such single values differs: another set of keys, or more than `MOST_AT_ONCE` of them.
    ///
    /// Only scalar fields qualify: a list or an object that changes is content.
    pub fn learn(&self, old: &str, new: &str) -> Option<Vec<String>> {
        const MOST_AT_ONCE: usize = 2;
        let (old, new) = (json::fields(old).ok()?, json::fields(new).ok()?);
        if old.len() != new.len() {
            return None;
        }
        let mut differing = Vec::new();
        for (before, after) in old.iter().zip(&new) {
            if before.key != after.key {
                return None;
            }
            if before.value != after.value && !self.contains(&before.key) {
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
        let (mut blanked, mut values, mut at) = (String::with_capacity(text.len()), Vec::new(), 0);
        for (key, span) in self.spans(text) {
            blanked.push_str(&text[at..span.start]);
            blanked.push_str("null");
            values.push((key, text[span.clone()].to_owned()));
            at = span.end;
        }
        blanked.push_str(&text[at..]);
        (blanked, values)
    }

    /// Puts values back where [`VolatileKeys::blank`] took them out; a value that is not given stays `null`.
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

/// A term as the origin describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The slug that filters take.
    pub slug: String,
    /// Every other field with a string value, decoded, in order.
    pub strings: Vec<(String, String)>,
    /// Every field with a whole number, in order.
    pub numbers: Vec<(String, u64)>,
}

/// Why a body is no taxonomy.
#[derive(Debug, thiserror::Error)]
pub enum TaxonomyError {
    /// Not JSON, or nested too deep.
    #[error("the body is not usable JSON: {0}")]
    Json(#[from] JsonError),
    /// The body is JSON of a kind that holds no terms.
    #[error("the body is neither an object nor an array: {0}")]
    NoContainer(String),
}

/// The terms of a taxonomy, at any depth, in the order of the text. An empty taxonomy has none.
///
/// # Errors
/// When the body is not JSON of bounded depth.
pub(crate) fn terms(text: &str) -> Result<Vec<Term>, TaxonomyError> {
    json::check(text)?;
    if !text.trim_start().starts_with(['{', '[']) {
        return Err(TaxonomyError::NoContainer(json::shorten(text)));
    }
    let mut terms = Vec::new();
    collect(text.trim(), 0, &mut terms)?;
    // One slug may stand in several places. What they do not agree on proves nothing: such a term keeps its slug only,
    // and what it stands for is asked of the origin.
    let mut unique: Vec<Term> = Vec::with_capacity(terms.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    for term in terms {
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

fn collect(text: &str, depth: usize, terms: &mut Vec<Term>) -> Result<(), JsonError> {
    if depth > MAX_DEPTH {
        return Err(JsonError::TooDeep);
    }
    if text.starts_with('[') {
        return json::elements(text)?.into_iter().try_for_each(|element| collect(element, depth + 1, terms));
    }
    if !text.starts_with('{') {
        return Ok(());
    }
    let fields = json::fields(text)?;
    let slug = fields.iter().find(|field| field.key == "slug").and_then(|field| json::string(field.value));
    if let Some(slug) = slug {
        let strings = fields.iter().filter(|field| field.key != "slug" && field.key != "api_url");
        terms.push(Term {
            slug: slug.into_owned(),
            strings: strings
                .filter_map(|field| Some((field.key.to_string(), json::string(field.value)?.into_owned())))
                .collect(),
            numbers: fields
                .iter()
                .filter_map(|field| Some((field.key.to_string(), field.value.parse().ok()?)))
                .collect(),
        });
    }
    fields.iter().try_for_each(|field| collect(field.value, depth + 1, terms))
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
    fn a_field_that_alone_differs_is_learned_as_volatile() {
        let keys = VolatileKeys::default();
        let learned = keys.learn(r#"{"request_id":"a","x":[1]}"#, r#"{"request_id":"b","x":[1]}"#);
        assert_eq!(learned.unwrap(), ["request_id"]);
        assert_eq!(keys.learn(r#"{"request_id":"a","x":[1]}"#, r#"{"request_id":"b","x":[2]}"#), None);
        assert_eq!(keys.learn(r#"{"total":1}"#, r#"{"total":2}"#), None);
        assert_eq!(keys.learn("[1]", "[2]"), None);
    }
}
