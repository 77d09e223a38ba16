//! The index of one snapshot: finds the listings that a search asks for, and puts them in order.
//!
//! Every listing has a *rank*: 0 is best, [`NO_MATCH`] is no match. Each part of a query raises the ranks; what remains is
//! the result. That takes a byte per listing for each word, a tenth of a nanosecond each. Callers: [`super`], and the bench.

use std::collections::HashMap;

use crate::api::folding::{each_word, folded};
use crate::api::listing::Venue;
use crate::api::query::search::{Near, Order, Point, SearchQuery, is_filler};
use crate::api::taxonomy::TaxonomyKind;
use crate::semantics::excerpt;
use crate::snapshot::dataset::{Dataset, Unselected};

use super::order::{self, OrderCollector, Orders, Rank};
use super::places::{Center, NO_MATCH, Places, around};
use super::states;
use super::words::{Allowance, Field, Match, Matching, TooManyWords, WordCollector, Words};

/// So much of a field is read, in bytes: an origin may send names without end.
const MOST_OF_A_FIELD: usize = 4096;

/// Searches that take longer than this by estimate do not run on threads that serve clients, in nanoseconds.
const SHORT: usize = 700_000;
/// So long any search may look for typing errors, and for words.
const LONG: usize = 20_000_000;

/// So many ends of a word of Han, Kana or Hangul are found.
const MOST_ENDS: usize = 16;

/// Words that stand for each other.
const SAME: [[&str; 2]; 3] = [["st", "saint"], ["ft", "fort"], ["mt", "mount"]];

/// The words and the places of a snapshot's listings.
pub struct SearchIndex {
    words: Words,
    places: Places,
    orders: Orders,
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// How many listings match in all.
    pub total: u64,
    /// Those of the page, best first.
    pub page: Vec<Hit>,
    /// Words of the query that were left out: nothing has them, or they are too many.
    pub ignored: Vec<Box<str>>,
}

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllHits {
    /// Best first.
    pub positions: Vec<u32>,
    /// Words that nothing has, or that are too many.
    pub ignored: Vec<Box<str>>,
}

/// Words of a query that some listing has, with what matches each.
struct Plan {
    words: Vec<Matching>,
    ignored: Vec<Box<str>>,
    /// Words that nothing has.
    unknown: Vec<Box<str>>,
}

impl SearchIndex {
    /// Reads every listing: a few microseconds each.
    pub fn of(dataset: &Dataset) -> Result<Self, TooManyWords> {
        let sports = dataset.terms(TaxonomyKind::Sports).iter();
        let sports: HashMap<&str, &str> =
            sports.map(|sport| (sport.slug.as_str(), dataset.label(TaxonomyKind::Sports, sport))).collect();
        let mut collector = WordCollector::default();
        let (mut points, mut orders) = (Vec::with_capacity(dataset.len()), OrderCollector::default());
        for summary in &dataset.content.summaries {
            let venue = Venue::read(&summary.raw);
            orders.add(&venue, collect_name(&mut collector, venue.name.as_deref().unwrap_or_default()));
            let sport = venue.sport.as_deref().unwrap_or_default();
            let state = read(venue.state.as_deref().unwrap_or_default());
            let other = states::other_name(&state).unwrap_or_default();
            let city = venue.city.as_deref().unwrap_or_default();
            for text in [&state, other, &read(city), &read(sport), &read(sports.get(sport).unwrap_or(&""))] {
                each_word(text, true, |word| collector.add(word, Field::Other));
            }
            collector.end_listing();
            points.push(venue.lat.zip(venue.lng).and_then(|(lat, lng)| Point::of(lat, lng)));
        }
        let places = Places::of(points.into_iter());
        Ok(Self { words: collector.finish()?, places, orders: orders.finish(), len: dataset.len() })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.words.bytes() + self.places.bytes() + self.orders.bytes()
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
        let order = if query.order == Order::Usual { 0 } else { 2 * self.len };
        places + filters + order + self.len / 8 * (1 + query.words.len())
    }

