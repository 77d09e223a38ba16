//! Reference page of the API: every operation of the description, with its parameters and answers.
//!
//! It needs no script; the form that sends requests is loaded when somebody asks for it. Callers: [`super::Pages::render`].

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::Pages;
use super::layout::{self, NavigationItem};

/// The schemas that have a section of their own, with its title.
const SCHEMAS: [(&str, &str); 2] = [("Listing", "Fields of a listing"), ("Venue", "Fields of one venue in full")];

pub(super) fn page(pages: &Pages, described: &str) -> String {
    let whole: Value = serde_json::from_str(described).unwrap_or_default();
    let groups = whole["tags"].as_array().into_iter().flatten().map(|group| text(&group["name"]));
    let groups = groups.map(|group| (group, operations(&whole, described, group)));
    let groups: Vec<_> = groups.filter(|(_, operations)| !operations.is_empty()).collect();
    let main = html! {
        h1 { "API" }
        @for paragraph in text(&whole["info"]["description"]).split("\n\n") { p { (prose(paragraph)) } }
        p .actions {
            a .button href="openapi.json" { "openapi.json" }
            button #try .quiet type="button" hidden
                data-css=(pages.assets.link("swagger-ui.css")) data-js=(pages.assets.link("swagger-ui-bundle.js")) { "Try requests" }
            span #said .small role="status" {}
        }
        nav .actions aria-label="Operations" { @for (path, operation) in groups.iter().flat_map(|(_, all)| all) { a href={ "#" (text(&operation["operationId"])) } { code { (path) } } } }
        @for (group, operations) in groups {
            section {
                h2 { (group) }
                @for (path, operation) in operations { (described_operation(&whole, path, operation)) }
            }
        }
        @for (schema, title) in SCHEMAS { (fields(&whole, schema, title)) }
    };
    layout::viewer(pages, NavigationItem::Docs, &main)
}

/// A text of the description; empty if it has none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The operations of a group, in the order of the description.
fn operations<'w>(whole: &'w Value, described: &str, group: &str) -> Vec<(&'w str, &'w Value)> {
    let paths = whole["paths"].as_object().into_iter().flatten().map(|(path, item)| (path.as_str(), &item["get"]));
    let mut all: Vec<_> = paths.filter(|(_, operation)| operation["tags"][0] == group).collect();
    all.sort_by_cached_key(|(path, _)| described.find(&format!("\"{path}\": {{")));
    all
}

/// The fields that objects of a schema have, each with its types and an example.
fn fields(whole: &Value, schema: &str, title: &str) -> Markup {
    let all = whole["components"]["schemas"][schema]["properties"].as_object();
    let types = |field: &Value| match &field["type"] {
        Value::Array(types) => types.iter().map(text).collect::<Vec<_>>().join(" or "),
        one => text(one).to_owned(),
    };
    html! {
        @if let Some(all) = all.filter(|all| !all.is_empty()) {
            section {
                h2 { (title) }
                dl .facts {
                    @for (name, field) in all {
                        dt { code { (name) } }
                        dd { (types(field)) (prose(text(&field["description"]))) (example(field)) }
                    }
                }
            }
        }
    }
}

/// The target of a `$ref`, or the value itself.
fn resolved<'w>(whole: &'w Value, value: &'w Value) -> &'w Value {
    let target = value["$ref"].as_str().and_then(|to| whole.pointer(to.trim_start_matches('#')));
    target.unwrap_or(value)
}

fn described_operation(whole: &Value, path: &str, operation: &Value) -> Markup {
    let parameters = operation["parameters"].as_array().into_iter().flatten().map(|one| resolved(whole, one));
    let parameters: Vec<&Value> = parameters.filter(|one| one["in"] != "header").collect();
    html! {
        section .operation id=(text(&operation["operationId"])) {
            h3 { code { "GET " (path) } }
            p { strong { (text(&operation["summary"])) ". " } (prose(text(&operation["description"]))) }
            @if !parameters.is_empty() {
                dl .facts {
                    @for one in parameters {
                        dt { code { (text(&one["name"])) } @if one["required"] == true { " (required)" } }
                        dd { (prose(text(&one["description"]))) (values(&one["schema"])) (example(one)) }
                    }
                }
            }
            @if let Some(responses) = operation["responses"].as_object() { (answers(whole, responses)) }
        }
    }
}

/// The values that there are, and what holds without the parameter.
fn values(schema: &Value) -> Markup {
    html! {
        @if let Some(all) = schema["enum"].as_array() {
            " Values: "
            @for (nth, one) in all.iter().enumerate() { @if nth > 0 { ", " } code { (text(one)) } }
            "."
        }
        @if !schema["default"].is_null() { " Without it: " code { (schema["default"]) } "." }
    }
}

/// ` Example: x`, where a parameter or a field has one.
fn example(of: &Value) -> Markup {
    let given = [&of["example"], &of["examples"][0], &of["schema"]["examples"][0]];
    let given = given.into_iter().find(|one| !one.is_null());
    let shown = given.map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned));
    html! { @if let Some(shown) = shown { " Example: " code { (shown) } "." } }
}

fn answers(whole: &Value, responses: &Map<String, Value>) -> Markup {
    html! {
        details {
            summary { "Answers: " (responses.keys().map(String::as_str).collect::<Vec<_>>().join(", ")) }
            dl .facts {
                @for (status, response) in responses {
                    dt { (status) }
                    dd { (prose(text(&resolved(whole, response)["description"]))) }
                }
            }
        }
    }
}

/// Text with code between backticks, and nothing else of Markdown but bold words.
fn prose(text: &str) -> Markup {
    html! {
        @for (nth, part) in text.split('`').enumerate() {
            @if nth % 2 == 1 {
                code { (part) }
            } @else {
                @for (nth, part) in part.split("**").enumerate() { @if nth % 2 == 1 { strong { (part) } } @else { (part) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_bold_words_are_marked_and_all_else_is_text() {
        assert_eq!(
            prose("**Ask** with `q=<b>`, a*b").into_string(),
            "<strong>Ask</strong> with <code>q=&lt;b&gt;</code>, a*b"
        );
    }
}
