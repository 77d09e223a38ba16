//! Judgement on the pages of one pass: may they be published, how sure are we, and how do they contradict each other?
//!
//! Where the origin's order is not unique, its pages cut it differently: one listing is on two pages, another on none. A
//! total may count listings that no page shows, or come from a cache. Such an origin never sends pages that fit,
//! although they do not change. Pure: bodies and the intervals of their validity in, a verdict out. Callers:
//! [`super::task`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::api::listing::{ListingId, Summary};
use crate::api::page::{Envelope, Page, PageError};
use crate::api::query::ListQuery;
use crate::api::render::VolatileValues;
use crate::api::taxonomy::{self, TaxonomyKind, VolatileKeys};
use crate::clock::Monotonic;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;

use super::order::Rule;

/// Listings on a page of the crawl, as far as the origin sends as many as documented.
pub(crate) const PAGE_SIZE: u64 = ListQuery::MAX_PER_PAGE as u64;

/// No list has more pages: a larger total is nonsense.
pub(super) const MOST_PAGES: u64 = u32::MAX as u64 / PAGE_SIZE;

/// The listings of all pages have at most so many bytes: twice what a million usual ones have.
const MOST_BYTES: usize = 1 << 30;

/// The path of one page of the crawl.
pub(super) fn page_path(page: u64) -> String {
    ListQuery::largest_pages().with_page(page).path_and_query()
}

/// The number of a page of the crawl, from its path; `None` for any other path.
pub(super) fn page_of(path: &str) -> Option<u64> {
    if path == page_path(1) {
        return Some(1);
    }
    path.strip_prefix("/api/listings.json?page=")?.strip_suffix("&per_page=100")?.parse().ok()
}

/// The most listings that the origin puts on a page, by the first page of a list: what it sends, and where that is all,
/// what it says. `None`: as many as documented.
pub(super) fn largest_page(first: &Page) -> Option<u16> {
    let sent = Some(first.items.len() as u64).filter(|sent| (1..first.total).contains(sent));
    below_documented(sent.or(first.per_page))
}

fn below_documented(size: Option<u64>) -> Option<u16> {
    size.filter(|size| (1..PAGE_SIZE).contains(size)).and_then(|size| u16::try_from(size).ok())
}

/// How many pages hold `total` listings; the first page always exists.
pub(super) fn pages(total: u64, largest: Option<u16>) -> u64 {
    total.div_ceil(largest.map_or(PAGE_SIZE, u64::from)).max(1)
}

/// How many pages a data set fills at the origin.
pub(super) fn pages_of(dataset: &Dataset) -> u64 {
    pages(dataset.len() as u64, dataset.content.envelope.largest_page)
}

/// When a copy is valid, in the origin's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The latest instant at which the content may have come to be, in milliseconds.
    pub since_ms: i64,
    /// The latest instant for which the content is confirmed.
    pub until_ms: i64,
}

/// What a pass has fetched, by path: all pages in order, then the taxonomies. The bodies stay in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass(Vec<(String, Span)>);

