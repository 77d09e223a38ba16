//! Amends a list by the answers of a refresh, instead of reading every page.
//!
//! Changed listings are placed by the rules of the order ([`super::super::order`]); deleted listings are found by
//! bisection, page by page. On any doubt every page is read. The result is a candidate: it is published once the origin
//! confirms it. Callers: [`super::refresh`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::snapshot::content::{Content, SnapshotId};
use crate::snapshot::dataset::Dataset;
use crate::store::{States, Store};
use crate::upstream::window::Class;

use super::super::order::{Rules, Unplaced};
use super::super::pass::{self, Assembled, Beside, PAGE_SIZE};
use super::super::refresh::{self, Answers, Probe};
use super::publish::Candidate;
use super::{Mirror, MirrorError, blocking};

/// A list of no more pages is read whole: that proves more and costs no more.
const FEW_PAGES: u64 = 3;

/// Pages of the probe's answer that are read.
const MOST_PROBED: u64 = 5;

/// Pages that are read to check where changed listings stand.
const CHECKED: usize = 3;

/// Store key of the disproved rules.
const DISPROVED: &str = "orders";

/// The order of the newest snapshot: the rules that explain it, and the rules that the origin has disproved.
pub(super) struct KnownOrder {
    store: Arc<Store>,
    /// Texts of the rules disproved by reading every page.
    disproved: BTreeSet<String>,
    /// The rules that gave changed listings of the newest snapshot their places; empty: every page was read.
    pub(super) placed_by: Vec<String>,
    /// The rules that explain the order of one data set.
    rules: Option<(SnapshotId, Arc<Rules>)>,
}

impl KnownOrder {
    /// Reads back the disproved rules.
    pub(super) fn new(store: Arc<Store>) -> Self {
        /// A larger set is ignored.
        const MOST: usize = 1000;
        let kept: Option<BTreeSet<String>> = store.state_json(DISPROVED).ok().flatten();
        let disproved = kept.filter(|orders| orders.len() <= MOST).unwrap_or_default();
        Self { store, disproved, placed_by: Vec::new(), rules: None }
    }

    /// The rules that explain the order of a data set: remembered, or learned from the list.
    async fn rules(&mut self, dataset: &Arc<Dataset>) -> Result<Arc<Rules>, MirrorError> {
        if let Some((_, rules)) = self.rules.as_ref().filter(|(id, _)| *id == dataset.id) {
            return Ok(rules.clone());
        }
        let (sequence, disproved) = (dataset.clone(), self.disproved.clone());
        let rules = blocking(move || Ok(Rules::learn(&sequence.content.summaries, &disproved))).await?;
        let rules = Arc::new(rules);
        self.rules = Some((dataset.id.clone(), rules.clone()));
        Ok(rules)
    }

    /// Disproves the rules that placed listings of the newest snapshot, if reading every page contradicts them.
    pub(super) async fn compare(&mut self, newest: &Dataset, next: &Dataset) -> Result<(), MirrorError> {
        // The listings that are equal in both.
        let shared = |all: &Dataset, by: &Dataset| -> Vec<ListingId> {
            let known = |summary: &&Summary| by.summary(summary.id).is_some_and(|known| known.hash == summary.hash);
            all.content.summaries.iter().filter(known).map(|summary| summary.id).collect()
        };
        if self.placed_by.is_empty() || newest.id == next.id || shared(newest, next) == shared(next, newest) {
            return Ok(());
        }
        let orders = self.placed_by.join(", ");
        tracing::warn!(
            orders,
            "the origin's order does not follow the rules that were learned; they are no longer used"
        );
        self.disproved.extend(std::mem::take(&mut self.placed_by));
        self.rules = None;
        let mut states = States::default();
        states.put_json(DISPROVED, &self.disproved)?;
        let store = self.store.clone();
        blocking(move || store.put_states(&states)).await
    }
}

/// What a refresh shows to be new.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Changes {
    /// New and changed listings.
    changed: Vec<Summary>,
    /// How many listings were removed, at least: each new listing that no answer shows hides one.
    gone: usize,
}

/// Why the list cannot be amended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GiveUp {
    /// What the answers say.
    #[error("{0}")]
    Doubtful(String),
    /// The answers are from different instants, or a new listing was not in them.
    #[error("more listings are new or removed than the refresh showed")]
    Unaccounted,
    /// No certain place for a changed listing.
    #[error(transparent)]
    Unplaced(#[from] Unplaced),
    /// A page holds a listing that neither the amended list nor the probe has.
    #[error("a page has a listing that the refresh did not show")]
    Unexplained,
    /// The hunt costs as much as reading every page.
    #[error("reading every page is as cheap")]
    TooMany,
}

