use super::*;

const PAGE: &str = r#"{"page":1,"total":1,"items":[{"id":1}]}"#;

fn theirs(status: u16, text: &str) -> Theirs {
    let media_type = Some("application/json; charset=utf-8".to_owned());
    Theirs { status, media_type, is_private: false, text: text.to_owned(), at_ms: 1_000 }
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
    let ours = |text: &str| Ours::Body(text.to_owned(), 1_000);
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
    let ours = Ours::Body(PAGE.to_owned(), 1_001);
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
fn headers_that_clients_act_on_are_compared() {
    let ours = Ours::Body(PAGE.to_owned(), 1_000);
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
        (with(Some("application/json"), true), "differs"),
    ] {
        assert_eq!(word(Kind::Page, &ours, &theirs), expected, "{:?}", theirs.media_type);
    }
}
