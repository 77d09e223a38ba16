//! Draws: which requests, and how often.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::Summary;
use crate::api::page::Envelope;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;

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
fn a_round_has_every_kind_and_further_ones_every_shape() {
    let dataset = dataset(130);
    let draw =
        |from: usize, times: usize| (from..from + times).map(|turn| any(&dataset, turn, i64::MAX)).collect::<Vec<_>>();
    for from in 0..ROUND {
        let round = draw(from, ROUND);
        let is_list = |sample: &&Asked| matches!(sample, Asked::Query(example) if !example.query.is_filtered());
        assert!(round.iter().filter(is_list).count() >= 3, "{round:?}");
        for kind in TaxonomyKind::ALL {
            assert!(round.contains(&Asked::Taxonomy(kind)), "{round:?}");
        }
        let is_known = |known: bool| {
            round.iter().any(|one| matches!(one, Asked::Detail(id) if dataset.summary(*id).is_some() == known))
        };
        assert!(is_known(true) && is_known(false), "{round:?}");
    }
    assert_ne!(draw(0, 60), draw(0, 60));
    let drawn: HashSet<Shape> = draw(7, 100).iter().filter_map(Asked::shape).collect();
    // One term of each kind leaves nothing out, and still is asked for.
    assert!(drawn.len() > 20, "{drawn:?}");
    let drawn: HashSet<Option<Shape>> = (0..40).map(|turn| ordinary(&dataset, turn).shape()).collect();
    assert_eq!(drawn, HashSet::from([None, Some(Shape::LIST)]));
}

#[test]
fn an_empty_data_set_is_sampled_too() {
    let dataset = dataset(0);
    for turn in 0..100 {
        let drawn = any(&dataset, turn, i64::MAX);
        assert!(matches!(drawn, Asked::Taxonomy(_) | Asked::Detail(_)), "{drawn:?}");
    }
}