impl Changes {
    /// Compares with the known list: `items` are from the probe and the first page, `total` is the origin's.
    fn of<'a>(dataset: &Dataset, items: impl Iterator<Item = &'a Summary>, total: u64) -> Result<Self, GiveUp> {
        let mut changed: BTreeMap<ListingId, &Summary> = BTreeMap::new();
        let mut added = 0;
        for item in items {
            let known = dataset.summary(item.id);
            if known.is_none_or(|known| known.hash != item.hash) && changed.insert(item.id, item).is_none() {
                added += usize::from(known.is_none());
            }
        }
        let gone = (dataset.len() + added).checked_sub(usize::try_from(total).unwrap_or(usize::MAX));
        let gone = gone.ok_or(GiveUp::Unaccounted)?;
        // Detached: else each listing would keep its page in memory.
        Ok(Self { changed: changed.into_values().map(Summary::detached).collect(), gone })
    }
}

/// The hunt for listings that are gone.
#[derive(Debug)]
struct Hunt {
    /// The known list with the changes; at the end, the resulting one.
    sequence: Vec<Summary>,
    gone: usize,
    seen: BTreeMap<u64, Vec<(ListingId, ContentHash)>>,
    asked: u64,
    most: u64,
    /// Listings on a page.
    size: usize,
}

impl Hunt {
    /// Begins with the known sequence and the changes.
    fn begin(known: &[Summary], changes: &Changes, rules: &Rules, largest: Option<u16>) -> Result<Self, GiveUp> {
        let pages = pass::pages(known.len() as u64, largest);
        let size = largest.map_or(PAGE_SIZE as usize, usize::from);
        let halvings = u64::from(pages.max(2).ilog2()) + 2;
        if changes.gone as u64 * halvings > pages / 2 {
            return Err(GiveUp::TooMany);
        }
        let sequence = rules.place(known, &changes.changed)?;
        Ok(Self { sequence, gone: changes.gone, seen: BTreeMap::new(), asked: 0, most: pages / 2, size })
    }

    /// Takes in a page's listings.
    fn see(&mut self, page: u64, items: &[Summary]) {
        self.seen.insert(page, items.iter().map(|item| (item.id, item.hash)).collect());
    }

    /// The page, from 1, whose listings are to be seen next; `None`: this is the list. Removes the listings that are found
    /// to be gone.
    fn question(&mut self) -> Result<Option<u64>, GiveUp> {
        while self.gone > 0 {
            // The last page of the longer sequence must differ, so there is a first wrong page.
            let mut high = self.sequence.len().div_ceil(self.size).max(1) as u64;
            let mut low = 1;
            for page in self.seen.keys().copied() {
                if page < high && page >= low {
                    if self.agrees(page) {
                        low = page + 1;
                    } else {
                        high = page;
                        break;
                    }
                }
            }
            let ask = if low == high { high } else { low + (high - low) / 2 };
            if !self.seen.contains_key(&ask) {
                self.asked += 1;
                return if self.asked > self.most { Err(GiveUp::TooMany) } else { Ok(Some(ask)) };
            }
            let at = self.first_difference(ask).ok_or(GiveUp::Unexplained)?;
            self.sequence.remove(at);
            self.gone -= 1;
        }
        if self.seen.keys().all(|page| self.agrees(*page)) { Ok(None) } else { Err(GiveUp::Unexplained) }
    }

    /// The first `most` pages, from 1, that hold changed listings.
    fn pages_of(&self, changed: &[Summary], most: usize) -> Vec<u64> {
        let ids: HashSet<ListingId> = changed.iter().map(|summary| summary.id).collect();
        let at = self.sequence.iter().enumerate().filter(|(_, summary)| ids.contains(&summary.id));
        let mut pages: Vec<u64> = at.map(|(at, _)| (at / self.size) as u64 + 1).collect();
        pages.dedup();
        pages.retain(|page| !self.seen.contains_key(page));
        pages.truncate(most);
        pages
    }

    fn expected(&self, page: u64) -> &[Summary] {
        let start = ((page - 1) as usize * self.size).min(self.sequence.len());
        &self.sequence[start..(start + self.size).min(self.sequence.len())]
    }

