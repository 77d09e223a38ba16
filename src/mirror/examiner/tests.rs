//! Origins whose filters mean something else, examined in the schedule of the examiner, against data that shows it or does
//! not.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;

use super::compare::{Agreement, agreement};
use super::terms::DoubtfulTerms;
use super::*;
use crate::api::form::ListForm;
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::listing::Summary;
use crate::api::modified;
use crate::api::odd::{Meaning, Row as OpenRow};
use crate::api::page::Envelope;
use crate::api::query::Parameters;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::seconds::Seconds;
use crate::data::snapshot::verdicts::Verdicts;
use crate::data::snapshot::verdicts::table::{DAY_MS, Heard, Moment, Table};
use crate::data::snapshot::verdicts::told::Told;

const HOUR: i64 = 3600;
/// 2026-11-20, in nanoseconds.
const NOW: i64 = 1_795_132_800 * 1_000_000_000;

impl Verdicts {
    /// The origin's answer to this query differed, once.
    pub(crate) fn doubt(&self, query: &ListQuery, now_ms: i64) {
        let (heard, at) = (Heard::Differs { only_order: false }, Moment { now_ms, apart_ms: 0, is_still: false });
        self.change(|table| table.heard(Shape::of(query), &query.path_and_query(), heard, at));
    }
}

/// A listing: its sport, state and city by number, and when it was modified, in seconds.
#[derive(Clone, Copy, Debug)]
struct Row([u64; 3], i64);

/// Listings modified over three years.
fn rows(count: u64) -> Vec<Row> {
    let dice = |n: u64, of: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), of);
    let row = |n| {
        Row(
            [dice(n, 1) % 3, dice(n, 2) % 4, dice(n, 2) % 12],
            1_690_000_000 + (dice(n, 3) % (3 * 365 * 86_400)).cast_signed(),
        )
    };
    let mut rows: Vec<Row> = (0..count).map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    rows
}

fn dataset(rows: &[Row]) -> Dataset {
    dataset_of(rows, |index| index)
}

