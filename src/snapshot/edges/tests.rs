//! Odd requests on a data set.

use std::sync::Arc;

use bytes::Bytes;

use super::apply::fits;
use super::*;
use crate::api::edges::lesson::{Effect, Template};
use crate::api::edges::{Case, OddQuery};
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;
use crate::snapshot::content::Content;
use crate::snapshot::membership::Evidence;

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

fn learned(lessons: impl IntoIterator<Item = (Case, Lesson)>) -> Learned {
    Learned { lessons: lessons.into_iter().collect(), ..Learned::default() }
}

fn list(effect: Effect, shown: bool) -> Lesson {
    Lesson::List { effect, shown }
}

fn refusal() -> Lesson {
    let body = Template::of(["no x", "no y"], [&["x"], &["y"]]).unwrap();
    Lesson::Answer(LearnedAnswer { status: 404, media_type: Some("text/plain".into()), body })
}

fn query(raw: &str) -> ListQuery {
    crate::api::query::Parameters::parse(raw).unwrap().list
}

#[test]
fn an_odd_value_selects_what_it_counts_as() {
    let data = dataset(120);
    let selects = |lesson: Lesson, case, raw: &str| {
        let asked = OddQuery::read(raw).unwrap();
        match of_odd(&learned([(case, lesson)]), &data, &asked, NOW) {
            Decision::List(applied) => {
                let (total, items) = applied.find(&data).unwrap();
                (applied.query.page, applied.query.per_page, total, items.len(), applied.shown)
            }
            other => panic!("{raw}: {other:?}"),
        }
    };
    let plain = |lesson, case, raw: &str| {
        let (page, per_page, total, items, shown) = selects(lesson, case, raw);
        assert!(shown.is_query(), "{raw}: {shown:?}");
        (page, per_page, total, items)
    };
    assert_eq!(plain(list(Effect::Number(1), false), Case::PageZero, "page=0&per_page=7"), (1, 7, 120, 7));
    assert_eq!(plain(list(Effect::LastPage, false), Case::PageWord, "page=abc"), (3, 50, 120, 20));
    assert_eq!(plain(list(Effect::Number(50), false), Case::PerPageNegative, "per_page=-9&page=3"), (3, 50, 120, 20));
    assert_eq!(plain(list(Effect::AtMost(110), false), Case::PerPageOver, "per_page=115"), (1, 110, 120, 110));
    assert_eq!(plain(list(Effect::AtMost(110), false), Case::PerPageOver, "per_page=105"), (1, 105, 120, 105));
    assert_eq!(plain(list(Effect::Ignored, false), Case::SinceMalformed, "modified_since=x"), (1, 50, 120, 50));
    assert_eq!(plain(list(Effect::First, false), Case::RepeatedFilter, "sport=golf&sport=no"), (1, 50, 60, 50));
    let (_, _, total, items, shown) =
        selects(list(Effect::Nothing, true), Case::SinceMalformed, "modified_since=x&sport=golf");
    let filters = vec![("sport", "golf".to_owned()), ("modified_since", "x".to_owned())];
    assert_eq!((total, items, shown.filters), (0, 0, Some(filters)));
    let (_, _, total, _, shown) = selects(list(Effect::Number(1), true), Case::PageNegative, "page=-3");
    assert_eq!((total, shown.page.as_deref()), (120, Some("-3")));
}

#[test]
fn what_only_the_data_shows_to_be_odd_is_found_where_nothing_is_found() {
    let data = dataset(120);
    let lessons = learned([
        (Case::PageBeyond, list(Effect::LastPage, false)),
        (Case::UnknownSport, refusal()),
        (Case::SinceFuture, list(Effect::Ignored, false)),
    ]);
    let of = |raw: &str| of_empty(Some(&lessons), &data, &query(raw), NOW);
    for raw in ["sport=golf&modified_since=2025-01-01", "page=1", "page=3"] {
        assert_eq!(of(raw), None, "{raw}: nothing is odd about it");
    }
    assert!(matches!(of("page=4"), Some(Decision::List(applied)) if applied.query.page == 3));
    assert!(matches!(of("sport=chess"), Some(Decision::Body(_, body)) if body == "no chess"));
    assert!(matches!(of("modified_since=2030-01-01"), Some(Decision::List(applied)) if !applied.query.is_filtered()));
    assert!(matches!(of("sport=chess&page=2"), Some(Decision::Odd(odds)) if odds.len() == 2), "two at once");
    assert_eq!(of("sport=%3Cb%3E&page=2"), Some(Decision::Ours), "what is not harmless is not asked");
    assert_eq!(of("sport=%3Cb%3E"), Some(Decision::Ours), "and not repeated");
    assert_eq!(of("state=chess"), Some(Decision::Ours), "nothing was learned of it");
    assert_eq!(of_empty(None, &data, &query("sport=chess"), NOW), Some(Decision::Ours));
}

