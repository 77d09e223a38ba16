//! The index of one snapshot: finds the listings that a search asks for, and puts them in order.
//!
//! Every listing has a *rank*: 0 is best, [`NO_MATCH`] is no match. Each part of a query raises the ranks; what remains is
//! the result. That takes a byte per listing for each word, a tenth of a nanosecond each. Callers: [`super`], and the bench.

use std::cmp::Ordering;

use crate::api::folding::{each_word, folded};
use crate::api::listing::Venue;
use crate::api::query::search::{Near, Point, SearchQuery};
use crate::semantics::excerpt;
use crate::snapshot::dataset::{Dataset, Unselected};

use super::places::{Center, NO_MATCH, Places, around};
use super::words::{Allowance, Match, Matching, TooManyWords, WordCollector, Words};

/// So much of a field is read, in bytes: an origin may send names without end.
const MOST_OF_A_FIELD: usize = 4096;

/// The ranks of a match of one word: exact in the name, a prefix in the name, in another field, with a typing error.
const RANKS: usize = 4;
const MOST_RANKS: usize = (RANKS - 1) * crate::api::query::search::MOST_WORDS + 1;

/// Searches that take longer than this by estimate do not run on threads that serve clients, in nanoseconds.
const SHORT: usize = 700_000;
/// So long any search may look for typing errors, and for words.
const LONG: usize = 20_000_000;

/// The words and the places of a snapshot's listings.
pub struct SearchIndex {
    words: Words,
    places: Places,
    len: usize,
}

/// A found listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its position in the origin's order.
    pub position: u32,
    /// How far it is from `near`, in whole metres; `None` without `near`.
    pub metres: Option<u32>,
}

/// A page of what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hits {
    /// How many listings match in all.
    pub total: u64,
    /// Those of the page, best first.
    pub page: Vec<Hit>,
}

impl SearchIndex {
    /// Reads every listing: a few microseconds each.
    pub fn of(dataset: &Dataset) -> Result<Self, TooManyWords> {
        let mut collector = WordCollector::default();
        let mut read = |raw: &[u8]| {
            let venue = Venue::read(raw);
            let fields = [(&venue.name, true), (&venue.city, false), (&venue.state, false), (&venue.sport, false)];
            for (text, in_name) in fields {
                let start = text.as_deref().map(|text| excerpt::start(text, MOST_OF_A_FIELD));
                let text = start.map(folded).unwrap_or_default();
                each_word(&text, true, |word| collector.add(word, in_name));
            }
            collector.end_listing();
            Point::of(venue.lat?, venue.lng?)
        };
        let places = Places::of(dataset.content.summaries.iter().map(|summary| read(&summary.raw)));
        Ok(Self { words: collector.finish()?, places, len: dataset.len() })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.words.bytes() + self.places.bytes()
    }

    /// How many different words there are.
    pub fn word_count(&self) -> usize {
        self.words.len()
    }

    /// What a search takes beside its words, in nanoseconds by estimate.
    fn work(&self, query: &SearchQuery) -> usize {
        // Of a wide circle, many distances are compared.
        let circle =
            |near: &Near| 2 * self.len + 60 * self.len * (near.radius as usize / 1000).pow(2).min(1 << 20) / (1 << 20);
        let places = query.near.as_ref().map_or(0, circle) + if query.bounds.is_some() { 2 * self.len } else { 0 };
        let filters = if query.list.is_filtered() { 2 * self.len } else { 0 };
        places + filters + self.len / 8 * (1 + query.words.len())
    }

    /// What matches each word of a query.
    fn plan(&self, query: &SearchQuery, left: &Allowance) -> Vec<Matching> {
        query.words.iter().map(|word| self.words.matching(word, left)).collect()
    }

    /// [`find`](Self::find) on a thread that serves clients; `None` if it takes longer than a millisecond.
    pub fn find_short(&self, dataset: &Dataset, query: &SearchQuery) -> Option<Result<Hits, Unselected>> {
        let left = Allowance::new(SHORT);
        left.take(self.work(query));
        let words = self.plan(query, &left);
        left.is_left().then(|| self.find_planned(dataset, query, &words))
    }

    /// The page that a query asks for, of the data set that this index was made of. Where words have
    /// thousands of different letters, it does not find all typing errors.
    pub fn find(&self, dataset: &Dataset, query: &SearchQuery) -> Result<Hits, Unselected> {
        self.find_planned(dataset, query, &self.plan(query, &Allowance::new(LONG)))
    }

