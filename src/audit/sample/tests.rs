//! Which requests are drawn, and how often.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::Summary;
use crate::api::page::Envelope;
use crate::snapshot::content::Content;
use crate::snapshot::membership::Evidence;

fn dataset(listings: u64) -> Dataset {
    let summaries = (1..=listings).map(|id| {
        let raw = format!(
            r#"{{"id":{},"city":"C","state":"S","sport":"golf","modified":"2025-03-{:02}T10:00:00+02:00"}}"#,
            id * 2,
            id % 28 + 1
        );
        Summary { id: ListingId(id * 2), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
    });
    let term = |slug: &str, name: &str| -> Arc<str> {
        if listings == 0 {
            return "[]".into();
        }
        format!(r#"[{{"slug":"{slug}","name":"{name}","count":{listings}}}]"#).into()
    };
    let taxonomies = [term("golf", "Golf"), term("s", "S"), term("c", "C")];
    let envelope = Envelope::default();
    Dataset::build(Content { envelope, taxonomies, summaries: summaries.collect() }, &Evidence::new()).unwrap()
}

#[test]
fn twenty_samples_hold_every_kind_and_no_kind_dominates() {
    let dataset = dataset(130);
    for seed in 0..20 {
        let mut sampler = Sampler::new(seed);
        let mut counts: HashMap<Kind, usize> = HashMap::new();
        for _ in 0..20 {
            *counts.entry(sampler.next(&dataset).kind).or_default() += 1;
        }
        let kinds: HashSet<Kind> = Kind::ROUND.into_iter().collect();
        assert_eq!(counts.keys().copied().collect::<HashSet<_>>(), kinds, "seed {seed}");
        assert!(counts.values().all(|count| *count <= 2), "seed {seed}: {counts:?}");
    }
}

#[test]
fn equal_seeds_draw_equal_samples_and_others_do_not() {
    let dataset = dataset(130);
    let draw = |seed| {
        let mut sampler = Sampler::new(seed);
        (0..60).map(|_| sampler.next(&dataset)).collect::<Vec<_>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn samples_are_what_their_kind_says() {
    let dataset = dataset(130);
    let mut sampler = Sampler::new(1);
    let (mut written, mut odds, mut heads) = (0, 0, 0);
    for _ in 0..2_000 {
        let sample = sampler.next(&dataset);
        let what = format!("{sample:?}");
        assert!(!sample.is_head || sample.kind == Kind::Odd, "{what}");
        match &sample.request {
            Request::Detail(id) => {
                assert_eq!(dataset.summary(*id).is_some(), sample.kind == Kind::Detail, "{what}");
                assert!(matches!(sample.kind, Kind::Detail | Kind::UnknownListing), "{what}");
            }
            Request::Odd(path) => {
                assert_eq!(sample.kind, Kind::Odd);
                odds += 1;
                heads += usize::from(sample.is_head);
                let odd = path.split_once('?').map(|(_, query)| crate::api::edges::OddQuery::read(query));
                // An instant in the future is odd by the clock alone.
                assert!(odd.flatten().is_none_or(|odd| odd.odds.len() == 1), "{what}");
            }
            Request::Taxonomy(taxonomy) => assert_eq!(sample.kind, Kind::Taxonomy(*taxonomy), "{what}"),
            Request::List(query) => {
                let found = dataset.find(query).unwrap();
                let last = query.total_pages(found.total).max(1);
                let filters = query.filters().count();
                assert!((1..=100).contains(&query.per_page), "{what}");
                assert_eq!(query.page > last, sample.kind == Kind::BeyondLast, "{what}");
                match sample.kind {
                    Kind::FirstPage => assert_eq!(*query, ListQuery::default()),
                    Kind::LastPage => assert_eq!(query.page, last, "{what}"),
                    Kind::PerPageOne => assert_eq!(query.per_page, 1, "{what}"),
                    Kind::PerPageMost => assert_eq!(query.per_page, 100, "{what}"),
                    Kind::Term(taxonomy) => assert!(filters == 1 && query.slug(taxonomy).is_some(), "{what}"),
                    Kind::TwoTerms => assert_eq!(filters, 2, "{what}"),
                    Kind::UnknownSlug => assert_eq!(found.total, 0, "{what}"),
                    Kind::SinceInstant | Kind::SinceNearby => {
                        let since = query.modified_since.as_ref().unwrap();
                        let exact = dataset.modified().any(|at| at == since.at);
                        assert_eq!(exact, sample.kind == Kind::SinceInstant, "{what}");
                        written += usize::from(since.text.contains('+'));
                    }
                    Kind::SinceDay => assert_eq!(query.modified_since.as_ref().unwrap().text.len(), 10, "{what}"),
                    Kind::Page | Kind::BeyondLast => assert_eq!(filters, 0, "{what}"),
                    kind => panic!("{kind:?} is no list"),
                }
            }
        }
    }
    assert!((odds / 8..odds / 2).contains(&heads), "{heads} of {odds} odd requests with HEAD");
    assert!(written > 10, "the spelling of the listings is asked with, too");
}

#[test]
fn an_empty_data_set_is_sampled_too() {
    let dataset = dataset(0);
    let mut sampler = Sampler::new(3);
    let kinds: HashSet<Kind> = (0..100).map(|_| sampler.next(&dataset).kind).collect();
    assert!(kinds.contains(&Kind::UnknownListing) && kinds.contains(&Kind::Taxonomy(TaxonomyKind::Cities)));
    assert!(!kinds.contains(&Kind::Detail) && !kinds.contains(&Kind::TwoTerms));
}
