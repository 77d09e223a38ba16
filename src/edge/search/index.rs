//! Index of one snapshot: the listings that a search asks for, in order.
//!
//! Every listing has a *rank*: 0 is best, [`NO_MATCH`] is no match. Each part of a query raises the ranks; what remains is
//! the result. That takes a byte per listing for each word, a tenth of a nanosecond each. Callers: [`super`], and the bench.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::api::facets::Facets;
use crate::api::folding::{each_word, folded};
use crate::api::listing::Venue;
use crate::api::query::search::{Near, Order, Point, SearchQuery, is_filler};
use crate::api::states;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::{Dataset, Unselected};
use crate::data::snapshot::membership::Positions;
use crate::protocol::excerpt;

use super::occurrence::{ListingField, Occurrence};
use super::order::{self, NameWords, OTHER_SPORT, OrderCollector, Orders, Rank};
use super::places::{Center, NO_MATCH, Places, around};
use super::plan::{Plan, PlannedWord};
use super::ranks::{Part, each_match, each_match_mut};
use super::words::{Allowance, TooManyWords, WordCollector, Words};

/// So much of a field is read, in bytes: an origin may send names without end.
const MOST_OF_A_FIELD: usize = 4096;

/// Searches that take longer than this by estimate do not run on threads that serve clients, in nanoseconds.
const SHORT: usize = 700_000;
/// So long any search may look for typing errors, and for words.
const LONG: usize = 20_000_000;

/// About how long the terms of the facets take beside the listings, in nanoseconds.
const FACETS: usize = 20_000;

/// So many ends of a word of Han, Kana or Hangul are found.
const MOST_ENDS: usize = 16;

