//! Queries: canonical forms, values, and what is refused.

use proptest::prelude::*;

use super::*;

fn parse(raw: &str) -> Parameters {
    Parameters::parse(raw).unwrap()
}

#[test]
fn equal_queries_have_one_canonical_form() {
    let canonical = parse("state=texas&page=2&per_page=100");
    for raw in [
        "per_page=100&page=2&state=texas",
        "per_page=200&page=2&state=texas",
        "utm=1&per_page=100&state=texas&state=texas&page=2&sport=",
        "state=te%78as&page=2&page=&per_page=18446744073709551615",
    ] {
        let parsed = parse(raw);
        assert_eq!((parsed.list, parsed.snapshot), (canonical.list.clone(), None), "{raw}");
    }
    assert_eq!(canonical.list.path_and_query(), "/api/listings.json?state=texas&page=2&per_page=100");
    assert_eq!(parse("").list.path_and_query(), "/api/listings.json");
    let empty = parse("page=&per_page=&sport=&modified_since=&snapshot=");
    assert_eq!(empty, Parameters { is_odd: true, ..Parameters::default() });
}

#[test]
fn an_ordinary_query_is_not_odd() {
    for raw in
        ["", "page=2&per_page=100&state=texas&state=texas", "utm=&x", "snapshot=abc", "modified_since=2024-01-01"]
    {
        assert!(!parse(raw).is_odd, "{raw}");
    }
    for raw in [
        "page=",
        "sport",
        "city=&page=2",
        "per_page=101",
        "per_page=18446744073709551615",
        "modified_since=20240101",
        "modified_since=2024-W01",
    ] {
        assert!(parse(raw).is_odd, "{raw}");
    }
}

#[test]
fn values_are_decoded_once_and_compared_exactly() {
    let parsed = parse("city=S%C3%A3o+Paulo&sport=%2541");
    assert!(parsed.has_escapes && !parse("city=sao-paulo&modified_since=2024-01-01T00%3A00:00").has_escapes);
    let list = parsed.list;
    assert_eq!(list.slug(TaxonomyKind::Cities), Some("São Paulo"));
    assert_eq!(list.slug(TaxonomyKind::Sports), Some("%41"));
    assert_eq!(list.path_and_query(), "/api/listings.json?sport=%2541&city=S%C3%A3o%20Paulo");
}

#[test]
fn malformed_values_name_the_parameter_and_the_value() {
    for (raw, parameter, value) in [
        ("page=0", "page", "0"),
        ("page=-1", "page", "-1"),
        ("page=abc", "page", "abc"),
        ("page=1e2", "page", "1e2"),
        ("page=0x10", "page", "0x10"),
        ("page=%2B1", "page", "+1"),
        ("page=+1", "page", " 1"),
        ("page=1+", "page", "1 "),
        ("page=1.0", "page", "1.0"),
        ("page=02", "page", "02"),
        ("per_page=050", "per_page", "050"),
        ("page=18446744073709551616", "page", "18446744073709551616"),
        ("page=99999999999999999999999999", "page", "99999999999999999999999999"),
        ("per_page=0", "per_page", "0"),
        ("per_page=00", "per_page", "00"),
        ("per_page=-5", "per_page", "-5"),
        ("per_page=ten", "per_page", "ten"),
        ("modified_since=yesterday", "modified_since", "yesterday"),
        ("sport=%FF", "sport", "\u{fffd}"),
    ] {
        match Parameters::parse(raw) {
            Err(QueryError::BadValue { parameter: found, value: shown, .. }) => {
                assert_eq!((found, shown.as_str()), (parameter, value), "{raw}");
            }
            other => panic!("{raw}: {other:?}"),
        }
    }
    for (raw, repeated) in [
        ("page=1&page=2", "page"),
        ("sport=golf&sport=tennis", "sport"),
        ("city=a&city=b", "city"),
        ("modified_since=2025-01-01&modified_since=2025-01-02", "modified_since"),
    ] {
        match Parameters::parse(raw) {
            Err(QueryError::Repeated { parameter, .. }) => assert_eq!(parameter, repeated, "{raw}"),
            other => panic!("{raw}: {other:?}"),
        }
    }
    assert_eq!(parse("page=18446744073709551615").list.page, u64::MAX);
}

#[test]
fn what_changed_is_asked_since_one_snapshot() {
    for (raw, since) in
        [("since=abc", Some("abc")), ("x=1&since=a%62c&since=abc&since=", Some("abc")), ("since=", None), ("", None)]
    {
        assert_eq!(changes_since(raw).unwrap().as_deref(), since, "{raw}");
    }
    let twice = changes_since("since=a&since=b");
    assert!(matches!(twice, Err(QueryError::Repeated { parameter: "since", .. })), "{twice:?}");
    assert!(matches!(changes_since("since=%FF"), Err(QueryError::BadValue { parameter: "since", .. })));
    assert!(changes_since("page=0&page=1").is_ok(), "it has no pages");
}

#[test]
fn a_plus_in_an_offset_that_arrives_as_a_space_parses() {
    let since = parse("modified_since=2024-01-01T02:00:00+02:00").list.modified_since.unwrap();
    assert_eq!(&*since.text, "2024-01-01T02:00:00 02:00");
    assert_eq!(since.at, 1_704_067_200_000_000_000);
}

proptest! {
    #[test]
    fn every_query_string_parses_or_is_refused(raw in ".{0,300}") {
        let _ = Parameters::parse(&raw);
    }

    #[test]
    fn the_canonical_form_reads_back_as_itself(
        page in 1_u64..,
        per_page in 1_u16..=100,
        slug in proptest::option::of("[^\u{0}]{1,20}"),
    ) {
        let mut query = ListQuery { page, per_page, ..ListQuery::default() };
        query.slugs[2] = slug.map(String::into_boxed_str);
        let text = query.path_and_query();
        let raw = text.split_once('?').map_or("", |(_, raw)| raw);
        prop_assert_eq!(Parameters::parse(raw).unwrap().list, query);
    }
}
