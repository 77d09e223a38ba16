//! Index of the stored details: what is known of each, and how many listings have one. Counted once, then updated with each
//! arrival.
//!
//! Memory only. No call takes more than a thousand look-ups in one piece, so that no client waits behind a million.
//! Callers: [`super`].

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::store::{DetailMeta, DetailState};

use super::Details;

/// Listings per piece.
pub(super) const PIECE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownDetail {
    pub summary_hash: ContentHash,
    pub origin_time_ms: i64,
    pub fetched_ms: i64,
}

impl KnownDetail {
    pub(super) const fn of(meta: &DetailMeta) -> Self {
        Self { summary_hash: meta.summary_hash, origin_time_ms: meta.origin_time_ms, fetched_ms: meta.fetched_ms }
    }
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
pub(super) struct DetailIndex {
    pub(super) known: HashMap<ListingId, KnownDetail, RandomState>,
    /// Those of them that the origin does not have: few.
    gone: HashSet<ListingId, RandomState>,
    tally: Option<Tally>,
}

impl FromIterator<(ListingId, (KnownDetail, DetailState))> for DetailIndex {
    fn from_iter<I: IntoIterator<Item = (ListingId, (KnownDetail, DetailState))>>(entries: I) -> Self {
        let (entries, mut index) = (entries.into_iter(), Self::default());
        index.known.reserve(entries.size_hint().0);
        entries.for_each(|(id, (known, state))| index.insert(id, known, state, None));
        index
    }
}

impl DetailIndex {
    /// Inserts a detail; `served` is the data set that is served now.
    pub(super) fn insert(&mut self, id: ListingId, known: KnownDetail, state: DetailState, served: Option<&Dataset>) {
        match state {
            DetailState::Present => self.gone.remove(&id),
            DetailState::Gone => self.gone.insert(id),
        };
        let before = self.known.insert(id, known);
        self.recount(id, before, Some(known), served);
    }

    /// How many listings of a data set have a detail that the origin does not have.
    pub(super) fn gone(&self, dataset: &Dataset) -> usize {
        self.gone.iter().filter(|id| dataset.position(**id).is_some()).count()
    }

    pub(super) fn remove(&mut self, id: ListingId, served: Option<&Dataset>) {
        self.gone.remove(&id);
        if let Some(before) = self.known.remove(&id) {
            self.recount(id, Some(before), None, served);
        }
    }

    fn recount(
        &mut self,
        id: ListingId,
        before: Option<KnownDetail>,
        after: Option<KnownDetail>,
        served: Option<&Dataset>,
    ) {
        let change = |counter: &mut usize, before: bool, after: bool| {
            *counter = (*counter + usize::from(after)).saturating_sub(usize::from(before));
        };
        let Some(tally) = &mut self.tally else { return };
        let Some(served) = served.filter(|served| served.id == tally.snapshot) else {
            self.tally = None;
            return;
        };
        // A position not counted yet is counted later.
        let counted = |position: &u32| (*position as usize) < tally.counted;
        if let (Some(_), Some(summary)) = (served.position(id).filter(counted), served.summary(id)) {
            let current = |known: Option<KnownDetail>| known.is_some_and(|known| known.summary_hash == summary.hash);
            change(&mut tally.covered.mirrored, before.is_some(), after.is_some());
            change(&mut tally.covered.current, current(before), current(after));
        }
    }

    /// How far the data set is covered; `None` until it is all counted.
    pub(super) fn covered(&self, dataset: &Dataset) -> Option<Covered> {
        let tally = self.tally.as_ref().filter(|tally| tally.snapshot == dataset.id)?;
        (tally.counted == dataset.len()).then_some(tally.covered)
    }

    pub(super) fn count(&mut self, dataset: &Dataset) {
        let fresh = || Tally { snapshot: dataset.id.clone(), counted: 0, covered: Covered::default() };
        let mut tally = self.tally.take().filter(|tally| tally.snapshot == dataset.id).unwrap_or_else(fresh);
        let rest = &dataset.content.summaries[tally.counted..];
        let piece = &rest[..rest.len().min(PIECE)];
        tally.covered = tally.covered.and(self.covering(piece));
        tally.counted += piece.len();
        self.tally = Some(tally);
    }

    pub(super) fn covering(&self, piece: &[Summary]) -> Covered {
        let mut covered = Covered::default();
        for summary in piece {
            if let Some(known) = self.known.get(&summary.id) {
                covered.mirrored += 1;
                covered.current += usize::from(known.summary_hash == summary.hash);
            }
        }
        covered
    }
}

impl Details {
    /// Visits the listings of a data set with their positions, piece by piece: `all` in the origin's order, else only
    /// those with a known detail, in any order.
    pub(crate) fn look_through(
        &self,
        dataset: &Dataset,
        all: bool,
        mut look: impl FnMut(u32, &Summary, Option<&KnownDetail>),
    ) {
        let few = {
            let index = self.0.index.read();
            let few = !all && index.known.len() < dataset.len() / 16;
            few.then(|| index.known.iter().map(|(id, known)| (*id, *known)).collect::<Vec<_>>())
        };
        if let Some(few) = few {
            for (id, known) in few {
                if let (Some(position), Some(summary)) = (dataset.position(id), dataset.summary(id)) {
                    look(position, summary, Some(&known));
                }
            }
            return;
        }
        for (start, piece) in (0_u32..).step_by(PIECE).zip(dataset.content.summaries.chunks(PIECE)) {
            let known: Vec<Option<KnownDetail>> = {
                let index = self.0.index.read();
                piece.iter().map(|summary| index.known.get(&summary.id).copied()).collect()
            };
            for ((position, summary), known) in (start..).zip(piece).zip(&known) {
                if all || known.is_some() {
                    look(position, summary, known.as_ref());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