/// `rename`: changes the text of an index.
fn dataset_of(rows: &[Row], rename: impl Fn(String) -> String) -> Dataset {
    let summary = |(id, Row([sport, state, city], at)): (usize, &Row)| {
        let at = Timestamp::from_second(*at).unwrap();
        let raw = format!(
            r#"{{"id":{id},"sport":"sport-{sport}","state":"State {state}","city":"City {city}","modified":"{at}"}}"#
        );
        Summary { id: ListingId(id as u64), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
    };
    let taxonomy = |kind: usize, slug: &str, name: &str| -> Arc<str> {
        let count = |term| rows.iter().filter(|row| row.0[kind] == term).count();
        let terms = (0..12).filter(|term| count(*term) > 0);
        let terms: Vec<String> =
            terms.map(|n| format!(r#"{{"slug":"{slug}-{n}","name":"{name} {n}","count":{}}}"#, count(n))).collect();
        rename(format!("[{}]", terms.join(","))).into()
    };
    let taxonomies = [taxonomy(0, "sport", "Sport"), taxonomy(1, "state", "State"), taxonomy(2, "city", "City")];
    let envelope = Envelope::default();
    let content = Content { envelope, taxonomies, summaries: rows.iter().enumerate().map(summary).collect() };
    Dataset::build(content, &Evidence::new()).unwrap()
}

/// What an origin's filters mean.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is wrong alone or with others")]
struct Origin {
    /// By taxonomy, then `modified_since`: the others, as bits, beside which it is ignored; 0: always.
    ignored: [Option<u8>; 4],
    any: bool,
    at_or_after: bool,
    /// The same beside terms alone.
    at_or_after_of_terms: bool,
    /// Cities with one listing have none.
    hides_small: bool,
    /// Where dates begin, and what times without offset are: seconds ahead of UTC.
    dates: i64,
    times: i64,
    only_dates: bool,
    /// Which filtered lists have another order, by the bits of their filters.
    backwards: Option<fn(u8) -> bool>,
    /// Every filtered list is refused.
    refuses: bool,
    /// Slugs match where they are a part.
    matches_parts: bool,
    /// The slug of this term selects nothing.
    loses: Option<(usize, u64)>,
    /// A time alone after which nothing was modified is refused.
    refuses_quiet: bool,
    /// Offsets west of UTC are ignored.
    loses_west: bool,
    /// Which meanings the example of a turn allows in a row; `None`: the table's.
    open: Option<fn(OpenRow, u16) -> Vec<Meaning>>,
}

impl Origin {
    /// An origin that ignores a filter beside others, by their bits.
    fn ignoring(filter: usize, beside: u8) -> Self {
        let mut origin = Self::default();
        origin.ignored[filter] = Some(beside);
        origin
    }

    fn answer(&self, rows: &[Row], dataset: &Dataset, query: &ListQuery) -> Heard {
        if self.refuses && query.is_filtered() {
            return Heard::Differs { only_order: false };
        }
        let (filters, total, items) = self.page(rows, dataset, query);
        if self.refuses_quiet && filters == 8 && total == 0 {
            return Heard::Differs { only_order: false };
        }
        let seconds = Seconds::default();
        if let Some(instant) = seconds.unlearned(dataset, query) {
            let about = dataset.query_about(instant).unwrap();
            let (_, total, items) = self.page(rows, dataset, &about);
            assert!(seconds.learn(dataset, &about, total, &items.iter().map(|item| item.id).collect::<Vec<_>>()));
        }
        let learned = seconds.learned(dataset, query);
        match agreement(dataset, query, (total, &items), learned.as_ref()).unwrap() {
            Agreement::Whole => Heard::Equal { tells: Example::again(dataset, query.clone()).tells },
            Agreement::ButOrder => Heard::Differs { only_order: true },
            Agreement::None => Heard::Differs { only_order: false },
            Agreement::Aged => unreachable!("all rows are known"),
        }
    }

    /// The filters of a query, as bits, how many listings match, and those of its page.
    fn page(&self, rows: &[Row], dataset: &Dataset, query: &ListQuery) -> (u8, u64, Vec<Summary>) {
        let has = |filter: usize| match filter {
            3 => query.modified_since.is_some(),
            kind => query.slug(TaxonomyKind::ALL[kind]).is_some(),
        };
        let filters: u8 = (0..4).map(|filter| u8::from(has(filter)) << filter).sum();
        let heeds = |filter: usize| self.ignored[filter].is_none_or(|beside| beside & filters != beside);
        let since = query.modified_since.as_ref().filter(|_| heeds(3)).map(|since| {
            let at = modified::parse_rfc3339(&since.text).unwrap() / 1_000_000_000;
            let at = if since.text.len() == 19 { at - self.times } else { at };
            let is_west = since.text.rfind('-').is_some_and(|at| at > "2026-01-31T".len());
            let at = if self.loses_west && is_west { at - i64::from(times::ODD_OFFSET) } else { at };
            if since.text.len() == 10 || self.only_dates { at.div_euclid(86_400) * 86_400 - self.dates } else { at }
        });
        let verdicts = |row: &Row| {
            let slugs = TaxonomyKind::ALL.into_iter().filter(|kind| heeds(kind.index()));
            let slugs = slugs.filter_map(|kind| {
                let (slug, own) = (query.slug(kind)?, format!("-{}", row.0[kind.index()]));
                let is_lost =
                    self.loses.is_some_and(|(lost, n)| kind.index() == lost && slug.ends_with(&format!("-{n}")));
                let is_in = if self.matches_parts {
                    own.starts_with(&slug[slug.find('-').unwrap()..])
                } else {
                    slug.ends_with(&own)
                };
                Some(is_in && !is_lost)
            });
            let is_counted = self.at_or_after || (self.at_or_after_of_terms && filters != 8);
            let since = since.map(|at| row.1 > at || (is_counted && row.1 == at));
            slugs.chain(since).collect::<Vec<bool>>()
        };
        let passes = |row: &Row| {
            let verdicts = verdicts(row);
            if self.any { verdicts.is_empty() || verdicts.contains(&true) } else { !verdicts.contains(&false) }
        };
        let of_city = |city: u64| rows.iter().filter(|row| row.0[2] == city).count();
        let is_shown = |row: &Row| !self.hides_small || !has(2) || of_city(row.0[2]) > 1;
        let found = rows.iter().enumerate().filter(|(_, row)| passes(row) && is_shown(row));
        let mut items: Vec<Summary> =
            found.map(|(id, _)| dataset.summary(ListingId(id as u64)).unwrap().clone()).collect();
        let total = items.len() as u64;
        if self.backwards.is_some_and(|is_backwards| is_backwards(filters)) {
            items.reverse();
        }
        let first = (query.page - 1) as usize * usize::from(query.per_page);
        (filters, total, items.into_iter().skip(first).take(query.per_page.into()).collect())
    }

    /// Asks the first examples; what differs is asked again.
    fn examined(&self, rows: &[Row]) -> Verdicts {
        let (dataset, verdicts) = (dataset(rows), Verdicts::default());
        let mut now_ms = 1_000_000;
        loop {
            match schedule::next(&verdicts.table(), &verdicts.noted(), now_ms, now_ms, 6) {
                Step::Opened => break,
                Step::Wait(wait) => now_ms += i64::try_from(wait.as_millis()).unwrap(),
                Step::AskTerm(term) => panic!("{term} is in doubt since a moment ago"),
                Step::Ask { shapes, first } => {
                    assert!(first && shapes.len() <= AT_ONCE);
                    for shape in shapes {
                        self.ask(rows, &dataset, &verdicts, shape, now_ms);
                    }
                    now_ms += 100;
                }
            }
        }
        verdicts.change(|table| table.is_opened = true);
        verdicts
    }

    fn ask(&self, rows: &[Row], dataset: &Dataset, verdicts: &Verdicts, shape: Shape, now_ms: i64) {
        let (entry, doubtful) = (verdicts.table().entry(shape), verdicts.terms());
        if let Some(row) = shape.row() {
            let filtered = open::beside(row, entry.turn);
            let filtered =
                filtered.and_then(|shape| Example::of(dataset, shape, 0, &doubtful, NOW)).map(|one| one.query);
            let Some(case) = OpenCase::of(dataset, (row, entry.turn), &ListForm::default(), filtered, NOW / 1_000_000)
            else {
                return verdicts.change(|table| table.pass_over(shape, example::turns(shape), now_ms));
            };
            let these = self.open.map_or_else(|| vec![row.table()], |open| open(row, entry.turn));
            let at = Moment { now_ms, apart_ms: 1000, is_still: true };
            return verdicts.change(|table| {
                table.asked += 1;
                table.heard(shape, &case.path, Heard::Means(these), at);
            });
        }
        let at = Moment { now_ms, apart_ms: 1000, is_still: true };
        if entry.is_on_trial {
            let term = TermName::all_of(&ListQuery::of_path(&entry.again.unwrap()).unwrap()).next().unwrap();
            let trial = Example::on_trial(dataset, &term, &doubtful).unwrap_or_default();
            let answered = |(term, is_control, example): (TermName, bool, Example)| Tried {
                term,
                is_control,
                heard: self.answer(rows, dataset, &example.query),
            };
            let tried: Vec<Tried> = trial.into_iter().map(answered).collect();
            return verdicts.change(|table| {
                table.asked += tried.len() as u32;
                table.tried(shape, &tried, at);
            });
        }
        let again = entry.again.as_deref().and_then(ListQuery::of_path).map(|query| Example::again(dataset, query));
        let Some(example) = again.or_else(|| Example::of(dataset, shape, entry.turn, &doubtful, NOW)) else {
            return verdicts.change(|table| table.pass_over(shape, example::turns(shape), now_ms));
        };
        assert_eq!(Shape::of(&example.query), shape);
        let heard = match self.answer(rows, dataset, &example.query) {
            Heard::Equal { .. } => Heard::Equal { tells: example.tells },
            heard => heard,
        };
        let path = example.query.path_and_query();
        verdicts.change(|table| {
            table.asked += 1;
            table.heard(shape, &path, heard, at);
        });
    }

    fn disproved(&self, rows: &[Row]) -> Vec<String> {
        let verdicts = self.examined(rows);
        assert!(verdicts.table().asked <= 108, "{}", verdicts.table().asked);
        verdicts.names(State::Disproved).unwrap()
    }
}

/// Names of shapes with these filters; each form of the time is one.
fn shapes(filters: u8) -> Vec<String> {
    let bits = |shape: &Shape| {
        let slugs = TaxonomyKind::ALL.map(|kind| u8::from(shape.has(kind)) << kind.index());
        slugs.iter().sum::<u8>() | u8::from(shape.form().is_some()) << 3
    };
    Shape::of_lists().into_iter().filter(|shape| bits(shape) == filters).map(Shape::name).collect()
}

#[test]
fn an_origin_as_documented_confirms_every_shape_that_its_data_shows() {
    for count in [300, 3_000] {
        let verdicts = Origin::default().examined(&rows(count));
        assert_eq!(
            verdicts.names(State::Confirmed).unwrap().len(),
            31,
            "{count}: {:?}",
            verdicts.names(State::Unproved)
        );
        assert!((72..=108).contains(&verdicts.table().asked), "{}", verdicts.table().asked);
    }
    for few in [rows(1), Vec::new()] {
        let verdicts = Origin::default().examined(&few);
        assert_eq!(verdicts.names(State::Unproved).unwrap().len(), 31);
    }
}

#[test]
fn the_very_second_of_a_listing_means_the_same_beside_terms() {
    let found = Origin { at_or_after_of_terms: true, ..Origin::default() }.disproved(&rows(3_000));
    assert!(found.contains(&"sport+modified_since(zoned)".to_owned()), "{found:?}");
    assert!(!found.contains(&"modified_since(zoned)".to_owned()), "{found:?}");
}

#[test]
fn terms_with_few_listings_are_asked_for_too() {
    let mut rows: Vec<Row> = rows(300).into_iter().filter(|row| row.0[2] < 6).collect();
    rows.extend((6..12).map(|city| Row([0, city % 4, city], 1_690_000_000)));
    let found = Origin { hides_small: true, ..Origin::default() }.disproved(&rows);
    assert!(found.contains(&"city".to_owned()), "{found:?}");
}

#[test]
fn every_zone_is_told_apart() {
    let rows = rows(1_500);
    for quarter in -48..=56 {
        let seconds = quarter * HOUR / 4;
        // Each alone now and then, so that neither is told by the other one.
        let alone: &[_] = if quarter % 12 == 0 { &[(seconds, 0), (0, seconds)] } else { &[(seconds, seconds)] };
        for &(dates, times) in alone {
            let mut expected = vec!["modified_since(date)"; usize::from(dates != 0)];
            expected.extend((times != 0).then_some("modified_since(local)"));
            assert_eq!(Origin { dates, times, ..Origin::default() }.disproved(&rows), expected, "{dates} {times}");
        }
    }
}

#[test]
fn each_filter_that_is_ignored_alone_or_beside_others_disproves_its_own_shapes() {
    let rows = rows(3_000);
    for filter in 0..4_usize {
        let others: Vec<u8> = (0..4_u8).filter(|other| usize::from(*other) != filter).map(|other| 1 << other).collect();
        let pairs = [others[0] | others[1], others[0] | others[2], others[1] | others[2]];
        for beside in [0].into_iter().chain(others.clone()).chain(pairs) {
            let whole = beside | 1 << filter;
            assert_eq!(Origin::ignoring(filter, beside).disproved(&rows), shapes(whole), "{filter} beside {beside:b}");
        }
    }
}

#[test]
fn other_meanings_disprove_what_they_show_in_and_nothing_else() {
    let (rows, singles) = (rows(3_000), [1, 2, 4, 8].map(shapes).concat());
    let any = Origin { any: true, ..Origin::default() }.disproved(&rows);
    let pairs = Shape::of_lists().into_iter().filter(|shape| shape.filters() == 2).map(Shape::name);
    assert_eq!(any, pairs.collect::<Vec<_>>());
    // Whether the instant itself counts is learned of each instant.
    let at_or_after = Origin { at_or_after: true, ..Origin::default() }.examined(&rows);
    assert_eq!(at_or_after.names(State::Confirmed).unwrap().len(), 31);
    let days = Origin { only_dates: true, ..Origin::default() }.disproved(&rows);
    assert_eq!(days, ["modified_since(zoned)", "modified_since(local)"]);
    let refused = Origin { refuses: true, ..Origin::default() }.disproved(&rows);
    let order = Origin { backwards: Some(|filters| filters > 0), ..Origin::default() }.examined(&rows);
    assert_eq!((refused.len(), order.names(State::Disproved).unwrap().len()), (singles.len(), singles.len()));
    let query = Parameters::parse("sport=sport-1&state=state-1").unwrap().list;
    assert!(order.doubts(&query).unwrap().only_order, "a part's order is the whole's");
    let quiet = Origin { refuses_quiet: true, ..Origin::default() }.disproved(&rows);
    assert_eq!(quiet, ["modified_since(date)", "modified_since(zoned)"]);
    let west = Origin { loses_west: true, ..Origin::default() }.disproved(&rows);
    assert_eq!(west, ["modified_since(zoned)"]);
    let only_states = Origin { backwards: Some(|filters| filters == 2), ..Origin::default() }.examined(&rows);
    assert_eq!(only_states.names(State::Disproved).unwrap(), ["state"]);
}

#[test]
fn a_trial_acquits_the_shape_only_if_more_terms_hold_than_differ_and_no_second_one_differs() {
    const EQUAL: Heard = Heard::Equal { tells: true };
    const SAYS_NOTHING: Heard = Heard::Equal { tells: false };
    const OTHER: Heard = Heard::Differs { only_order: false };
    let query = |n: usize| Parameters::parse(&format!("sport=sport-{n}")).unwrap().list;
    let term = |n: usize| TermName::all_of(&query(n)).next().unwrap();
    let (shape, path) = (Shape::of(&query(0)), query(0).path_and_query());
    let at = |now_ms: i64| Moment { now_ms, apart_ms: 1000, is_still: true };
    for (controls, acquitted) in [
        (vec![EQUAL], Some(1)),
        (vec![EQUAL, EQUAL, SAYS_NOTHING, SAYS_NOTHING], Some(1)),
        (vec![EQUAL, EQUAL, OTHER, EQUAL], Some(2)),
        (vec![EQUAL, EQUAL, Heard::Aged, EQUAL], Some(2)),
        (vec![EQUAL, EQUAL, Heard::Aged, Heard::Aged, Heard::Aged], None),
        (vec![EQUAL, OTHER], None),
        (vec![EQUAL, OTHER, EQUAL, OTHER, EQUAL], None),
        (vec![SAYS_NOTHING, SAYS_NOTHING], None),
        (vec![], None),
    ] {
        let mut table = Table::default();
        table.heard(shape, &path, OTHER, at(0));
        assert_eq!(table.heard(shape, &path, OTHER, at(1000)), State::Disproved);
        assert!(table.entry(shape).is_on_trial);
        let controls = controls.iter().cloned().enumerate().map(|(n, heard)| (n + 1, true, heard));
        let answers = [(0, false, OTHER)].into_iter().chain(controls);
        let answers: Vec<Tried> =
            answers.map(|(n, is_control, heard)| Tried { term: term(n), is_control, heard }).collect();

        // Without one of the answers, nothing is decided yet.
        let mut silent = answers.clone();
        silent.push(Tried { term: term(9), is_control: true, heard: Heard::Nothing });
        table.tried(shape, &silent, at(2000));
        let waits = table.entry(shape);
        assert!(waits.is_on_trial && waits.due_ms > 2000 && table.terms().is_empty(), "{answers:?}");

        // What differs for longer than a copy may be old differs.
        for now_ms in (3000..30_000).step_by(1000) {
            if table.entry(shape).is_on_trial {
                table.tried(shape, &answers, at(now_ms));
            }
        }
        let state = if acquitted.is_some() { State::Confirmed } else { State::Disproved };
        assert_eq!((table.entry(shape).state, table.entry(shape).is_on_trial), (state, false), "{answers:?}");
        assert_eq!(table.terms().len(), acquitted.unwrap_or_default(), "{answers:?}");
    }
}

#[test]
fn where_one_term_differs_and_another_does_not_the_term_is_in_doubt_and_not_the_shape() {
    let rows = rows(600);
    let largest = |kind: usize| {
        let count = |n: &u64| rows.iter().filter(|row| row.0[kind] == *n).count();
        (0..12_u64).max_by_key(count).unwrap()
    };
    let sport = largest(0);
    let named = |verdicts: &Verdicts| verdicts.terms().iter().map(ToString::to_string).collect::<Vec<_>>();
    for (origin, terms) in [
        (Origin { matches_parts: true, ..Origin::default() }, vec!["city=city-1".to_owned()]),
        (Origin { loses: Some((0, sport)), ..Origin::default() }, vec![format!("sport=sport-{sport}")]),
    ] {
        let verdicts = origin.examined(&rows);
        assert_eq!((verdicts.names(State::Disproved).unwrap(), named(&verdicts)), (Vec::new(), terms.clone()));
        assert_eq!(verdicts.names(State::Confirmed).unwrap().len(), 31, "with other terms");
        let query = |raw: &str| Parameters::parse(raw).unwrap().list;
        let doubt = |raw: &str| verdicts.doubts(&query(raw)).map(|doubt| doubt.name);
        let [term] = &terms[..] else { unreachable!() };
        assert_eq!(doubt(term), Some(term.clone()));
        assert_eq!(doubt(&format!("{term}&state=state-1&modified_since=2024-01-01")), Some(term.clone()));
        assert_eq!((doubt("city=city-2&sport=other"), doubt("page=2")), (None, None));
        let told = verdicts.table().told();
        assert!(told.check().is_ok());
        assert_eq!(Table::of_told(&told, true).terms(), verdicts.terms(), "it travels");

        // A day later it is asked again, and the doubt ends with two equal answers apart.
        let (mut now_ms, mut answers) = (2_000_000, vec![Heard::Differs { only_order: false }]);
        answers.extend([
            Heard::Equal { tells: true },
            Heard::Nothing,
            Heard::Equal { tells: true },
            Heard::Equal { tells: true },
        ]);
        let mut asked_ms = Vec::new();
        for heard in answers {
            loop {
                match schedule::next(&verdicts.table(), &verdicts.noted(), now_ms, now_ms, 6) {
                    Step::Wait(wait) => now_ms += i64::try_from(wait.as_millis()).unwrap(),
                    Step::AskTerm(asked) => {
                        assert_eq!(asked.to_string(), *term);
                        asked_ms.push(now_ms);
                        let at = Moment { now_ms, apart_ms: 1000, is_still: false };
                        break verdicts.change(|table| table.heard_of_term(&asked, Some(&heard), at));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        let gaps: Vec<i64> = asked_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!((gaps, named(&verdicts).len()), (vec![DAY_MS, 1000, DAY_MS, 1000], 0));
        assert_eq!(doubt(term), None);
    }
    // Such a term may have no listings; then others without any are tried, too.
    let nothing = |index: String| {
        index.replace(']', r#",{"slug":"none","name":"No","count":0},{"slug":"nil","name":"Nil","count":0}]"#)
    };
    let of = dataset_of(&rows, nothing);
    let of_sport = Shape::of(&ListQuery::default().with_term(TaxonomyKind::Sports, "a"));
    let none = |turn| Example::of(&of, of_sport, turn, &DoubtfulTerms::new(), NOW);
    let asked: Vec<_> = [3, 7]
        .into_iter()
        .map(|turn| none(turn).unwrap().query.slug(TaxonomyKind::Sports).unwrap().to_owned())
        .collect();
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), 2);
    let term = TermName { kind: TaxonomyKind::Sports, slug: "none".into() };
    let trial = Example::on_trial(&of, &term, &DoubtfulTerms::new()).unwrap();
    let tried = trial.iter().map(|(term, is_control, _)| (&*term.slug, *is_control));
    assert_eq!(tried.collect::<Vec<_>>()[..2], [("none", false), ("nil", false)]);
    // Both sports that are asked first differ: it is the filter.
    let ignored = Origin::ignoring(0, 0).examined(&rows);
    assert_eq!((named(&ignored).len(), ignored.names(State::Disproved).unwrap()), (0, vec!["sport".to_owned()]));
}

#[test]
fn a_row_means_what_two_examples_say_and_another_meaning_is_read_through() {
    let rows = rows(300);
    let meaning = |open: fn(OpenRow, u16) -> Vec<Meaning>, row| {
        let verdicts = Origin { open: Some(open), ..Origin::default() }.examined(&rows);
        (verdicts.meaning(row), verdicts.rows()[row.as_str()].clone())
    };
    let zero = OpenRow::PageZero;
    let refused = Meaning::Refused(422);
    assert_eq!(meaning(|_, _| vec![Meaning::Refused(422)], zero), (Some(refused), "refused with 422".to_owned()));
    // An example may allow several, of which the other allows one.
    let several = |_, turn| if turn == 0 { vec![Meaning::Empty, Meaning::Absent] } else { vec![Meaning::Absent] };
    assert_eq!(meaning(several, zero), (Some(Meaning::Absent), "as if absent".to_owned()));
    let other = |row: OpenRow, _| if row == OpenRow::PageZero { Vec::new() } else { vec![row.table()] };
    assert_eq!(meaning(other, zero), (None, "forwarded".to_owned()));
    // Two examples that differ.
    let either = |row: OpenRow, turn| match (row, turn % 2) {
        (OpenRow::PageZero, 0) => vec![Meaning::Empty],
        (OpenRow::PageZero, _) => vec![Meaning::Absent],
        _ => vec![row.table()],
    };
    assert_eq!(meaning(either, zero).0, None);
}

#[test]
fn a_row_whose_meaning_changes_is_read_through_until_the_new_one_is_found() {
    let shape = Shape::of_row(OpenRow::PageZero);
    let verdicts = Verdicts::default();
    let hear = |meaning: Meaning, now_ms| {
        let at = Moment { now_ms, apart_ms: 1000, is_still: true };
        verdicts.change(|table| table.heard(shape, "/api/listings.json?page=0", Heard::Means(vec![meaning]), at));
        (verdicts.meaning(OpenRow::PageZero), verdicts.table().entry(shape).due_ms)
    };
    let (before, after) = (Meaning::Refused(400), Meaning::Absent);
    assert_eq!(hear(before, 1_000).0, None, "one example");
    assert_eq!(hear(before, 2_000).0, Some(before));
    assert_eq!(hear(after, 10_000), (None, 11_000));
    assert_eq!(hear(after, 11_000), (None, 12_000), "disproved, and asked again soon");
    hear(after, 12_000);
    assert_eq!(hear(after, 13_000).0, Some(after));
    let told = verdicts.table().told();
    assert!(Table::of_told(&told, true).meaning(OpenRow::PageZero) == Some(after) && told.check().is_ok());
    let wrong = serde_json::to_string(&told).unwrap().replace(r#""absent""#, r#"{"refused":302}"#);
    let wrong: Told = serde_json::from_str(&wrong).unwrap();
    assert!(wrong.check().unwrap_err().contains("302"));
}

#[test]
fn a_list_that_was_suspected_is_answered_again_once_it_is_as_ours() {
    let rows = rows(300);
    let (dataset, query) = (dataset(&rows), Parameters::parse("state=state-1").unwrap().list);
    let verdicts = Origin::default().examined(&rows);
    let ask = |origin: Origin, now_ms| origin.ask(&rows, &dataset, &verdicts, Shape::of(&query), now_ms);
    verdicts.doubt(&query, 5_000_000);
    let wider = Parameters::parse("state=state-1&sport=sport-1").unwrap().list;
    assert!(verdicts.doubts(&query).is_some() && verdicts.doubts(&wider).is_some(), "confirmed before, but not since");
    ask(Origin::default(), 5_000_100);
    assert_eq!((verdicts.doubts(&query), verdicts.doubts(&wider)), (None, None));
    verdicts.doubt(&query, 6_000_000);
    ask(Origin::ignoring(1, 0), 6_000_100);
    // So does another state.
    ask(Origin::ignoring(1, 0), 6_000_150);
    assert_eq!(verdicts.names(State::Disproved).unwrap(), ["state"]);
    // The whole is asked itself, three times, and is as ours. In every other turn the data has no example.
    let mut turns = 0;
    while verdicts.doubts(&wider).is_some() && turns < 9 {
        turns += 1;
        Origin::default().ask(&rows, &dataset, &verdicts, Shape::of(&wider), 6_000_200);
    }
    assert_eq!(turns, 5);
    assert!(verdicts.doubts(&query).is_some() && verdicts.doubts(&wider).is_none());
    // Two answers, so far apart that none is an old copy.
    ask(Origin::default(), 7_000_000);
    ask(Origin::default(), 7_000_500);
    assert!(verdicts.doubts(&query).is_some());
    ask(Origin::default(), 7_001_100);
    assert_eq!((verdicts.doubts(&query), verdicts.names(State::Disproved)), (None, Some(Vec::new())));
}

#[test]
fn slugs_that_differ_in_accents_are_parts_of_each_other() {
    let dataset = dataset_of(&rows(600), |index| index.replace(r#""state-3""#, r#""St\u00e1te-2""#));
    let of = TermName { kind: TaxonomyKind::States, slug: "state-2".into() };
    let tried = Example::on_trial(&dataset, &of, &DoubtfulTerms::new()).unwrap();
    let tried: Vec<(&str, bool)> = tried.iter().map(|(term, is_control, _)| (&*term.slug, *is_control)).collect();
    let parts: Vec<&str> = tried.iter().filter(|(_, is_control)| !is_control).map(|(slug, _)| *slug).collect();
    assert_eq!(parts, ["state-2", "Státe-2"]);
    assert!(tried.len() > 3, "{tried:?}");
}

#[test]
fn what_differed_at_first_has_its_parts_asked_the_same_once_all_were_asked() {
    let list = |raw: &str| Parameters::parse(raw).unwrap().list;
    let query = list("sport=sport-1&state=state-1&modified_since=2024-01-01&page=2&per_page=7");
    let mut table = Table::default();
    for now_ms in [1000, 2000] {
        let at = Moment { now_ms, apart_ms: 0, is_still: true };
        table.heard(Shape::of(&query), &query.path_and_query(), Heard::Differs { only_order: false }, at);
    }
    let pair = list("sport=sport-1&state=state-1&page=2&per_page=7");
    assert_eq!(table.entry(Shape::of(&pair)).again, None);
    table.open(3000);
    let entry = table.entry(Shape::of(&pair));
    assert_eq!((entry.due_ms, entry.again), (3000, Some(pair.path_and_query())));
}

#[test]
fn what_is_beside_a_difference_is_asked_the_same_and_confirmed_by_three_examples() {
    let list = |raw: &str| Parameters::parse(raw).unwrap().list;
    let raw = "city=city-1&modified_since=2024-01-01&page=2&per_page=99";
    let (path, shape) = (list(raw).path_and_query(), Shape::of(&list(raw)));
    let verdicts = Verdicts::default();
    let mut now_ms = 1_000_000;
    let mut hear = |shape, path: &str, heard| {
        now_ms += 1000;
        let at = Moment { now_ms, apart_ms: 0, is_still: true };
        verdicts.change(|table| table.heard(shape, path, heard, at))
    };
    verdicts.change(|table| table.is_opened = true);
    for state in [State::Suspected, State::Disproved] {
        assert_eq!(hear(shape, &path, Heard::Differs { only_order: false }), state);
    }
    for (raw, time) in [
        ("city=city-1&page=2&per_page=99", None),
        ("modified_since=2024-01-01&page=2&per_page=99", Some("2024-01-01")),
        ("city=city-1&modified_since=2024-01-01T00:00:00Z&page=2&per_page=99", Some("2024-01-01T00:00:00Z")),
        ("city=city-1&modified_since=2024-01-01T00:00:00&page=2&per_page=99", Some("2024-01-01T00:00:00")),
    ] {
        let entry = verdicts.table().entry(Shape::of(&list(raw)));
        assert!(entry.due_ms > 0);
        let again = ListQuery::of_path(&entry.again.unwrap()).unwrap();
        assert_eq!((again.per_page, again.page), (99, 2));
        assert_eq!(again.modified_since.as_ref().map(|since| &*since.text), time);
    }
    let whole = list("city=city-1&sport=sport-1&modified_since=2024-01-01");
    assert_eq!(verdicts.table().differed(Shape::of(&whole)), Some(path));
    for (path, is_in_doubt) in [("/1", true), ("/2", true), ("/2", true), ("/3", false)] {
        hear(Shape::of(&whole), path, Heard::Equal { tells: true });
        assert_eq!(verdicts.doubts(&whole).is_some(), is_in_doubt, "{path}");
    }
}

#[test]
fn what_clients_ask_is_next_but_not_again_and_again() {
    let rows = rows(300);
    let verdicts = Origin::default().examined(&rows);
    let [sport, city] = ["sport=sport-1&per_page=3", "city=city-1"].map(|raw| Parameters::parse(raw).unwrap().list);
    let next = |now_ms: i64| match schedule::next(&verdicts.table(), &verdicts.noted(), now_ms, 0, 6) {
        Step::Ask { shapes, first: false } => shapes[0].name(),
        other => panic!("{other:?}"),
    };
    verdicts.note(&sport);
    verdicts.note(&ListQuery::default());
    let later = 7 * HOUR * 1000 + 2_000_000;
    assert_eq!(next(later), "sport");
    assert_eq!(verdicts.take_noted(Shape::of(&sport)), Some(sport.clone()));
    assert_ne!(next(later), "sport", "it is asked once");
    let at = Moment { now_ms: later, apart_ms: 1000, is_still: true };
    let equal = Heard::Equal { tells: true };
    verdicts.change(|table| table.heard(Shape::of(&sport), &sport.path_and_query(), equal, at));
    verdicts.note(&sport);
    assert_ne!(next(later + 1000), "sport");
    verdicts.note(&city);
    assert_eq!(next(later + 1000), "city");
    assert_eq!(next(later + 7 * HOUR * 1000), "city");
}

#[test]
fn a_client_chooses_the_filters_of_an_example_and_no_bytes_of_its_time() {
    let of = dataset(&rows(300));
    let written = |text: &str| {
        let query = Parameters::parse(&format!("sport=sport-1&modified_since={text}")).unwrap().list;
        Some(Example::noted(&of, query)?.query.modified_since?.text.to_string())
    };
    for (text, expected) in [
        ("2024-01-02", Some("2024-01-02")),
        ("2024-01-02T03:04:05", Some("2024-01-02T03:04:05")),
        // A `+` that was not escaped.
        ("2024-01-02T03:04:05+02:00", Some("2024-01-02T01:04:05Z")),
        ("2024-01-02t03:04:05z", Some("2024-01-02T03:04:05Z")),
        ("2024-01-02T03:04:05%2B02:00", Some("2024-01-02T01:04:05Z")),
        // Origins differ in what they take, and mean nothing by it.
        ("2024-01-02T03:04:05.25Z", None),
        ("0000-01-01", None),
        ("0001-01-01T00:00:00%2B14:00", None),
    ] {
        assert_eq!(written(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn what_moves_or_is_not_answered_is_asked_again_and_ends() {
    let shape = Shape::all()[0];
    let differs = Heard::Differs { only_order: false };
    for (heard, is_still, tries, expected) in [
        (differs.clone(), true, 2, State::Disproved),
        (differs, false, 12, State::Disproved),
        (Heard::Aged, true, 3, State::Suspected),
        (Heard::Aged, true, 4, State::Disproved),
        (Heard::Nothing, true, 20, State::Unproved),
    ] {
        let verdicts = Verdicts::default();
        let mut now_ms = 1_000_000;
        let mut state = State::Unproved;
        for _ in 0..tries {
            let at = Moment { now_ms, apart_ms: 1000, is_still };
            state = verdicts.change(|table| table.heard(shape, "/api/listings.json?sport=a", heard.clone(), at));
            now_ms = verdicts.table().entry(shape).due_ms.max(now_ms);
        }
        assert_eq!(state, expected, "{heard:?}");
        let entry = verdicts.table().entry(shape);
        assert!(entry.due_ms <= now_ms + 600_000);
        // No other example clears what a copy may explain.
        assert!(expected != State::Suspected || entry.again.as_deref() == Some("/api/listings.json?sport=a"));
    }
}

#[test]
fn what_a_bundle_tells_is_what_was_known() {
    let origin = Origin { backwards: Some(|filters| filters == 1), ..Origin::ignoring(2, 0) };
    let verdicts = origin.examined(&rows(300));
    let told = verdicts.table().told();
    let other = Verdicts::default();
    other.change(|table| *table = Table::of_told(&told, true));
    for state in [State::Confirmed, State::Disproved, State::Unproved] {
        assert_eq!(other.names(state), verdicts.names(state));
    }
    assert_eq!((other.table().told(), other.names(State::Disproved).unwrap().len()), (told, 2));
    let sport = Parameters::parse("sport=sport-1").unwrap().list;
    assert_eq!(other.doubts(&sport), verdicts.doubts(&sport));
    assert!(other.doubts(&sport).unwrap().only_order);
    // Another origin is asked anew; the same one of what was imported, too, but what a bundle said counts meanwhile.
    other.change(|table| table.begin("http://origin.test/"));
    assert!(!other.table().is_opened && other.doubts(&sport).is_some());
    other.change(|table| table.begin("http://other.test/"));
    assert_eq!(other.doubts(&sport), None);
    other.change(|table| *table = Table::of_told(&Told::of(&["city", "unheard-of"], &["modified_since(date)"]), true));
    let [city, date] = ["city=a", "modified_since=2026-01-01"].map(|raw| Parameters::parse(raw).unwrap().list);
    assert!(!other.doubts(&city).unwrap().only_order && other.doubts(&date).unwrap().only_order);
    other.ignore(true);
    assert_eq!(other.doubts(&city), None);
}

#[test]
fn slugs_that_share_a_word_are_asked_first_and_tried_together() {
    let names = [
        "new-york",
        "new-jersey",
        "texas",
        "ohio",
        "utah",
        "iowa",
        "maine",
        "idaho",
        "nevada",
        "oregon",
        "kansas",
        "alaska",
    ];
    let rename = |index: String| {
        let numbered = names.iter().enumerate().rev();
        numbered.fold(index, |index, (n, name)| index.replace(&format!("\"city-{n}\""), &format!("\"{name}\"")))
    };
    let of = dataset_of(&rows(600), rename);
    let city = Shape::of(&ListQuery::default().with_term(TaxonomyKind::Cities, "a"));
    let asked = |turn| {
        let example = Example::of(&of, city, turn, &DoubtfulTerms::new(), NOW).unwrap();
        example.query.slug(TaxonomyKind::Cities).unwrap().to_owned()
    };
    assert!([2, 4].map(asked).iter().all(|slug| slug.starts_with("new-")), "{:?}", [0, 1, 2, 4].map(asked));
    let term = TermName { kind: TaxonomyKind::Cities, slug: "new-york".into() };
    let trial = Example::on_trial(&of, &term, &DoubtfulTerms::new()).unwrap();
    let (controls, tried): (Vec<_>, Vec<_>) = trial.iter().partition(|(_, is_control, _)| *is_control);
    let mut tried: Vec<&str> = tried.iter().map(|(term, ..)| &*term.slug).collect();
    tried.sort_unstable();
    assert_eq!((tried, controls.len()), (vec!["new-jersey", "new-york"], 4));
}
