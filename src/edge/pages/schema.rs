//! Schemas of listings and details: `/schema/listing.json`, `/schema/detail.json`, and the same in `/openapi.json`.
//!
//! They are read from the snapshot's data, because the provider documents few of them. Callers: [`super::Pages::render`],
//! [`super::documents`].

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::listing::ListingId;
use crate::api::schema::{SchemaFor, ValueShape};
use crate::data::details::Details;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;

use super::Last;

/// The most listings, and the most details, that are read for a schema.
const MOST_READ: usize = 50_000;
/// How many details are read at once.
const AT_ONCE: usize = 1_000;

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
            Seen { shape: some.map(|summary| &summary.raw).collect(), of: all.len() }.into()
        })
    }

    /// The shape of the details that are mirrored. Blocks.
    pub(super) fn of_details(&self, dataset: &Dataset, details: &Details) -> Arc<Seen> {
        self.details.get_or_make((dataset.id.clone(), details.revision()), || {
            let all = &dataset.content.summaries;
            let ids: Vec<ListingId> = all.iter().step_by(step(all.len())).map(|summary| summary.id).collect();
            // An unreadable detail is missing here; the store says so where details are served.
            let bodies = ids.chunks(AT_ONCE).flat_map(|ids| details.bodies(ids)).filter_map(|body| body.ok().flatten());
            Seen { shape: bodies.collect(), of: all.len() }.into()
        })
    }
}

/// So that at most [`MOST_READ`] of so many are read.
fn step(all: usize) -> usize {
    all.div_ceil(MOST_READ).max(1)
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
    let mut whole = seen.shape.schema(SchemaFor::Readers);
    whole.extend(head.as_object().cloned().unwrap_or_default());
    format!("{:#}\n", Value::Object(whole))
}

/// What `/openapi.json` says of the data. Clients made of it get no type for a form that the data does not have.
pub(super) struct Described {
    /// The fields of a listing, and those of a detail.
    pub listing: Value,
    pub detail: Value,
    /// A detail: the object, or an array that holds it.
    pub detail_body: Value,
    /// The terms of a kind: an object that holds them, or an array.
    pub taxonomy: Value,
}

impl Described {
    /// `taxonomies`: the texts of all kinds.
    pub(super) fn of(listings: Option<&Seen>, details: Option<&Seen>, taxonomies: &[Arc<str>]) -> Self {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let is_array = |text: &Arc<str>| text.trim_start().starts_with('[');
        let (arrays, all) = (taxonomies.iter().filter(|text| is_array(text)).count(), taxonomies.len());
        let terms = json!({"type": "array", "items": reference("Term")});
        Self {
            listing: fields(listings, false),
            detail: fields(details, true),
            detail_body: if details.is_some_and(|seen| seen.shape.has_arrays()) {
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

/// The fields of a listing or, with `of_detail`, of a detail: those that are documented, and those that are seen.
/// Any but an id that all have may be null, so that programs made of it get along with other data.
fn fields(seen: Option<&Seen>, of_detail: bool) -> Value {
    let of_details = OF_DETAILS.iter().filter(|_| of_detail).map(|(name, _)| *name);
    let documented: Vec<&str> = DOCUMENTED.iter().map(|(name, ..)| *name).chain(of_details).collect();
    let mut fields = seen.map(|seen| seen.shape.typed_fields(&documented)).unwrap_or_default();
    // The mirror takes no list in which it is missing or something else.
    if !of_detail || seen.is_some_and(|seen| seen.shape.has_integer("id")) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(values: &[Value]) -> Seen {
        Seen { shape: values.iter().map(Value::to_string).collect(), of: values.len() }
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
    fn a_large_snapshot_is_sampled() {
        assert_eq!([step(0), step(1), step(MOST_READ), step(MOST_READ + 1), step(1_000_000)], [1, 1, 1, 2, 20]);
    }
}
