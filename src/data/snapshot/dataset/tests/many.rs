//! Thousands of listings, so many that blocks are counted, with terms that the origin listed and that share listings
//! with others, and with listings whose `modified` cannot be read.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;
use crate::data::snapshot::membership::ListedTerm;

const NAMES: [&str; 3] = ["sport", "state", "city"];
/// Values that listings have, of each kind; one more has no term, and the next is what the origin listed.
const VALUES: usize = 4;
const LISTED: usize = VALUES + 1;

#[derive(Clone)]
pub(super) struct Many {
    pub(super) id: u64,
    pub(super) values: [usize; 3],
    /// By kind, whether the origin lists it for the term whose name explains nothing.
    pub(super) listed: [bool; 3],
    /// Seconds since the start of a year.
    pub(super) modified: Option<i64>,
}

impl Many {
    fn summary(&self) -> Summary {
        let [sport, state, city] = self.values;
        let modified =
            self.modified.map_or("soon".to_owned(), |at| format!("2024-01-01T00:{:02}:{:02}Z", at / 60, at % 60));
        let raw = format!(
            r#"{{"id":{},"city":"City {city}","state":"State {state}","sport":"sport-{sport}","modified":"{modified}"}}"#,
            self.id
        );
        Summary { id: ListingId(self.id), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
    }

    fn is_in(&self, kind: usize, value: usize) -> bool {
        if value == LISTED { self.listed[kind] } else { self.values[kind] == value }
    }
}

pub(super) fn many(seed: u64, newest_first: bool, unreadable: u64) -> Vec<Many> {
    let mut rows: Vec<Many> = (0..3000 + seed % 3000)
        .map(|id| {
            let random = |what: u64| xxh3_64_with_seed(&[id, what].map(u64::to_le_bytes).concat(), seed);
            // Small values are frequent, so that lists are long and short.
            let value = |what| (random(what) % VALUES as u64).min(random(what + 10) % VALUES as u64) as usize;
            Many {
                id,
                values: [value(0), value(1), value(2)],
                listed: [3, 4, 5].map(|what| random(what).is_multiple_of(5)),
                modified: (random(6) % 1000 >= unreadable).then(|| (random(7) % 3600).cast_signed()),
            }
        })
        .collect();
    rows.sort_by_cached_key(|row| xxh3_64_with_seed(&row.id.to_le_bytes(), !seed));
    if newest_first {
        rows.sort_by_key(|row| std::cmp::Reverse(row.modified));
    }
    rows
}

pub(super) fn content(rows: &[Many]) -> Content {
    let taxonomies = std::array::from_fn(|kind| {
        let name = NAMES[kind];
        let label = name[..1].to_uppercase() + &name[1..];
        let term = |value: usize| {
            // The last one's count is not that of its name: it stays in doubt until the origin lists it.
            let count = rows.iter().filter(|row| row.is_in(kind, value)).count();
            format!(r#"{{"slug":"{name}-{value}","label":"{label} {value}","n":{count}}}"#)
        };
        format!("[{}]", (0..VALUES).chain([LISTED]).map(term).collect::<Vec<_>>().join(",")).into()
    });
    let envelope = Envelope::default();
    Content { envelope, taxonomies, summaries: rows.iter().map(Many::summary).collect() }
}

/// The data set, with nothing left in doubt.
fn explained(rows: &[Many]) -> Dataset {
    let dataset = Dataset::build(content(rows), &evidence(rows)).unwrap();
    assert!(dataset.doubtful().is_empty());
    dataset
}

/// What the origin lists for each term in doubt.
pub(super) fn evidence(rows: &[Many]) -> Evidence {
    let before = Dataset::build(content(rows), &Evidence::new()).unwrap();
    assert_eq!(before.doubtful().len(), 3);
    let listed = before.doubtful().iter().map(|(kind, slug, fingerprint)| {
        let ids = rows.iter().filter(|row| row.listed[kind.index()]).map(|row| ListingId(row.id)).collect();
        ((*kind, slug.clone()), ListedTerm { ids, fingerprint: *fingerprint, snapshot: before.id.to_string() })
    });
    listed.collect()
}

#[test]
fn what_a_data_set_rests_on_explains_it_again_and_has_one_form() {
    let rows = many(7, true, 0);
    let dataset = explained(&rows);
    let rests_on = dataset.evidence();
    assert_eq!(rests_on.len(), 3);
    let again = Dataset::build(content(&rows), &rests_on).unwrap();
    assert!(again.doubtful().is_empty());
    assert_eq!(again.evidence(), rests_on);
    // In another order, beside what is of no use any more.
    let mut collected = evidence(&rows);
    for listed in collected.values_mut() {
        listed.ids.reverse();
    }
    let stale = ListedTerm { ids: vec![ListingId(1)], fingerprint: [0; 16], snapshot: "older".to_owned() };
    collected.insert((TaxonomyKind::Cities, "no-such-city".to_owned()), stale.clone());
    collected.insert((TaxonomyKind::Cities, "city-0".to_owned()), stale);
    assert_eq!(Dataset::build(content(&rows), &collected).unwrap().evidence(), rests_on);
    assert!(Dataset::build(content(&rows), &Evidence::new()).unwrap().evidence().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn every_query_of_thousands_finds_what_a_naive_scan_finds(
        seed: u64,
        newest_first: bool,
        unreadable in prop_oneof![Just(0_u64), Just(100)],
    ) {
        let rows = many(seed, newest_first, unreadable);
        let dataset = explained(&rows);
        let slugs = || (0..=LISTED).map(Some).chain([None]);
        let all = slugs().flat_map(|a| slugs().flat_map(move |b| slugs().map(move |c| [a, b, c])));
        for (number, slugs) in (0_u64..).zip(all) {
            let random = |what: u64| xxh3_64_with_seed(&[number, what].map(u64::to_le_bytes).concat(), seed);
            for since in [None, Some((random(0) % 3600).cast_signed()), Some(3590)] {
                let matching: Vec<u64> = rows
                    .iter()
                    .filter(|row| (0..3).all(|kind| slugs[kind].is_none_or(|value| row.is_in(kind, value))))
                    .filter(|row| since.is_none_or(|since| row.modified.is_some_and(|at| at > since)))
                    .map(|row| row.id)
                    .collect();
                let per_page = (1 + random(1) % 100) as u16;
                let pages = matching.len() as u64 / u64::from(per_page) + 2;
                let page = 1 + random(2) % pages;
                let query = ListQuery {
                    page,
                    per_page,
                    slugs: std::array::from_fn(|kind| slugs[kind].map(|value| format!("{}-{value}", NAMES[kind]).into())),
                    modified_since: since
                        .map(|at| ModifiedSince { text: "x".into(), at: (1_704_067_200 + at) * 1_000_000_000 }),
                };
                let skipped = (page as usize - 1) * usize::from(per_page);
                let expected: Vec<u64> = matching.iter().skip(skipped).take(per_page.into()).copied().collect();
                let found = dataset.find_known(&query).unwrap();
                prop_assert_eq!(found.total, matching.len() as u64, "{:?}", &query);
                prop_assert_eq!(found.items.iter().map(|item| item.id.0).collect::<Vec<_>>(), expected, "{:?}", &query);
                let answer = dataset.find(&query).map(|found| found.total);
                let known = since.is_none() || rows.iter().all(|row| row.modified.is_some());
                prop_assert_eq!(answer, if known { Ok(matching.len() as u64) } else { Err(Doubt::Modified) });
            }
        }
    }
}
