//! Whole seconds: an origin that shows no fractions, beside what it answers about them.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::api::listing::Summary;
use crate::api::page::Envelope;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;

const BEGIN: i64 = 1_704_067_200 * SECOND;

/// A listing: its sport, and when it was modified, in tenths of seconds; `shows`: whether it says which.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: u64,
    sport: u64,
    tenths: i64,
    shows: bool,
}

impl Row {
    const fn at(self) -> i64 {
        BEGIN + self.tenths * (SECOND / 10)
    }

    fn summary(&self) -> Summary {
        let Self { id, sport, .. } = self;
        let shown = if self.shows { self.at() } else { begin(self.at()) };
        let modified = Timestamp::from_nanosecond(shown.into()).unwrap();
        let raw = format!(r#"{{"id":{id},"sport":"sport-{sport}","state":"S","city":"C","modified":"{modified}"}}"#);
        Summary { id: ListingId(*id), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
    }
}

const fn zoned(at: i64) -> WrittenInstant {
    WrittenInstant { at, form: Form::Zoned }
}

fn dataset(rows: &[Row]) -> Dataset {
    let count = |sport| rows.iter().filter(|row| row.sport == sport).count();
    let term = |sport| format!(r#"{{"slug":"sport-{sport}","n":{}}}"#, count(sport));
    let sports = format!("[{},{}]", term(0), term(1)).into();
    let content = Content {
        envelope: Envelope::default(),
        taxonomies: [sports, "[]".into(), "[]".into()],
        summaries: rows.iter().map(Row::summary).collect(),
    };
    Dataset::build(content, &Evidence::new()).unwrap()
}

/// Total and ids of the origin's answer.
fn origins(rows: &[Row], query: &ListQuery, at: i64) -> (u64, Vec<ListingId>) {
    let is_of = |row: &&Row| query.slugs[0].as_deref().is_none_or(|slug| slug == format!("sport-{}", row.sport));
    let ids: Vec<_> = rows.iter().filter(|row| row.at() > at).filter(is_of).map(|row| ListingId(row.id)).collect();
    let page = ids.iter().skip((query.page as usize - 1) * usize::from(query.per_page));
    (ids.len() as u64, page.take(query.per_page.into()).copied().collect())
}

fn ours(dataset: &Dataset, query: &ListQuery, cut: &Cut) -> (u64, Vec<ListingId>) {
    let found = dataset.find_by(query, cut).unwrap();
    (found.total, found.items.iter().map(|item| item.id).collect())
}

fn since(at: i64, sport: Option<u64>, page: u64, per_page: u16) -> ListQuery {
    let slugs = [sport.map(|sport| format!("sport-{sport}").into()), None, None];
    ListQuery { page, per_page, slugs, modified_since: Some(ModifiedSince { at, text: "x".into() }) }
}

/// Everything that a query selects.
fn all(at: i64) -> ListQuery {
    since(at, None, 1, 1000)
}

fn rows(is_by_time: bool) -> impl Strategy<Value = Vec<Row>> {
    let row = (0_u64..2, 0_i64..60, any::<bool>());
    proptest::collection::vec(row, 1..40).prop_map(move |values| {
        let rows = values.into_iter().zip(1..);
        let mut rows: Vec<Row> = rows.map(|((sport, tenths, shows), id)| Row { id, sport, tenths, shows }).collect();
        if is_by_time {
            rows.sort_by_key(|row| std::cmp::Reverse(row.tenths));
        }
        rows
    })
}

proptest! {
    #[test]
    fn nothing_is_missed_before_the_origin_is_asked_and_all_is_its_own_after_one_answer(
        rows in prop_oneof![rows(true), rows(false)],
        tenths in 0_i64..60,
        sport in proptest::option::of(0_u64..2),
        page in 1_u64..4,
        per_page in 1_u16..20,
    ) {
        let (dataset, seconds, at) = (dataset(&rows), Seconds::default(), BEGIN + tenths * (SECOND / 10));
        let query = since(at, sport, page, per_page);
        if let Reading::Unsure(cut) = seconds.reading(&dataset, zoned(at)) {
            let (most, least) = (ours(&dataset, &all(at), &cut).1, origins(&rows, &all(at), at).1);
            prop_assert!(least.iter().all(|id| most.contains(id)), "{most:?} {least:?}");
            let about = dataset.asked_about(zoned(at));
            let asked = dataset.query_about(about).unwrap();
            let (total, ids) = origins(&rows, &asked, about.at);
            prop_assert!(seconds.learn(&dataset, &asked, total, &ids));
        }
        match seconds.reading(&dataset, zoned(at)) {
            Reading::Sure(cut) => prop_assert_eq!(ours(&dataset, &query, &cut), origins(&rows, &query, at)),
            // What is after the beginning of the second may be before this.
            Reading::Unsure(cut) => {
                prop_assert!(dataset.asked_about(zoned(at)).at != at);
                let (most, least) = (ours(&dataset, &all(at), &cut).1, origins(&rows, &all(at), at).1);
                prop_assert!(least.iter().all(|id| most.contains(id)));
            }
        }
    }
}

#[test]
fn an_origin_that_counts_the_instant_itself_is_followed() {
    let row = |id, tenths, shows| Row { id, sport: 0, tenths, shows };
    let rows = [row(3, 25, true), row(2, 20, false), row(1, 10, false)];
    let (dataset, seconds) = (dataset(&rows), Seconds::default());
    for (at, counted, total) in [(BEGIN + 2 * SECOND, 2, 2), (BEGIN + SECOND * 5 / 2, 1, 2)] {
        assert_eq!(dataset.asked_about(zoned(at)).at, at);
        let query = dataset.query_about(zoned(at)).unwrap();
        let ids: Vec<_> = rows[..counted].iter().map(|row| ListingId(row.id)).collect();
        assert!(seconds.learn(&dataset, &query, counted as u64, &ids), "{at}");
        let Reading::Sure(cut) = seconds.reading(&dataset, zoned(at)) else { panic!("{at}") };
        assert_eq!(ours(&dataset, &all(at), &cut).1, ids);
        assert_eq!(dataset.find_most(&all(at)).unwrap().total, total, "what shows that it is earlier is not counted");
    }
}

#[test]
fn what_was_learned_holds_until_a_listing_of_the_instant_changes() {
    let row = |id, tenths| Row { id, sport: 0, tenths, shows: false };
    let rows = [row(4, 50), row(3, 28), row(2, 22), row(1, 10)];
    let (at, seconds) = (BEGIN + 2 * SECOND, Seconds::default());
    let learn = |rows: &[Row], total, ids: &[u64]| {
        let dataset = dataset(rows);
        let ids: Vec<_> = ids.iter().copied().map(ListingId).collect();
        seconds.learn(&dataset, &dataset.query_about(zoned(at)).unwrap(), total, &ids)
    };
    assert!(!learn(&rows, 3, &[4, 3]) && !learn(&rows, 2, &[4, 1]), "it is the answer of no such origin");
    assert!(learn(&rows, 2, &[3, 4]), "equals may be in another order");
    let is_sure = |rows: &[Row]| matches!(seconds.reading(&dataset(rows), zoned(at)), Reading::Sure(_));
    assert!(is_sure(&rows));
    assert!(is_sure(&[row(5, 51), row(4, 50), row(3, 28), row(2, 22), row(1, 10)]), "another listing");
    assert!(!is_sure(&[row(4, 50), row(2, 22), row(3, 21), row(1, 10)]), "another order");
    assert!(!is_sure(&[row(4, 50), row(3, 28), row(1, 10)]), "one left");
    let mut other = rows;
    other[1].sport = 1;
    assert!(!is_sure(&other), "one changed");
    assert!(
        matches!(seconds.reading(&dataset(&rows), zoned(BEGIN + 7 * SECOND)), Reading::Sure(_)),
        "no listing hides it"
    );
}

#[test]
fn many_listings_of_one_instant_are_known_all_or_none() {
    let many: Vec<Row> = (1..=250).map(|id| Row { id, sport: id % 2, tenths: 20, shows: false }).collect();
    let (dataset, at) = (dataset(&many), BEGIN + 2 * SECOND);
    let query = dataset.query_about(zoned(at)).unwrap();
    let ids: Vec<_> = many.iter().take(query.per_page.into()).map(|row| ListingId(row.id)).collect();
    for (total, ids, is_known) in [(0, &[][..], true), (250, &ids, true), (180, &ids, false)] {
        assert_eq!(Seconds::default().learn(&dataset, &query, total, ids), is_known, "{total}");
    }
}

#[test]
fn an_answer_of_another_list_teaches_nothing() {
    let row = |id, tenths| Row { id, sport: 0, tenths, shows: false };
    let rows: Vec<Row> = (1..=150).map(|id| row(id, if id == 101 { 23 } else { 50 })).collect();
    let (data, at) = (dataset(&rows), BEGIN + 2 * SECOND);
    let query = data.query_about(zoned(at)).unwrap();
    let without = |gone: u64| rows.iter().filter(|row| row.id != gone).copied().collect::<Vec<_>>();
    for (gone, learns) in [(0, true), (5, false), (100, false), (140, false)] {
        let (total, ids) = origins(&without(gone), &query, at);
        assert_eq!(Seconds::default().learn(&data, &query, total, &ids), learns, "{gone} is gone");
    }
    // One came elsewhere, and the hidden one does not count.
    let ids: Vec<_> = origins(&without(101), &query, at).1;
    assert!(!Seconds::default().learn(&data, &query, 150, &ids));
}

#[test]
fn the_zero_of_other_calendars_is_an_instant_like_any() {
    let raw = r#"{"id":1,"sport":"s","state":"S","city":"C","modified":"0001-01-01T00:00:00Z"}"#;
    let summaries = vec![Summary { id: ListingId(1), hash: ContentHash::of(raw.as_bytes()), raw: raw.into() }];
    let taxonomies = std::array::from_fn(|_| "[]".into());
    let dataset = Dataset::build(Content { envelope: Envelope::default(), taxonomies, summaries }, &Evidence::new());
    let (dataset, at) = (dataset.unwrap(), i64::MIN + 1);
    let Reading::Unsure(cut) = Seconds::default().reading(&dataset, zoned(at)) else { panic!("it is hidden") };
    assert_eq!(ours(&dataset, &all(at), &cut), (1, vec![ListingId(1)]));
    assert_eq!(dataset.query_about(zoned(at)), None, "no time says so");
}

#[test]
fn what_a_time_counts_says_nothing_of_a_date() {
    let rows = [1, 2].map(|id| Row { id, sport: 0, tenths: 0, shows: false });
    let (dataset, seconds, at) = (dataset(&rows), Seconds::default(), BEGIN);
    for (form, text, counted) in [
        (Form::Zoned, "2024-01-01T00:00:00Z", Counted::None),
        (Form::Local, "2024-01-01T00:00:00", Counted::None),
        (Form::Date, "2024-01-01", Counted::All),
    ] {
        let instant = WrittenInstant { at, form };
        let query = dataset.query_about(instant).unwrap();
        let since = query.modified_since.as_ref().unwrap();
        assert_eq!((&*since.text, WrittenInstant::of(since)), (text, instant));
        assert!(matches!(seconds.reading(&dataset, instant), Reading::Unsure(_)), "{form:?}");
        let ids: &[ListingId] = if counted == Counted::All { &[ListingId(1), ListingId(2)] } else { &[] };
        assert!(seconds.learn(&dataset, &query, ids.len() as u64, ids));
        assert_eq!(seconds.reading(&dataset, instant), Reading::Sure(dataset.hidden(at).unwrap().cut(&counted)));
    }
    assert_eq!(dataset.query_about(WrittenInstant { at: at + SECOND, form: Form::Date }), None, "no date says so");
}
