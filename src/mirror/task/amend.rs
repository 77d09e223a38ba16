//! Amendment of a list by the answers of a refresh, instead of reading every page.
//!
//! Changed listings go where the rule of the order puts them ([`super::super::order`]), and the pages that then
//! hold them are read; deleted listings are found by bisection, page by page. On any doubt every page is read. The result
//! is a candidate: it is published once the origin confirms it. Callers: [`super::refresh`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::origin::window::Class;

use super::super::pass::{self, Assembled, Beside, PAGE_SIZE};
use super::super::refresh::{self, Answers, Probe};
use super::publish::Candidate;
use super::{Mirror, MirrorError, blocking};

/// A list of no more pages is read whole: that proves more and costs no more.
const FEW_PAGES: u64 = 3;

/// Pages of the probe's answer that are read.
const MOST_PROBED: u64 = 5;

/// What a refresh shows to be new.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Amendment {
    changed: Vec<Summary>,
    /// How many listings were removed, at least: each new listing that no answer shows hides one.
    gone: usize,
}

/// Why a list is not amended: every page is read instead, unless the step has failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAmended {
    /// What the answers say.
    #[error("{0}")]
    Doubtful(String),
    /// The answers are from different instants, or a new listing was not in them.
    #[error("more listings are new or removed than the refresh showed")]
    Unaccounted,
    /// A page is not as the amended list has it: another listing has changed, or a changed one stands elsewhere.
    #[error("a page differs from the amended list")]
    Unexplained,
    /// The hunt costs as much as reading every page.
    #[error("reading every page is as cheap")]
    TooMany,
    #[error(transparent)]
    Failed(#[from] MirrorError),
}

impl Amendment {
    /// Compares with the known list: `items` are from the probe and the first page, `total` is the origin's.
    fn of<'a>(dataset: &Dataset, items: impl Iterator<Item = &'a Summary>, total: u64) -> Result<Self, NotAmended> {
        let mut changed: BTreeMap<ListingId, &Summary> = BTreeMap::new();
        let mut added = 0;
        for item in items {
            let known = dataset.summary(item.id);
            if known.is_none_or(|known| known.hash != item.hash) && changed.insert(item.id, item).is_none() {
                added += usize::from(known.is_none());
            }
        }
        let gone = (dataset.len() + added).checked_sub(usize::try_from(total).unwrap_or(usize::MAX));
        let gone = gone.ok_or(NotAmended::Unaccounted)?;
        // Detached: else each listing would keep its page in memory.
        Ok(Self { changed: changed.into_values().map(Summary::detached).collect(), gone })
    }
}

/// The hunt for listings that are gone, and the check of where changed listings stand.
#[derive(Debug)]
struct Hunt {
    /// The known list with the changes; at the end, the resulting one.
    sequence: Vec<Summary>,
    changed: HashSet<ListingId>,
    gone: usize,
    seen: BTreeMap<u64, Vec<(ListingId, ContentHash)>>,
    asked: u64,
    most: u64,
    /// Listings on a page.
    size: usize,
}

impl Hunt {
    fn begin(known: &Dataset, changes: Amendment) -> Result<Self, NotAmended> {
        let pages = pass::pages_of(known);
        let size = known.content.envelope.largest_page.map_or(PAGE_SIZE as usize, usize::from);
        let halvings = u64::from(pages.max(2).ilog2()) + 2;
        if changes.gone as u64 * halvings > pages / 2 {
            return Err(NotAmended::TooMany);
        }
        let changed: HashSet<ListingId> = changes.changed.iter().map(|summary| summary.id).collect();
        let rest = known.content.summaries.iter().filter(|summary| !changed.contains(&summary.id)).cloned();
        let sequence = pass::arranged(rest.collect(), &BTreeSet::new(), changes.changed, Some(known));
        Ok(Self { sequence, changed, gone: changes.gone, seen: BTreeMap::new(), asked: 0, most: pages / 2, size })
    }

    fn see(&mut self, page: u64, items: &[Summary]) {
        self.seen.insert(page, items.iter().map(|item| (item.id, item.hash)).collect());
    }

