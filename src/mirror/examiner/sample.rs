//! Sampler: draws at random. 17 samples have every kind, and nine of them are examples of shapes.
//!
//! Equal seeds give equal samples. Callers: [`super::audit`].

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::api::shape::Shape;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::Dataset;

use super::asked::Asked;
use super::example::Example;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SampleKind {
    Page,
    FirstPage,
    /// The last page at some page size.
    LastPage,
    Taxonomy(TaxonomyKind),
    /// An example of the shape whose turn it is.
    Shape,
    Detail,
    UnknownListing,
}

impl SampleKind {
    /// One round; the first ones are no examples of shapes.
    const ROUND: [Self; 17] = [
        Self::Page,
        Self::FirstPage,
        Self::LastPage,
        Self::Taxonomy(TaxonomyKind::Sports),
        Self::Taxonomy(TaxonomyKind::States),
        Self::Taxonomy(TaxonomyKind::Cities),
        Self::Detail,
        Self::UnknownListing,
        Self::Shape,
        Self::Shape,
        Self::Shape,
        Self::Shape,
        Self::Shape,
        Self::Shape,
        Self::Shape,
        Self::Shape,
        Self::Shape,
    ];
    const ORDINARY: usize = 8;
}

#[derive(Debug)]
pub(super) struct Sampler {
    dice: StdRng,
    kinds: &'static [SampleKind],
    /// The rest of the round.
    round: Vec<SampleKind>,
    /// The shapes that were not drawn yet.
    shapes: Vec<Shape>,
}

impl Sampler {
    pub(super) fn new(seed: u64) -> Self {
        let (dice, kinds) = (StdRng::seed_from_u64(seed), &SampleKind::ROUND);
        Self { dice, kinds, round: Vec::new(), shapes: Vec::new() }
    }

    /// One without examples of shapes.
    pub(super) fn ordinary(seed: u64) -> Self {
        Self { kinds: &SampleKind::ROUND[..SampleKind::ORDINARY], ..Self::new(seed) }
    }

    /// The next sample. Kinds for which the data set has nothing are passed over. It takes time.
    pub(super) fn next(&mut self, dataset: &Dataset) -> Asked {
        for _ in 0..2 * SampleKind::ROUND.len() {
            let kind = taken(&mut self.round, self.kinds, &mut self.dice);
            if let Some(sample) = kind.and_then(|kind| self.draw(kind, dataset)) {
                return sample;
            }
        }
        Asked::Query(Example { query: ListQuery::largest_pages(), tells: false })
    }

    fn draw(&mut self, kind: SampleKind, dataset: &Dataset) -> Option<Asked> {
        let plain = ListQuery::default();
        let any_size = ListQuery { per_page: self.dice.random_range(1..=ListQuery::MAX_PER_PAGE), ..plain.clone() };
        let last = any_size.total_pages(dataset.len() as u64).max(1);
        let query = match kind {
            SampleKind::Taxonomy(taxonomy) => return Some(Asked::Taxonomy(taxonomy)),
            SampleKind::Detail => return Some(Asked::Detail(self.listing(dataset)?)),
            SampleKind::UnknownListing => return Some(Asked::Detail(self.unknown(dataset))),
            SampleKind::FirstPage => plain,
            SampleKind::Page => any_size.with_page(self.dice.random_range(1..=last)),
            SampleKind::LastPage => any_size.with_page(last),
            SampleKind::Shape => {
                let shape = taken(&mut self.shapes, &Shape::of_lists(), &mut self.dice)?;
                return Example::of(dataset, shape, self.dice.random_range(0..1000), &BTreeSet::new())
                    .map(Asked::Query);
            }
        };
        // Of an empty list the numbers are the origin's.
        Some(Asked::Query(Example { query, tells: false })).filter(|_| !dataset.is_empty())
    }

    fn listing(&mut self, dataset: &Dataset) -> Option<ListingId> {
        let summaries = &dataset.content.summaries;
        (!summaries.is_empty()).then(|| summaries[self.dice.random_range(0..summaries.len())].id)
    }

    /// An id between or beyond the existing ones.
    fn unknown(&mut self, dataset: &Dataset) -> ListingId {
        let near = self.listing(dataset).map_or(0, |id| id.0);
        let mut id = near.saturating_add(self.dice.random_range(1..1000));
        while dataset.summary(ListingId(id)).is_some() {
            id = id.checked_add(1).unwrap_or(0);
        }
        ListingId(id)
    }
}

/// One of the rest of a round; a new round begins where there is none.
fn taken<T: Copy>(rest: &mut Vec<T>, all: &[T], dice: &mut StdRng) -> Option<T> {
    if rest.is_empty() {
        rest.extend_from_slice(all);
        rest.shuffle(dice);
    }
    rest.pop()
}

#[cfg(test)]
mod tests;