    /// What matches each word of a query. A word that nothing has is left out, unless nothing has any of them.
    fn plan(&self, query: &SearchQuery, left: &Allowance) -> Plan {
        let last = query.words.len().saturating_sub(1);
        let mut words: Vec<Matching> = query
            .words
            .iter()
            .enumerate()
            .map(|(at, word)| {
                let mut found = self.words.matching(word, at == last, left);
                let same = SAME.iter().find(|same| same.contains(&&**word)).into_iter().flatten();
                found.extend(
                    same.filter_map(|same| self.words.exactly(same, left)).map(|at| (at..at + 1, Match::Exact)),
                );
                found
            })
            .collect();
        for (at, pair) in query.words.windows(2).enumerate() {
            let (found, _) = self.words.begun(&pair.concat(), left);
            words[at].extend(found.iter().cloned());
            words[at + 1].extend(found);
        }
        let is_known = |found: &Matching| found.iter().any(|(range, _)| !range.is_empty());
        let unknown = query.words.iter().zip(&words).filter(|(_, found)| !is_known(found));
        let unknown: Vec<Box<str>> = unknown.map(|(word, _)| word.clone()).collect();
        let mut ignored = Vec::new();
        if words.iter().any(is_known) {
            ignored.clone_from(&unknown);
            words.retain(is_known);
        }
        ignored.extend(query.beyond.iter().cloned());
        Plan { words, ignored, unknown }
    }

    /// [`find`](Self::find) on a thread that serves clients; `None` if it takes longer than a millisecond.
    pub fn find_short(&self, dataset: &Dataset, query: &SearchQuery) -> Option<Result<Hits, Unselected>> {
        let left = Allowance::new(SHORT);
        left.take(self.work(query));
        let plan = self.plan(query, &left);
        left.is_left().then(|| self.find_planned(dataset, query, plan))
    }

    /// The page that a query asks for, of the data set that this index was made of. Where words have
    /// thousands of different letters, it does not find all typing errors.
    pub fn find(&self, dataset: &Dataset, query: &SearchQuery) -> Result<Hits, Unselected> {
        self.find_planned(dataset, query, self.plan(query, &Allowance::new(LONG)))
    }

    /// The positions of all that a query finds, in its order.
    pub(crate) fn find_all(&self, dataset: &Dataset, query: &SearchQuery) -> Result<AllHits, Unselected> {
        let plan = self.plan(query, &Allowance::new(LONG));
        let ignored = plan.unknown.iter().chain(&query.beyond).cloned().collect();
        let (_, positions) = self.positions(dataset, query, &plan, Part { offset: 0, size: usize::MAX })?;
        Ok(AllHits { positions, ignored })
    }

    fn find_planned(&self, dataset: &Dataset, query: &SearchQuery, plan: Plan) -> Result<Hits, Unselected> {
        let size = usize::from(query.list.per_page);
        let offset = u128::from(query.list.page - 1) * u128::from(query.list.per_page);
        let part = Part { offset: usize::try_from(offset).unwrap_or(usize::MAX), size };
        let (total, positions) = self.positions(dataset, query, &plan, part)?;
        let center = query.near.as_ref().map(|near| Center::of(near.point));
        let metres = |position: u32| center.as_ref().map(|center| self.places.distance(position, center));
        let hit = |position| Hit { position, metres: metres(position).map(|metres| metres.round() as u32) };
        Ok(Hits { total: total as u64, page: positions.into_iter().map(hit).collect(), ignored: plan.ignored })
    }

    /// How many listings a query finds, and a part of them in its order.
    fn positions(
        &self,
        dataset: &Dataset,
        query: &SearchQuery,
        plan: &Plan,
        part: Part,
    ) -> Result<(usize, Vec<u32>), Unselected> {
        let mut ranks = self.selected(dataset, query)?;
        for (at, matching) in plan.words.iter().enumerate() {
            let of_word = self.ranks_of(matching, at == 0);
            // No sum reaches NO_MATCH, and NO_MATCH stays.
            ranks.iter_mut().zip(&of_word).for_each(|(rank, own)| *rank = rank.saturating_add(*own));
        }
        if let Some(bounds) = &query.bounds {
            self.places.keep_within(bounds, &mut ranks);
        }
        let center = query.near.as_ref().map(|near| Center::of(near.point));
        let metres = |position: u32| center.as_ref().map(|center| self.places.distance(position, center));
        if let Some(near) = &query.near {
            self.places.keep_within(&around(near), &mut ranks);
            each_match_mut(&mut ranks, |position, rank| {
                *rank |= if metres(position) <= Some(f64::from(near.radius)) { 0 } else { NO_MATCH };
            });
        }
        Ok(match self.orders.places(query.order) {
            Some(places) => part.of(&ranks, |position, _| places[position as usize]),
            // Without a sign, the bits of numbers have their order.
            None if center.is_some() && query.order != Order::Best => {
                part.of(&ranks, |position, _| metres(position).unwrap_or_default().to_bits())
            }
            None if plan.words.is_empty() => part.of(&ranks, |_, _| ()),
            None => self.best(&ranks, plan.words.len(), part),
        })
    }

