//! `/openapi.json` and the running server: the answers match their description.

use http::Method;
use sample_origin::{Edges, Switches};
use serde_json::Value;

use super::mirrored;
use crate::client::Reply;
use crate::harness::{Server, Setup, origin_with};

/// The target of a `$ref`.
fn resolved<'v>(whole: &'v Value, value: &'v Value) -> &'v Value {
    value["$ref"].as_str().map_or(value, |to| whole.pointer(&to[1..]).unwrap())
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.replace(' ', "%20").replace('&', "%26"))
}

/// The targets of an operation's examples: with required parameters, then with each other parameter, then with all but
/// `snapshot`.
fn targets(whole: &Value, path: &str, operation: &Value) -> Vec<String> {
    let parameters = operation["parameters"].as_array().unwrap().iter().map(|one| resolved(whole, one));
    let (mut target, mut required, mut optional) = (path.to_owned(), Vec::new(), Vec::new());
    // A search needs one of several parameters, which a description cannot say; a radius needs a centre.
    let is_needed = |name: &str| match path {
        "/search.json" => ["q", "near"].contains(&name),
        "/explore" | "/explore/points.json" | "/embed" => name == "near",
        _ => path.starts_with("/dumps/") && name == "near",
    };
    for parameter in parameters {
        // An example beside a parameter would fill the viewer's form; those of optional ones are in the schema.
        let examples = [&parameter["example"], &parameter["schema"]["examples"][0]];
        let example = examples.into_iter().find(|example| !example.is_null()).map_or_else(String::new, shown);
        let name = parameter["name"].as_str().unwrap();
        match parameter["in"].as_str().unwrap() {
            "path" => target = target.replace(&format!("{{{name}}}"), &example),
            "query" if parameter["required"] == true || is_needed(name) => required.push(format!("{name}={example}")),
            "query" => optional.push(format!("{name}={example}")),
            _ => {}
        }
    }
    let with = |more: &[String]| {
        let query: Vec<&str> = required.iter().chain(more).map(String::as_str).collect();
        if query.is_empty() { target.clone() } else { format!("{target}?{}", query.join("&")) }
    };
    let mut targets = vec![with(&[])];
    targets.extend(optional.iter().map(|one| with(std::slice::from_ref(one))));
    targets.push(with(&optional));
    targets
}

/// Whether a value is of a schema's type: as much of JSON Schema as the description uses.
fn conforms(whole: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = resolved(whole, schema);
    for choice in ["oneOf", "anyOf"] {
        let Some(choices) = schema[choice].as_array() else { continue };
        let fits = |one: &&Value| std::panic::catch_unwind(|| conforms(whole, one, value, at)).is_ok();
        let fitting = choices.iter().filter(fits).count();
        assert!(fitting == 1 || (fitting > 1 && choice == "anyOf"), "{at} is {value}, and fits {fitting} of {choice}");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        _ => Vec::new(),
    };
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        other => panic!("{other} at {at}"),
    };
    assert!(kinds.is_empty() || kinds.iter().any(|kind| is(kind)), "{at} is {value}, and not of {kinds:?}");
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{at} is {value}");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at} has no {name}");
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            conforms(whole, inner, value, &format!("{at}.{name}"));
        }
    }
    for (nth, value) in value.as_array().into_iter().flatten().enumerate() {
        conforms(whole, &schema["items"], value, &format!("{at}[{nth}]"));
    }
}

/// An answer is described: its status, its media type, every field of its head, its body.
fn is_described(whole: &Value, operation: &Value, reply: &Reply, target: &str) {
    let of = &operation["responses"];
    let exact = resolved(whole, &of[reply.status.to_string()]);
    // A range of statuses counts where the status itself is not described.
    let range = resolved(whole, &of[format!("{}XX", reply.status / 100)]);
    let response = if exact.is_object() { exact } else { range };
    assert!(response.is_object(), "{target}: {} is not described", reply.status);
    for name in reply.headers.keys().map(http::HeaderName::as_str) {
        let fields = response["headers"].as_object().into_iter().flatten();
        let known = fields.map(|(name, _)| name.as_str()).any(|one| one.eq_ignore_ascii_case(name));
        let of_http = ["date", "connection", "content-type", "transfer-encoding"].contains(&name);
        assert!(known || of_http, "{target}: {} has the field {name}, which is not described", reply.status);
    }
    if let Some(kind) = reply.header("content-type") {
        let kind = kind.split(';').next().unwrap();
        let exact = &response["content"][kind];
        let media = if exact.is_object() { exact } else { &response["content"]["*/*"] };
        assert!(media.is_object(), "{target}: {kind} is not described");
        if (kind == "application/json" || kind.ends_with("+json")) && !reply.body.is_empty() {
            conforms(whole, &media["schema"], &reply.json(), target);
        }
    }
}

async fn description(server: &Server) -> Value {
    server.get("/openapi.json").await.json()
}

