//! Equality of answers, and names of differences.

use bytes::Bytes;

use super::*;
use crate::api::query::Parameters;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;

const PAGE: &str = r#"{"generated_at":"1","license":"cc","page":1,"per_page":2,"total":2,"total_pages":1,"filters":{},"items":[{"id":1,"name":"One","city":"C","state":"S","sport":"golf","lat":4.50,"modified":"2025-03-01"},{"id":2,"name":"Two","city":"C","state":"S","sport":"golf","modified":"2025-03-01"}]}"#;

fn page(text: &str) -> Page {
    Page::parse(&Bytes::copy_from_slice(text.as_bytes()), &VolatileKeys::default()).unwrap()
}

fn told(query: &str, theirs: &str) -> Vec<String> {
    let Page { envelope, items: summaries, .. } = page(PAGE);
    let taxonomies = std::array::from_fn(|_| "[]".into());
    let dataset = Dataset::build(Content { envelope, taxonomies, summaries }, &Evidence::new()).unwrap();
    let query = Parameters::parse(query).unwrap().list;
    lists(&dataset, &query, &page(theirs), None).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn pages_with_the_same_listings_are_equal_whatever_else_they_say() {
    for theirs in [
        PAGE.to_owned(),
        PAGE.replace(r#""license":"cc""#, r#""license":"other","facets":{"golf":2}"#),
        PAGE.replace(r#""total_pages":1"#, r#""total_pages":2"#),
    ] {
        assert_eq!(told("per_page=2", &theirs), Vec::<String>::new(), "{theirs}");
    }
    // Whether those of the very instant count is the origin's to say, for each.
    let one = PAGE.replace(r#""total":2"#, r#""total":1"#);
    let one = format!("{}]}}", one.split(r#",{"id":2"#).next().unwrap());
    for theirs in [PAGE, &one] {
        assert_eq!(told("modified_since=2025-03-01", theirs), Vec::<String>::new());
    }
    assert_eq!(told("modified_since=2025-02-28", &one).len(), 2);
}

#[test]
fn every_difference_of_two_pages_is_named() {
    for (from, to, expected) in [
        (r#""total":2"#, r#""total":4"#, "field total: the mirror has 2, the origin 4"),
        ("4.50", "4.5", "listing 1, lat: the mirror has 4.50, the origin 4.5"),
        (r#""name":"Two""#, r#""name":"Zwei""#, r#"listing 2, name: the mirror has "Two", the origin "Zwei""#),
        (r#""name":"Two""#, r#""name":"Two","new":5"#, "listing 2, new: the mirror has (absent), the origin 5"),
        (r#""id":2"#, r#""id":3"#, "ids from position 2 of the page: the mirror has 2, the origin 3"),
        (r#"[{"id":1"#, r#"[{"id":2"#, "ids from position 1 of the page: the mirror has 1 2, the origin"),
    ] {
        let theirs = PAGE.replace(from, to);
        assert_ne!(theirs, PAGE, "nothing was replaced");
        let told = told("per_page=2", &theirs);
        let first = told.first().unwrap_or_else(|| panic!("{to}"));
        assert!(first.starts_with(expected), "{to}: {first}");
    }
}

#[test]
fn documents_are_compared_by_values_without_what_is_volatile() {
    let volatile = VolatileKeys::default();
    let long = "x".repeat(200);
    let one = format!(r#"{{"generated_at":"1","id":7,"hours":{{"mon":"{long}9-5","tue":"9-5"}}}}"#);
    let other_order = format!(r#"{{"hours":{{"tue":"9-5","mon":"{long}9-5"}}, "id":7,"generated_at":"1"}}"#);
    for same in [&one.replace(r#""1""#, r#""2""#), &other_order] {
        assert_eq!(documents(&one, same, &volatile), None, "{same}");
    }
    let changed = other_order.replace(r#""id":7"#, r#""id":8"#);
    assert_eq!(documents(&one, &changed, &volatile).unwrap().to_string(), "field id: the mirror has 7, the origin 8");
    for (theirs, expected) in [
        (one.replace(r#""id":7"#, r#""id":7.0"#), "field id: the mirror has 7, the origin 7.0"),
        (one.replace(r#""tue":"9-5""#, r#""tue":"closed""#), "field hours: the mirror has …"),
        ("[1]".to_owned(), "text: the mirror has "),
    ] {
        let told = documents(&one, &theirs, &volatile).unwrap().to_string();
        assert!(told.starts_with(expected) && told.len() < 500, "{theirs}: {told}");
    }
    let hours = documents(&one, &one.replace(r#""tue":"9-5""#, r#""tue":"closed""#), &volatile).unwrap();
    assert!(hours.ours.contains("9-5") && hours.theirs.contains("closed"), "{hours:?}");
    let array = documents(r#"[{"slug":"a"}]"#, r#"[{"slug":"b"}]"#, &volatile).unwrap();
    assert_eq!(array.to_string(), r#"text: the mirror has [{"slug":"a"}], the origin [{"slug":"b"}]"#);
}