    /// The ranks before any word: those of the filters.
    fn selected(&self, dataset: &Dataset, query: &SearchQuery) -> Result<Vec<Rank>, Unselected> {
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

    fn ranks_of(&self, matching: &Matching, is_first: bool) -> Vec<Rank> {
        let mut ranks = vec![NO_MATCH; self.len];
        for (range, kind) in matching {
            let [start, inside, outside] =
                [Field::NameStart, Field::Name, Field::Other].map(|field| order::rank(*kind, field, is_first));
            for at in range.clone() {
                self.words.each_occurrence(at, |position, field| {
                    let rank = &mut ranks[position as usize];
                    *rank = (*rank).min(match field {
                        Field::NameStart => start,
                        Field::Name => inside,
                        Field::Other => outside,
                    });
                });
            }
        }
        ranks
    }

    /// The best matches of so many words. Not all of a million need an order for the first fifty.
    fn best(&self, ranks: &[Rank], words: usize, part: Part) -> (usize, Vec<u32>) {
        let mut counts = [0_usize; order::GRADES];
        each_match(ranks, |position, rank| counts[self.orders.grade(position, rank, words)] += 1);
        let end = part.offset.saturating_add(part.size);
        let (mut before, mut total, mut grades) = (0, 0, 0..0);
        for (grade, count) in counts.into_iter().enumerate() {
            if total < end {
                grades.end = grade + 1;
            }
            total += count;
            if total <= part.offset {
                (before, grades.start) = (total, grade + 1);
            }
        }
        let mut found = Vec::new();
        each_match(ranks, |position, rank| {
            let grade = self.orders.grade(position, rank, words);
            if grades.contains(&grade) {
                found.push(((grade, self.orders.fewer_reviews(position)), position));
            }
        });
        (total, Part { offset: part.offset.saturating_sub(before), ..part }.cut(found))
    }
}

/// Adds the words of a name; returns how many it has.
fn collect_name(collector: &mut WordCollector, name: &str) -> u8 {
    let name = read(name);
    let (mut count, mut field) = (0_u8, Field::NameStart);
    each_word(&name, false, |word| count = count.saturating_add(u8::from(!is_filler(word))));
    each_word(&name, true, |word| {
        let is_filler = is_filler(word) && count > 0;
        collector.add(word, if is_filler { Field::Name } else { field });
        // Of words without spaces between them, any may be meant.
        let ends = word.char_indices().skip(1).filter(|(_, letter)| is_unspaced(*letter));
        ends.take(MOST_ENDS).for_each(|(at, _)| collector.add(&word[at..], Field::Name));
        field = if is_filler { field } else { Field::Name };
    });
    count
}

/// A field as it is compared.
fn read(text: &str) -> String {
    folded(excerpt::start(text, MOST_OF_A_FIELD))
}

/// Whether words of this script stand without spaces between them: Han, Kana, Hangul (taken apart by folding).
const fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{1100}'..='\u{1112}' | '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
        || matches!(letter, '\u{20000}'..='\u{323af}')
}

/// The part of what was found that is on the page.
#[derive(Clone, Copy)]
struct Part {
    offset: usize,
    size: usize,
}

impl Part {
    /// How many match, and those of this part: least key first, equal ones in the origin's order.
    fn of<K: Ord + Copy>(self, ranks: &[Rank], key: impl Fn(u32, Rank) -> K) -> (usize, Vec<u32>) {
        let mut found = Vec::new();
        each_match(ranks, |position, rank| found.push((key(position, rank), position)));
        (found.len(), self.cut(found))
    }

    fn cut<K: Ord + Copy>(self, mut found: Vec<(K, u32)>) -> Vec<u32> {
        let end = self.offset.saturating_add(self.size).min(found.len());
        if end < found.len() {
            found.select_nth_unstable(end);
            found.truncate(end);
        }
        if self.offset >= end {
            return Vec::new();
        }
        if self.offset > 0 {
            found.select_nth_unstable(self.offset);
        }
        found[self.offset..].sort_unstable();
        found[self.offset..].iter().map(|(_, position)| *position).collect()
    }
}

/// Shows the matches with their ranks, in the origin's order.
fn each_match(ranks: &[Rank], mut see: impl FnMut(u32, Rank)) {
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

/// Shows the matches, to change their ranks.
fn each_match_mut(ranks: &mut [Rank], mut see: impl FnMut(u32, &mut Rank)) {
    let ranks = (0..).zip(ranks).filter(|(_, rank)| **rank != NO_MATCH);
    ranks.for_each(|(position, rank)| see(position, rank));
}

#[cfg(test)]
pub(super) mod tests;
