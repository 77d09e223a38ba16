//! What is known of each stored detail: how many listings have one, counted once and then updated with each arrival; and
//! which details are due, with the time to look again.
//!
//! Memory only. No call takes more than a thousand look-ups in one piece, so that no client waits behind a million.
//! Callers: [`super`], [`super::worker`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::clock::WallTime;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::store::{DetailMeta, DetailState};

use super::fetch::asked_once;
use super::retries::Retries;
use super::{Details, provisional};

/// Listings per piece.
pub(super) const PIECE: usize = 1024;

/// What the index knows of a stored detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownDetail {
    pub(super) summary_hash: ContentHash,
    pub(super) origin_time_ms: i64,
    pub(super) fetched_ms: i64,
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

    /// Counts the next piece.
    pub(super) fn count(&mut self, dataset: &Dataset) {
        let fresh = || Tally { snapshot: dataset.id.clone(), counted: 0, covered: Covered::default() };
        let mut tally = self.tally.take().filter(|tally| tally.snapshot == dataset.id).unwrap_or_else(fresh);
        let rest = &dataset.content.summaries[tally.counted..];
        let piece = &rest[..rest.len().min(PIECE)];
        tally.covered = tally.covered.and(self.covering(piece));
        tally.counted += piece.len();
        self.tally = Some(tally);
    }

    /// The coverage of some listings.
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

/// The details to fetch, as far as one look through all of them shows.
pub(super) struct Agenda {
    snapshot: SnapshotId,
    /// [`super::DetailsState::disturbed`] before the look.
    disturbed: u64,
    looked_ms: i64,
    /// When the clock alone makes another one due; milliseconds since the epoch.
    until_ms: i64,
    /// Changed ones, then missing ones, newest first.
    pub(super) due: Vec<ListingId>,
    /// Those checked longest ago, if that is longer than a cycle.
    pub(super) overdue: VecDeque<ListingId>,
    /// Whether there were more of these.
    has_more: bool,
}

impl Agenda {
    /// Whether a new look would show nothing else.
    pub(super) fn lasts(&self, snapshot: &SnapshotId, disturbed: u64, now_ms: i64) -> bool {
        // A clock that was set back makes this void.
        let is_in_time = self.looked_ms <= now_ms && now_ms < self.until_ms;
        let is_done = self.overdue.is_empty() && self.has_more;
        self.snapshot == *snapshot && self.disturbed == disturbed && is_in_time && !is_done
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Details {
    /// The details to fetch: changed ones, if `all` are wanted missing ones, and those checked longer ago than `cycle`.
    /// `retries` says which failed a moment ago. A look takes as many look-ups as there are listings.
    pub(super) fn agenda(
        &self,
        published: &Snapshot,
        all: bool,
        now: WallTime,
        cycle: Duration,
        cache_ttl: Duration,
        retries: &Retries,
    ) -> Agenda {
        /// Overdue details that are remembered.
        const MOST: usize = 1000;
        /// New arrivals have their whole cycle ahead, so waiting this long misses nothing.
        const LONGEST: Duration = Duration::from_secs(600);
        let disturbed = self.0.disturbed.load(Ordering::Acquire);
        let (dataset, now_ms, cycle_ms) = (&published.dataset, now.as_millis(), millis(cycle));
        // After an answer that was too old, or may have been, ask again when the CDN has dropped that copy.
        let rested = |meta: &KnownDetail| !(0..millis(cache_ttl)).contains(&now_ms.saturating_sub(meta.fetched_ms));
        // A publication in the future is from before the clock was set back.
        let published_ms = published.meta.published_ms.min(now_ms);
        let mut until_ms = now_ms.saturating_add(millis(LONGEST.min(cycle)));
        let (mut changed, mut missing, mut overdue) = (Vec::new(), Vec::new(), Vec::new());
        self.look_through(dataset, all, |position, summary, known| {
            let Some(meta) = known else {
                missing.push((dataset.modified_at(position), position));
                return;
            };
            let is_changed = meta.summary_hash != summary.hash;
            let was_asked = meta.summary_hash == asked_once(summary.hash);
            let unseen = is_changed && !was_asked && meta.fetched_ms < published_ms;
            let is_doubtful = is_changed || provisional(meta, dataset, position);
            if unseen || (is_doubtful && rested(meta)) {
                changed.push(position);
            } else if is_doubtful {
                until_ms = until_ms.min(meta.fetched_ms.saturating_add(millis(cache_ttl)));
            }
            // An instant in the future is from before the clock was set back.
            if meta.fetched_ms < now_ms.saturating_sub(cycle_ms) || meta.fetched_ms > now_ms {
                overdue.push((meta.fetched_ms, summary.id));
            } else {
                until_ms = until_ms.min(meta.fetched_ms.saturating_add(cycle_ms).saturating_add(1));
            }
        });
        changed.sort_unstable();
        missing.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
        let positions = changed.into_iter().chain(missing.into_iter().map(|(_, position)| position));
        let due = positions.map(|position| dataset.content.summaries[position as usize].id);
        overdue.sort_unstable();
        let mut overdue = overdue.into_iter().map(|(_, id)| id).filter(|id| retries.is_due(*id, now));
        Agenda {
            snapshot: dataset.id.clone(),
            disturbed,
            looked_ms: now_ms,
            until_ms: retries.next_ms(now).map_or(until_ms, |next| next.min(until_ms)),
            due: due.filter(|id| retries.is_due(*id, now)).collect(),
            overdue: overdue.by_ref().take(MOST).collect(),
            has_more: overdue.next().is_some(),
        }
    }

    /// Visits the listings of a data set with their positions, piece by piece: `all` in the origin's order, else only
    /// those with a known detail, in any order.
    pub(super) fn look_through(
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