/// The words and the places of a snapshot's listings.
pub struct SearchIndex {
    words: Words,
    places: Places,
    orders: Orders,
    /// Slugs of sports by the words of these, and by those of the names that the index of sports shows.
    sports: HashMap<Box<str>, Box<str>>,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its position in the origin's order.
    pub position: u32,
    /// How far it is from `near`, in whole metres; `None` without `near`.
    pub metres: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    pub total: u64,
    /// Those of the page, best first.
    pub page: Vec<Hit>,
    /// Words of the query that were left out: nothing has them, or they are too many.
    pub ignored: Vec<Box<str>>,
    /// How many results each sport and state has; `None`: not asked for.
    pub facets: Option<Facets>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllHits {
    /// Best first.
    pub positions: Vec<u32>,
    /// Words that nothing has, or that are too many.
    pub ignored: Vec<Box<str>>,
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
            orders.add(summary.id, &venue, collect_name(&mut collector, venue.name.as_deref().unwrap_or_default()));
            let sport = venue.sport.as_deref().unwrap_or_default();
            let state = read(venue.state.as_deref().unwrap_or_default());
            let other = states::other_name(&state).unwrap_or_default();
            let city = venue.city.as_deref().unwrap_or_default();
            let (city, sport, shown) = (read(city), read(sport), read(sports.get(sport).unwrap_or(&"")));
            let texts = [(&*city, ListingField::City), (&*state, ListingField::State), (other, ListingField::State)];
            for (text, field) in texts.into_iter().chain([&*sport, &*shown].map(|text| (text, ListingField::Sport))) {
                each_word(text, true, |word| collector.add(word, field));
            }
            collector.end_listing();
            points.push(venue.lat.zip(venue.lng).and_then(|(lat, lng)| Point::of(lat, lng)));
        }
        let named = sports.iter().flat_map(|(slug, shown)| [(*slug, *slug), (*shown, *slug)]);
        let sports = named.map(|(name, slug)| (phrase(name), slug.into())).collect();
        let places = Places::of(points.into_iter());
        Ok(Self { words: collector.finish()?, places, orders: orders.finish(), sports, len: dataset.len() })
    }

    /// What a search takes beside its words, in nanoseconds by estimate.
    fn work(&self, query: &SearchQuery) -> usize {
        // Of a wide circle, many distances are compared.
        let circle =
            |near: &Near| 2 * self.len + 60 * self.len * (near.radius as usize / 1000).pow(2).min(1 << 20) / (1 << 20);
        let places = query.near.as_ref().map_or(0, circle) + if query.bounds.is_some() { 2 * self.len } else { 0 };
        let filters = if query.list.is_filtered() { 2 * self.len } else { 0 };
        let order = if query.order == Order::Usual { 0 } else { 2 * self.len };
        let facets = if query.has_facets { 8 * self.len + FACETS } else { 0 };
        places + filters + order + facets + self.len / 8 * (1 + query.words.len())
    }

    /// The same query with the point of the city that it looks around.
    pub(super) fn settled<'a>(
        &self,
        dataset: &Dataset,
        query: &'a SearchQuery,
    ) -> Result<Cow<'a, SearchQuery>, Unselected> {
        let near = query.near.as_ref();
        let Some(slug) = near.and_then(|near| near.city.clone()) else { return Ok(Cow::Borrowed(query)) };
        let kind = TaxonomyKind::Cities;
        let Some(known) = dataset.membership(kind, &slug) else { return Err(Unselected::Nowhere { slug }) };
        let Some(positions) = known.positions() else { return Err(Unselected::Doubtful { kind, slug }) };
        let (middle, mut query) = (self.places.middle(positions.iter()), query.clone());
        query.near.iter_mut().for_each(|near| near.of_city(middle));
        Ok(Cow::Owned(query))
    }

    /// [`find`](Self::find) on a thread that serves clients; `None` if it takes longer than a millisecond.
    pub fn find_short(&self, dataset: &Dataset, query: &SearchQuery) -> Option<Result<Hits, Unselected>> {
        let left = Allowance::new(SHORT);
        left.take(self.work(query));
        let plan = Plan::of(&self.words, query, &left);
        left.is_left().then(|| self.find_planned(dataset, query, plan))
    }

    /// The page that a query asks for, of the data set that this index was made of. Where words have
    /// thousands of different letters, it does not find all typing errors.
    pub fn find(&self, dataset: &Dataset, query: &SearchQuery) -> Result<Hits, Unselected> {
        let plan = Plan::of(&self.words, query, &Allowance::new(LONG));
        self.find_planned(dataset, query, plan)
    }

    /// The positions of all that a query finds, in its order.
    pub(crate) fn find_all(&self, dataset: &Dataset, query: &SearchQuery) -> Result<AllHits, Unselected> {
        let plan = Plan::of(&self.words, query, &Allowance::new(LONG));
        let ranks = self.ranks(dataset, query, &plan.words)?;
        let (_, positions) = self.positions(query, &plan, &ranks, Part { offset: 0, size: usize::MAX });
        Ok(AllHits { positions, ignored: plan.unknown.iter().chain(&query.beyond).cloned().collect() })
    }

    fn find_planned(&self, dataset: &Dataset, query: &SearchQuery, plan: Plan<'_>) -> Result<Hits, Unselected> {
        let size = usize::from(query.list.per_page);
        let offset = u128::from(query.list.page - 1) * u128::from(query.list.per_page);
        let part = Part { offset: usize::try_from(offset).unwrap_or(usize::MAX), size };
        let ranks = self.ranks(dataset, query, &plan.words)?;
        let (total, positions) = self.positions(query, &plan, &ranks, part);
        let facets = query.has_facets.then(|| facets(dataset, &ranks));
        let center = query.near.as_ref().map(|near| Center::of(near.point));
        let metres = |position: u32| center.as_ref().map(|center| self.places.distance(position, center));
        let hit = |position| Hit { position, metres: metres(position).map(|metres| metres.round() as u32) };
        Ok(Hits { total: total as u64, page: positions.into_iter().map(hit).collect(), ignored: plan.ignored, facets })
    }

    /// How well each listing matches a query with these words.
    fn ranks(
        &self,
        dataset: &Dataset,
        query: &SearchQuery,
        words: &[PlannedWord<'_>],
    ) -> Result<Vec<Rank>, Unselected> {
        let mut ranks = self.selected(dataset, query)?;
        for (at, word) in words.iter().enumerate() {
            let of_word = self.ranks_of(word, at);
            // No sum reaches NO_MATCH, and NO_MATCH stays.
            ranks.iter_mut().zip(&of_word).for_each(|(rank, own)| *rank = rank.saturating_add(*own));
        }
        if let Some(sport) = self.sport(dataset, query).filter(|_| !words.is_empty()) {
            // NO_MATCH has the mark already, and keeps it.
            for rank in &mut ranks {
                *rank |= OTHER_SPORT;
            }
            for position in sport {
                let rank = &mut ranks[position as usize];
                *rank ^= if *rank == NO_MATCH { 0 } else { OTHER_SPORT };
            }
        }
        if let Some(bounds) = &query.bounds {
            self.places.keep_within(bounds, &mut ranks);
        }
        if let Some(near) = &query.near {
            let center = Center::of(near.point);
            self.places.keep_within(&around(near), &mut ranks);
            each_match_mut(&mut ranks, |position, rank| {
                let is_near = self.places.distance(position, &center) <= f64::from(near.radius);
                *rank |= if is_near { 0 } else { NO_MATCH };
            });
        }
        Ok(ranks)
    }

    /// How many listings match, and a part of them in the order of the query.
    fn positions(&self, query: &SearchQuery, plan: &Plan<'_>, ranks: &[Rank], part: Part) -> (usize, Vec<u32>) {
        let center = query.near.as_ref().map(|near| Center::of(near.point));
        let metres = |position: u32| center.as_ref().map(|center| self.places.distance(position, center));
        match self.orders.places(query.order) {
            Some(places) => part.of(ranks, |position, _| places[position as usize]),
            // Without a sign, the bits of numbers have their order.
            None if center.is_some() && query.order != Order::Best => part.of(ranks, |position, _| {
                (metres(position).unwrap_or_default().to_bits(), self.orders.by_reviews(position))
            }),
            None if plan.words.is_empty() => part.of(ranks, |_, _| ()),
            None => self.best(ranks, plan.in_name(), part),
        }
    }

    /// The listings of the sport that a query names, at the beginning or at the end of the words that do not say where.
    fn sport<'a>(&self, dataset: &'a Dataset, query: &SearchQuery) -> Option<&'a Positions> {
        let words = &query.words[..query.before_place.min(query.words.len())];
        let sizes = (1..=words.len()).rev();
        let parts = sizes.flat_map(|size| [&words[..size], &words[words.len() - size..]]);
        let slug = parts.into_iter().find_map(|part| self.sports.get(&*part.join(" ")))?;
        dataset.membership(TaxonomyKind::Sports, slug)?.positions()
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

    /// The ranks of one word, which comes so many after the first.
    fn ranks_of(&self, word: &PlannedWord<'_>, at: usize) -> Vec<Rank> {
        let mut ranks = vec![NO_MATCH; self.len];
        for (range, kind) in &word.matching {
            let mut of_occurrence = [NO_MATCH; Occurrence::ALL];
            for found in Occurrence::all() {
                of_occurrence[found.index()] = order::rank(*kind, found, at, word.is_where);
            }
            for at in range.clone() {
                self.words.each_occurrence(at, |position, found| {
                    let rank = &mut ranks[position as usize];
                    *rank = (*rank).min(of_occurrence[found.index()]);
                });
            }
        }
        ranks
    }

    /// The best matches. Not all of a million need an order for the first fifty.
    fn best(&self, ranks: &[Rank], asked: NameWords, part: Part) -> (usize, Vec<u32>) {
        let mut counts = [0_usize; order::GRADES];
        each_match(ranks, |position, rank| counts[self.orders.grade(position, rank, asked)] += 1);
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
            let grade = self.orders.grade(position, rank, asked);
            if grades.contains(&grade) {
                found.push(((grade, self.orders.by_reviews(position)), position));
            }
        });
        (total, Part { offset: part.offset.saturating_sub(before), ..part }.cut(found))
    }
}

