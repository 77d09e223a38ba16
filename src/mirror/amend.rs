//! Amends the list by the changes that a refresh shows, without reading every page.
//!
//! Pure. It places changed listings by the rules of the order, and finds deleted listings by bisection, page by page.
//! On any doubt it gives up, and the whole list is read. Callers: [`super::task`].

use std::collections::BTreeMap;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::snapshot::dataset::Dataset;

use super::order::{Rules, Unplaced};
use super::pass::{self, PAGE_SIZE};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    /// New and changed listings.
    pub changed: Vec<Summary>,
    /// How many listings were removed, at least: each new listing that no answer shows hides one.
    pub gone: usize,
}

/// Why the list cannot be amended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GiveUp {
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
    ///
    /// # Errors
    /// When `total` exceeds the known and new listings.
    pub(super) fn of<'a>(
        dataset: &Dataset,
        items: impl Iterator<Item = &'a Summary>,
        total: u64,
    ) -> Result<Self, GiveUp> {
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

/// What the hunt asks for next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The listings of a page, from 1.
    Page(u64),
    /// Nothing: this is the list.
    Nothing,
}

/// The hunt for listings that are gone.
#[derive(Debug)]
pub(super) struct Hunt {
    sequence: Vec<Summary>,
    gone: usize,
    seen: BTreeMap<u64, Vec<(ListingId, ContentHash)>>,
    asked: u64,
    most: u64,
}

impl Hunt {
    /// Begins with the known sequence and the changes.
    ///
    /// # Errors
    /// When a changed listing has no certain place, or it is cheaper to read everything.
    pub(super) fn begin(known: &[Summary], changes: &Changes, rules: &Rules) -> Result<Self, GiveUp> {
        let pages = pass::pages(known.len() as u64);
        let halvings = u64::from(pages.max(2).ilog2()) + 2;
        if changes.gone as u64 * halvings > pages / 2 {
            return Err(GiveUp::TooMany);
        }
        let sequence = rules.place(known, &changes.changed)?;
        Ok(Self { sequence, gone: changes.gone, seen: BTreeMap::new(), asked: 0, most: pages / 2 })
    }

    /// Takes in a page's listings.
    pub(super) fn see(&mut self, page: u64, items: &[Summary]) {
        self.seen.insert(page, items.iter().map(|item| (item.id, item.hash)).collect());
    }

    /// The next question. Removes the listings that are found to be gone.
    ///
    /// # Errors
    /// When a page cannot be explained, or the hunt grows too long.
    pub(super) fn question(&mut self) -> Result<Wanted, GiveUp> {
        while self.gone > 0 {
            // The last page of the longer sequence must differ, so there is a first wrong page.
            let mut high = pass::pages(self.sequence.len() as u64);
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
                return if self.asked > self.most { Err(GiveUp::TooMany) } else { Ok(Wanted::Page(ask)) };
            }
            let at = self.first_difference(ask).ok_or(GiveUp::Unexplained)?;
            self.sequence.remove(at);
            self.gone -= 1;
        }
        if self.seen.keys().all(|page| self.agrees(*page)) { Ok(Wanted::Nothing) } else { Err(GiveUp::Unexplained) }
    }

    /// The resulting list.
    pub(super) fn into_sequence(self) -> Vec<Summary> {
        self.sequence
    }

    /// The first `most` pages, from 1, that hold changed listings.
    pub(super) fn pages_of(&self, changed: &[Summary], most: usize) -> Vec<u64> {
        let ids: std::collections::HashSet<ListingId> = changed.iter().map(|summary| summary.id).collect();
        let at = self.sequence.iter().enumerate().filter(|(_, summary)| ids.contains(&summary.id));
        let mut pages: Vec<u64> = at.map(|(at, _)| at as u64 / PAGE_SIZE + 1).collect();
        pages.dedup();
        pages.retain(|page| !self.seen.contains_key(page));
        pages.truncate(most);
        pages
    }

    fn expected(&self, page: u64) -> &[Summary] {
        let start = ((page - 1) * PAGE_SIZE) as usize;
        let start = start.min(self.sequence.len());
        &self.sequence[start..(start + PAGE_SIZE as usize).min(self.sequence.len())]
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
        (same < expected.len()).then_some(((page - 1) * PAGE_SIZE) as usize + same)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

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
        let mut hunt = Hunt::begin(known, changes, &rules)?;
        let mut asked = 0;
        while let Wanted::Page(page) = hunt.question()? {
            asked += 1;
            let start = ((page - 1) * PAGE_SIZE) as usize;
            hunt.see(page, actual.get(start..).map_or(&[], |rest| &rest[..rest.len().min(100)]));
        }
        Ok((hunt.into_sequence(), asked))
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
