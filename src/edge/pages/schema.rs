//! Schemas of listings and details: `/schema/listing.json`, `/schema/detail.json`, and the same in `/openapi.json`.
//!
//! They are read from the snapshot's data, because the provider documents few of them. Callers: [`super::Pages::render`],
//! [`super::documents`].

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::api::json;
use crate::api::listing::ListingId;
use crate::api::schema::ValueShape;
use crate::data::details::Details;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;

use super::Last;

/// The most listings, and the most details, that are read for a schema.
const MOST_READ: usize = 50_000;
/// How many details are read at once.
const AT_ONCE: usize = 1_000;
/// The longest name of a field in a program.
const MAX_NAME: usize = 60;

/// The documented fields of a listing: name, type, description.
const DOCUMENTED: [(&str, &str, &str); 11] = [
    ("id", "integer", ""),
    ("name", "string", ""),
    ("url", "string", "The provider's page."),
    ("city", "string", "Display name."),
    ("state", "string", "Display name."),
    ("sport", "string", "Slug."),
    ("lat", "number", ""),
    ("lng", "number", ""),
    ("rating", "number", ""),
    ("review_count", "integer", ""),
    ("modified", "string", "ISO 8601 with offset."),
];

/// Fields that details are documented to have, under any name, and their type if it is known.
const OF_DETAILS: [(&str, &str); 7] = [
    ("address", ""),
    ("hours", ""),
    ("images", ""),
    ("website", "string"),
    ("phone", "string"),
    ("place_id", "string"),
    ("reviews", ""),
];

/// The shape of some of the values of a snapshot.
#[derive(Debug)]
pub(super) struct Seen {
    shape: ValueShape,
    /// How many values the snapshot has.
    of: usize,
}

impl Seen {
    pub(super) fn names(&self) -> Vec<&str> {
        self.shape.names().collect()
    }
}

/// The shapes of the last snapshot.
#[derive(Default)]
pub(super) struct Shapes {
    listings: Last<SnapshotId, Arc<Seen>>,
    details: Last<(SnapshotId, u64), Arc<Seen>>,
}

impl Shapes {
    pub(super) fn of_listings(&self, dataset: &Dataset) -> Arc<Seen> {
        self.listings.get_or_make(dataset.id.clone(), || {
            let all = &dataset.content.summaries;
            let some = all.iter().step_by(step(all.len()));
            Seen { shape: some.filter_map(|summary| value(&summary.raw)).collect(), of: all.len() }.into()
        })
    }

    /// The shape of the details that are mirrored. Blocks.
    pub(super) fn of_details(&self, dataset: &Dataset, details: &Details) -> Arc<Seen> {
        self.details.get_or_make((dataset.id.clone(), details.revision()), || {
            let all = &dataset.content.summaries;
            let ids: Vec<ListingId> = all.iter().step_by(step(all.len())).map(|summary| summary.id).collect();
            // An unreadable detail is missing here; the store says so where details are served.
            let bodies = ids.chunks(AT_ONCE).flat_map(|ids| details.bodies(ids)).filter_map(|body| body.ok().flatten());
            Seen { shape: bodies.filter_map(|body| value(&body)).collect(), of: all.len() }.into()
        })
    }
}

/// So that at most [`MOST_READ`] of so many are read.
fn step(all: usize) -> usize {
    all.div_ceil(MOST_READ).max(1)
}

/// A JSON text. Of a field that serde cannot take, as it has a number beyond a double or half a character, the type is
/// known.
fn value(text: &[u8]) -> Option<Value> {
    let of_type = |text: &str| match text.as_bytes().first() {
        Some(b'{') => json!({}),
        Some(b'[') => json!([]),
        Some(b'"') => json::string(text).as_deref().unwrap_or(text).into(),
        _ => f64::MAX.into(),
    };
    serde_json::from_slice(text).ok().or_else(|| {
        let fields = json::fields(std::str::from_utf8(text).ok()?).ok()?.into_iter();
        let read = |value: &str| serde_json::from_str(value).unwrap_or_else(|_| of_type(value));
        Some(fields.map(|field| (field.key.into_owned(), read(field.value))).collect())
    })
}

