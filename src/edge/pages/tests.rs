//! API description against the code: an addition to only one of them fails.

mod hostile;

use std::collections::BTreeSet;

use serde_json::Value;

use super::documents::TEMPLATE;
use super::{Material, Pages, Site, Unrendered};
use crate::api::query;
use crate::api::query::finder::FinderQuery;
use crate::api::route::{Document, DumpKind, Route, WantedDocument};
use crate::api::taxonomy::TaxonomyKind;
use crate::edge::answer::head;
use crate::protocol::coding::Coding;
use crate::protocol::problem::{Problem, ProblemKind};

fn description() -> Value {
    serde_json::from_str(TEMPLATE).unwrap()
}

fn pages(has_snapshots: bool) -> Pages {
    Pages::new(Site {
        public_url: "https://mirror.test/venues".to_owned(),
        usage: if has_snapshots { "mirror" } else { "shield" },
        has_snapshots,
        requests_per_minute: 60,
        tiles: None,
        tiles_credit: None,
    })
}

fn fixed(document: Document) -> WantedDocument {
    WantedDocument::Fixed(document)
}

fn text(pages: &Pages, wanted: &WantedDocument) -> String {
    let rendered = pages.render(wanted, Material::default()).unwrap();
    String::from_utf8(rendered.variant(Coding::Identity).1.to_vec()).unwrap()
}

fn resolved<'v>(whole: &'v Value, value: &'v Value) -> &'v Value {
    match value["$ref"].as_str() {
        Some(to) => whole.pointer(&to[1..]).unwrap_or_else(|| panic!("{to} leads nowhere")),
        None => value,
    }
}

