//! Questions of a refresh, and what the answers say.
//!
//! Five conditional requests: a probe for recently modified listings, the first page and the taxonomies. Pure:
//! functions of the published data and the answers. A change beyond the first page that does not move `modified` is
//! left to the sweep. An origin without a usable probe is asked for another page in turn. Callers: [`super::task`].

use std::collections::HashSet;

use jiff::Timestamp;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::{EnvelopeField, Page};
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::words::named;

use super::copies::Copy;
use super::pass;

/// In nanoseconds.
const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// How many of the newest listings the probe should find again.
const PROBED: usize = 10;

/// How many seconds before the newest modifications the probe looks for a second in which nothing was modified.
const MOST_BACK: i64 = 1000;

/// How many days before the newest modification the probe looks for a midnight.
const MOST_DAYS_BACK: i64 = 30;

/// What the probe shows.
pub(super) const PROBE: &str = "the probe";

/// Asks for recently modified listings. If nothing changed, the answer is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// The query, canonical: the same until something is published, so that its validators stay useful.
    pub query: ListQuery,
    pub path: String,
}

named! {
    /// The probe's parameter: a timestamp; a date if the origin understands no timestamp; neither if it understands
    /// neither.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(super) enum ProbeShape, as_str {
        /// `2026-01-31T12:00:00Z`
        #[default]
        Timestamp = "timestamp",
        /// `2026-01-31`, the documented shape.
        Date = "date",
        /// `modified_since` says nothing: each refresh looks at another page.
        Pages = "pages",
    }
}

impl ProbeShape {
    #[must_use]
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Timestamp => Self::Date,
            Self::Date | Self::Pages => Self::Pages,
        }
    }
}

impl Probe {
    /// The probe for a data set, on the origin's clock: a `modified` after `confirmed_ms` is not trusted. `None` when
    /// no listing has a usable `modified`.
    pub(super) fn dated(dataset: &Dataset, confirmed_ms: i64, shape: ProbeShape) -> Option<Self> {
        let now = confirmed_ms.saturating_mul(1_000_000);
        let past = || dataset.modified().filter(|at| *at <= now);
        let newest = newest(past());
        let oldest_probed = *newest.first()?;
        let (at, text) = match shape {
            ProbeShape::Pages => return None,
            ProbeShape::Timestamp => {
                // A second in which nothing was modified, so that neither `>=` nor dropped fractions matter.
                let before = oldest_probed.div_euclid(SECOND) - 2;
                let seconds = before - MOST_BACK..=before;
                let near =
                    past().map(|at| at.div_euclid(SECOND)).filter(|at| (before - MOST_BACK..=before + 1).contains(at));
                let busy: HashSet<i64> = near.collect();
                let second = seconds.rev().find(|second| !busy.contains(second) && !busy.contains(&(second + 1)))?;
                (second * SECOND, Timestamp::from_second(second).ok()?.to_string())
            }
            ProbeShape::Date => {
                // A midnight with nothing modified around it, if there is one: it may be that of another time zone.
                let last = newest.last()?.div_euclid(DAY);
                let busy: HashSet<i64> = past().map(|at| at.saturating_add(DAY / 2).div_euclid(DAY)).collect();
                let day = (last - MOST_DAYS_BACK..=last).rev().find(|day| !busy.contains(day)).unwrap_or(last);
                (day * DAY, Timestamp::from_second(day * 86_400).ok()?.strftime("%Y-%m-%d").to_string())
            }
        };
        let modified_since = Some(ModifiedSince { text: text.into(), at });
        let query = ListQuery { modified_since, ..ListQuery::largest_pages() };
        Some(Self { path: query.path_and_query(), query })
    }

    /// A page after the first, another one each `turn`; `None`: there is no other.
    pub(super) fn page(dataset: &Dataset, turn: u64) -> Option<Self> {
        let query = ListQuery::largest_pages().with_page(2 + turn.checked_rem(pass::pages_of(dataset) - 1)?);
        Some(Self { path: query.path_and_query(), query })
    }

