//! Which answers count as equal, and how differences are named.

use super::*;

const PAGE: &str = r#"{"generated_at":"1","license":"cc","page":1,"per_page":2,"total":3,"total_pages":2,"filters":{"sport":"golf"},"items":[{"id":1,"name":"One","lat":4.50},{"id":2,"name":"Two"}]}"#;

fn told(theirs: &str) -> Vec<String> {
    assert_ne!(theirs, PAGE, "nothing was replaced");
    lists(PAGE, theirs, &VolatileKeys::default()).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn equal_pages_are_equal_whatever_is_volatile_or_laid_out_otherwise() {
    let volatile = VolatileKeys::default();
    for theirs in [
        PAGE.to_owned(),
        PAGE.replace(r#""generated_at":"1""#, r#""generated_at":"2""#),
        PAGE.replace(r#"{"sport":"golf"}"#, r#"{ "sport": "golf" }"#),
        PAGE.replace(r#","items""#, r#", "items" "#),
        PAGE.replace(r#""generated_at":"1","#, ""),
    ] {
        assert_eq!(lists(PAGE, &theirs, &volatile).unwrap(), [], "{theirs}");
    }
    let mut volatile = volatile;
    volatile.insert("request_id");
    assert_eq!(lists(PAGE, &PAGE.replacen('{', r#"{"request_id":"x","#, 1), &volatile).unwrap(), []);
}

#[test]
fn every_difference_of_two_pages_is_named() {
    for (from, to, expected) in [
        (r#""total":3"#, r#""total":4"#, "field total: the mirror has 3, the origin 4"),
        (r#""total_pages":2"#, r#""total_pages":1"#, "field total_pages: the mirror has 2, the origin 1"),
        (r#""page":1"#, r#""page":2"#, "field page: the mirror has 1, the origin 2"),
        (r#""per_page":2"#, r#""per_page":20"#, "field per_page: the mirror has 2, the origin 20"),
        (r#""license":"cc","#, "", "field license: the mirror has \"cc\", the origin (absent)"),
        (r#""page":1"#, r#""page":1,"new":5"#, "field new: the mirror has (absent), the origin 5"),
        (
            r#""license":"cc","page":1"#,
            r#""page":1,"license":"cc""#,
            "field-order: the mirror has license, page, per_page, total, total_pages, filters, items, the origin page, license, per_page, total, total_pages, filters, items",
        ),
        ("4.50", "4.5", "listing 1, lat: the mirror has 4.50, the origin 4.5"),
        (r#""name":"Two""#, r#""name":"Zwei""#, r#"listing 2, name: the mirror has "Two", the origin "Zwei""#),
        (
            r#""name":"Two""#,
            r#""name": "Two""#,
            r#"listing 2: the mirror has {"id":2,"name":"Two"}, the origin {"id":2,"name": "Two"}"#,
        ),
        (r#""id":2"#, r#""id":3"#, "ids from position 2 of the page: the mirror has 2, the origin 3"),
        (r#",{"id":2,"name":"Two"}"#, "", "ids from position 2 of the page: the mirror has 2, the origin (nothing)"),
    ] {
        let told = told(&PAGE.replace(from, to));
        assert_eq!(told.len(), 1, "{to}: {told:?}");
        let shortened = told[0].contains('…');
        assert!(shortened || told[0] == expected, "{to}: {}", told[0]);
        assert!(told[0].starts_with(&expected[..20]), "{to}: {}", told[0]);
    }
}

#[test]
fn what_is_no_page_is_compared_with_nothing() {
    for theirs in ["<html>", "[]", r#"{"total":3,"items":7}"#] {
        assert!(lists(PAGE, theirs, &VolatileKeys::default()).is_err(), "{theirs}");
    }
}

#[test]
fn a_page_in_which_all_differs_is_told_briefly() {
    let page = |word: &str| {
        let items: Vec<String> = (0..100).map(|id| format!(r#"{{"id":{id},"name":"{word}"}}"#)).collect();
        format!(r#"{{"total":100,"items":[{}]}}"#, items.join(","))
    };
    let found = lists(&page("a"), &page(&"b".repeat(5_000)), &VolatileKeys::default()).unwrap();
    assert_eq!(found.len(), MOST);
    assert!(found.iter().all(|difference| difference.to_string().len() < 300), "{found:?}");
}

#[test]
fn documents_are_compared_as_texts_without_what_is_volatile() {
    let volatile = VolatileKeys::default();
    let long = "x".repeat(200);
    let one = format!(r#"{{"generated_at":"1","id":7,"hours":{{"mon":"{long}9-5","tue":"9-5"}}}}"#);
    assert_eq!(documents(&one, &one.replace(r#""1""#, r#""2""#), &volatile), []);
    for (theirs, expected) in [
        (one.replace(r#""id":7"#, r#""id":7.0"#), "field id: the mirror has 7, the origin 7.0"),
        (one.replace(r#","hours""#, r#", "hours""#), "text: the mirror has "),
        (one.replace(r#""tue":"9-5""#, r#""tue":"closed""#), "field hours: the mirror has …"),
        ("[1]".to_owned(), "text: the mirror has "),
    ] {
        let told: Vec<String> = documents(&one, &theirs, &volatile).iter().map(ToString::to_string).collect();
        assert!(told.len() == 1 && told[0].starts_with(expected), "{theirs}: {told:?}");
    }
    let hours = documents(&one, &one.replace(r#""tue":"9-5""#, r#""tue":"closed""#), &volatile);
    assert!(hours[0].ours.contains("9-5") && hours[0].theirs.contains("closed"), "{hours:?}");
    let array = documents(r#"[{"slug":"a"}]"#, r#"[{"slug":"b"}]"#, &volatile);
    assert_eq!(array[0].to_string(), r#"text: the mirror has [{"slug":"a"}], the origin [{"slug":"b"}]"#);
}