/// The paths of a pass over so many pages.
pub(super) fn paths(pages: u64) -> impl Iterator<Item = String> {
    (1..=pages).map(page_path).chain(TaxonomyKind::ALL.into_iter().map(|kind| kind.path().to_owned()))
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Inconsistent {
    #[error("no page was read")]
    NoPages,
    #[error("page {page}: {source}")]
    Page {
        /// From 1.
        page: usize,
        source: PageError,
    },
    /// Nothing bounds a list but this: each page may have `origin.max_body`.
    #[error("the listings up to page {page} have more than {MOST_BYTES} bytes together, which are held in memory")]
    TooLarge {
        /// From 1.
        page: usize,
    },
    #[error("{0}")]
    Contradictory(Box<Contradictory>),
}

#[derive(Debug)]
pub(super) struct Contradictory {
    /// What they hold, each listing once, in the order of the pages.
    pub assembled: Assembled,
    pub contradiction: Contradiction,
    /// How many listings they show, those on two pages twice.
    pub listed: u64,
    /// The total that the first page states.
    pub total: u64,
}

impl fmt::Display for Contradictory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (distinct, total) = (self.assembled.content.summaries.len(), self.total);
        write!(f, "the pages have {distinct} different listings, but page 1 states a total of {total}")?;
        let doubled = &self.contradiction.doubled;
        if let Some(one) = doubled.first() {
            let also = if doubled.len() > 1 { format!(" and {} more", doubled.len() - 1) } else { String::new() };
            let are = if doubled.len() > 1 { "are" } else { "is" };
            write!(f, "; listing {one}{also} {are} on two pages")?;
        }
        if self.contradiction.excess.len() > 1 {
            f.write_str("; other pages state other totals")?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Assembled {
    pub content: Content,
    pub beside: Beside,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// Envelope fields that differ between the pages.
    pub left_out: Vec<String>,
    /// The last values of volatile fields, by `path field`; for the envelope by `list field`.
    pub volatile_values: VolatileValues,
}

impl Pass {
    /// A pass over these copies.
    pub(super) fn new(copies: Vec<(String, Span)>) -> Self {
        Self(copies)
    }

    /// The latest instant at which any part came to be.
    pub(super) fn since_ms(&self) -> i64 {
        self.0.iter().map(|(_, span)| span.since_ms).max().unwrap_or(0)
    }

    /// The latest instant for which all is confirmed.
    pub(super) fn until_ms(&self) -> i64 {
        self.0.iter().map(|(_, span)| span.until_ms).min().unwrap_or(0)
    }

    /// Whether there is one instant at which the origin had exactly this: every part came to be before and was
    /// confirmed after.
    pub(super) fn is_full(&self) -> bool {
        self.since_ms() <= self.until_ms()
    }

    /// The paths that still need confirmation.
    pub(super) fn unproven(&self) -> Vec<String> {
        let since = self.since_ms();
        self.0.iter().filter(|(_, span)| span.until_ms < since).map(|(path, _)| path.clone()).collect()
    }
}

/// Puts pages and taxonomies (by [`TaxonomyKind::index`]) together. Where `known` returns an equal summary, its text is
/// used instead of a second copy.
pub(super) fn assemble(
    pages: impl Iterator<Item = Bytes>,
    taxonomies: &[Bytes; 3],
    volatile: &VolatileKeys,
    known: impl Fn(&Summary) -> Option<Summary>,
) -> Result<Assembled, Inconsistent> {
    let mut envelope = None;
    let mut beside = Beside::default();
    let (mut summaries, mut bytes) = (Vec::new(), 0);
    let (mut total, mut totals) = (0, BTreeSet::new());
    let (mut stated_size, mut sizes) = (None, Vec::new());
    for (index, body) in pages.enumerate() {
        let page = Page::parse(&body, volatile).map_err(|source| Inconsistent::Page { page: index + 1, source })?;
        totals.insert(page.total);
        sizes.push(page.items.len());
        match &mut envelope {
            None => {
                total = page.total;
                let largest_page = largest_page(&page);
                stated_size = below_documented(page.per_page);
                for (key, value) in page.volatile {
                    beside.volatile_values.insert(format!("list {key}"), value);
                }
                envelope = Some(Envelope { largest_page, ..page.envelope });
            }
            Some(first) => beside.left_out.extend(first.agree_with(&page.envelope)),
        }
        bytes += page.items.iter().map(|item| item.raw.len()).sum::<usize>();
        if bytes > MOST_BYTES {
            return Err(Inconsistent::TooLarge { page: index + 1 });
        }
        summaries.extend(shared(page.items, &known));
    }
    let mut envelope = envelope.ok_or(Inconsistent::NoPages)?;
    if sizes.split_last().is_some_and(|(_, full)| full.iter().any(|size| *size != sizes[0])) {
        // Some are short by themselves: none of them says where the origin cuts.
        envelope.largest_page = stated_size;
    }
    let taxonomies = blanked(taxonomies, volatile, &mut beside.volatile_values);
    let (contradiction, listed) = (Contradiction::of(&summaries, &totals), summaries.len() as u64);
    if contradiction.is_none() {
        let is_full = listed > 0 && listed % envelope.largest_page.map_or(PAGE_SIZE, u64::from) == 0;
        let unknown = if is_full && total == listed { unshown(&taxonomies, listed) } else { 0 };
        if total < listed || unknown > 0 {
            envelope.state_total(total, unknown);
        }
    }
    if contradiction.is_some() {
        let mut seen = HashSet::with_capacity(summaries.len());
        summaries.retain(|summary| seen.insert(summary.id));
    }
    let assembled = Assembled { content: Content { envelope, taxonomies, summaries }, beside };
    match contradiction {
        None => Ok(assembled),
        Some(contradiction) => {
            let found = Contradictory { assembled, contradiction, listed, total };
            Err(Inconsistent::Contradictory(Box::new(found)))
        }
    }
}

/// How many more listings every taxonomy counts than the pages show, which may end where the origin shows no more.
fn unshown(taxonomies: &[Arc<str>; 3], listed: u64) -> u64 {
    let more = |text: &Arc<str>| {
        let terms = taxonomy::terms(text).unwrap_or_default();
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (key, number) in terms.iter().flat_map(|term| &term.numbers) {
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(*number);
        }
        // Not every number is a count.
        sums.into_values().filter(|sum| *sum >= listed).min().map_or(0, |sum| sum - listed)
    };
    taxonomies.iter().map(more).min().unwrap_or(0)
}

/// The items of a page, with known texts reused. New items are copied out, so that they do not keep the whole page in
/// memory.
fn shared(items: Vec<Summary>, known: impl Fn(&Summary) -> Option<Summary>) -> Vec<Summary> {
    let before: Vec<Option<Summary>> = items.iter().map(known).collect();
    if before.iter().all(Option::is_none) {
        return items;
    }
    items.into_iter().zip(before).map(|(item, known)| known.unwrap_or_else(|| item.detached())).collect()
}

/// The taxonomies' texts without volatile fields, which go to `values`.
pub(super) fn blanked(taxonomies: &[Bytes; 3], volatile: &VolatileKeys, values: &mut VolatileValues) -> [Arc<str>; 3] {
    TaxonomyKind::ALL.map(|kind| {
        let text = String::from_utf8_lossy(&taxonomies[kind.index()]);
        let (blanked, taken) = volatile.blank(&text);
        values.extend(taken.into_iter().map(|(key, value)| (format!("{} {key}", kind.path()), value)));
        Arc::from(blanked)
    })
}

/// How the pages of one pass contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contradiction {
    /// The listings on more than one page.
    pub doubled: BTreeSet<ListingId>,
    /// By how much the totals of the pages exceed the number of listings; below 0: there are more listings.
    pub excess: BTreeSet<i64>,
}

impl Contradiction {
    /// Compares what pages hold and say: their listings in order, those of the same page together, and their totals.
    /// `None`: they fit; or the total is too low on all of them alike, as where the origin counts only so far.
    pub(super) fn of(listed: &[Summary], totals: &BTreeSet<u64>) -> Option<Self> {
        let mut times: HashMap<ListingId, u32> = HashMap::with_capacity(listed.len());
        for summary in listed {
            *times.entry(summary.id).or_default() += 1;
        }
        let distinct = times.len() as u64;
        let doubled: BTreeSet<ListingId> =
            times.into_iter().filter(|(_, times)| *times > 1).map(|(id, _)| id).collect();
        let excess: BTreeSet<i64> = totals.iter().map(|total| total.cast_signed() - distinct.cast_signed()).collect();
        let fits = doubled.is_empty() && excess.len() < 2 && excess.iter().all(|excess| *excess <= 0);
        (!fits).then_some(Self { doubled, excess })
    }
}

/// So many passes in a row must fail in the same way.
const TIMES: u32 = 3;

/// So many passes for a first copy, if they fail in different ways.
const DIFFERENT: u32 = 6;

/// The contradictions of the passes since the pages fitted last.
#[derive(Debug, Default)]
pub(super) struct Recurrence {
    /// The last one, how many passes in a row had it, and when the last of them that counts began.
    last: Option<(Contradiction, u32, Monotonic)>,
    /// When the first of these passes began, and how many there were.
    began: Option<(Monotonic, u32)>,
}

impl Recurrence {
    /// The pages fitted.
    pub(super) fn ended(&mut self) {
        *self = Self::default();
    }

    /// Takes in a pass that began at `began`; whether the contradiction is believed. Passes count that began more than
    /// `apart` after the last one that counts: until then, old copies may be the reason.
    pub(super) fn see(&mut self, contradiction: &Contradiction, began: Monotonic, apart: Duration) -> bool {
        let (first, tries) = self.began.map_or((began, 1), |(first, tries)| (first, tries + 1));
        self.began = Some((first, tries));
        let same = self.last.take().filter(|(last, ..)| last == contradiction);
        let (times, counted) = match same {
            Some((_, times, counted)) if !apart.is_zero() && began.since(counted) <= apart => (times, counted),
            Some((_, times, _)) => (times + 1, began),
            None => (1, began),
        };
        self.last = Some((contradiction.clone(), times, counted));
        let is_long = if apart.is_zero() { tries >= DIFFERENT } else { began.since(first) > apart * 4 };
        times >= TIMES || is_long
    }

    /// When the next pass counts.
    pub(super) fn next(&self, apart: Duration) -> Option<Monotonic> {
        self.last.as_ref().map(|(.., counted)| counted.plus(apart + Duration::from_millis(1)))
    }
}

/// Puts listings in order: those on one page where the pages have them, those of unknown place beside their neighbours in
/// the last snapshot, new ones of unknown place by id; all of them only where the rule that orders the pages allows it.
/// `pages` has each listing once, in the order of the pages; `others` are on none.
pub(super) fn arranged(
    pages: Vec<Summary>,
    doubled: &BTreeSet<ListingId>,
    others: Vec<Summary>,
    last: Option<&Dataset>,
) -> Vec<Summary> {
    let tie = pages.iter().position(|summary| doubled.contains(&summary.id));
    let (unknown, placed): (Vec<Summary>, Vec<Summary>) =
        pages.into_iter().partition(|summary| doubled.contains(&summary.id));
    let unknown = unknown.into_iter().chain(others).map(|summary| (summary.id, summary));
    let mut unknown: BTreeMap<ListingId, Summary> = unknown.collect();
    // Each with the place before which it goes; in the order of the last snapshot, then by id.
    let mut put = Vec::with_capacity(unknown.len());
    if let Some(last) = last {
        let places: HashMap<ListingId, usize> = placed.iter().map(|summary| summary.id).zip(0..).collect();
        let mut next = 0;
        for known in &last.content.summaries {
            if let Some(place) = places.get(&known.id) {
                next = place + 1;
            } else if let Some(summary) = unknown.remove(&known.id) {
                put.push((next, summary));
            }
        }
    }
    let end = tie.unwrap_or(placed.len());
    put.extend(unknown.into_values().map(|summary| (end, summary)));
    if let Some(rule) = Rule::learn(&placed) {
        for (place, summary) in &mut put {
            let allowed = rule.places(&placed, summary);
            *place = (*place).clamp(*allowed.start(), *allowed.end());
        }
        put.sort_by(|one, other| rule.compare_listings(&one.1, &other.1));
    }
    put.sort_by_key(|(place, _)| *place);
    let mut arranged = Vec::with_capacity(placed.len() + put.len());
    let (mut placed, mut taken) = (placed.into_iter(), 0);
    for (place, summary) in put {
        arranged.extend(placed.by_ref().take(place - taken));
        arranged.push(summary);
        taken = place;
    }
    arranged.extend(placed);
    arranged
}

#[cfg(test)]
mod tests;
