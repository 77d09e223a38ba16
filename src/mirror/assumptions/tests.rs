//! Origins whose filters mean something else, against a data set that shows it or does not.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::Summary;
use crate::api::modified;
use crate::api::page::Envelope;
use crate::api::query::Parameters;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::content::Content;
use crate::snapshot::membership::Evidence;

use Assumption::{And, CityHeeded, Midnight, Offset, Order, SinceHeeded, SportHeeded, StateHeeded, Strict, Time};

const HOUR: i64 = 3600;

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
        format!("[{}]", terms.join(",")).into()
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
    /// By taxonomy, then `modified_since`.
    dropped: [bool; 4],
    any: bool,
    at_or_after: bool,
    /// Where dates begin, and what times without offset are: seconds ahead of UTC.
    dates: i64,
    times: i64,
    only_dates: bool,
    backwards: bool,
    /// Every filtered list is refused.
    refuses: bool,
}

impl Origin {
    fn answer(&self, rows: &[Row], query: &ListQuery) -> Answer {
        if self.refuses {
            return Answer::Other("status 400".to_owned());
        }
        let since = query.modified_since.as_ref().filter(|_| !self.dropped[3]).map(|since| {
            let at = modified::parse(&since.text).unwrap() / 1_000_000_000;
            let is_local = since.text.len() == 19;
            let at = if is_local { at - self.times } else { at };
            if since.text.len() == 10 || self.only_dates { at.div_euclid(86_400) * 86_400 - self.dates } else { at }
        });
        let verdicts = |row: &Row| {
            let slugs = TaxonomyKind::ALL.into_iter().filter(|kind| !self.dropped[kind.index()]);
            let slugs = slugs.filter_map(|kind| {
                let number: u64 = query.slug(kind)?.rsplit('-').next()?.parse().ok()?;
                Some(row.0[kind.index()] == number)
            });
            let since = since.map(|at| row.1 > at || (self.at_or_after && row.1 == at));
            slugs.chain(since).collect::<Vec<bool>>()
        };
        let passes = |row: &Row| {
            let verdicts = verdicts(row);
            if self.any { verdicts.is_empty() || verdicts.contains(&true) } else { !verdicts.contains(&false) }
        };
        let ids = rows.iter().enumerate().filter(|(_, row)| passes(row)).map(|(id, _)| ListingId(id as u64));
        let mut ids: Vec<ListingId> = ids.collect();
        let total = ids.len() as u64;
        if self.backwards {
            ids.reverse();
        }
        ids.truncate(100);
        Answer::Page { total, ids }
    }

    /// Asks every question; what differs is asked twice.
    fn findings(&self, rows: &[Row]) -> Findings {
        let dataset = dataset(rows);
        let mut inquiry = Inquiry::of(&dataset, Vec::new());
        let mut asked = Vec::new();
        while let Some(query) = inquiry.next().cloned() {
            asked.push(query.path_and_query());
            inquiry.saw(&dataset, self.answer(rows, &query), false);
        }
        assert!(asked.len() <= MOST, "{asked:#?}");
        let differing = inquiry.differing().count();
        inquiry.repeat();
        let mut repeated = 0;
        while let Some(query) = inquiry.next().cloned() {
            repeated += 1;
            inquiry.saw(&dataset, self.answer(rows, &query), false);
        }
        assert!(repeated == differing && !inquiry.is_unsettled && inquiry.is_repeated());
        inquiry.findings()
    }
}

#[test]
fn an_origin_as_assumed_bears_out_everything_that_its_data_shows() {
    for count in [300, 3_000] {
        let expected = Findings { disproved: Vec::new(), proved: Assumption::ALL.to_vec() };
        assert_eq!(Origin::default().findings(&rows(count)), expected, "{count}");
    }
    let few = Origin::default().findings(&rows(1));
    assert!(few.disproved.is_empty() && !few.proved.contains(&CityHeeded) && !few.proved.contains(&Order), "{few:?}");
    let none = Origin::default().findings(&[]);
    assert_eq!(none, Findings::default());
}

#[test]
fn every_zone_is_told_apart() {
    let rows = rows(3_000);
    for quarter in -48..=56 {
        let seconds = quarter * HOUR / 4;
        let dates = Origin { dates: seconds, ..Origin::default() }.findings(&rows);
        let times = Origin { times: seconds, ..Origin::default() }.findings(&rows);
        let expected = |one| if seconds == 0 { Vec::new() } else { vec![one] };
        assert_eq!(dates.disproved, expected(Midnight), "{seconds}");
        assert_eq!(times.disproved, expected(Offset), "{seconds}");
    }
}

