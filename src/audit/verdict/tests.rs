//! Which differences count.

use http::{HeaderMap, HeaderValue, header};

use super::*;
use crate::api::links;

const PAGE: &str = r#"{"page":1,"total":1,"items":[{"id":1}]}"#;

fn theirs(status: u16, text: &str) -> Theirs {
    let media_type = Some("application/json; charset=utf-8".to_owned());
    let links = Links::default();
    let text = text.to_owned();
    Theirs { status, is_head: false, media_type, is_private: false, links, allow: None, text, at_ms: 1_000 }
}

fn body(text: &str, at_ms: i64) -> Ours {
    Ours::Body { text: text.to_owned(), links: Links::default(), at_ms }
}

fn word(kind: Kind, ours: &Ours, theirs: &Theirs) -> &'static str {
    match judge(kind, ours, theirs, &VolatileKeys::default()) {
        Ok(Verdict::Settled(outcome)) => outcome.as_str(),
        Ok(Verdict::Differs(_)) => "differs",
        Err(_) => "not-answered",
    }
}

#[test]
fn what_the_contract_fixes_is_no_difference() {
    let ours = |text: &str| body(text, 1_000);
    let none = r#"{"page":9,"total":1,"items":[]}"#;
    for (kind, mirror, origin, expected) in [
        (Kind::Page, ours(PAGE), theirs(200, PAGE), "equal"),
        (Kind::Page, ours(PAGE), theirs(200, none), "differs"),
        (Kind::Page, ours(PAGE), theirs(404, ""), "differs"),
        (Kind::Page, ours(PAGE), theirs(400, ""), "differs"),
        (Kind::Page, ours(PAGE), theirs(200, "<html>"), "not-answered"),
        (Kind::Page, Ours::ReadThrough, theirs(200, PAGE), "read-through"),
        // Beyond the last page: an answer of ours, but for the total.
        (Kind::BeyondLast, ours(none), theirs(200, none), "equal"),
        (Kind::BeyondLast, ours(none), theirs(404, ""), "by-contract"),
        (Kind::BeyondLast, ours(none), theirs(400, ""), "by-contract"),
        (Kind::BeyondLast, ours(none), theirs(200, PAGE), "by-contract"),
        (Kind::BeyondLast, ours(none), theirs(200, &none.replace(r#"total":1"#, r#"total":2"#)), "differs"),
        // An unknown slug: nothing is found.
        (Kind::UnknownSlug, ours(none), theirs(200, PAGE), "by-contract"),
        (Kind::UnknownSlug, ours(none), theirs(404, ""), "by-contract"),
        // Filters that exclude each other.
        (Kind::Elsewhere, ours(none), theirs(200, PAGE), "by-contract"),
        (Kind::Elsewhere, ours(none), theirs(404, ""), "by-contract"),
        (Kind::Elsewhere, ours(none), theirs(200, none), "equal"),
        // An unknown listing.
        (Kind::UnknownListing, Ours::Missing(1_000), theirs(404, ""), "equal"),
        (Kind::UnknownListing, Ours::Missing(1_000), theirs(410, ""), "equal"),
        (Kind::UnknownListing, Ours::Missing(1_000), theirs(400, ""), "by-contract"),
        (Kind::UnknownListing, Ours::Missing(1_000), theirs(200, "{}"), "differs"),
        // A detail.
        (Kind::Detail, ours("{}"), theirs(200, "{}"), "equal"),
        (Kind::Detail, ours("{}"), theirs(200, r#"{"a":1}"#), "differs"),
        (Kind::Detail, ours("{}"), theirs(404, ""), "differs"),
        (Kind::Detail, Ours::Missing(1_000), theirs(404, ""), "equal"),
    ] {
        assert_eq!(word(kind, &mirror, &origin), expected, "{kind:?} {} {}", origin.status, origin.text);
    }
}

#[test]
fn an_older_copy_proves_nothing_unless_it_is_equal() {
    let ours = body(PAGE, 1_001);
    assert_eq!(word(Kind::Page, &ours, &theirs(200, PAGE)), "equal");
    assert_eq!(word(Kind::Page, &ours, &theirs(200, r#"{"page":1,"total":2,"items":[]}"#)), "not-answered");
}

#[test]
fn what_was_learned_is_compared_to_the_byte() {
    let ours = |status, media_type: &str, text: &str| Ours::Learned {
        status,
        media_type: Some(media_type.to_owned()),
        text: text.to_owned(),
    };
    let json = "application/json; charset=utf-8";
    for (ours, expected) in [
        (ours(404, json, "{}"), "equal"),
        (ours(400, json, "{}"), "differs"),
        (ours(404, "text/html", "{}"), "differs"),
        (ours(404, json, "{ }"), "differs"),
        (Ours::Own, "by-contract"),
    ] {
        assert_eq!(word(Kind::Odd, &ours, &theirs(404, "{}")), expected);
    }
}

#[test]
fn of_an_answer_to_head_only_status_and_headers_are_compared() {
    let json = "application/json; charset=utf-8";
    let learned = |status| Ours::Learned { status, media_type: Some(json.to_owned()), text: "{}".to_owned() };
    let head = |status| Theirs { is_head: true, ..theirs(status, "") };
    let html = Theirs { media_type: Some("text/html".to_owned()), ..head(404) };
    for (ours, theirs, expected) in [
        (learned(404), head(404), "equal"),
        (learned(404), head(400), "differs"),
        (learned(404), html, "differs"),
        (body(PAGE, 1_000), head(200), "equal"),
        (body(PAGE, 1_000), Theirs { is_private: true, ..head(200) }, "equal"),
        (body(PAGE, 1_000), head(405), "differs"),
    ] {
        assert_eq!(word(Kind::Odd, &ours, &theirs), expected, "{}", theirs.status);
    }
}

#[test]
fn headers_that_clients_act_on_are_compared() {
    let ours = body(PAGE, 1_000);
    let with = |media_type: Option<&str>, is_private| Theirs {
        media_type: media_type.map(str::to_owned),
        is_private,
        ..theirs(200, PAGE)
    };
    for (theirs, expected) in [
        (with(Some("application/json"), false), "equal"),
        (with(Some("Application/JSON ;charset=utf-8"), false), "equal"),
        (with(None, false), "equal"),
        (with(Some("application/ld+json"), false), "differs"),
        // Ours is fixed by contract.
        (with(Some("application/json"), true), "equal"),
    ] {
        assert_eq!(word(Kind::Page, &ours, &theirs), expected, "{:?}", theirs.media_type);
    }
}

#[test]
fn what_the_origin_does_its_own_way_on_every_answer_is_a_property() {
    let since = |text: &str| format!(r#"{{"filters":{{"modified_since":"{text}"}},"total":0,"items":[]}}"#);
    let (asked, echoed) = (since("2025-06-01"), since("2025-06-01T00:00:00Z"));
    let private = |status, text: &str| Theirs { is_private: true, ..theirs(status, text) };
    for (origin, words) in [
        (theirs(200, &asked), &[][..]),
        (theirs(200, &echoed), &["modified_since"]),
        (private(200, &asked), &["Cache-Control"]),
        (private(200, &echoed), &["Cache-Control", "modified_since"]),
        (private(404, ""), &[]),
    ] {
        let ours = body(&asked, 1_000);
        let told = properties(&ours, &origin);
        assert!(
            told.len() == words.len() && told.iter().zip(words).all(|(told, word)| told.contains(word)),
            "{told:?}"
        );
        if origin.status == 200 {
            assert_eq!(word(Kind::Page, &ours, &origin), "equal");
        }
    }
}

#[test]
fn methods_differ_only_where_a_client_could_use_none_of_ours() {
    let learned = Ours::Learned { status: 405, media_type: theirs(405, "").media_type, text: String::new() };
    for (methods, expected) in [
        (None, "equal"),
        (Some(&[][..]), "equal"),
        (Some(&["GET", "HEAD"]), "equal"),
        (Some(&["GET", "POST", "TRACE"]), "equal"),
        (Some(&["POST", "PUT"]), "differs"),
    ] {
        let allow = methods.map(|methods| methods.iter().map(|method| (*method).to_owned()).collect::<Vec<_>>());
        for (kind, ours, status, text) in [(Kind::Page, &body(PAGE, 1_000), 200, PAGE), (Kind::Odd, &learned, 405, "")]
        {
            let theirs = Theirs { allow: allow.clone(), ..theirs(status, text) };
            assert_eq!(word(kind, ours, &theirs), expected, "{kind:?} {methods:?}");
        }
    }
}

const LICENSE: &str = "https://creativecommons.org/licenses/by/4.0/";

fn rewrite() -> Rewrite {
    let parse = |url: &str| url.parse::<Url>().unwrap();
    Rewrite::new(Some(&parse("http://origin.test:8000/v1")), &[parse("https://www.origin.test")], "http://m.test")
}

/// What differs for the second of three pages of golf since an instant.
fn told(field: &str) -> Vec<String> {
    let query = "page=2&per_page=10&sport=golf&modified_since=2024-05-06T00:00:00Z";
    let query = Parameters::parse(query).unwrap().list;
    let ours = Links::ours(Some(LICENSE), Some((&query, 25)), &rewrite());
    let mut headers = HeaderMap::new();
    headers.insert(header::LINK, HeaderValue::from_str(field).unwrap());
    let url = "http://origin.test:8000/v1/api/listings.json?page=2".parse().unwrap();
    let theirs = Links::theirs(links::links(&headers), &url, &rewrite());
    ours.differences(&theirs).iter().map(ToString::to_string).collect()
}

#[test]
fn links_to_the_same_pages_are_equal_in_any_spelling_and_order() {
    let rest = "api/listings.json?per_page=10&sport=golf&modified_since=2024-05-06";
    for target in [
        format!("http://origin.test:8000/v1/{rest}&page=3"),
        format!("https://www.origin.test/{rest}&page=3"),
        format!("/v1/{rest}&page=3#x"),
        "?page=3&sport=%67olf&per_page=10&modified_since=2024-05-06T00:00:00%2B00:00".to_owned(),
    ] {
        assert_eq!(told(&format!("<{target}>; rel=next")), [] as [&str; 0], "{target}");
    }
    for license in [LICENSE, "http://creativecommons.org/licenses/by/4.0"] {
        assert_eq!(told(&format!("<x>; rel=help, <{license}>; rel=license")), [] as [&str; 0]);
    }
    let several = format!("<https://else.test/>; rel=license, <{LICENSE}>; rel=\"license\"");
    assert_eq!(told(&several), [] as [&str; 0], "one of them is ours");
}

#[test]
fn what_only_one_side_has_or_only_the_origin_understands_is_no_difference() {
    for field in [
        "</v1/api/listings.json>; rel=self",
        "<?after=abc>; rel=next",
        "<?page=0>; rel=next",
        "<?page=3&per_page=1000>; rel=next",
        "<https://cdn.test/list/3>; rel=next",
        "<urn:x>; rel=license",
        "<?page=7>; rel=next; anchor=\"/other\"",
        "nonsense",
    ] {
        assert_eq!(told(field), [] as [&str; 0], "{field}");
    }
}

#[test]
fn links_that_lead_elsewhere_are_told() {
    let differing = told("<?page=4&per_page=10&sport=golf&modified_since=2024-05-06>; rel=next, <?page=1>; rel=first");
    assert_eq!(differing.len(), 2, "{differing:?}");
    assert!(differing[0].starts_with("header Link rel=first: the mirror has /api/listings.json?sport=golf"));
    assert!(differing[1].starts_with("header Link rel=next: ") && differing[1].contains("the origin ?page=4"));
    assert_eq!(told("<https://else.test/terms>; rel=license").len(), 1);
}