    fn find_planned(&self, dataset: &Dataset, query: &SearchQuery, words: &[Matching]) -> Result<Hits, Unselected> {
        let mut ranks = self.selected(dataset, query)?;
        for matching in words {
            let of_word = self.ranks_of(matching);
            // No sum reaches NO_MATCH, and NO_MATCH stays.
            ranks.iter_mut().zip(&of_word).for_each(|(rank, own)| *rank = rank.saturating_add(*own));
        }
        if let Some(bounds) = &query.bounds {
            self.places.keep_within(bounds, &mut ranks);
        }
        let size = usize::from(query.list.per_page);
        let offset = u128::from(query.list.page - 1) * u128::from(query.list.per_page);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(match &query.near {
            Some(near) => self.nearest(near, &mut ranks, offset, size),
            None => best(&ranks, offset, size),
        })
    }

    /// The ranks before any word: those of the filters.
    fn selected(&self, dataset: &Dataset, query: &SearchQuery) -> Result<Vec<u8>, Unselected> {
        if !query.list.is_filtered() {
            return Ok(vec![0; self.len]);
        }
        let mut ranks = vec![NO_MATCH; self.len];
        let since = query.list.modified_since.as_ref().map(|since| since.at);
        for position in dataset.select(&query.list.slugs, since)? {
            ranks[position as usize] = 0;
        }
        Ok(ranks)
    }

    fn ranks_of(&self, matching: &Matching) -> Vec<u8> {
        let mut ranks = vec![NO_MATCH; self.len];
        for (range, kind) in matching {
            let (in_name, elsewhere) = match kind {
                Match::Exact => (0, 2),
                Match::Prefix => (1, 2),
                Match::Error => (3, 3),
            };
            for at in range.clone() {
                self.words.each_occurrence(at, |position, is_elsewhere| {
                    let rank = &mut ranks[position as usize];
                    *rank = (*rank).min(if is_elsewhere { elsewhere } else { in_name });
                });
            }
        }
        ranks
    }

    /// The matches within the radius, nearest first.
    fn nearest(&self, near: &Near, ranks: &mut [u8], offset: usize, size: usize) -> Hits {
        self.places.keep_within(&around(near), ranks);
        let from = Center::of(near.point);
        let mut found: Vec<(f64, u32)> = Vec::new();
        each_match(ranks, |position, _| {
            let metres = self.places.distance(position, &from);
            if metres <= f64::from(near.radius) {
                found.push((metres, position));
            }
        });
        let order =
            |one: &(f64, u32), other: &(f64, u32)| -> Ordering { one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)) };
        let (total, end) = (found.len(), offset.saturating_add(size).min(found.len()));
        if end < total {
            // Not all of a million need an order for the first fifty.
            found.select_nth_unstable_by(end, order);
            found.truncate(end);
        }
        found.sort_unstable_by(order);
        let page = found.get(offset..).unwrap_or_default();
        let hit = |(metres, position): &(f64, u32)| Hit { position: *position, metres: Some(metres.round() as u32) };
        Hits { total: total as u64, page: page.iter().map(hit).collect() }
    }
}

/// The matches, best first, those of equal rank in the origin's order.
fn best(ranks: &[u8], offset: usize, size: usize) -> Hits {
    let mut counts = [0_usize; MOST_RANKS];
    each_match(ranks, |_, rank| counts[rank as usize] += 1);
    let total: usize = counts.iter().sum();
    let end = offset.saturating_add(size).min(total);
    let mut page = vec![Hit { position: 0, metres: None }; end.saturating_sub(offset)];
    if !page.is_empty() {
        // Where the next match of each rank comes in the whole order.
        let mut next = 0;
        let mut places = counts.map(|count| {
            next += count;
            next - count
        });
        each_match(ranks, |position, rank| {
            let place = &mut places[rank as usize];
            if (offset..end).contains(place) {
                page[*place - offset].position = position;
            }
            *place += 1;
        });
    }
    Hits { total: total as u64, page }
}

/// Shows the matches with their ranks, in the origin's order.
fn each_match(ranks: &[u8], mut see: impl FnMut(u32, u8)) {
    const EACH: usize = 16;
    for (number, ranks) in ranks.chunks(EACH).enumerate() {
        if ranks.iter().fold(NO_MATCH, |all, rank| all & rank) == NO_MATCH {
            continue;
        }
        for (at, rank) in ranks.iter().enumerate().filter(|(_, rank)| **rank != NO_MATCH) {
            see((number * EACH + at) as u32, *rank);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