#[tokio::test]
async fn every_example_is_answered_as_described() {
    let (_origin, server) = mirrored(300).await;
    let whole = description(&server).await;
    let paths = whole["paths"].as_object().unwrap();
    let mut asked = 0;
    for (path, item) in paths {
        let operation = &item["get"];
        for (kind, media) in operation["responses"]["200"]["content"].as_object().unwrap() {
            if kind == "application/json" && path != "/openapi.json" {
                assert!(media["example"].is_object(), "{path} has no example");
                conforms(&whole, &media["schema"], &media["example"], path);
            }
        }
        for target in targets(&whole, path, operation) {
            let reply = server.get(&target).await;
            assert_eq!(reply.status, 200, "{target}: {}", String::from_utf8_lossy(&reply.body));
            is_described(&whole, operation, &reply, &target);
            // Probes have no conditions.
            if reply.header("etag").is_some() {
                let again = server.get_with(&target, &[("if-none-match", &reply.etag())]).await;
                assert_eq!(again.status, 304, "{target}");
                is_described(&whole, operation, &again, &target);
                let failed = server.get_with(&target, &[("if-match", "\"none\"")]).await;
                assert_eq!(failed.status, 412, "{target}");
                is_described(&whole, operation, &failed, &target);
            }
            let other = server.send(Method::POST, &target, &[]).await;
            assert_eq!(other.status, 405, "{target}");
            is_described(&whole, operation, &other, &target);
            asked += 1;
        }
    }
    assert!(asked > 25, "{asked}");
    let examples = whole["paths"]["/api/listings.json"]["get"].clone();
    let filtered =
        targets(&whole, "/api/listings.json", &examples).into_iter().find(|target| target.contains("?state="));
    assert!(server.get(&filtered.unwrap()).await.total() > 0, "examples are of this data");
}

#[tokio::test]
async fn errors_are_as_described() {
    let (_origin, server) = mirrored(60).await;
    let whole = description(&server).await;
    for (path, target, status) in [
        ("/api/listings.json", "/api/listings.json?page=0", 400),
        ("/api/listings.json", "/api/listings.json?modified_since=yesterday", 400),
        ("/api/listings.json", "/api/listings.json?snapshot=none", 410),
        ("/api/listings/{id}.json", "/api/listings/4711471147.json", 404),
        ("/api/sports.json", "/api/sports.json?snapshot=none", 410),
        ("/changes.json", "/changes.json", 400),
        ("/changes.json", "/changes.json?since=none", 410),
        ("/changes.ndjson", "/changes.ndjson?since=none", 410),
    ] {
        let reply = server.get(target).await;
        assert_eq!(reply.status, status, "{target}");
        is_described(&whole, &whole["paths"][path]["get"], &reply, target);
    }
    let limited = Setup::offline().set("rate_limit.requests_per_minute", "1").start().await;
    let whole = description(&limited).await;
    let unready = limited.get("/readyz").await;
    assert_eq!(unready.status, 503);
    is_described(&whole, &whole["paths"]["/readyz"]["get"], &unready, "/readyz");
    limited.get("/robots.txt").await;
    let refused = limited.get("/llms.txt").await;
    assert_eq!(refused.status, 429);
    is_described(&whole, &whole["paths"]["/llms.txt"]["get"], &refused, "/llms.txt");
}

/// The statuses and pages of an origin are described, too, once a mirror answers with them.
#[tokio::test]
async fn answers_in_the_origins_words_are_as_described() {
    let edges = Edges::named("html").unwrap();
    let origin = origin_with(60, Switches { edges, ..Switches::default() }).await;
    let mirror = Setup::examining(&origin).start().await;
    mirror.disproved().await;
    let whole = description(&mirror).await;
    for (path, target, status) in [
        ("/api/listings.json", "/api/listings.json?page=2.0", 400),
        ("/api/listings/{id}.json", "/api/listings/0x7.json", 404),
        ("/api/listings.json", "/api/listings.json?page=9999", 404),
        ("/api/listings/{id}.json", "/api/listings/x.json", 404),
    ] {
        let reply = mirror.get(target).await;
        let is_theirs = target.contains("2.0") || target.contains("0x7");
        let media_type = if is_theirs { "text/html; charset=utf-8" } else { "application/problem+json" };
        assert_eq!((reply.status, reply.the("content-type").as_str()), (status, media_type), "{target}");
        is_described(&whole, &whole["paths"][path]["get"], &reply, target);
    }
}

#[tokio::test]
async fn the_description_names_the_limit_and_the_credit() {
    let (_origin, server) = mirrored(60).await;
    let told = description(&server).await["info"]["description"].as_str().unwrap().to_owned();
    let attribution = server.get("/api/listings.json").await.json()["attribution"].as_str().unwrap().to_owned();
    assert!(told.contains(&attribution) && told.contains("not limited"), "{told}");
    let limited = Setup::offline().set("rate_limit.requests_per_minute", "7").start().await;
    let told = description(&limited).await["info"]["description"].as_str().unwrap().to_owned();
    assert!(told.contains("7 requests in any 60 seconds"), "{told}");
}