    /// Whether the answer holds what the data set would answer.
    fn agrees(&self, page: &Page, dataset: &Dataset) -> bool {
        let is_dated = self.query.modified_since.is_some();
        if is_dated { selects(page, &self.query, dataset) } else { agrees(page, &self.query, dataset) }
    }
}

/// The newest few instants, oldest first; all of them when there are fewer.
fn newest(all: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut kept: Vec<i64> = Vec::with_capacity(PROBED + 1);
    for at in all {
        if kept.len() < PROBED || kept.first().is_some_and(|oldest| at > *oldest) {
            let place = kept.partition_point(|other| *other < at);
            kept.insert(place, at);
            if kept.len() > PROBED {
                kept.remove(0);
            }
        }
    }
    kept
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefreshVerdict {
    /// Every answer is as published.
    Unchanged,
    /// The probe's answer differs, but is older than the published data: it says nothing.
    Older,
    /// The origin has changed, and where that shows.
    Changed(&'static str),
    /// The probe's answer holds known listings only, but not the expected ones.
    SelectsOthers,
}

#[derive(Debug)]
pub(super) struct Answers {
    /// `None`: the list has one page, or the probe alone was not answered.
    pub probe: Option<(Probe, Copy, Page)>,
    pub first: (Copy, Page),
    /// The taxonomies by [`TaxonomyKind::index`].
    pub taxonomies: [Copy; 3],
}

impl Answers {
    /// The latest instant for which all of them are confirmed.
    pub(super) fn until_ms(&self) -> i64 {
        let probe = self.probe.iter().map(|(_, copy, _)| copy.until_ms);
        let rest = self.taxonomies.iter().map(|copy| copy.until_ms);
        probe.chain(rest).fold(self.first.0.until_ms, i64::min)
    }

    /// Whether there is one instant for which the probe was answered, and at which the first page and the taxonomies
    /// were valid.
    pub(super) fn held_still(&self) -> bool {
        let since = self.taxonomies.iter().map(|copy| copy.since_ms).fold(self.first.0.since_ms, i64::max);
        since <= self.until_ms()
    }

    /// The listings of the probe's answer that a data set lacks.
    pub(super) fn unknown(&self, dataset: &Dataset) -> Vec<ListingId> {
        let items = self.probe.iter().flat_map(|(_, _, page)| &page.items);
        items.map(|item| item.id).filter(|id| dataset.summary(*id).is_none()).collect()
    }

    /// Leaves listings of the probe's answer out that no list shows.
    pub(super) fn leave_out(&mut self, is_left_out: impl Fn(ListingId) -> bool) {
        if let Some((_, _, page)) = &mut self.probe {
            let before = page.items.len();
            page.items.retain(|item| !is_left_out(item.id));
            page.total = page.total.saturating_sub((before - page.items.len()) as u64);
        }
    }

    /// Hashes of the first page, the taxonomies and the probe's answer.
    pub(super) fn hashes(&self, volatile: &VolatileKeys) -> Vec<ContentHash> {
        let probe = self.probe.iter().map(|(_, copy, _)| copy);
        let copies = [&self.first.0].into_iter().chain(&self.taxonomies).chain(probe);
        copies.map(|copy| volatile.hash(&String::from_utf8_lossy(&copy.body))).collect()
    }

    /// Whether the probe selects fewer listings than the data set holds: some may be gone.
    pub(super) fn lacks(&self, dataset: &Dataset) -> bool {
        let Some((probe, _, page)) = &self.probe else { return false };
        dataset.find_known(&probe.query).is_ok_and(|found| page.total < found.total)
    }

    /// Compares the answers with a data set that was confirmed for `confirmed_ms`. `first_page`: the hash of the first
    /// page that agrees with it, although its order is another one.
    pub(super) fn judge(
        &self,
        dataset: &Dataset,
        confirmed_ms: i64,
        volatile: &VolatileKeys,
        first_page: Option<ContentHash>,
    ) -> RefreshVerdict {
        for kind in TaxonomyKind::ALL {
            let text = String::from_utf8_lossy(&self.taxonomies[kind.index()].body);
            if volatile.blank(&text).0 != dataset.content.taxonomy(kind) {
                return RefreshVerdict::Changed("a taxonomy");
            }
        }
        let (first, page) = &self.first;
        let is_as_accepted = |hash| std::str::from_utf8(&first.body).is_ok_and(|text| volatile.hash(text) == hash);
        if !first_page.is_some_and(is_as_accepted) {
            if !agrees(page, &ListQuery::largest_pages(), dataset) {
                return RefreshVerdict::Changed("the first page");
            }
            if !envelope_agrees(page, &dataset.content, volatile) {
                return RefreshVerdict::Changed("the envelope");
            }
        }
        match &self.probe {
            Some((probe, copy, page)) if !probe.agrees(page, dataset) => match only_known(page, dataset) {
                _ if copy.is_before(confirmed_ms) => RefreshVerdict::Older,
                true if probe.query.modified_since.is_some() => RefreshVerdict::SelectsOthers,
                _ => RefreshVerdict::Changed(PROBE),
            },
            _ => RefreshVerdict::Unchanged,
        }
    }
}

/// Whether a page holds what the data set would answer.
pub(super) fn agrees(page: &Page, query: &ListQuery, dataset: &Dataset) -> bool {
    let key = |summary: &Summary| (summary.id, summary.hash);
    dataset
        .find_known(query)
        .is_ok_and(|found| page.total == found.total && page.items.iter().map(key).eq(found.items.into_iter().map(key)))
}

/// Whether a probe's page holds listings that the data set would select, in any order: all of them, unless the answer has
/// more pages. Where the origin's totals count listings that no list shows, they may do so here.
fn selects(page: &Page, query: &ListQuery, dataset: &Dataset) -> bool {
    let Ok(found) = dataset.find_known(query) else { return false };
    let unlisted =
        dataset.content.envelope.stated_total().map_or(0, |(total, _)| total.saturating_sub(dataset.len() as u64));
    if page.total < found.total || page.total - found.total > unlisted {
        return false;
    }
    if found.total <= found.items.len() as u64 {
        return same_set(&page.items, &found.items);
    }
    let since = query.modified_since.as_ref().map_or(i64::MIN, |since| since.at);
    let is_selected = |item: &Summary| dataset.modified_of(item.id).is_some_and(|modified| modified > since);
    page.items.len() == found.items.len() && only_known(page, dataset) && page.items.iter().all(is_selected)
}

/// Whether both sides hold equal listings.
pub(super) fn same_set<'a>(one: impl IntoIterator<Item = &'a Summary>, other: &[&'a Summary]) -> bool {
    let key = |summary: &Summary| (summary.id, summary.hash);
    let mut one: Vec<_> = one.into_iter().map(key).collect();
    let mut other: Vec<_> = other.iter().map(|summary| key(summary)).collect();
    one.sort_unstable();
    other.sort_unstable();
    one == other
}

/// Whether the data set has each listing of a page unchanged.
fn only_known(page: &Page, dataset: &Dataset) -> bool {
    page.items.iter().all(|item| dataset.summary(item.id).is_some_and(|known| known.hash == item.hash))
}

/// Whether the first page still has the size and the carried fields of the published envelope. Fields that differ
/// between pages were left out at publication and are ignored.
pub(super) fn envelope_agrees(first: &Page, content: &Content, volatile: &VolatileKeys) -> bool {
    let has_size = pass::largest_page(first) == content.envelope.largest_page;
    has_size
        && content.envelope.fields.iter().all(|field| match field {
            EnvelopeField::Carried { key, .. } => volatile.contains(key) || first.envelope.has(field),
            _ => true,
        })
}
