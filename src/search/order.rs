//! Orders of what a search found: how well it matches, and by name, rating or reviews.
//!
//! Best is the whole name, then its beginning, then all words in the name, then some of them elsewhere, then a typing
//! error; among these, the larger share of the name, then more reviews. Callers: [`super::index`].

use std::cmp::Reverse;
use std::sync::OnceLock;

use crate::api::listing::Venue;
use crate::api::query::search::Order;
use crate::semantics::excerpt;
use crate::snapshot::dataset::Dataset;

use super::words::{Field, Match};

/// How well a listing matches: counts of its beginnings of words, of words elsewhere than in the name, and of typing errors,
/// four bits each; with the most words none overflows.
pub(super) type Rank = u16;

const BEGINNING: Rank = 1;
const ELSEWHERE: Rank = 1 << 4;
const ERROR: Rank = 1 << 8;
/// The name does not begin with the first word.
const NOT_FIRST: Rank = 1 << 15;

/// Kinds of matches, and steps of the share of the name.
const KINDS: usize = 5;
const STEPS: usize = 50;
pub(super) const GRADES: usize = KINDS * (STEPS + 1);

/// A rating counts as if so many more reviews had given the mean of all.
const DOUBT: f64 = 20.0;

/// Names are compared by their first bytes: an origin may send names without end.
const MOST_OF_A_NAME: usize = 200;

/// What one word of a query adds to the rank.
pub(super) const fn rank(kind: Match, field: Field, is_first: bool) -> Rank {
    let place = match (kind, field) {
        (Match::Error, _) => ERROR,
        (_, Field::Other) => ELSEWHERE,
        (Match::Prefix, _) => BEGINNING,
        (Match::Exact, _) => 0,
    };
    place + if is_first && !matches!(field, Field::NameStart) { NOT_FIRST } else { 0 }
}

/// What orders need of each listing, by position.
#[derive(Default)]
pub(super) struct Orders {
    /// Words of the name.
    lengths: Vec<u8>,
    reviews: Vec<u32>,
    /// Each listing's place by name, rating and reviews, once somebody wants it.
    places: [OnceLock<Box<[u32]>>; Order::ALL.len()],
}

impl Orders {
    pub(super) fn add(&mut self, venue: &Venue<'_>, length: u8) {
        self.lengths.push(length);
        self.reviews.push(venue.review_count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX)));
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let places: usize = self.places.iter().filter_map(OnceLock::get).map(|places| size_of_val(&**places)).sum();
        self.lengths.len() + size_of_val(&*self.reviews) + places
    }

    /// More reviews are less.
    pub(super) fn fewer_reviews(&self, position: u32) -> Reverse<u32> {
        Reverse(self.reviews[position as usize])
    }

    /// How well a listing matches so many words; 0 is best.
    pub(super) fn grade(&self, position: u32, rank: Rank, words: usize) -> usize {
        let length = usize::from(self.lengths[position as usize]);
        let count = |unit: Rank| usize::from(rank / unit & 0xf);
        let (beginnings, elsewhere, errors) = (count(BEGINNING), count(ELSEWHERE), count(ERROR));
        let is_first = rank & NOT_FIRST == 0;
        let kind = match (errors, elsewhere) {
            (0, 0) if is_first && beginnings == 0 && length <= words => 0,
            (0, 0) if is_first => 1,
            (0, 0) => 2,
            (0, _) => 3,
            _ => 4,
        };
        // The beginning of a word is half of it.
        let halves = 2 * words.saturating_sub(elsewhere + errors);
        let share = STEPS * halves.saturating_sub(beginnings) / (2 * length).max(1);
        kind * (STEPS + 1) + STEPS - share.min(STEPS)
    }

    /// About how long [`Self::places`] takes, in nanoseconds.
    pub(super) fn work(&self, order: Order) -> usize {
        let is_there = matches!(order, Order::Best | Order::Distance) || self.places[order as usize].get().is_some();
        if is_there { 0 } else { 2000 * self.lengths.len() }
    }

    /// The place of each listing in an order; equal ones have one place.
    pub(super) fn places(&self, order: Order, dataset: &Dataset) -> &[u32] {
        self.places[order as usize].get_or_init(|| {
            let venues = dataset.content.summaries.iter().map(|summary| Venue::read(&summary.raw));
            match order {
                Order::Rating => {
                    let rated: Vec<_> = venues.map(|venue| (venue.rating, venue.review_count.unwrap_or(0))).collect();
                    places_of(by_rating(&rated))
                }
                Order::Reviews => places_of(venues.map(|venue| Reverse(venue.review_count))),
                Order::Usual | Order::Best | Order::Distance | Order::Name => places_of(venues.map(|venue| {
                    let name = venue.name.map(|name| excerpt::start(&name, MOST_OF_A_NAME).to_lowercase());
                    (name.is_none(), name)
                })),
            }
        })
    }
}

/// Keys by rating, in which few reviews count less: a mean with [`DOUBT`] reviews of the mean. Who has none comes last.
fn by_rating(rated: &[(Option<f64>, u64)]) -> impl Iterator<Item = Reverse<Option<u64>>> + '_ {
    let (sum, count) = rated
        .iter()
        .filter_map(|(rating, _)| *rating)
        .fold((0.0, 0.0), |(sum, count), rating| (sum + rating, count + 1.0));
    let mean = sum / f64::max(count, 1.0);
    rated.iter().map(move |(rating, reviews)| {
        let weighed = rating.map(|rating| (rating * *reviews as f64 + mean * DOUBT) / (*reviews as f64 + DOUBT));
        Reverse(weighed.map(|weighed| (weighed.clamp(0.0, 1e9) * 1e6) as u64))
    })
}

/// The place of each key, from 0.
fn places_of<K: Ord>(keys: impl Iterator<Item = K>) -> Box<[u32]> {
    let mut sorted: Vec<(K, u32)> = keys.zip(0..).collect();
    sorted.sort_unstable();
    let (mut places, mut place) = (vec![0; sorted.len()], 0);
    for (at, (key, position)) in sorted.iter().enumerate() {
        place += u32::from(at > 0 && sorted[at - 1].0 != *key);
        places[*position as usize] = place;
    }
    places.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_of_many_counts_more_than_one_of_few() {
        let rated = [(Some(5.0), 6), (Some(4.9), 8011), (None, 0), (Some(3.0), 0), (Some(4.9), 20)];
        assert_eq!(*places_of(by_rating(&rated)), [2, 0, 4, 3, 1]);
    }
}