#[test]
fn what_is_wrong_is_named_and_what_is_not_is_borne_out() {
    let dropped =
        |which: &[usize]| Origin { dropped: std::array::from_fn(|n| which.contains(&n)), ..Origin::default() };
    let rows = rows(3_000);
    for (origin, disproved) in [
        // Both questions with several filters have a sport.
        (dropped(&[0]), &[SportHeeded, And][..]),
        (dropped(&[1]), &[StateHeeded]),
        (dropped(&[2]), &[CityHeeded]),
        (Origin { any: true, ..Origin::default() }, &[And]),
        (Origin { at_or_after: true, ..Origin::default() }, &[Strict]),
        (Origin { backwards: true, ..Origin::default() }, &[Order]),
        (Origin { backwards: true, at_or_after: true, ..Origin::default() }, &[Strict, Order]),
    ] {
        let findings = origin.findings(&rows);
        assert_eq!(findings.disproved, disproved);
        assert!(
            Assumption::ALL.iter().all(|one| disproved.contains(one) != findings.proved.contains(one)),
            "{findings:?}"
        );
    }
    for (origin, disproved) in [
        (dropped(&[3]), &[SinceHeeded, Strict, Midnight, Offset, Time][..]),
        (dropped(&[0, 1, 2]), &[SportHeeded, StateHeeded, CityHeeded]),
        (dropped(&[0, 1, 2, 3]), &[SportHeeded, StateHeeded, CityHeeded, SinceHeeded]),
        (Origin { only_dates: true, ..Origin::default() }, &[Time]),
        (Origin { refuses: true, ..Origin::default() }, &[SportHeeded, CityHeeded, SinceHeeded, Midnight, Offset]),
    ] {
        let findings = origin.findings(&rows);
        assert!(
            disproved.iter().all(|one| findings.disproved.contains(one)),
            "{findings:?} lacks some of {disproved:?}"
        );
        assert!(!findings.proved.iter().any(|one| findings.disproved.contains(one)));
    }
}

#[test]
fn an_answer_counts_only_if_it_is_repeated() {
    let rows = rows(300);
    let (dataset, other) = (dataset(&rows), dataset(&rows[1..]));
    let dropped = Origin { dropped: [false, false, true, false], ..Origin::default() };
    // Again: as expected; another answer; an older copy; about other data.
    for (again, is_old, data, unsettled, disproved) in [
        (Origin::default(), false, &dataset, false, &[][..]),
        (Origin { dropped: [true; 4], ..dropped }, false, &dataset, true, &[CityHeeded]),
        (dropped, true, &dataset, true, &[CityHeeded]),
        (dropped, false, &dataset, false, &[CityHeeded]),
        (Origin { dropped: [true; 4], ..dropped }, false, &other, false, &[CityHeeded]),
    ] {
        let mut inquiry = Inquiry::of(&dataset, Vec::new());
        while let Some(query) = inquiry.next().cloned() {
            inquiry.saw(&dataset, dropped.answer(&rows, &query), false);
        }
        assert_eq!(inquiry.findings().disproved, [CityHeeded]);
        assert!(inquiry.is_about(&dataset) && !inquiry.is_about(&other), "only a repetition may be about other data");
        inquiry.repeat();
        assert!(inquiry.is_about(&other));
        while let Some(query) = inquiry.next().cloned() {
            inquiry.saw(data, again.answer(&rows, &query), is_old);
        }
        assert_eq!(inquiry.is_unsettled, unsettled);
        assert!(unsettled || inquiry.findings().disproved == disproved, "{:?}", inquiry.findings());
    }
}

#[test]
fn what_an_audit_doubts_is_asked_first_and_disproves_what_the_query_uses() {
    let rows = rows(3_000);
    let dataset = dataset(&rows);
    // The origin is as assumed but for the list that is doubted.
    for (doubted, expected) in [
        ("state=state-1", StateHeeded),
        ("sport=sport-1&state=state-1", And),
        ("modified_since=2025-06-01", Midnight),
        ("modified_since=2025-06-01T00:00:01", Offset),
        ("modified_since=2025-06-01T00:00:01Z", Time),
    ] {
        let query = Parameters::parse(doubted).unwrap().list;
        let mut inquiry = Inquiry::of(&dataset, vec![query.clone()]);
        assert_eq!(inquiry.next(), Some(&query));
        for round in 0..2 {
            let mut asked = 0;
            while let Some(next) = inquiry.next().cloned() {
                let wrong = Answer::Page { total: 7_777, ids: Vec::new() };
                let answer = if next == query { wrong } else { Origin::default().answer(&rows, &next) };
                inquiry.saw(&dataset, answer, false);
                asked += 1;
            }
            assert!(asked <= MOST, "{asked}");
            assert_eq!(inquiry.differing().collect::<Vec<_>>(), [query.path_and_query()]);
            if round == 0 {
                inquiry.repeat();
            }
        }
        let findings = inquiry.findings();
        assert_eq!(findings.disproved, [expected], "{doubted}");
        assert!(Assumption::ALL.iter().all(|one| findings.proved.contains(one) != (*one == expected)), "{findings:?}");
    }
    let states = |count| (0..count).map(|n| Parameters::parse(&format!("state=state-{n}")).unwrap().list).collect();
    assert_eq!(Inquiry::of(&dataset, states(4)).open.len(), Inquiry::of(&dataset, states(9)).open.len(), "bounded");
}
