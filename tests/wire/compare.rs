//! Whether the mirror's answer is the origin's: to the byte where the origin's text is stored, by value where the
//! mirror computes it.
//!
//! Has its own JSON reader where spelling matters. Callers: `crawl`, `dialects`, `refresh` and `crash`.

use std::fmt;

use sample_origin::Origin;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::harness::{PUBLIC, Server};

/// Fields whose value means nothing.
const VOLATILE: [&str; 2] = ["generated_at", "request_id"];

/// The fields of an object in order, their values as text.
#[derive(Debug)]
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

fn fields(text: &str) -> Vec<(String, Box<RawValue>)> {
    serde_json::from_str::<Fields>(text).unwrap_or_else(|error| panic!("{error} in {text}")).0
}

/// Asserts that two lists are equal: the items to the byte, all other fields by place, name and value.
#[track_caller]
pub fn same_list(ours: &str, origins: &str, what: &str) {
    let (ours, mut origins) = (fields(ours), fields(origins));
    if ours.iter().all(|field| field.0 != "request_id") {
        // A field that differs between the pages of one crawl may be left out, if it is reported: see `dialects`.
        origins.retain(|field| field.0 != "request_id");
    }
    let names = |fields: &[(String, Box<RawValue>)]| fields.iter().map(|field| field.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&origins), "{what}: fields");
    for ((name, our), (_, origin)) in ours.iter().zip(&origins) {
        match name.as_str() {
            name if VOLATILE.contains(&name) => {}
            "items" => same_items(our.get(), origin.get(), what),
            "filters" => {
                let [our, origin] = [our, origin].map(|text| serde_json::from_str::<Value>(text.get()).unwrap());
                assert_eq!(our, origin, "{what}: filters");
            }
            _ => assert_eq!(our.get(), origin.get(), "{what}: {name}"),
        }
    }
}

#[track_caller]
fn same_items(ours: &str, origins: &str, what: &str) {
    let [ours, origins] = [ours, origins].map(|text| serde_json::from_str::<Vec<Box<RawValue>>>(text).unwrap());
    let id = |item: &RawValue| serde_json::from_str::<Value>(item.get()).unwrap()["id"].clone();
    let ids = |items: &[Box<RawValue>]| items.iter().map(|item| id(item)).collect::<Vec<_>>();
    assert_eq!(ids(&ours), ids(&origins), "{what}: ids");
    for (our, origin) in ours.iter().zip(&origins) {
        assert_eq!(our.get(), origin.get(), "{what}: an item");
    }
}

/// Asserts that the server's answer to a list query is the origin's.
pub async fn list_is_the_origins(server: &Server, origin: &Origin, target: &str) {
    let ours = server.ok(target).await;
    let (status, text) = origin.expected_text(target);
    assert_eq!(status, 200, "{target}");
    same_list(ours.text(), &text, target);
    assert!(ours.header("mirror-snapshot").is_some(), "{target} is not answered from the snapshot");
}

/// Asserts that the server's detail is the origin's to the byte, but for volatile fields.
pub async fn detail_is_the_origins(server: &Server, origin: &Origin, id: u64) {
    let target = format!("/api/listings/{id}.json");
    let ours = server.ok(&target).await;
    let blank = |text: &str| replace(text, &VOLATILE, |_| String::new());
    assert_eq!(blank(ours.text()), blank(&origin.expected_text(&target).1), "{target}");
}

/// Asserts that a taxonomy is the origin's to the byte, but for volatile fields and the addresses, which lead here.
pub async fn taxonomy_is_the_origins(server: &Server, origin: &Origin, name: &str, public_url: &str) {
    let target = format!("/api/{name}.json");
    let ours = server.ok(&target).await;
    let blank = |text: &str| replace(text, &VOLATILE, |_| String::new());
    let here = |url: &str| match url.find("listings.json?") {
        Some(at) => format!("{public_url}/api/{}", &url[at..]),
        None => url.to_owned(),
    };
    // Both with the addresses spelled in one way.
    let ours = replace(&blank(ours.text()), &["api_url"], str::to_owned);
    let origins = replace(&blank(&origin.expected_text(&target).1), &["api_url"], here);
    assert_eq!(ours, origins, "{target}");
    assert!(ours.contains(&format!("{public_url}/api/listings.json?")), "{target} leads elsewhere");
}

/// Asserts the same of all taxonomies.
pub async fn taxonomies_are_the_origins(server: &Server, origin: &Origin) {
    for name in ["sports", "states", "cities"] {
        taxonomy_is_the_origins(server, origin, name, PUBLIC).await;
    }
}

/// All slugs of a taxonomy, whatever its shape.
pub fn slugs(origin: &Origin, name: &str) -> Vec<String> {
    fn collect(value: &Value, slugs: &mut Vec<String>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| collect(value, slugs)),
            Value::Object(fields) => {
                slugs.extend(fields.get("slug").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| collect(value, slugs));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(&origin.expected(&format!("/api/{name}.json")).1, &mut found);
    assert!(!found.is_empty());
    found
}

/// Replaces the string value of each of these keys, and nothing else.
fn replace(text: &str, keys: &[&str], with: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let end = start + string_length(&rest[start..]);
        out.push_str(&rest[..end]);
        let key: String = serde_json::from_str(&rest[start..end]).unwrap();
        rest = &rest[end..];
        let is_key = rest.trim_start().starts_with(':');
        if !is_key || !keys.contains(&key.as_str()) {
            continue;
        }
        let Some(value) = rest.find('"').filter(|at| rest[..*at].chars().all(|c| c == ':' || c.is_whitespace())) else {
            continue;
        };
        let end = value + string_length(&rest[value..]);
        let decoded: String = serde_json::from_str(&rest[value..end]).unwrap();
        out.push_str(&rest[..value]);
        out.push_str(&serde_json::to_string(&with(&decoded)).unwrap());
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Length of the JSON string at the start of the text, quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    panic!("a string without end in {text}");
}

#[test]
fn values_are_replaced_by_key_alone() {
    let text = r#"{"a":"x\"","b" : "http:\/\/o\/api\/y","api_url":"b","list":[{"a": "b"}],"generated_at":null}"#;
    let replaced = replace(text, &["b", "generated_at"], |value| value.replace("http://o", ""));
    assert_eq!(replaced, text.replace(r"http:\/\/o\/api\/y", "/api/y"));
}
