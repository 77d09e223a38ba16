//! Which requests are drawn, and how often.

use std::collections::HashSet;
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

/// What is drawn, beside its kind.
fn drawn(dataset: &Dataset, seed: u64, times: usize) -> Vec<(SampleKind, Request)> {
    let mut sampler = Sampler::new(seed);
    let mut next = || {
        let kind = sampler.next_kind();
        Some((kind, sampler.draw(kind, dataset)?))
    };
    (0..times).filter_map(|_| next()).collect()
}

#[test]
fn a_round_holds_every_kind_once() {
    let (dataset, most) = (dataset(130), SampleKind::ROUND.len());
    for seed in 0..20 {
        let kinds: HashSet<SampleKind> = drawn(&dataset, seed, most).into_iter().map(|(kind, _)| kind).collect();
        // A filter may select nothing by chance.
        assert!(kinds.len() >= most - 3, "seed {seed}: {kinds:?}");
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
    let mut written = 0;
    for (kind, request) in drawn(&dataset, 1, 2_000) {
        let what = format!("{kind:?} {request:?}");
        match request {
            Request::Detail(id) => {
                assert_eq!(dataset.summary(id).is_some(), kind == SampleKind::Detail, "{what}");
                assert!(matches!(kind, SampleKind::Detail | SampleKind::UnknownListing), "{what}");
            }
            Request::Taxonomy(taxonomy) => assert_eq!(kind, SampleKind::Taxonomy(taxonomy), "{what}"),
            Request::List(query) => {
                let found = dataset.find(&query).unwrap();
                let (last, filters) = (query.total_pages(found.total), query.filters().count());
                assert!((1..=100).contains(&query.per_page) && query.page <= last, "{what}");
                match kind {
                    SampleKind::FirstPage => assert_eq!(query, ListQuery::default()),
                    SampleKind::LastPage => assert_eq!(query.page, last, "{what}"),
                    SampleKind::PerPageOne => assert_eq!(query.per_page, 1, "{what}"),
                    SampleKind::PerPageMost => assert_eq!(query.per_page, 100, "{what}"),
                    SampleKind::Term(taxonomy) => assert!(filters == 1 && query.slug(taxonomy).is_some(), "{what}"),
                    SampleKind::TwoTerms => assert_eq!(filters, 2, "{what}"),
                    SampleKind::SinceInstant | SampleKind::SinceNearby => {
                        let since = query.modified_since.as_ref().unwrap();
                        let exact = dataset.modified().any(|at| at == since.at);
                        assert_eq!(exact, kind == SampleKind::SinceInstant, "{what}");
                        written += usize::from(since.text.contains('+'));
                    }
                    SampleKind::SinceDay => assert_eq!(query.modified_since.as_ref().unwrap().text.len(), 10, "{what}"),
                    SampleKind::Page => assert_eq!(filters, 0, "{what}"),
                    kind => panic!("{kind:?} is no list"),
                }
            }
        }
    }
    assert!(written > 10, "the spelling of the listings is asked with, too");
}

#[test]
fn an_empty_data_set_is_sampled_too() {
    let dataset = dataset(0);
    let kinds: HashSet<SampleKind> = drawn(&dataset, 3, 100).into_iter().map(|(kind, _)| kind).collect();
    assert!(kinds.contains(&SampleKind::UnknownListing) && kinds.contains(&SampleKind::Taxonomy(TaxonomyKind::Cities)));
    assert!(!kinds.contains(&SampleKind::Detail) && !kinds.contains(&SampleKind::TwoTerms));
}