fn facets(dataset: &Dataset, ranks: &[Rank]) -> Facets {
    let mut found = Positions::new();
    // In the origin's order, so each is the last.
    each_match(ranks, |position, _| {
        found.insert(position);
    });
    dataset.facets(&found)
}

/// Adds the words of a name; returns how many different ones it has.
fn collect_name(collector: &mut WordCollector, name: &str) -> u8 {
    let name = read(name);
    let (mut words, mut field) = (HashSet::new(), ListingField::NameStart);
    each_word(&name, false, |word| _ = !is_filler(word) && words.insert(Box::<str>::from(word)));
    let count = u8::try_from(words.len()).unwrap_or(u8::MAX);
    each_word(&name, true, |word| {
        let is_filler = is_filler(word) && count > 0;
        collector.add(word, if is_filler { ListingField::Name } else { field });
        // Of words without spaces between them, any may be meant.
        let ends = word.char_indices().skip(1).filter(|(_, letter)| is_unspaced(*letter));
        ends.take(MOST_ENDS).for_each(|(at, _)| collector.add(&word[at..], ListingField::Name));
        field = if is_filler { field } else { ListingField::Name };
    });
    count
}

/// The words of a text as a query has them, with spaces between them.
fn phrase(text: &str) -> Box<str> {
    let mut words: Vec<String> = Vec::new();
    each_word(&read(text), false, |word| words.extend((!is_filler(word)).then(|| word.to_owned())));
    words.join(" ").into()
}

fn read(text: &str) -> String {
    folded(excerpt::start(text, MOST_OF_A_FIELD))
}

/// Whether words of this script stand without spaces between them: Han, Kana, Hangul (taken apart by folding).
const fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{1100}'..='\u{1112}' | '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
        || matches!(letter, '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
pub(super) mod tests;