/// The schema as a document of its own; `path` is where it is.
pub(super) fn document(seen: &Seen, title: &str, public_url: &str, path: &str) -> String {
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("{public_url}{path}"),
        "title": title,
        "description": "What the data of this mirror has now. No field is required, and others may come. `x-share`: the share \
                        of the objects that have the field. `x-values`: how many values were read; `x-of`: of how many \
                        listings.",
        "x-values": seen.shape.len(),
        "x-of": seen.of,
    });
    let mut whole = seen.shape.schema();
    whole.extend(head.as_object().cloned().unwrap_or_default());
    format!("{:#}\n", Value::Object(whole))
}

/// What `/openapi.json` says of the data. Clients made of it get no type for a form that the data does not have.
pub(super) struct Described {
    /// The fields of a listing, and those of a detail.
    pub listing: Value,
    pub detail: Value,
    /// The names of those that every listing has, and every detail.
    pub of_every_listing: Value,
    pub of_every_detail: Value,
    /// A detail with the fields that every one has; `None`: a listing is one, as far as is known.
    pub example: Option<Value>,
    /// A detail: the object, or an array that holds it.
    pub detail_body: Value,
    /// The terms of a kind: an object that holds them, or an array.
    pub taxonomy: Value,
}

impl Described {
    /// `taxonomies`: the texts of all kinds.
    pub(super) fn of(listings: Option<&Seen>, details: Option<&Seen>, taxonomies: &[Arc<str>]) -> Self {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let of_details = details.map(|seen| seen.shape.schema()).unwrap_or_default();
        let has_arrays = forms(&of_details).any(|form| form.get("type").is_some_and(|kind| kind == "array"));
        let is_array = |text: &Arc<str>| text.trim_start().starts_with('[');
        let (arrays, all) = (taxonomies.iter().filter(|text| is_array(text)).count(), taxonomies.len());
        let terms = json!({"type": "array", "items": reference("Term")});
        let (listing, detail) = (fields(listings, false), fields(details, true));
        Self {
            of_every_listing: of_every(listings, &listing),
            of_every_detail: of_every(details, &detail),
            example: details.and_then(whole).map(|schema| example(&schema)),
            listing,
            detail,
            detail_body: if has_arrays {
                json!({"anyOf": [reference("Venue"), {"type": "array", "items": {}}]})
            } else {
                reference("Venue")
            },
            taxonomy: match arrays {
                0 => reference("TermSet"),
                some if some == all => terms,
                _ => json!({"oneOf": [reference("TermSet"), terms]}),
            },
        }
    }
}

/// Whether each of the objects that fit a schema has an id, and nothing else does.
fn has_id(schema: &Map<String, Value>) -> bool {
    let id = schema.get("properties").and_then(|fields| fields.get("id"));
    id.is_some_and(|id| id["type"] == "integer" && id["x-share"] == 1)
}

/// The schema of values of which all were read, and each has a field.
fn whole(seen: &Seen) -> Option<Map<String, Value>> {
    (seen.shape.len() == seen.of as u64).then(|| seen.shape.schema()).filter(|schema| schema.contains_key("properties"))
}

/// A value that fits a schema: of an object, the fields that all have.
fn example(schema: &Map<String, Value>) -> Value {
    let first = forms(schema).next().unwrap_or(schema);
    if let Some(fields) = first.get("properties").and_then(Value::as_object) {
        // Generators take a `$ref` in an example for a reference.
        let fields = fields.iter().filter(|(name, field)| field["x-share"] == 1 && !name.starts_with('$'));
        let shown = fields.filter_map(|(name, field)| Some((name.clone(), example(field.as_object()?))));
        return Value::Object(shown.collect());
    }
    match first.get("type") {
        Some(kind) if kind == "array" => json!([]),
        _ => first.get("examples").map_or(Value::Null, |examples| examples[0].clone()),
    }
}

