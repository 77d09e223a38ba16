//! Orders of what a search found: how well it matches, and by name, rating or reviews.
//!
//! Best is the whole name, then its beginning, then all words in the name, then some of them elsewhere, then a typing
//! error; among these, the larger share of the name, then more reviews. Callers: [`super::index`].

use std::cmp::Reverse;

use crate::api::listing::Venue;
use crate::api::query::search::Order;
use crate::semantics::excerpt;

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

/// Collects what orders need of listings.
#[derive(Default)]
pub(super) struct OrderCollector {
    lengths: Vec<u8>,
    names: Vec<Option<Box<str>>>,
    rated: Vec<(Option<f64>, u64)>,
}

impl OrderCollector {
    /// Adds the listing that comes next, whose name has so many words.
    pub(super) fn add(&mut self, venue: &Venue<'_>, length: u8) {
        self.lengths.push(length);
        let name = venue.name.as_deref().map(|name| excerpt::start(name, MOST_OF_A_NAME).to_lowercase());
        self.names.push(name.map(String::into_boxed_str));
        self.rated.push((venue.rating, venue.review_count.unwrap_or(0)));
    }

    pub(super) fn finish(self) -> Orders {
        let reviews = |(_, count): &(_, u64)| u32::try_from(*count).unwrap_or(u32::MAX);
        let reviews: Box<[u32]> = self.rated.iter().map(reviews).collect();
        let by_rating = places_of(by_rating(&self.rated));
        let by_reviews = places_of(reviews.iter().map(|count| Reverse(*count)));
        let by_name = places_of(self.names.into_iter().map(|name| (name.is_none(), name)));
        Orders { lengths: self.lengths.into(), reviews, by_name, by_rating, by_reviews }
    }
}

/// What orders need of each listing, by position, and its places in them.
pub(super) struct Orders {
    /// Words of the name.
    lengths: Box<[u8]>,
    reviews: Box<[u32]>,
    by_name: Box<[u32]>,
    by_rating: Box<[u32]>,
    by_reviews: Box<[u32]>,
}

impl Orders {
    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.lengths.len() * (size_of::<u8>() + 4 * size_of::<u32>())
    }

    /// More reviews are less.
    pub(super) fn fewer_reviews(&self, position: u32) -> Reverse<u32> {
        Reverse(self.reviews[position as usize])
    }

    /// How well a listing matches so many words; 0 is best.
    pub(super) fn grade(&self, position: u32, rank: Rank, words: usize) -> usize {
        let length = usize::from(self.lengths[position as usize]);
        let count = |unit: Rank| usize::from((rank / unit) & 0xf);
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

    /// The place of each listing by name, rating or reviews; equal ones have one place. `None`: that order has none.
    pub(super) const fn places(&self, order: Order) -> Option<&[u32]> {
        match order {
            Order::Name => Some(&self.by_name),
            Order::Rating => Some(&self.by_rating),
            Order::Reviews => Some(&self.by_reviews),
            Order::Usual | Order::Best | Order::Distance => None,
        }
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
