//! Inferred schema of undocumented JSON values: their fields, types, how often each is there, an example.
//!
//! Values are collected into it; [`ValueShape::schema`] is what they have in common, as JSON Schema 2020-12, for readers or
//! for programs that are made of it. Pure. Callers: [`crate::edge::pages`].

use std::collections::BTreeMap;
use std::str;

use serde_json::{Map, Value, json};

use super::json::{self, Field};

/// The most fields of one object that are told apart, and the most of all objects together.
const MAX_FIELDS: usize = 200;
const MAX_FIELDS_IN_ALL: usize = 2_000;
/// Deeper values are only said to be there.
const MAX_DEPTH: usize = 12;
/// Longer texts, in quotes, are no examples, and longer names are left out, in bytes.
const MAX_EXAMPLE: usize = 200;
/// The longest name of a field in a program.
const MAX_NAME: usize = 60;

/// What values at one place have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueShape {
    /// How many values of each of [`TYPES`] there were.
    counts: [u64; TYPES.len()],
    /// The first value that is neither null, an array, an object nor long.
    example: Option<Value>,
    /// Of objects.
    fields: BTreeMap<String, ValueShape>,
    /// Of arrays.
    items: Option<Box<ValueShape>>,
}

const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];
const OBJECT: usize = 0;
const ARRAY: usize = 1;
const STRING: usize = 2;
const INTEGER: usize = 3;
const NULL: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaFor {
    /// With an example of each value, and in `x-share` the share of the objects that have a field.
    Readers,
    /// Without them. Null always fits, so that programs get along with other data.
    Programs,
}

/// The place in [`TYPES`] of the type of a value, which is JSON text without white space around it.
fn type_of(text: &str) -> usize {
    match text.as_bytes().first() {
        Some(b'{') => OBJECT,
        Some(b'[') => ARRAY,
        Some(b'"') => STRING,
        Some(b't' | b'f') => 5,
        Some(b'n') => NULL,
        _ if text.contains(['.', 'e', 'E']) => 4,
        _ => INTEGER,
    }
}

/// Of JSON texts.
impl<T: AsRef<[u8]>> FromIterator<T> for ValueShape {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let (mut shape, mut left) = (Self::default(), MAX_FIELDS_IN_ALL);
        for value in values {
            if let Ok(text) = str::from_utf8(value.as_ref()) {
                shape.note(text.trim_ascii(), 0, &mut left);
            }
        }
        shape
    }
}

impl ValueShape {
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    pub fn has_arrays(&self) -> bool {
        self.counts[ARRAY] > 0
    }

    /// Whether each value is an object with an integer of this name.
    pub fn has_integer(&self, name: &str) -> bool {
        let field = self.fields.get(name).filter(|_| self.counts[OBJECT] == self.len());
        field.is_some_and(|field| field.counts[INTEGER] == self.len() && field.len() == self.len())
    }

    /// Adds a value; `left`: so many fields may still be told apart. It is read piece by piece: as values of a library, small
    /// objects take a hundred times their text.
    fn note(&mut self, text: &str, depth: usize, left: &mut usize) {
        let kind = type_of(text);
        self.counts[kind] += 1;
        match kind {
            OBJECT | ARRAY if depth == MAX_DEPTH => {}
            OBJECT => {
                for Field { key, value } in json::fields(text).unwrap_or_default() {
                    if let Some(field) = self.field(&key, left) {
                        field.note(value, depth + 1, left);
                    }
                }
            }
            ARRAY => {
                let items = self.items.get_or_insert_default();
                for value in json::elements(text).unwrap_or_default() {
                    items.note(value, depth + 1, left);
                }
            }
            NULL => {}
            _ if text.len() > MAX_EXAMPLE || self.example.is_some() => {}
            STRING => self.example = json::string(text).map(|text| text.as_ref().into()),
            _ => self.example = serde_json::from_str(text).ok(),
        }
    }

    /// The shape of a field; `None`: there are too many already.
    fn field(&mut self, name: &str, left: &mut usize) -> Option<&mut Self> {
        if !self.fields.contains_key(name) {
            if self.fields.len() == MAX_FIELDS || *left == 0 || name.len() > MAX_EXAMPLE {
                return None;
            }
            *left -= 1;
            self.fields.insert(name.to_owned(), Self::default());
        }
        self.fields.get_mut(name)
    }