/// The parameters of an operation in one place.
fn parameters(whole: &Value, path: &str, place: &str) -> BTreeSet<String> {
    let parameters = whole["paths"][path]["get"]["parameters"].as_array().unwrap();
    let parameters = parameters.iter().map(|parameter| resolved(whole, parameter));
    parameters.filter(|one| one["in"] == place).map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_route_is_described_and_every_path_is_a_route() {
    let whole = description();
    let described: BTreeSet<&str> = whole["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected: BTreeSet<&str> =
        ["/api/listings.json", "/api/listings/{id}.json", "/changes.json", "/changes.ndjson", "/search.json"].into();
    expected.extend(TaxonomyKind::ALL.map(TaxonomyKind::path));
    // Nobody calls the icons of the pages; assets have names of their own.
    let is_icon = |document: &Document| matches!(document, Document::FaviconSvg | Document::FaviconIco);
    expected.extend(Document::ALL.into_iter().filter(|document| !is_icon(document)).map(Document::path));
    expected.extend(["/venues/{id}", "/livez", "/readyz"]);
    expected.extend(DumpKind::ALL.map(DumpKind::path));
    for path in &expected {
        assert!(described.contains(path), "{path} is not described");
    }
    for path in &described {
        let path = path.replace("{id}", "7");
        let described = match Route::of(&path) {
            // A described route of another kind is named here.
            Route::List
            | Route::Detail(_)
            | Route::Taxonomy(_)
            | Route::Changes
            | Route::ChangeRecords
            | Route::Search
            | Route::Venue(_)
            | Route::Document(_)
            | Route::Dump(_)
            | Route::Probe(_) => true,
            Route::NoSuchListing | Route::Asset | Route::Slashed | Route::Files | Route::Unknown => false,
        };
        assert!(described, "{path} is described and is no route");
    }
}

#[test]
fn every_parameter_is_described() {
    let whole = description();
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(parameters(&whole, "/api/listings.json", "query"), named(&query::KNOWN));
    for path in ["/changes.json", "/changes.ndjson"] {
        assert_eq!(parameters(&whole, path, "query"), named(&query::KNOWN_OF_CHANGES));
    }
    assert_eq!(parameters(&whole, "/search.json", "query"), named(&query::search::KNOWN));
    for kind in TaxonomyKind::ALL {
        assert_eq!(parameters(&whole, kind.path(), "query"), named(&["snapshot"]), "{}", kind.path());
    }
    for kind in DumpKind::ALL {
        let known = query::file::KNOWN.iter().filter(|name| kind.is_table() || **name != "bom");
        let known = known.copied().collect::<Vec<_>>();
        assert_eq!(parameters(&whole, kind.path(), "query"), named(&known), "{}", kind.path());
    }
    assert_eq!(parameters(&whole, "/explore", "query"), named(&FinderQuery::KNOWN));
    let of_widget = FinderQuery::KNOWN.into_iter().chain(["theme", "title"]).collect::<Vec<_>>();
    assert_eq!(parameters(&whole, "/embed", "query"), named(&of_widget));
    let of_points = FinderQuery::KNOWN.into_iter().filter(|name| !["page", "sort"].contains(name)).chain(["view"]);
    assert_eq!(parameters(&whole, "/explore/points.json", "query"), named(&of_points.collect::<Vec<_>>()));
    for (path, operation) in whole["paths"].as_object().unwrap() {
        let placed: BTreeSet<String> =
            path.split('{').skip(1).map(|part| part.split('}').next().unwrap().into()).collect();
        assert_eq!(parameters(&whole, path, "path"), placed, "{path}");
        assert_eq!(operation.as_object().unwrap().len(), 1, "{path} has one operation");
        let is_probe = matches!(Route::of(path), Route::Probe(_));
        assert_eq!(parameters(&whole, path, "header").contains("If-None-Match"), !is_probe, "{path}");
    }
}

/// Every kind of problem: each names the next one, so that none can be forgotten.
fn problem_kinds() -> impl Iterator<Item = ProblemKind> {
    std::iter::successors(Some(ProblemKind::BadRequest), |kind| match kind {
        ProblemKind::BadRequest => Some(ProblemKind::BadParameter),
        ProblemKind::BadParameter => Some(ProblemKind::BadPath),
        ProblemKind::BadPath => Some(ProblemKind::UnexpectedBody),
        ProblemKind::UnexpectedBody => Some(ProblemKind::NotFound),
        ProblemKind::NotFound => Some(ProblemKind::MethodNotAllowed),
        ProblemKind::MethodNotAllowed => Some(ProblemKind::Gone),
        ProblemKind::Gone => Some(ProblemKind::SnapshotGone),
        ProblemKind::SnapshotGone => Some(ProblemKind::PreconditionFailed),
        ProblemKind::PreconditionFailed => Some(ProblemKind::ContentTooLarge),
        ProblemKind::ContentTooLarge => Some(ProblemKind::UriTooLong),
        ProblemKind::UriTooLong => Some(ProblemKind::UnprocessableContent),
        ProblemKind::UnprocessableContent => Some(ProblemKind::RateLimited),
        ProblemKind::RateLimited => Some(ProblemKind::HeadersTooLarge),
        ProblemKind::HeadersTooLarge => Some(ProblemKind::Internal),
        ProblemKind::Internal => Some(ProblemKind::BadOriginAnswer),
        ProblemKind::BadOriginAnswer => Some(ProblemKind::Unavailable),
        ProblemKind::Unavailable => Some(ProblemKind::DumpUnavailable),
        ProblemKind::DumpUnavailable => Some(ProblemKind::TooManyConnections),
        ProblemKind::TooManyConnections => Some(ProblemKind::SnapshotUnavailable),
        ProblemKind::SnapshotUnavailable => Some(ProblemKind::OnlyIfCached),
        ProblemKind::OnlyIfCached => Some(ProblemKind::LoopDetected),
        ProblemKind::LoopDetected => None,
    })
}

#[test]
fn every_problem_is_described_with_its_status_and_title() {
    let whole = description();
    let types = whole.pointer("/components/schemas/Problem/properties/type/enum").unwrap().as_array().unwrap();
    for kind in problem_kinds() {
        let (name, status) = (kind.as_str(), kind.status().as_u16());
        let document: Value = serde_json::from_slice(&Problem::new(kind, "why".to_owned()).to_json()).unwrap();
        assert!(types.contains(&document["type"]), "the type of {name} is not described");
        let pointer = format!("/components/responses/{status}/content/application~1problem+json/examples/{name}/value");
        let example = whole.pointer(&pointer).unwrap_or_else(|| panic!("{name} is not described at {status}"));
        for field in ["type", "title", "status"] {
            assert_eq!(example[field], document[field], "{field} of {name}");
        }
    }
}

/// A generated client reads the first media type only, whatever the answer's is. As text it can read every body.
#[test]
fn an_error_that_can_be_the_origins_own_is_described_as_text_first() {
    let whole = description();
    for (path, item) in whole["paths"].as_object().unwrap() {
        let route = Route::of(&path.replace("{id}", "7"));
        let is_the_origins = matches!(route, Route::List | Route::Detail(_) | Route::Taxonomy(_));
        let responses = item["get"]["responses"].as_object().unwrap();
        for (status, response) in responses.iter().filter(|(status, _)| status.starts_with('4') && *status != "429") {
            let content = &resolved(&whole, response)["content"];
            let is_open = content["text/html"]["schema"]["type"] == "string" && content["*/*"].is_object();
            assert_eq!(is_open, is_the_origins, "{path} {status}");
        }
        assert_eq!(responses.contains_key("4XX"), is_the_origins, "{path}: statuses that only the origin has");
        assert!(responses.contains_key("404") || !is_the_origins, "{path}");
    }
    // The parsed description has forgotten the order.
    let contents = TEMPLATE.split("\"content\": {").skip(1).filter(|content| content.contains("\"*/*\""));
    let first: Vec<&str> = contents.map(|content| content.split('"').nth(1).unwrap()).collect();
    assert_eq!(first, ["text/html"; 4]);
}

#[test]
fn every_header_field_is_described() {
    let whole = description();
    let described = whole["components"]["headers"].as_object().unwrap();
    for name in head::names() {
        // In OpenAPI the media types describe `Content-Type`.
        let known = name == "content-type" || described.keys().any(|one| one.eq_ignore_ascii_case(name));
        assert!(known, "{name} is not described");
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_part_is_used() {
    fn references<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let whole: Value = serde_json::from_str(&text(&pages(true), &fixed(Document::OpenApi))).unwrap();
    let mut found = BTreeSet::new();
    references(&whole, &mut found);
    for to in &found {
        assert!(whole.pointer(&to[1..]).is_some(), "{to} leads nowhere");
    }
    for kind in ["parameters", "schemas"] {
        for name in whole["components"][kind].as_object().unwrap().keys() {
            assert!(found.contains(format!("#/components/{kind}/{name}").as_str()), "{kind}/{name} is not used");
        }
    }
}

#[test]
fn no_place_is_left_without_a_value() {
    let text = text(&pages(true), &fixed(Document::OpenApi));
    let described: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(described["openapi"], "3.1.0");
    let names = TEMPLATE.split('<').skip(1).map(|rest| rest.split('>').next().unwrap());
    let names: BTreeSet<&str> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(!text.contains(&format!("<{name}>")), "{name} has no value");
    }
    assert_eq!(described.pointer("/servers/0/url"), Some(&"https://mirror.test/venues".into()));
    assert_eq!(described.pointer("/components/parameters/id/example"), Some(&1.into()));
}

#[test]
fn a_shield_describes_what_it_has() {
    let [mirror, shield] = [true, false].map(pages);
    let described: Value = serde_json::from_str(&text(&shield, &fixed(Document::OpenApi))).unwrap();
    let paths: Vec<&String> = described["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 11, "{paths:?}");
    assert!(paths.iter().any(|path| *path == "/api/listings/{id}.json"), "{paths:?}");
    let docs = text(&shield, &fixed(Document::Docs));
    for missing in ["/search.json", "/dumps/", "/venues/{id}", "/changes.json"] {
        assert!(!docs.contains(missing), "{missing}");
        assert!(text(&mirror, &fixed(Document::Docs)).contains(missing), "{missing}");
    }
    assert!(docs.contains("/api/sports.json"));
}

#[test]
fn documents_that_show_data_wait_for_it_and_others_do_not() {
    for has_snapshots in [true, false] {
        let pages = pages(has_snapshots);
        for document in Document::ALL {
            let rendered = pages.render(&fixed(document), Material::default());
            let waits = matches!(
                document,
                Document::Explore
                    | Document::Points
                    | Document::Embed
                    | Document::Llms
                    | Document::ListingSchema
                    | Document::DetailSchema
            );
            assert_eq!(rendered.is_err(), waits, "{document:?}");
            assert!(!waits || rendered.is_err_and(|why| why == Unrendered::NoSnapshot), "{document:?}");
        }
    }
}

#[test]
fn pages_link_relatively_and_load_nothing_from_elsewhere() {
    let pages = pages(true);
    for document in [Document::Front, Document::Docs] {
        let text = text(&pages, &fixed(document));
        for attribute in ["href=\"", "src=\"", "action=\""] {
            for target in text.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap()) {
                assert!(!target.starts_with('/'), "{target} does not work behind a path");
                let leaves = target.contains("://");
                assert!(!leaves || (attribute == "href=\"" && target.contains("creativecommons")), "{target}");
            }
        }
        assert!(!text.contains("style="), "styles in the page are forbidden by its policy");
        assert!(!text.contains("<script>") && !text.contains(" onclick"), "and so are scripts in it: {document:?}");
    }
}

#[test]
fn what_the_data_says_is_text_on_a_page() {
    let shown = super::layout::example("shell", "<b>", "</pre><script>alert(1)</script>").into_string();
    assert!(shown.contains("&lt;script&gt;") && !shown.contains("<script>"), "{shown}");
}

#[test]
fn crawlers_are_kept_from_what_has_no_end() {
    let robots = text(&pages(true), &fixed(Document::Robots));
    for endless in ["explore?", "explore/", "embed?", "search.json?", "changes."] {
        assert!(robots.contains(&format!("Disallow: /venues/{endless}\n")), "{robots}");
    }
    assert!(!robots.contains("dumps"), "/llms.txt recommends the files: {robots}");
}