/// The names of the fields that every value has: an id that cannot be null, and those that were seen in each of them.
fn of_every(seen: Option<&Seen>, fields: &Value) -> Value {
    let whole = seen.and_then(whole);
    let properties = whole.as_ref().and_then(|schema| schema.get("properties"));
    let is_in_every = |name: &str| properties.is_some_and(|fields| fields[name]["x-share"] == 1);
    let is_certain = |(name, field): &(&String, &Value)| field["type"] == "integer" || is_in_every(name);
    let certain = fields.as_object().into_iter().flatten().filter(is_certain);
    certain.map(|(name, _)| Value::from(name.as_str())).collect()
}

/// The fields of a listing or, with `of_detail`, of a detail: those that are documented, and those that are seen.
/// Any but an id that all have may be null, so that programs made of it get along with other data.
fn fields(seen: Option<&Seen>, of_detail: bool) -> Value {
    let schema = seen.map(|seen| seen.shape.schema()).unwrap_or_default();
    let of_details = OF_DETAILS.iter().filter(|_| of_detail).map(|(name, _)| *name);
    let documented: Vec<&str> = DOCUMENTED.iter().map(|(name, ..)| *name).chain(of_details).collect();
    let mut fields = typed_fields(&schema, &documented);
    // The mirror takes no list in which it is missing or something else.
    if !of_detail || has_id(&schema) {
        fields.insert("id".to_owned(), json!({"type": "integer"}));
    }
    for (name, kind, description) in DOCUMENTED {
        let field = fields.entry(name).or_insert_with(|| json!({"type": [kind, "null"]}));
        if let (Some(field), false) = (field.as_object_mut(), description.is_empty()) {
            field.insert("description".to_owned(), description.into());
        }
    }
    for (name, kind) in OF_DETAILS.into_iter().filter(|_| of_detail) {
        fields.entry(name).or_insert_with(|| match kind {
            "" => json!({"description": "As the provider sends it."}),
            kind => json!({"type": [kind, "null"]}),
        });
    }
    fields.into()
}

fn forms(schema: &Map<String, Value>) -> impl Iterator<Item = &Map<String, Value>> {
    let forms = schema.get("anyOf").and_then(Value::as_array).map_or(&[][..], |forms| &forms[..]);
    forms.iter().filter_map(Value::as_object).chain([schema])
}

/// A name as programs have it: names that are the same, or none, to a program would break it.
fn spelling(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// The fields of the objects that fit a schema, for programs; also if an array holds the objects. Of fields with one
/// spelling the documented one is taken, else a plain one: `id`, not `@id`.
fn typed_fields(schema: &Map<String, Value>, documented: &[&str]) -> Map<String, Value> {
    let Some(fields) = forms(schema).find_map(|form| form.get("properties")?.as_object()) else {
        let items = schema.get("items").and_then(Value::as_object);
        return items.map(|items| typed_fields(items, documented)).unwrap_or_default();
    };
    let mut spellings: Vec<String> = documented.iter().map(|name| spelling(name)).collect();
    let mut typed_fields = Map::new();
    let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| !is_plain(name));
    for (name, field) in fields {
        let spelling = spelling(name);
        // Generators take `$ref` for a reference, wherever it is.
        let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '@' | '_'));
        let speaks = |c: char| c.is_ascii_alphanumeric() || matches!(c, '@' | '_' | '$' | '-' | '.');
        let is_new = documented.contains(&name.as_str()) || !spellings.contains(&spelling);
        if begins_well && name.len() <= MAX_NAME && name.chars().all(speaks) && is_new {
            spellings.push(spelling);
            typed_fields.insert(name.clone(), typed(field));
        }
    }
    typed_fields
}

