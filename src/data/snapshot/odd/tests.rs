//! Open cases on a data set.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::listing::Summary;
use crate::api::page::Envelope;
use crate::api::query::Parameters;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;

/// 2026-01-01.
const NOW: i64 = 1_767_225_600_000_000_000;

/// Listings 1 to `count`, the even ones golf and the others tennis.
fn dataset(count: u64) -> Dataset {
    let sport = |id: u64| if id.is_multiple_of(2) { "golf" } else { "tennis" };
    let summary = |id: u64| {
        let raw = format!(r#"{{"id":{id},"sport":"{}","modified":"2024-01-01T00:00:00Z"}}"#, sport(id));
        Summary { id: ListingId(id), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
    };
    let of = |name: &str| (1..=count).filter(|id| sport(*id) == name).count();
    let sports =
        ["golf", "tennis"].map(|name| format!(r#"{{"slug":"{name}","label":"{name}","n":{}}}"#, of(name))).join(",");
    let taxonomies: [Arc<str>; 3] = [format!("[{sports}]").into(), "[]".into(), "[]".into()];
    let envelope = Envelope::default();
    Dataset::build(Content { envelope, taxonomies, summaries: (1..=count).map(summary).collect() }, &Evidence::new())
        .unwrap()
}

fn query(raw: &str) -> ListQuery {
    Parameters::parse(raw).unwrap().list
}

/// What a query comes to if every row has this meaning: total, number of items, first id.
fn selected(data: &Dataset, meaning: Meaning, raw: &str) -> Option<(u64, usize, Option<u64>)> {
    let known = |_| Some(meaning);
    let decision = match OddQuery::read(raw) {
        Some(asked) => of_odd(known, data, &asked, 20, NOW),
        None => of_empty(known, data, &ListQuery { per_page: 20, ..query(raw) }, 20, NOW).unwrap(),
    };
    match decision {
        Decision::List(applied) => {
            let Found { total, items } = applied.find(data).unwrap();
            Some((total, items.len(), items.first().map(|item| item.id.0)))
        }
        Decision::AsAsked => Some((data.find(&query(raw)).unwrap().total, 0, None)),
        _ => None,
    }
}

#[test]
fn a_request_of_a_row_selects_what_its_meaning_says() {
    use Meaning::{Absent, Clamped, Empty};
    let data = dataset(130);
    let all = |per_page: usize, first: u64| Some((130, per_page, Some(first)));
    for (raw, meaning, selects) in [
        ("page=8", Empty, Some((130, 0, None))),
        ("page=8", Clamped, all(10, 121)),
        ("page=800", Clamped, all(10, 121)),
        ("page=800", Absent, all(20, 1)),
        ("page=0", Empty, Some((130, 0, None))),
        ("page=0", Clamped, all(20, 1)),
        ("page=-3&per_page=7", Absent, all(7, 1)),
        ("page=x", Clamped, None),
        ("per_page=101", Clamped, all(100, 1)),
        ("per_page=101&page=2", Clamped, all(30, 101)),
        ("per_page=101&page=2", Absent, all(20, 21)),
        ("per_page=0", Clamped, all(1, 1)),
        ("per_page=0", Empty, Some((130, 0, None))),
        ("per_page=0&sport=golf", Absent, Some((65, 20, Some(2)))),
        ("per_page=", Absent, all(20, 1)),
        ("page=2&page=3", Absent, all(20, 1)),
        ("page=2&page=3", Clamped, None),
        ("sport=golf&sport=tennis", Absent, all(20, 1)),
        ("sport=golf&sport=tennis", Empty, Some((0, 0, None))),
        ("sport=", Absent, all(20, 1)),
        ("sport=curling", Empty, Some((0, 0, None))),
        ("sport=curling", Absent, all(20, 1)),
        ("sport=curling&page=2", Empty, None),
        ("sport=curling&page=2", Absent, all(20, 21)),
        ("sport=curling&page=9", Absent, None),
        ("modified_since=2999-01-01", Absent, all(20, 1)),
        ("modified_since=2999-01-01&page=5", Empty, Some((0, 0, None))),
        ("modified_since=yesterday", Absent, all(20, 1)),
        ("modified_since=yesterday", Empty, Some((0, 0, None))),
    ] {
        assert_eq!(selected(&data, meaning, raw), selects, "{raw} {meaning:?}");
    }
}

#[test]
fn a_refusal_names_its_value_and_two_odd_values_are_the_origins() {
    let data = dataset(130);
    let decide = |raw: &str| {
        let refused = |_| Some(Meaning::Refused(422));
        match OddQuery::read(raw) {
            Some(asked) => Some(of_odd(refused, &data, &asked, 20, NOW)),
            None => of_empty(refused, &data, &query(raw), 20, NOW),
        }
    };
    for (raw, parameter, how, value) in [
        ("page=4", "page", How::Next, "4"),
        ("page=0", "page", How::Zero, "0"),
        ("sport=curling", "sport", How::Unknown, "curling"),
        ("sport=curling&page=2", "sport", How::Unknown, "curling"),
    ] {
        assert_eq!(decide(raw), Some(Decision::Refused(422, Odd::of(parameter, how, value))), "{raw}");
    }
    for (raw, count) in [
        ("page=0&per_page=0", 2),
        ("page=0&sport=curling", 2),
        ("sport=curling&state=x", 2),
        ("sport=golf&sport=", 2),
        ("page=2&page=", 2),
        ("sport=Golf", 1),
        ("sport=golf%20", 1),
        ("sport=golf,tennis", 1),
        ("sport=golf,curling", 1),
        ("sport=Golf&sport=golf", 1),
        ("page=2.0", 1),
        ("modified_since=20250601", 1),
    ] {
        let Some(Decision::Unknown(odds)) = decide(raw) else { panic!("{raw}: {:?}", decide(raw)) };
        assert_eq!(odds.len(), count, "{raw}: {odds:?}");
    }
    assert_eq!(decide("modified_since=2024-01-01"), None, "nothing is odd about an empty list");
    assert!(matches!(decide("sport=bowling,curling"), Some(Decision::Refused(..))), "no term is among them");
}

#[test]
fn a_row_without_a_meaning_is_the_origins() {
    let data = dataset(130);
    for raw in ["page=4", "page=900", "sport=curling", "modified_since=2999-01-01"] {
        assert!(matches!(of_empty(|_| None, &data, &query(raw), 50, NOW), Some(Decision::Unknown(_))), "{raw}");
    }
    for raw in ["page=0", "per_page=500", "sport=", "modified_since=x"] {
        let asked = OddQuery::read(raw).unwrap();
        assert!(matches!(of_odd(|_| None, &data, &asked, 50, NOW), Decision::Unknown(_)), "{raw}");
    }
}