    /// A JSON Schema that all values fit. No field is required, and others may come.
    pub fn schema(&self, whom: SchemaFor) -> Map<String, Value> {
        let kinds: Vec<usize> = (0..TYPES.len()).filter(|kind| self.counts[*kind] > 0).collect();
        // A number may be written as an integer.
        let (integers, numbers) = (kinds.contains(&INTEGER), kinds.contains(&4));
        let kinds: Vec<usize> = kinds.into_iter().filter(|kind| !(*kind == INTEGER && integers && numbers)).collect();
        let (nested, plain): (Vec<usize>, Vec<usize>) = kinds.into_iter().partition(|kind| *kind <= ARRAY);
        let mut schemas: Vec<Map<String, Value>> = nested.iter().map(|kind| self.nested(*kind, whom)).collect();
        let mut names: Vec<&str> = plain.iter().map(|kind| TYPES[*kind]).collect();
        if whom == SchemaFor::Programs {
            names.retain(|name| *name != "null");
            if nested.is_empty() && names.is_empty() {
                return Map::new();
            }
            if nested.is_empty() {
                names.push("null");
            }
        }
        if !names.is_empty() {
            let mut schema = Map::new();
            schema.insert("type".to_owned(), if let [name] = *names { name.into() } else { names.into() });
            if let Some(example) = self.example.as_ref().filter(|_| whom == SchemaFor::Readers) {
                schema.insert("examples".to_owned(), json!([example]));
            }
            schemas.push(schema);
        }
        if whom == SchemaFor::Programs && !nested.is_empty() {
            schemas.push(Map::from_iter([("type".to_owned(), "null".into())]));
        }
        let joint = if whom == SchemaFor::Programs { "oneOf" } else { "anyOf" };
        match schemas.len() {
            0 => Map::new(),
            1 => schemas.remove(0),
            // Generators of clients fail at lists of types in which there is an array.
            _ => Map::from_iter([(joint.to_owned(), schemas.into_iter().map(Value::Object).collect())]),
        }
    }

    fn nested(&self, kind: usize, whom: SchemaFor) -> Map<String, Value> {
        let mut schema = Map::from_iter([("type".to_owned(), TYPES[kind].into())]);
        if kind == ARRAY {
            let items = self.items.as_ref().map_or_else(Map::new, |items| items.schema(whom));
            schema.insert("items".to_owned(), items.into());
            return schema;
        }
        if whom == SchemaFor::Programs {
            schema.insert("properties".to_owned(), self.typed_fields(&[]).into());
            schema.insert("additionalProperties".to_owned(), true.into());
            return schema;
        }
        let objects = self.counts[OBJECT];
        let fields = self.fields.iter().map(|(name, shape)| {
            let mut field = shape.schema(whom);
            field.insert("x-share".to_owned(), share(shape.len(), objects));
            (name.clone(), Value::Object(field))
        });
        schema.insert("properties".to_owned(), Value::Object(fields.collect()));
        schema
    }

    /// The fields of the objects, for programs; also if an array holds the objects. Of fields with one spelling the
    /// documented one is taken, else a plain one: `id`, not `@id`.
    pub fn typed_fields(&self, documented: &[&str]) -> Map<String, Value> {
        if self.counts[OBJECT] == 0 {
            return self.items.as_ref().map(|items| items.typed_fields(documented)).unwrap_or_default();
        }
        let mut spellings: Vec<String> = documented.iter().map(|name| spelling(name)).collect();
        let mut typed = Map::new();
        let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let mut fields: Vec<(&String, &Self)> = self.fields.iter().collect();
        fields.sort_by_key(|(name, _)| !is_plain(name));
        for (name, field) in fields {
            let spelling = spelling(name);
            // Generators take `$ref` for a reference, wherever it is.
            let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '@' | '_'));
            let speaks = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '_' | '$' | '-' | '.');
            let is_new = documented.contains(&name.as_str()) || !spellings.contains(&spelling);
            if begins_well && name.len() <= MAX_NAME && name.chars().all(speaks) && is_new {
                spellings.push(spelling);
                typed.insert(name.clone(), field.schema(SchemaFor::Programs).into());
            }
        }
        typed
    }
}

