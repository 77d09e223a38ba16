//! Data sets: ids, pages, and what is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::api::form::ListForm;
use crate::api::page::Envelope;
use crate::api::query::ModifiedSince;
use crate::api::taxonomy::VolatileKeys;
use crate::data::snapshot::meta::{Certificate, SnapshotMeta};

mod followed;
mod many;

impl SnapshotMeta {
    /// A certified snapshot that was confirmed and published at one instant.
    pub(crate) fn full(at_ms: i64) -> Self {
        Self {
            certificate: Certificate::Full,
            confirmed_ms: at_ms,
            claimed_ms: None,
            published_ms: at_ms,
            volatile: VolatileKeys::default(),
            volatile_values: BTreeMap::new(),
            left_out: Vec::new(),
            open_points: Vec::new(),
            form: ListForm::default(),
            origin: None,
        }
    }
}

/// A listing as a naive scan sees it.
#[derive(Clone, Debug)]
struct Row {
    id: u64,
    city: usize,
    state: usize,
    sport: usize,
    modified: i64,
}

fn summary(row: &Row) -> Summary {
    let seconds = row.modified;
    let raw = format!(
        r#"{{"id":{},"city":"City {}","state":"State {}","sport":"sport-{}","modified":"2024-01-01T00:00:{seconds:02}Z"}}"#,
        row.id, row.city, row.state, row.sport
    );
    Summary { id: ListingId(row.id), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
}

fn taxonomy(name: &str, slug: &str, rows: &[Row], value: impl Fn(&Row) -> usize) -> Arc<str> {
    let terms: Vec<String> = (0..4)
        .map(|term| {
            let count = rows.iter().filter(|row| value(row) == term).count();
            format!(r#"{{"slug":"{slug}-{term}","label":"{name} {term}","n":{count}}}"#)
        })
        .collect();
    format!("[{}]", terms.join(",")).into()
}

fn dataset(rows: &[Row]) -> Dataset {
    let taxonomies = [
        taxonomy("Sport", "sport", rows, |row| row.sport),
        taxonomy("State", "state", rows, |row| row.state),
        taxonomy("City", "city", rows, |row| row.city),
    ];
    let envelope = Envelope::default();
    let content = Content { envelope, taxonomies, summaries: rows.iter().map(summary).collect() };
    Dataset::build(content, &Evidence::new()).unwrap()
}

fn rows(newest_first: bool) -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((0_usize..4, 0_usize..4, 0_usize..4, 0_i64..60), 0..60).prop_map(move |values| {
        let rows = values.into_iter().enumerate();
        let mut rows: Vec<Row> = rows
            .map(|(index, (city, state, sport, modified))| Row {
                id: index as u64 * 7 % 61,
                city,
                state,
                sport,
                modified,
            })
            .collect();
        if newest_first {
            rows.sort_by_key(|row| std::cmp::Reverse(row.modified));
        }
        rows
    })
}

fn check(rows: &[Row], query: &ListQuery, slugs: [Option<usize>; 3], since: Option<i64>) -> Result<(), TestCaseError> {
    let matching: Vec<u64> = rows
        .iter()
        .filter(|row| slugs[0].is_none_or(|slug| row.sport == slug))
        .filter(|row| slugs[1].is_none_or(|slug| row.state == slug))
        .filter(|row| slugs[2].is_none_or(|slug| row.city == slug))
        .filter(|row| since.is_none_or(|since| row.modified > since))
        .map(|row| row.id)
        .collect();
    let start = (query.page as usize - 1) * usize::from(query.per_page);
    let expected: Vec<u64> = matching.iter().skip(start).take(usize::from(query.per_page)).copied().collect();
    let dataset = dataset(rows);
    let found = dataset.find(query).unwrap();
    prop_assert_eq!(found.total, matching.len() as u64);
    prop_assert_eq!(found.items.iter().map(|item| item.id.0).collect::<Vec<_>>(), expected);
    Ok(())
}

proptest! {
    #[test]
    fn every_query_finds_what_a_naive_scan_finds(
        rows in prop_oneof![rows(true), rows(false)],
        slugs in proptest::array::uniform3(proptest::option::of(0_usize..5)),
        since in proptest::option::of(0_i64..60),
        page in 1_u64..8,
        per_page in 1_u16..20,
    ) {
        let names = ["sport", "state", "city"];
        let query = ListQuery {
            page,
            per_page,
            slugs: std::array::from_fn(|kind| slugs[kind].map(|slug| format!("{}-{slug}", names[kind]).into())),
            modified_since: since.map(|at| ModifiedSince {
                text: "x".into(),
                at: (1_704_067_200 + at) * 1_000_000_000,
            }),
        };
        check(&rows, &query, slugs, since)?;
    }
}

#[test]
fn the_last_page_of_64_bits_is_empty() {
    let rows = [Row { id: 1, city: 0, state: 0, sport: 0, modified: 0 }];
    let dataset = dataset(&rows);
    for slug in [None, Some("sport-0".into())] {
        let query = ListQuery { page: u64::MAX, per_page: 100, slugs: [slug, None, None], modified_since: None };
        let found = dataset.find(&query).unwrap();
        assert_eq!((found.total, found.items.len()), (1, 0));
    }
}

#[test]
fn content_that_lists_an_id_twice_is_refused() {
    let row = Row { id: 1, city: 0, state: 0, sport: 0, modified: 0 };
    let envelope = Envelope::default();
    let taxonomies = std::array::from_fn(|_| Arc::from("[]"));
    let content = Content { envelope, taxonomies, summaries: vec![summary(&row), summary(&row)] };
    let error = Dataset::build(content, &Evidence::new()).err().unwrap();
    assert_eq!(error.to_string(), "listing 1 is listed twice");
}

#[test]
fn equal_content_has_one_id_and_any_change_another() {
    let row = Row { id: 1, city: 0, state: 0, sport: 0, modified: 0 };
    let other = Row { id: 2, ..row.clone() };
    let id = |rows: &[Row]| dataset(rows).id;
    assert_eq!(id(&[row.clone(), other.clone()]), id(&[row.clone(), other.clone()]));
    assert_ne!(id(&[row.clone(), other.clone()]), id(&[other.clone(), row.clone()]));
    assert_ne!(id(std::slice::from_ref(&row)), id(&[Row { modified: 1, ..row }]));
}