/// A schema for programs: without shares and examples, and null always fits.
fn typed(schema: &Value) -> Value {
    if let Some(forms) = schema.get("anyOf").and_then(Value::as_array) {
        let plain = forms.iter().map(form);
        return json!({"oneOf": plain.chain([json!({"type": "null"})]).collect::<Vec<_>>()});
    }
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" || kind == "array" => {
            json!({"oneOf": [form(schema), {"type": "null"}]})
        }
        Some(Value::String(kind)) if kind == "null" => json!({}),
        Some(Value::String(kind)) => json!({"type": [kind, "null"]}),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.clone();
            if !kinds.iter().any(|kind| kind == "null") {
                kinds.push("null".into());
            }
            json!({"type": kinds})
        }
        _ => json!({}),
    }
}

fn form(schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else { return json!({}) };
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => {
            json!({"type": kind, "properties": typed_fields(schema, &[]), "additionalProperties": true})
        }
        Some(Value::String(kind)) if kind == "array" => {
            json!({"type": kind, "items": schema.get("items").map_or_else(|| json!({}), typed)})
        }
        Some(Value::Array(kinds)) => {
            let kinds: Vec<&Value> = kinds.iter().filter(|kind| *kind != "null").collect();
            if let [kind] = *kinds { json!({"type": kind}) } else { json!({"type": kinds}) }
        }
        Some(kind) => json!({"type": kind}),
        None => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[Value]) -> Seen {
        Seen { shape: values.iter().cloned().collect(), of: values.len() }
    }

    #[test]
    fn a_document_has_the_fields_and_says_how_much_was_read() {
        let seen = seen(&[json!({"id": 1, "geo:hash": "9v6"})]);
        let made: Value =
            serde_json::from_str(&document(&seen, "Listing", "https://mirror.test", "/schema/listing.json")).unwrap();
        assert_eq!(made["$id"], "https://mirror.test/schema/listing.json");
        assert_eq!((&made["x-values"], &made["x-of"]), (&json!(1), &json!(1)));
        assert_eq!(made["properties"]["geo:hash"]["type"], "string");
    }

    #[test]
    fn programs_get_types_that_take_null_and_names_that_they_can_spell() {
        let seen = seen(&[
            json!({"id": 1, "geo:hash": "9v6", "Zip": 1, "zip": 2, "address": {"street": "x"}, "tags": ["a"], "": 1}),
            json!({"id": 2, "tags": "b"}),
        ]);
        let fields = fields(Some(&seen), false);
        assert_eq!(fields["id"], json!({"type": "integer"}), "never null");
        assert_eq!(fields["rating"], json!({"type": ["number", "null"]}), "documented, not seen");
        assert_eq!(
            fields["address"],
            json!({"oneOf": [
                {"type": "object", "properties": {"street": {"type": ["string", "null"]}}, "additionalProperties": true},
                {"type": "null"},
            ]})
        );
        let array = json!({"type": "array", "items": {"type": ["string", "null"]}});
        assert_eq!(fields["tags"], json!({"oneOf": [array, {"type": "string"}, {"type": "null"}]}));
        assert!(fields.get("geo:hash").is_none() && fields.get("").is_none(), "{fields}");
        assert!(fields.get("zip").is_some() && fields.get("Zip").is_none(), "one of them: {fields}");
    }

    #[test]
    fn names_that_fold_together_leave_the_documented_one_or_the_plain_one() {
        let value =
            json!({"@id": "x", "ID": 7, "id": 1, "Rating": 2, "$ref": "#/x", "@type": "y", "a": {"@b": 1, "b": 2}});
        let fields = fields(Some(&seen(&[value])), false);
        let names: Vec<&String> = fields.as_object().unwrap().keys().collect();
        let documented = DOCUMENTED.map(|(name, ..)| name);
        assert_eq!(
            names.iter().filter(|name| !documented.contains(&name.as_str())).collect::<Vec<_>>(),
            [&"@type", &"a"]
        );
        assert_eq!(
            (&fields["id"], &fields["rating"]),
            (&json!({"type": "integer"}), &json!({"type": ["number", "null"]}))
        );
        assert_eq!(fields["a"]["oneOf"][0]["properties"], json!({"b": {"type": ["integer", "null"]}}));
    }

    #[test]
    fn a_field_is_required_if_every_value_has_it() {
        let values = [json!({"id": 1, "name": null, "note": 1, "x:y": 1}), json!({"id": 2, "name": "x", "x:y": 1})];
        let described = |of| {
            let seen = Seen { shape: values.iter().cloned().collect(), of };
            let described = Described::of(Some(&seen), Some(&seen), &[]);
            (described.of_every_listing, described.of_every_detail)
        };
        assert_eq!(described(2), (json!(["id", "name"]), json!(["id", "name"])));
        let seen = seen(&[json!({"id": 1, "at": {"lat": 1.5, "note": null, "$ref": "#"}, "tags": ["a"]})]);
        let example = Described::of(None, Some(&seen), &[]).example;
        assert_eq!(example, Some(json!({"id": 1, "at": {"lat": 1.5, "note": null}, "tags": []})));
        assert_eq!(described(3), (json!(["id"]), json!(["id"])), "the others are not known");
        let none = Described::of(None, None, &[]);
        assert_eq!((none.of_every_listing, none.of_every_detail, none.example), (json!(["id"]), json!([]), None));
    }

    #[test]
    fn a_form_that_the_data_does_not_have_is_not_described() {
        let texts = |texts: [&str; 2]| texts.map(Arc::<str>::from).to_vec();
        let venue = json!({"$ref": "#/components/schemas/Venue"});
        let terms = json!({"type": "array", "items": {"$ref": "#/components/schemas/Term"}});
        let object = json!({"$ref": "#/components/schemas/TermSet"});
        let usual = Described::of(None, Some(&seen(&[json!({"id": 1})])), &texts(["{}", "{}"]));
        assert_eq!((&usual.detail_body, &usual.taxonomy), (&venue, &object));
        assert_eq!(usual.detail["id"], json!({"type": "integer"}));
        let odd = Described::of(None, Some(&seen(&[json!([{"id": 1}])])), &texts([" []", "[]"]));
        let in_array = json!({"anyOf": [venue, {"type": "array", "items": {}}]});
        assert_eq!((&odd.detail_body, &odd.taxonomy), (&in_array, &terms));
        let mixed = Described::of(None, Some(&seen(&[json!({"id": 1}), json!([{"id": 2}])])), &texts(["{}", "[]"]));
        assert_eq!(&mixed.detail_body, &in_array);
        assert_eq!(mixed.taxonomy, json!({"oneOf": [object, terms]}));
        let some = Described::of(None, Some(&seen(&[json!({"id": 1}), json!({"a": 2})])), &[]);
        assert_eq!((&some.detail_body, &some.taxonomy), (&venue, &object));
        assert_eq!(some.detail["id"], json!({"type": ["integer", "null"]}));
    }

    #[test]
    fn details_in_an_array_have_fields_too() {
        let seen = seen(&[json!([{"id": 1, "phone": null}])]);
        let fields = fields(Some(&seen), true);
        assert_eq!(fields["phone"], json!({}));
        assert_eq!(fields["hours"], json!({"description": "As the provider sends it."}));
    }

    #[test]
    fn a_listing_with_a_number_beyond_a_double_or_half_a_character_has_its_fields_in_the_schema() {
        let text = r#"{"id":1,"far":-1e999,"odd":"\ud800","all":[1e999],"both":{"a":1e999},"b":{"c":2}}"#;
        let read = json!({"id": 1, "far": f64::MAX, "odd": "\u{fffd}", "all": [], "both": {}, "b": {"c": 2}});
        assert_eq!(value(text.as_bytes()), Some(read));
        assert_eq!(value(b"{"), None);
    }

    #[test]
    fn a_large_snapshot_is_sampled() {
        assert_eq!([step(0), step(1), step(MOST_READ), step(MOST_READ + 1), step(1_000_000)], [1, 1, 1, 2, 20]);
    }
}
