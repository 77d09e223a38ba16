//! What is known of each stored detail, and how many listings have one: counted once, then updated with each arrival.
//!
//! Memory only. No call takes more than a thousand look-ups in one piece, so that no client waits behind a million.
//! Callers: [`super`].

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::store::DetailMeta;

/// Listings per piece.
pub(super) const PIECE: usize = 1024;

/// What the index knows of a stored detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) summary_hash: ContentHash,
    pub(super) origin_time_ms: i64,
    pub(super) fetched_ms: i64,
}

impl Known {
    pub(super) const fn of(meta: &DetailMeta) -> Self {
        Self { summary_hash: meta.summary_hash, origin_time_ms: meta.origin_time_ms, fetched_ms: meta.fetched_ms }
    }

    /// Whether it was fetched before its summary was known.
    pub(super) fn is_offered(&self) -> bool {
        self.summary_hash == no_summary()
    }
}

/// The summary hash of a detail that was fetched for none.
pub(super) fn no_summary() -> ContentHash {
    ContentHash::default()
}

/// How many listings of a data set have their detail here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Covered {
    /// Some detail.
    pub(crate) mirrored: usize,
    /// One that is as new as the summary.
    pub(crate) current: usize,
}

impl Covered {
    pub(super) const fn and(self, other: Self) -> Self {
        Self { mirrored: self.mirrored + other.mirrored, current: self.current + other.current }
    }
}

/// A count, exact for the first `counted` listings of a data set.
#[derive(Debug)]
struct Tally {
    snapshot: SnapshotId,
    counted: usize,
    covered: Covered,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    known: HashMap<ListingId, Known, RandomState>,
    offered: usize,
    tally: Option<Tally>,
}

impl FromIterator<(ListingId, Known)> for Index {
    fn from_iter<I: IntoIterator<Item = (ListingId, Known)>>(entries: I) -> Self {
        let known: HashMap<_, _, _> = entries.into_iter().collect();
        let offered = known.values().filter(|known| known.is_offered()).count();
        Self { known, offered, tally: None }
    }
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn get(&self, id: ListingId) -> Option<&Known> {
        self.known.get(&id)
    }

    /// How many were fetched before their summary was known.
    pub(super) const fn offered(&self) -> usize {
        self.offered
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ListingId, &Known)> {
        self.known.iter().map(|(id, known)| (*id, known))
    }

    /// Inserts a detail; `served` is the data set that is served now.
    pub(super) fn insert(&mut self, id: ListingId, known: Known, served: Option<&Dataset>) {
        let before = self.known.insert(id, known);
        self.recount(id, before, Some(known), served);
    }

    pub(super) fn remove(&mut self, id: ListingId, served: Option<&Dataset>) {
        if let Some(before) = self.known.remove(&id) {
            self.recount(id, Some(before), None, served);
        }
    }

    fn recount(&mut self, id: ListingId, before: Option<Known>, after: Option<Known>, served: Option<&Dataset>) {
        let change = |counter: &mut usize, before: bool, after: bool| {
            *counter = (*counter + usize::from(after)).saturating_sub(usize::from(before));
        };
        let is = |known: Option<Known>, what: fn(&Known) -> bool| known.as_ref().is_some_and(what);
        change(&mut self.offered, is(before, Known::is_offered), is(after, Known::is_offered));
        let Some(tally) = &mut self.tally else { return };
        let Some(served) = served.filter(|served| served.id == tally.snapshot) else {
            self.tally = None;
            return;
        };
        // A position not counted yet is counted later.
        let counted = |position: &u32| (*position as usize) < tally.counted;
        if let (Some(_), Some(summary)) = (served.position(id).filter(counted), served.summary(id)) {
            let current = |known: Option<Known>| known.is_some_and(|known| known.summary_hash == summary.hash);
            change(&mut tally.covered.mirrored, before.is_some(), after.is_some());
            change(&mut tally.covered.current, current(before), current(after));
        }
    }

    /// How far the data set is covered; `None` until it is all counted.
    pub(super) fn covered(&self, dataset: &Dataset) -> Option<Covered> {
        let tally = self.tally.as_ref().filter(|tally| tally.snapshot == dataset.id)?;
        (tally.counted == dataset.len()).then_some(tally.covered)
    }

    /// Counts the next piece.
    pub(super) fn count(&mut self, dataset: &Dataset) {
        let Self { known, tally, .. } = self;
        let fresh = || Tally { snapshot: dataset.id.clone(), counted: 0, covered: Covered::default() };
        if tally.as_ref().is_none_or(|tally| tally.snapshot != dataset.id) {
            *tally = Some(fresh());
        }
        let tally = tally.get_or_insert_with(fresh);
        let piece: &[Summary] = &dataset.content.summaries[tally.counted..];
        let piece = &piece[..piece.len().min(PIECE)];
        tally.covered = tally.covered.and(covering(known, piece));
        tally.counted += piece.len();
    }

    /// The coverage of some listings.
    pub(super) fn covering(&self, piece: &[Summary]) -> Covered {
        covering(&self.known, piece)
    }
}

fn covering(known: &HashMap<ListingId, Known, RandomState>, piece: &[Summary]) -> Covered {
    let mut covered = Covered::default();
    for summary in piece {
        if let Some(known) = known.get(&summary.id) {
            covered.mirrored += 1;
            covered.current += usize::from(known.summary_hash == summary.hash);
        }
    }
    covered
}

#[cfg(test)]
mod tests;