    /// The page, from 1, whose listings are to be seen next; `None`: this is the list. Removes the listings that are found
    /// to be gone.
    fn question(&mut self) -> Result<Option<u64>, NotAmended> {
        let mut ask = None;
        while self.gone > 0 && ask.is_none() {
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
            let page = if low == high { high } else { low + (high - low) / 2 };
            if self.seen.contains_key(&page) {
                let at = self.first_difference(page).filter(|at| !self.changed.contains(&self.sequence[*at].id));
                let at = at.ok_or(NotAmended::Unexplained)?;
                self.sequence.remove(at);
                self.gone -= 1;
            } else {
                ask = Some(page);
            }
        }
        if ask.is_none() {
            if !self.seen.keys().all(|page| self.agrees(*page)) {
                return Err(NotAmended::Unexplained);
            }
            // The place of a changed listing is a guess: only its page proves it. The rest keeps its order.
            let places = self.sequence.iter().zip(0..).filter(|(summary, _)| self.changed.contains(&summary.id));
            ask = places.map(|(_, at)| at / self.size as u64 + 1).find(|page| !self.seen.contains_key(page));
        }
        self.asked += 1;
        if ask.is_some() && self.asked > self.most { Err(NotAmended::TooMany) } else { Ok(ask) }
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

fn doubtful(reason: impl Into<String>) -> NotAmended {
    NotAmended::Doubtful(reason.into())
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
        let Some((probe, _, probed)) = &answers.probe else { return Err(doubtful("nothing was probed")) };
        let (_, first) = &answers.first;
        if known <= FEW_PAGES {
            return Err(doubtful("the list is short"));
        }
        if base.content.envelope.stated_total().is_some() {
            return Err(doubtful("the total is not the number of listings"));
        }
        if !refresh::envelope_agrees(first, &base.content, &volatile) {
            return Err(doubtful("the envelope has changed"));
        }
        let probe_pages = pass::pages(probed.total, largest);
        if probe_pages > MOST_PROBED.min(known / 4 + 1) {
            return Err(doubtful(format!("{} listings were modified", probed.total)));
        }
        let mut modified = probed.items.clone();
        for page in 2..=probe_pages {
            let more = self.page_of(&probe.query.with_page(page).path_and_query(), probed.total).await?;
            modified.extend(more.ok_or_else(|| doubtful("the probe's answer changed"))?);
        }
        let changes = Amendment::of(base, modified.iter().chain(&first.items), first.total)?;
        let (changed, gone, known) = (changes.changed.len(), changes.gone, base.clone());
        let mut hunt = blocking(move || Ok(Hunt::begin(&known, changes))).await??;
        hunt.see(1, &first.items);
        while let Some(page) = hunt.question()? {
            let items = self.page_of(&pass::page_path(page), first.total).await?;
            hunt.see(page, &items.ok_or_else(|| doubtful(format!("page {page} changed")))?);
        }
        let mut beside = beside.clone();
        let bodies = answers.taxonomies.each_ref().map(|copy| copy.body.clone());
        let taxonomies = pass::blanked(&bodies, &volatile, &mut beside.volatile_values);
        let content = Content { envelope: base.content.envelope.clone(), taxonomies, summaries: hunt.sequence };
        let list = self.terms.index(Assembled { content, beside }, self.newest()).await?;
        // Counts that disagree now reveal a change that no answer shows.
        if let Some(slug) = newly_doubtful(base, &list.dataset) {
            return Err(doubtful(format!("the count of {slug} disagrees")));
        }
        if !selects(&list.dataset, probe, &modified, probed.total) {
            return Err(doubtful("the probe's answer does not follow from the amended list"));
        }
        tracing::debug!(changed, gone, "the list is updated");
        Ok(Candidate { list, is_amended: true, until_ms: answers.until_ms(), tries: 0, proof: None })
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

    use crate::api::page::Envelope;
    use crate::data::snapshot::membership::Evidence;

    fn summary(id: u64, edition: u64) -> Summary {
        let raw = Bytes::from(format!(r#"{{"id":{id},"edition":"e{}"}}"#, (id * 7 + edition * 13) % 10));
        Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
    }

    fn list(listings: u64) -> Vec<Summary> {
        (1..=listings).map(|at| summary(at * 2, 0)).collect()
    }

    fn dataset(summaries: &[Summary]) -> Dataset {
        let (envelope, taxonomies) = (Envelope::default(), [(); 3].map(|()| "[]".into()));
        Dataset::build(Content { envelope, taxonomies, summaries: summaries.to_vec() }, &Evidence::new()).unwrap()
    }

    /// Hunts against an origin that lists `actual`: the result and the number of questions.
    fn hunt(
        known: &Dataset,
        changed: &[Summary],
        gone: usize,
        actual: &[Summary],
    ) -> Result<(Vec<Summary>, u64), NotAmended> {
        let mut hunt = Hunt::begin(known, Amendment { changed: changed.to_vec(), gone })?;
        let page = |page: u64| actual.chunks(100).nth(page as usize - 1).unwrap_or_default();
        hunt.see(1, page(1));
        let mut asked = 0;
        while let Some(asks) = hunt.question()? {
            asked += 1;
            hunt.see(asks, page(asks));
        }
        Ok((hunt.sequence, asked))
    }

    #[test]
    fn a_changed_listing_needs_one_question_and_a_vanished_one_few() {
        let known = dataset(&list(5_000));
        let mut actual = list(5_000);
        actual[700] = summary(actual[700].id.0, 1);
        let changed = [actual[700].clone()];
        assert_eq!(hunt(&known, &changed, 0, &actual).unwrap(), (actual.clone(), 1));
        for gone in [0, 99, 100, 2_345, 4_999] {
            let mut actual = actual.clone();
            actual.remove(gone);
            let (found, asked) = hunt(&known, &changed, 1, &actual).unwrap();
            assert!(found == actual && asked <= 8, "{gone}: {asked} questions");
        }
    }

    #[test]
    fn what_no_answer_accounts_for_gives_up() {
        let known = dataset(&list(5_000));
        let mut silent = list(5_000);
        silent.remove(4_000);
        silent[20] = summary(silent[20].id.0, 3);
        silent[2_480] = summary(silent[2_480].id.0, 3);
        assert!(matches!(hunt(&known, &[], 1, &silent), Err(NotAmended::Unexplained)));
        assert!(matches!(hunt(&known, &[], 40, &list(5_000)), Err(NotAmended::TooMany)));
        let mut moved = list(5_000);
        let changed = summary(moved.remove(4_000).id.0, 1);
        moved.insert(1_000, changed.clone());
        assert!(matches!(hunt(&known, &[changed], 0, &moved), Err(NotAmended::Unexplained)), "it stands elsewhere");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Any few deletions are found exactly, in far fewer questions than there are pages.
        #[test]
        fn what_is_gone_is_found(gone in proptest::collection::hash_set(0_usize..8_000, 0..5)) {
            let known = list(8_000);
            let actual: Vec<Summary> =
                known.iter().enumerate().filter(|(place, _)| !gone.contains(place)).map(|(_, one)| one.clone()).collect();
            let (found, asked) = hunt(&dataset(&known), &[], gone.len(), &actual).unwrap();
            prop_assert!(found == actual);
            prop_assert!(asked <= gone.len() as u64 * 10);
        }

        /// Wherever the origin puts changed listings, no other list than its own comes of the hunt.
        #[test]
        fn a_wrong_guess_is_never_the_result(
            moves in proptest::collection::btree_map(0_usize..3_000, (0_usize..3_000, any::<bool>()), 0..6),
            gone in proptest::collection::btree_set(0_usize..3_000, 0..2),
        ) {
            let known = list(3_000);
            let (mut actual, mut changed) = (known.clone(), Vec::new());
            for (from, (to, stays)) in moves.iter().filter(|(from, _)| !gone.contains(from)) {
                let one = summary(known[*from].id.0, 1);
                actual.retain(|other| other.id != one.id);
                actual.insert(if *stays { *from } else { *to }.min(actual.len()), one.clone());
                changed.push(one);
            }
            actual.retain(|one| gone.iter().all(|gone| known[*gone].id != one.id));
            if let Ok((found, _)) = hunt(&dataset(&known), &changed, gone.len(), &actual) {
                prop_assert!(found == actual);
            }
        }
    }
}
