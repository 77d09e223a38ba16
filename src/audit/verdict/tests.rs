//! Which differences count.

use super::*;

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
