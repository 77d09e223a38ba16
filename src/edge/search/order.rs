//! Orders of search results: how well they match, and by name, rating or reviews.
//!
//! Best is the whole name, then its beginning, then all words in the name, then some of them elsewhere (first listings
//! of the sport that the query names), then a typing error. Among these comes first the larger share of the name, then
//! more words that two fields have, then more reviews. Callers: [`super::index`].

use std::cmp::Reverse;

use crate::api::listing::{ListingId, Venue};
use crate::api::query::search::Order;
use crate::protocol::excerpt;

use super::occurrence::{Occurrence, WordPlace};
use super::words::Match;

/// How well a listing matches: counts of its beginnings of words, of words elsewhere than in the name, and of typing errors,
/// four bits each, and of words that only one field has, two bits; with the most words none overflows.
pub(super) type Rank = u16;

const BEGINNING: Rank = 1;
const ELSEWHERE: Rank = 1 << 4;
const ERROR: Rank = 1 << 8;
const ONCE: Rank = 1 << 12;
/// Of so many words it is known whether two fields have them.
const MOST_REPEATED: usize = 3;
/// The query names a sport, and the listing has another one.
pub(super) const OTHER_SPORT: Rank = 1 << 14;
/// The name does not begin with the first word.
const NOT_FIRST: Rank = 1 << 15;

/// Kinds of matches, and steps of the share of the name.
const KINDS: usize = 6;
const STEPS: usize = 50;
pub(super) const GRADES: usize = KINDS * (STEPS + 1) * (MOST_REPEATED + 1);

/// A rating counts as if so many more reviews had given the mean of all.
const DOUBT: f64 = 20.0;

/// Names are compared by their first bytes: an origin may send names without end.
const MOST_OF_A_NAME: usize = 200;

/// What one word of a query adds to the rank: the word that comes so many after the first. `is_where`: it says where,
/// so that it does not belong to the name.
pub(super) const fn rank(kind: Match, found: Occurrence, at: usize, is_where: bool) -> Rank {
    let is_elsewhere = matches!(found.place(), WordPlace::Elsewhere);
    // In the name alone, a word that says where is no better than one with an error.
    let is_misplaced = is_where && !is_elsewhere && !found.is_repeated();
    let place = match kind {
        Match::Error => ERROR,
        _ if is_misplaced => ERROR,
        _ if is_elsewhere && !is_where => ELSEWHERE,
        Match::Prefix => BEGINNING,
        Match::Exact => 0,
    };
    let is_first = at > 0 || matches!(found.place(), WordPlace::NameStart);
    let once = if at < MOST_REPEATED && !found.is_repeated() { ONCE } else { 0 };
    place + once + if is_first { 0 } else { NOT_FIRST }
}

/// Collects what orders need of listings.
#[derive(Default)]
pub(super) struct OrderCollector {
    ids: Vec<ListingId>,
    lengths: Vec<u8>,
    names: Vec<Option<Box<str>>>,
    rated: Vec<(Option<f64>, u64)>,
}

impl OrderCollector {
    /// Adds the listing that comes next, whose name has so many words.
    pub(super) fn add(&mut self, id: ListingId, venue: &Venue<'_>, length: u8) {
        self.ids.push(id);
        self.lengths.push(length);
        let name = venue.name.as_deref().map(|name| excerpt::start(name, MOST_OF_A_NAME).to_lowercase());
        self.names.push(name.map(String::into_boxed_str));
        self.rated.push((venue.rating, venue.review_count.unwrap_or(0)));
    }

    pub(super) fn finish(self) -> Orders {
        // Of equal ones the lowest id is first: the origin's order may be that of their last changes.
        let by_rating = places_of(by_rating(&self.rated).zip(&self.ids));
        let by_reviews = places_of(self.rated.iter().map(|(_, count)| Reverse(*count)).zip(&self.ids));
        let by_name = places_of(self.names.into_iter().map(|name| (name.is_none(), name)).zip(&self.ids));
        Orders { lengths: self.lengths.into(), by_name, by_rating, by_reviews }
    }
}

/// The words of a query that may belong to a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameWords {
    pub words: usize,
    /// Whether other words say where.
    pub says_where: bool,
}

/// What orders need of each listing, by position, and its places in them.
pub(super) struct Orders {
    /// Words of the name.
    lengths: Box<[u8]>,
    by_name: Box<[u32]>,
    by_rating: Box<[u32]>,
    by_reviews: Box<[u32]>,
}

impl Orders {
    /// The place of a listing among all by reviews: what decides between equal ones.
    pub(super) fn by_reviews(&self, position: u32) -> u32 {
        self.by_reviews[position as usize]
    }

    /// How well a listing matches; 0 is best.
    pub(super) fn grade(&self, position: u32, rank: Rank, asked: NameWords) -> usize {
        let NameWords { words, says_where } = asked;
        let length = usize::from(self.lengths[position as usize]);
        let count = |unit: Rank| usize::from((rank / unit) & 0xf);
        let (beginnings, elsewhere, errors) = (count(BEGINNING), count(ELSEWHERE), count(ERROR));
        let (is_first, is_other_sport) = (rank & NOT_FIRST == 0, rank & OTHER_SPORT != 0);
        let kind = match (errors, elsewhere) {
            (0, 0) if is_first && beginnings == 0 && length <= words => 0,
            // `golf in texas` is no beginning of a name.
            (0, 0) if is_first && !says_where => 1,
            (0, 0) if !is_other_sport || !says_where => 2,
            (0, _) if !is_other_sport => 3,
            (0, _) => 4,
            _ => 5,
        };
        // The beginning of a word is half of it.
        let matched = words.saturating_sub(elsewhere + errors);
        let share = STEPS * (2 * matched).saturating_sub(beginnings) / (2 * length).max(1);
        // Of two whole names, the one with all words of the query comes first.
        let share = share.min(STEPS).saturating_sub(usize::from(matched > length));
        let once = usize::from(rank / ONCE) % (MOST_REPEATED + 1);
        (kind * (STEPS + 1) + STEPS - share) * (MOST_REPEATED + 1) + once
    }

    /// The place of each listing by name, rating or reviews. `None`: that order has none.
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

/// The place of each of different keys, from 0.
fn places_of<K: Ord>(keys: impl Iterator<Item = K>) -> Box<[u32]> {
    let mut sorted: Vec<(K, u32)> = keys.zip(0..).collect();
    sorted.sort_unstable();
    let mut places = vec![0; sorted.len()];
    for (place, (_, position)) in (0..).zip(sorted) {
        places[position as usize] = place;
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
