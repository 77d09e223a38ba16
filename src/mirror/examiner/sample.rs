//! Samples: [`ROUND`] in a row have every kind of request, and a part of the shapes.
//!
//! Callers: [`super::audit`].

use std::collections::BTreeSet;

use rand::RngExt as _;

use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::api::shape::Shape;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::Dataset;

use super::asked::Asked;
use super::example::Example;

/// So many samples are of each kind; the first ones are no examples of shapes.
const ROUND: usize = 17;
const ORDINARY: usize = 8;

/// The sample of this turn. It takes time. `now`: nanoseconds since 1970.
pub(super) fn any(dataset: &Dataset, turn: usize, now: i64) -> Asked {
    let Some(nth) = (turn % ROUND).checked_sub(ORDINARY) else { return ordinary(dataset, turn % ROUND) };
    let all = Shape::of_lists();
    let shape = all[(turn / ROUND * (ROUND - ORDINARY) + nth) % all.len()];
    let example = Example::of(dataset, shape, rand::random_range(0..1000), &BTreeSet::new(), now);
    example.map_or_else(|| ordinary(dataset, nth), Asked::Query)
}

/// The same without examples of shapes.
pub(super) fn ordinary(dataset: &Dataset, turn: usize) -> Asked {
    let (mut dice, listings) = (rand::rng(), &dataset.content.summaries);
    let sized = ListQuery { per_page: dice.random_range(1..=ListQuery::MAX_PER_PAGE), ..ListQuery::default() };
    let last = sized.total_pages(listings.len() as u64).max(1);
    let query = match turn % ORDINARY {
        kind @ 0..3 => return Asked::Taxonomy(TaxonomyKind::ALL[kind]),
        // Of an empty list the numbers are the origin's.
        _ if listings.is_empty() => return Asked::Detail(ListingId(dice.random_range(1..1000))),
        kind @ (3 | 4) => {
            let mut id = listings[dice.random_range(0..listings.len())].id;
            // An id between or beyond the existing ones.
            while kind == 4 && dataset.summary(id).is_some() {
                id = ListingId(id.0.wrapping_add(dice.random_range(1..1000)));
            }
            return Asked::Detail(id);
        }
        5 => ListQuery::default(),
        6 => sized.with_page(dice.random_range(1..=last)),
        _ => sized.with_page(last),
    };
    Asked::Query(Example { query, tells: false })
}

#[cfg(test)]
mod tests;