#[test]
fn two_odd_parameters_are_never_answered_by_lessons() {
    let data = dataset(120);
    let lessons = learned([
        (Case::PageZero, list(Effect::Number(1), false)),
        (Case::PerPageWord, refusal()),
        (Case::PerPageOver, list(Effect::AtMost(110), false)),
    ]);
    let of = |raw: &str| of_odd(&lessons, &data, &OddQuery::read(raw).unwrap(), NOW);
    for raw in
        ["page=0&per_page=x", "page=0&sport=chess", "page=0&page=x", "page=2&page=3&sport=", "per_page=110&page=3"]
    {
        assert!(matches!(of(raw), Decision::Odd(odds) if odds.len() > 1), "{raw}");
    }
    assert!(matches!(of("page=2&per_page=110"), Decision::List(_)), "it is the last page");
    for raw in ["page=0&sport=%22", "page=0&per_page=x&sport=%3Cb%3E", "page=2&page=3&state=a%2Fb"] {
        assert_eq!(of(raw), Decision::Ours, "{raw}: the origin is not asked about such values");
    }
}

#[test]
fn a_lesson_is_applied_to_the_class_of_its_probes_only() {
    let data = dataset(120);
    let every = Case::ALL.map(|case| (case, refusal()));
    let lessons = learned(every);
    let spelled = |decision: Decision<'_>| matches!(decision, Decision::Odd(odds) if odds.iter().all(|odd| odd.how == How::Spelled));
    for raw in [
        "page=2.0",
        "page=+2",
        "page=%202",
        "page=2abc",
        "page=02",
        "page=1_0",
        "page=NaN",
        "page=18446744073709551616",
        "per_page=10.0",
        "per_page=-99999999999999999999",
        "modified_since=20250601",
        "modified_since=2025-W22-7",
        "modified_since=2026-13-45",
        "modified_since=%202025-06-01",
    ] {
        assert!(spelled(of_odd(&lessons, &data, &OddQuery::read(raw).unwrap(), NOW)), "{raw}");
    }
    for raw in ["sport=Golf", "sport=GOLF&page=1", "sport=golf%20", "sport=%C3%B3Golf&sport=g%C3%B3lf"] {
        let decision = match OddQuery::read(raw) {
            Some(asked) => Some(of_odd(&lessons, &data, &asked, NOW)),
            None => of_empty(Some(&lessons), &data, &query(raw), NOW),
        };
        assert!(matches!(decision, Some(Decision::Odd(_))), "{raw}: {decision:?}");
    }
    for raw in
        ["sport=golfs", "sport=chess", "page=9", "page=0", "page=x", "page=-7", "per_page=-7", "modified_since=x"]
    {
        let decision = match OddQuery::read(raw) {
            Some(asked) => Some(of_odd(&lessons, &data, &asked, NOW)),
            None => of_empty(Some(&lessons), &data, &query(raw), NOW),
        };
        assert!(matches!(decision, Some(Decision::Body(..) | Decision::Ours)), "{raw}: {decision:?}");
    }
    assert_eq!(
        of_odd(&lessons, &data, &OddQuery::read("page=%3C2").unwrap(), NOW),
        Decision::Ours,
        "it may not be asked"
    );
}

#[test]
fn the_readings_that_explain_a_list_are_found() {
    let data = dataset(120);
    let page = |page: u64, per_page: usize, from: u64| {
        let items: Vec<String> = (from..from + per_page as u64).map(|id| format!(r#"{{"id":{id}}}"#)).collect();
        let items = items.join(",");
        format!(r#"{{"page":{page},"per_page":{per_page},"total":120,"filters":[],"items":[{items}]}}"#)
    };
    let explain = |raw: &str, body: &str| {
        let asked = OddQuery::read(raw).unwrap();
        fits(&data, &asked.rest, &asked.odds[0], body.as_bytes())
    };
    assert_eq!(explain("page=0&per_page=7", &page(1, 7, 1)), Some(vec![(Effect::Number(1), false)]));
    assert_eq!(explain("page=0&per_page=7", &page(0, 7, 1)), Some(vec![(Effect::Number(1), true)]));
    assert_eq!(explain("page=0&per_page=10", &page(12, 10, 111)), Some(vec![(Effect::LastPage, false)]));
    assert_eq!(explain("page=0&per_page=7", &page(1, 7, 2)), Some(vec![]), "other listings");
    assert_eq!(explain("per_page=101", &page(1, 101, 1)), Some(vec![(Effect::AsAsked(101), false)]));
    assert_eq!(explain("per_page=1000", &page(1, 60, 1)), Some(vec![(Effect::AtMost(60), false)]));
    assert_eq!(explain("per_page=x", &page(1, 20, 1)), Some(vec![(Effect::Number(20), false)]));
    for none in ["{}", "[]", "<p>", r#"{"error":{}}"#] {
        assert_eq!(explain("page=0", none), None, "{none}: no list");
    }
    assert_eq!(explain("page=0", r#"{"items":{}}"#), Some(vec![]), "no list that is understood");
}