/// A name as programs have it: names that are the same, or none, to a program would break it.
fn spelling(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// To a thousandth; never 1 or 0 unless it is all or none.
fn share(some: u64, all: u64) -> Value {
    let thousandths = (some.saturating_mul(1000) / all.max(1)).clamp(u64::from(some > 0), 1000);
    match thousandths {
        1000 => 1.into(),
        // Three digits are exact.
        #[expect(clippy::cast_precision_loss, reason = "at most 999")]
        some => (some as f64 / 1000.0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(values: &[Value]) -> ValueShape {
        values.iter().map(Value::to_string).collect()
    }

    fn size(shape: &ValueShape) -> usize {
        let of_fields: usize = shape.fields.values().map(|field| 1 + size(field)).sum();
        of_fields + shape.items.as_ref().map_or(0, |items| size(items))
    }

    fn schema(values: &[Value]) -> Value {
        Value::Object(shape(values).schema(SchemaFor::Readers))
    }

    #[test]
    fn a_field_has_its_types_its_share_and_an_example() {
        let made =
            schema(&[json!({"id": 1, "rating": 4.5, "phone": null}), json!({"id": 2, "rating": 4, "phone": "1"})]);
        assert_eq!(
            made,
            json!({"type": "object", "properties": {
                "id": {"type": "integer", "examples": [1], "x-share": 1},
                "rating": {"type": "number", "examples": [4.5], "x-share": 1},
                "phone": {"type": ["string", "null"], "examples": ["1"], "x-share": 1},
            }})
        );
        let some = schema(&[json!({"a": 1}), json!({}), json!({})]);
        assert_eq!(some["properties"]["a"]["x-share"], json!(0.333));
    }

    #[test]
    fn nested_values_of_several_types_are_told_apart() {
        let made = schema(&[json!({"hours": [{"day": "Mon"}]}), json!({"hours": "daily"}), json!({"hours": null})]);
        let day = json!({"type": "string", "examples": ["Mon"], "x-share": 1});
        assert_eq!(
            made["properties"]["hours"]["anyOf"],
            json!([
                {"type": "array", "items": {"type": "object", "properties": {"day": day}}},
                {"type": ["string", "null"], "examples": ["daily"]},
            ])
        );
        assert_eq!(schema(&[json!([])]), json!({"type": "array", "items": {}}));
        assert_eq!(schema(&[]), json!({}));
    }

    #[test]
    fn a_long_text_is_no_example() {
        let made = schema(&[json!("x".repeat(MAX_EXAMPLE + 1)), json!("y")]);
        assert_eq!(made["examples"], json!(["y"]));
    }

    #[test]
    fn what_no_library_takes_has_its_type() {
        let text =
            r#" {"id":1,"far":-1e999,"odd":"\ud800","all":[1e999],"both":{"a":1e999},"b":{"c":18446744073709551616}}"#;
        let number = json!({"type": "number", "x-share": 1});
        let made = Value::Object([text].iter().collect::<ValueShape>().schema(SchemaFor::Readers));
        assert_eq!(made["properties"]["far"], number);
        assert_eq!(made["properties"]["odd"]["examples"], json!(["\u{fffd}"]));
        assert_eq!(made["properties"]["all"]["items"], json!({"type": "number"}));
        assert_eq!(made["properties"]["both"]["properties"]["a"], number);
        assert_eq!(made["properties"]["b"]["properties"]["c"]["type"], "integer");
    }

    #[test]
    fn hostile_values_are_bounded() {
        let wide: Map<String, Value> = (0..10_000).map(|at| (at.to_string(), json!(at))).collect();
        let wide = shape(&[wide.into()]);
        assert_eq!(size(&wide), MAX_FIELDS);
        let many = (0..100).map(|object| {
            let fields: Map<String, Value> = (0..100).map(|at| (format!("{object}-{at}"), json!(at))).collect();
            json!({object.to_string(): fields}).to_string()
        });
        assert!(size(&many.collect()) <= MAX_FIELDS_IN_ALL);
        assert_eq!(size(&shape(&[json!({"x".repeat(MAX_EXAMPLE + 1): 1, "y": 2})])), 1);
        let deep = (0..100).fold(json!(1), |inner, _| json!({"in": inner}));
        assert_eq!(size(&shape(&[deep])), MAX_DEPTH);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(|number: f64| number.into()),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-c]", inner, 0..4).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    /// As a validator reads the part of JSON Schema that is used here.
    fn fits(value: &Value, schema: &Value) -> bool {
        if let Some(any) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array) {
            return any.iter().any(|schema| fits(value, schema));
        }
        let is = |name: &str| match name {
            "number" => value.is_number(),
            name => TYPES[type_of(&value.to_string())] == name,
        };
        let typed = match schema.get("type") {
            Some(Value::String(name)) => is(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(is),
            _ => true,
        };
        let items = |schema: &Value| value.as_array().is_none_or(|all| all.iter().all(|item| fits(item, schema)));
        let fields = |known: &Map<String, Value>| {
            let mut all = value.as_object().into_iter().flatten();
            all.all(|(name, member)| known.get(name).is_some_and(|schema| fits(member, schema)))
        };
        typed
            && schema.get("items").is_none_or(items)
            && schema.get("properties").and_then(Value::as_object).is_none_or(fields)
    }

    proptest! {
        #[test]
        fn every_value_fits(values in prop::collection::vec(any_json(), 1..8)) {
            for whom in [SchemaFor::Readers, SchemaFor::Programs] {
                let schema = Value::Object(shape(&values).schema(whom));
                for value in &values {
                    prop_assert!(fits(value, &schema), "{value} does not fit {schema}");
                }
            }
        }
    }
}