    fn agrees(&self, page: u64) -> bool {
        let Some(seen) = self.seen.get(&page) else { return false };
        let expected = self.expected(page);
        seen.len() == expected.len() && seen.iter().zip(expected).all(|(seen, own)| *seen == (own.id, own.hash))
    }

    /// Where the sequence and the page first differ.
    fn first_difference(&self, page: u64) -> Option<usize> {
        let seen = self.seen.get(&page)?;
        let expected = self.expected(page);
        let same = seen.iter().zip(expected).take_while(|(seen, own)| **seen == (own.id, own.hash)).count();
        (same < expected.len()).then_some((page - 1) as usize * self.size + same)
    }
}

/// Why a list is not amended.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAmended {
    /// Every page has to be read instead.
    #[error(transparent)]
    Doubtful(#[from] GiveUp),
    /// The step has failed.
    #[error(transparent)]
    Failed(#[from] MirrorError),
}

fn doubtful(reason: impl Into<String>) -> GiveUp {
    GiveUp::Doubtful(reason.into())
}

impl Mirror {
    /// A list with its changes placed.
    pub(super) async fn amend(
        &mut self,
        base: &Arc<Dataset>,
        beside: &Beside,
        answers: &Answers,
    ) -> Result<Candidate, NotAmended> {
        let volatile = self.copies.volatile();
        let (known, largest) = (pass::pages_of(base), base.content.envelope.largest_page);
        let Some((probe, _, probed)) = &answers.probe else { return Err(doubtful("nothing was probed").into()) };
        let (_, first) = &answers.first;
        if known <= FEW_PAGES {
            return Err(doubtful("the list is short").into());
        }
        if base.content.envelope.stated_total().is_some() {
            return Err(doubtful("the total is not the number of listings").into());
        }
        if !refresh::envelope_agrees(first, &base.content, &volatile) {
            return Err(doubtful("the envelope has changed").into());
        }
        let probe_pages = pass::pages(probed.total, largest);
        if probe_pages > MOST_PROBED.min(known / 4 + 1) {
            return Err(doubtful(format!("{} listings were modified", probed.total)).into());
        }
        let mut modified = probed.items.clone();
        for page in 2..=probe_pages {
            let more = self.page_of(&probe.query.with_page(page).path_and_query(), probed.total).await?;
            modified.extend(more.ok_or_else(|| doubtful("the probe's answer changed"))?);
        }
        let changes = Changes::of(base, modified.iter().chain(&first.items), first.total)?;
        let rules = self.order.rules(base).await?;
        let mut hunt = Hunt::begin(&base.content.summaries, &changes, &rules, largest)?;
        hunt.see(1, &first.items);
        let mut is_unchecked = true;
        loop {
            let pages = match hunt.question()? {
                Some(page) => vec![page],
                None if std::mem::take(&mut is_unchecked) => hunt.pages_of(&changes.changed, CHECKED),
                None => break,
            };
            for page in pages {
                let items = self.page_of(&pass::page_path(page), first.total).await?;
                hunt.see(page, &items.ok_or_else(|| doubtful(format!("page {page} changed")))?);
            }
        }
        let mut beside = beside.clone();
        let bodies = answers.taxonomies.each_ref().map(|copy| copy.body.clone());
        let taxonomies = pass::blanked(&bodies, &volatile, &mut beside.volatile_values);
        let content = Content { envelope: base.content.envelope.clone(), taxonomies, summaries: hunt.sequence };
        let list = self.terms.index(Assembled { content, beside }, self.newest()).await?;
        // Counts that disagree now reveal a change that no answer shows.
        if let Some(slug) = newly_doubtful(base, &list.dataset) {
            return Err(doubtful(format!("the count of {slug} disagrees")).into());
        }
        if !selects(&list.dataset, probe, &modified, probed.total) {
            return Err(doubtful("the probe's answer does not follow from the amended list").into());
        }
        let placed_by: Vec<String> = rules.texts().collect();
        let (changed, gone) = (changes.changed.len(), changes.gone);
        tracing::debug!(changed, gone, rules = placed_by.join(", "), "the list is updated");
        // The rules found all places, and a sequence still obeys them after deletions: nothing to learn.
        self.order.rules = Some((list.dataset.id.clone(), rules));
        Ok(Candidate { list, placed_by, until_ms: answers.until_ms(), tries: 0, proof: None })
    }

    /// The listings of a page, if it states this total.
    async fn page_of(&self, path: &str, total: u64) -> Result<Option<Vec<Summary>>, MirrorError> {
        let page = self.copies.page(&self.copies.fetch(path, Class::Crawl).await?)?;
        Ok((page.total == total).then_some(page.items))
    }
}

/// Whether these listings, so many in all, are what the probe selects from the data set, in any order.
fn selects(dataset: &Dataset, probe: &Probe, probed: &[Summary], total: u64) -> bool {
    let mut own = Vec::with_capacity(probed.len());
    for page in 1..=pass::pages(total, dataset.content.envelope.largest_page) {
        let Ok(found) = dataset.find_known(&probe.query.with_page(page)) else { return false };
        if found.total != total {
            return false;
        }
        own.extend(found.items);
    }
    refresh::same_set(probed, &own)
}

/// A term that names and counts no longer prove.
pub(super) fn newly_doubtful(before: &Dataset, after: &Dataset) -> Option<String> {
    let was: HashSet<_> = before.doubtful().iter().map(|(kind, slug, _)| (*kind, slug.as_str())).collect();
    let news = after.doubtful().iter().find(|(kind, slug, _)| {
        !was.contains(&(*kind, slug.as_str()))
            && before.membership(*kind, slug).is_some_and(|known| known.as_str() == "named")
    });
    news.map(|(_, slug, _)| slug.clone())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn summary(id: u64, edition: u64) -> Summary {
        let raw = Bytes::from(format!(r#"{{"id":{id},"edition":"e{}"}}"#, (id * 7 + edition * 13) % 10));
        Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
    }

    fn list(listings: u64) -> Vec<Summary> {
        (1..=listings).map(|at| summary(at * 2, 0)).collect()
    }

    /// Hunts against an origin that lists `actual`: the result and the number of questions.
    fn hunt(known: &[Summary], changes: &Changes, actual: &[Summary]) -> Result<(Vec<Summary>, usize), GiveUp> {
        let rules = Rules::learn(known, &BTreeSet::new());
        let mut hunt = Hunt::begin(known, changes, &rules, None)?;
        let mut asked = 0;
        while let Some(page) = hunt.question()? {
            asked += 1;
            let start = ((page - 1) * PAGE_SIZE) as usize;
            hunt.see(page, actual.get(start..).map_or(&[], |rest| &rest[..rest.len().min(100)]));
        }
        Ok((hunt.sequence, asked))
    }

    #[test]
    fn a_changed_listing_needs_no_question_and_a_vanished_one_few() {
        let known = list(5_000);
        let mut actual = known.clone();
        actual[700] = summary(actual[700].id.0, 1);
        let changed = vec![actual[700].clone()];
        let found = hunt(&known, &Changes { changed: changed.clone(), gone: 0 }, &actual).unwrap();
        assert_eq!(found, (actual.clone(), 0));
        for gone in [0, 99, 100, 2_345, 4_999] {
            let mut actual = actual.clone();
            if gone != 700 {
                actual.remove(gone);
            }
            let (found, asked) = hunt(&known, &Changes { changed: changed.clone(), gone: 1 }, &actual).unwrap();
            assert!(found == actual && asked <= 7, "{gone}: {asked} questions");
        }
    }

    #[test]
    fn what_no_answer_accounts_for_gives_up() {
        let known = list(5_000);
        let changes = Changes { changed: Vec::new(), gone: 1 };
        let mut silent = known.clone();
        silent.remove(4_000);
        silent[20] = summary(silent[20].id.0, 3);
        silent[2_480] = summary(silent[2_480].id.0, 3);
        assert_eq!(hunt(&known, &changes, &silent).unwrap_err(), GiveUp::Unexplained);
        let many = Changes { changed: Vec::new(), gone: 40 };
        assert_eq!(hunt(&known, &many, &known).unwrap_err(), GiveUp::TooMany);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Any few deletions are found exactly, in far fewer questions than there are pages.
        #[test]
        fn what_is_gone_is_found(gone in proptest::collection::hash_set(0_usize..8_000, 0..5)) {
            let known = list(8_000);
            let at: HashSet<usize> = gone;
            let actual: Vec<Summary> =
                known.iter().enumerate().filter(|(place, _)| !at.contains(place)).map(|(_, one)| one.clone()).collect();
            let (found, asked) = hunt(&known, &Changes { changed: Vec::new(), gone: at.len() }, &actual).unwrap();
            prop_assert!(found == actual);
            prop_assert!(asked <= at.len() * 10);
        }
    }
}
