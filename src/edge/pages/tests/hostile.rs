//! Hostile data: texts and lists without end in any place, on every page.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::json::quote;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::api::query::finder::FinderForm;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::data::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::edge::pages::DetailShown;

/// The most bytes of any page.
const MOST: usize = 1 << 20;

/// Takes six times its bytes in HTML, and has what HTML forbids.
fn endless() -> String {
    format!("start\0\u{1b}\u{ffff}{}", "\"<&".repeat(10_000))
}

/// Listings, terms and an envelope whose texts have no end.
fn published() -> Arc<Snapshot> {
    let text = quote(&endless());
    let raw = |id: u64| {
        format!(
            r#"{{"id":{id},"name":{text},"url":"https://x.example/{}","city":{text},"state":"Texas","sport":"s{id}","lat":3{}.5,"lng":-97.5,"rating":1e308,{text}:1e999}}"#,
            "x".repeat(10_000),
            id % 9
        )
    };
    let summary = |id: u64| {
        let raw = Bytes::from(raw(id));
        Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
    };
    let terms = |prefix: &str, most: usize, label: &str| {
        let term = |at: usize| format!(r#"{{"slug":"{prefix}{at}","name":{label},"count":1}}"#);
        let mut terms: Vec<String> = (0..most).map(term).collect();
        terms.push(format!(r#"{{"slug":{text},"name":"Texas","count":60}}"#));
        Arc::from(format!("[{}]", terms.join(",")))
    };
    let carried = |(key, value): (&str, &str)| EnvelopeField::Carried { key: key.to_owned(), value: value.to_owned() };
    let words = quote(&"words ".repeat(100_000));
    let mut fields: Vec<EnvelopeField> = [("license", &*text), ("attribution", &*words)].map(carried).into();
    fields.push(EnvelopeField::Items);
    let content = Content {
        envelope: Envelope { fields, empty_filters: "[]".into(), ..Envelope::default() },
        taxonomies: [terms("s", 100, &text), terms("t", 8_000, "\"Dallas\""), terms("c", 8_000, "\"Dallas\"")],
        summaries: (1..=60).map(summary).collect(),
    };
    let dataset = Arc::new(Dataset::build(content, &Evidence::new()).unwrap());
    let current = SnapshotPointer::default();
    current.swap(dataset, SnapshotMeta::full(1), 1);
    current.get().unwrap()
}

/// Clients choose any number of names.
#[test]
fn the_names_of_cities_are_made_plain_once_for_all_queries() {
    let (pages, published) = (super::pages(true), published());
    let settle = |number: u32| {
        let mut query = FinderQuery::parse(&format!("city=nowhere{number}"), FinderForm::Page);
        assert!(Pages::is_open(&published, &query));
        let began = Instant::now();
        pages.settle(&published, &mut query);
        began.elapsed()
    };
    let first = settle(0);
    let next = (1..10).map(settle).min().unwrap();
    assert!(next * 8 < first, "{first:?}, then {next:?}");
}

/// Details with thousands of values: one name, which the list's envelope has as well, and each place of a page.
fn details() -> Vec<DetailShown> {
    let (text, mut of_all) = (quote(&"\"<&".repeat(1_000)), String::from("{"));
    for key in ["address", "hours", "phone", "website", "images", "rating", "reviews", "other", "deep"] {
        let value = match key {
            "deep" => format!("{}{text}{}", "[".repeat(60), "]".repeat(60)),
            "images" => format!("[{}]", vec!["\"https://x.example/?a&b&c\""; 200].join(",")),
            "hours" | "address" => format!("{{{}}}", vec![format!("{text}:{text}"); 9].join(",")),
            _ => format!("[{}]", [text.as_str(); 12].join(",")),
        };
        write!(of_all, "\"{key}\":{value},").unwrap();
    }
    let repeated = |key: &str, value: &str| format!("{{{}}}", vec![format!("\"{key}\":{value}"); 2_900].join(","));
    let keys = [
        ("attribution", "\"words\""),
        ("name", "1"),
        ("hours", "[1]"),
        ("a", "{\"b\":1e999}"),
        ("logo", "\"\\u0000x\""),
    ];
    let mut texts: Vec<String> = keys.map(|(key, value)| repeated(key, value)).into();
    texts.push(of_all + "\"end\":0}");
    texts.push(format!("{{\"a\":\"{}\"}}", " ".repeat(MOST - 100)));
    let mirrored = texts.into_iter().map(|text| DetailShown::Mirrored(text.into()));
    mirrored.chain([DetailShown::Missing, DetailShown::Gone]).collect()
}

fn assert_bounded(pages: &Pages, wanted: &WantedDocument, of: Material<'_>) -> String {
    let rendered = pages.render(wanted, of).unwrap();
    let text = String::from_utf8(rendered.variant(Coding::Identity).1.to_vec()).unwrap();
    assert!(text.len() <= MOST, "{wanted:?}: {} bytes", text.len());
    let is_forbidden = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{ffff}';
    assert!(!text.starts_with('<') || !text.contains(is_forbidden), "{wanted:?}");
    text
}

#[test]
fn no_page_is_larger_than_a_mebibyte_or_has_what_html_forbids() {
    let (pages, published) = (pages(true), published());
    let of = Material { published: Some(&published), ..Material::default() };
    for document in Document::ALL {
        // What needs details, or a query, comes below.
        let is_image = matches!(document, Document::FaviconIco);
        if !is_image
            && !matches!(document, Document::DetailSchema | Document::Explore | Document::Points | Document::Embed)
        {
            assert_bounded(&pages, &fixed(document), of);
        }
    }
    let long = "%22".repeat(500);
    for query in ["", "page=2", "state=t7", "city=c7&sort=name", &format!("city={long}&state=dal{long}&sport=x%00")] {
        for is_embedded in [false, true] {
            let query = FinderQuery::parse(query, if is_embedded { FinderForm::Widget } else { FinderForm::Page });
            let page = assert_bounded(&pages, &WantedDocument::Explore(Box::new(query.clone())), of);
            let rows = page.matches("href=\"venues/").count();
            let listed = usize::try_from(query.search.list.page).map_or(0, |page| [0, 50, 10][page]);
            let is_filtered = query.search.list.is_filtered();
            assert!(is_filtered || is_embedded || rows == listed, "{rows} of {listed} venues");
            assert!(rows == 0 || (page.contains(">start\u{fffd}") && page.contains("…")), "cut names");
        }
    }
    let points = FinderQuery::parse_points("view=-107,26,-94,37");
    let points = assert_bounded(&pages, &WantedDocument::Explore(Box::new(points)), of);
    let points: Value = serde_json::from_str(&points).unwrap();
    assert_eq!((&points["whole"], points["points"].as_array().unwrap().len()), (&true.into(), 60));
    for detail in details() {
        let of = Material { detail: Some(&detail), ..of };
        let page = assert_bounded(&pages, &WantedDocument::Venue(ListingId(1)), of);
        assert!(page.contains("application/ld+json") && page.ends_with("</html>"), "{page}");
    }
}
