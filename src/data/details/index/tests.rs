//! The index of details against a model.

use proptest::prelude::*;

use super::*;
use crate::api::listing::ListingId;
use crate::api::page::Envelope;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;

fn summary(id: u64, edition: u64) -> Summary {
    let raw = bytes::Bytes::from(format!(r#"{{"id":{id},"edition":{edition}}}"#));
    Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
}

fn dataset(listings: impl Iterator<Item = (u64, u64)>) -> Dataset {
    let envelope = Envelope::default();
    let summaries = listings.map(|(id, edition)| summary(id, edition)).collect();
    Dataset::build(Content { envelope, taxonomies: [(); 3].map(|()| "[]".into()), summaries }, &Evidence::new())
        .unwrap()
}

fn known(id: u64, edition: u64) -> KnownDetail {
    KnownDetail { summary_hash: summary(id, edition).hash, origin_time_ms: 0, fetched_ms: 0 }
}

/// Some are gone.
fn state(number: u64) -> DetailState {
    if number.is_multiple_of(7) { DetailState::Gone } else { DetailState::Present }
}

/// The coverage, counted to the end.
fn covered(index: &mut DetailIndex, dataset: &Dataset) -> Covered {
    loop {
        if let Some(covered) = index.covered(dataset) {
            return covered;
        }
        index.count(dataset);
    }
}

/// The same, looked up one by one.
fn counted(index: &DetailIndex, dataset: &Dataset) -> Covered {
    let all = &dataset.content.summaries;
    let of = |what: &dyn Fn(&KnownDetail, &Summary) -> bool| {
        all.iter().filter(|summary| index.known.get(&summary.id).is_some_and(|known| what(known, summary))).count()
    };
    Covered { mirrored: of(&|_, _| true), current: of(&|known, summary| known.summary_hash == summary.hash) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever arrives, is forgotten or published during the count, the count equals looking up.
    #[test]
    fn a_count_is_kept_true(steps in proptest::collection::vec((0_u64..3_000, 0_u64..2, 0_u8..11), 1..200)) {
        let listings = || (0..2_500_u64).map(|id| (id, 0));
        let sets = [dataset(listings()), dataset(listings().skip(7).chain([(2_800, 1)]))];
        let mut served = 0;
        let mut index: DetailIndex = (0..1_000).map(|id| (ListingId(id), (known(id, 0), state(id)))).collect();
        for (id, edition, step) in steps {
            match step {
                0 => served = 1 - served,
                1..=3 => index.count(&sets[served]),
                4 => index.remove(ListingId(id), Some(&sets[served])),
                5 => index.insert(ListingId(id), known(id, edition), state(id + edition), None),
                _ => index.insert(ListingId(id), known(id, edition), state(id + edition), Some(&sets[served])),
            }
        }
        let dataset = &sets[served];
        prop_assert_eq!(covered(&mut index, dataset), counted(&index, dataset));
        let listed = dataset.content.summaries.iter().map(|summary| summary.id);
        prop_assert_eq!(index.gone(dataset), listed.filter(|id| index.gone.contains(id)).count());
        prop_assert!(index.gone.iter().all(|id| index.known.contains_key(id)));
    }
}
