//! The columns that filters need, read once from the texts of all summaries, and the position of each listing by its id.
//!
//! On all cores if worthwhile, and only for summaries that no earlier data set has read. [`super::membership`] decides
//! what slugs stand for. Callers: [`super::dataset`], and [`crate::data::snapshots`] for stored snapshots.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::api::listing::{ListingId, Summary, SummaryFields};
use crate::tasks::threads::together;

/// Listings per job.
const PIECE: usize = 4096;

/// The most unused names, apart from as many as are in use.
const MOST_UNUSED: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The numbers of its sport, state and city among the [`Names`], by [`crate::api::taxonomy::TaxonomyKind::index`].
    pub values: [u32; 3],
    /// `modified` in nanoseconds since the epoch; `i64::MIN` where unknown.
    pub modified: i64,
}

impl Traits {
    /// Not the number of a name: the summary has none.
    pub const ABSENT: u32 = u32::MAX;
    /// The summary is not read yet, or cannot be read.
    pub const UNREAD: Self = Self { values: [u32::MAX - 1; 3], modified: i64::MIN };
}

impl Default for Traits {
    fn default() -> Self {
        Self::UNREAD
    }
}

/// Names of sports, states and cities by number. Successive data sets share them.
#[derive(Debug, Default)]
pub struct Names(RwLock<Table>);

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Arc<str>, u32, RandomState>,
    texts: Vec<Arc<str>>,
}

impl Names {
    /// Reads the unread summaries, as far as possible.
    pub fn read(&self, summaries: &[Summary], traits: &mut [Traits]) {
        let mut table = self.0.read();
        for (summary, traits) in summaries.iter().zip(traits).filter(|(_, traits)| **traits == Traits::UNREAD) {
            // So a writer waits for one summary at most.
            RwLockReadGuard::bump(&mut table);
            let Ok(fields) = fields(summary) else { continue };
            let values = [&fields.sport, &fields.state, &fields.city];
            let values =
                values.map(|text| text.as_deref().map_or(Traits::ABSENT, |text| self.number(&mut table, text)));
            *traits = Traits { values, modified: fields.modified.unwrap_or(i64::MIN) };
        }
    }

    fn number(&self, table: &mut RwLockReadGuard<'_, Table>, text: &str) -> u32 {
        match table.numbers.get(text) {
            Some(number) => *number,
            None => RwLockReadGuard::unlocked(table, || self.add(text)),
        }
    }

    /// The number of a name; a new name gets one.
    pub fn add(&self, text: &str) -> u32 {
        let mut table = self.0.write();
        if let Some(number) = table.numbers.get(text) {
            return *number;
        }
        // It fits: memory cannot hold 2^32 names.
        let (number, text) = (table.texts.len() as u32, Arc::<str>::from(text));
        table.texts.push(text.clone());
        table.numbers.insert(text, number);
        number
    }

    /// All of them, by number.
    pub fn texts(&self) -> Vec<Arc<str>> {
        self.0.read().texts.clone()
    }

    /// Whether to start over, with so many in use.
    pub fn are_worn(&self, used: usize) -> bool {
        self.0.read().texts.len() > 2 * used + MOST_UNUSED
    }
}

pub(crate) struct Columns {
    /// The names that traits refer to.
    pub names: Arc<Names>,
    /// By position.
    pub traits: Box<[Traits]>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Summary(#[from] crate::api::listing::SummaryError),
}

impl Columns {
    /// Reads the unread summaries. Traits of another length than the summaries are ignored.
    pub(crate) fn read(names: Arc<Names>, mut traits: Vec<Traits>, summaries: &[Summary]) -> Result<Self, Unreadable> {
        if traits.len() != summaries.len() {
            traits = vec![Traits::UNREAD; summaries.len()];
        }
        let unread = traits.iter().filter(|traits| **traits == Traits::UNREAD).count();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(8).min(unread / PIECE);
        if threads < 2 {
            names.read(summaries, &mut traits);
        } else {
            let work = parking_lot::Mutex::new(summaries.chunks(PIECE).zip(traits.chunks_mut(PIECE)));
            let next = || work.lock().next();
            let worker = || std::iter::from_fn(next).for_each(|(summaries, traits)| names.read(summaries, traits));
            together(threads, &worker);
        }
        let mut not_read = summaries.iter().zip(&traits).filter(|(_, traits)| **traits == Traits::UNREAD);
        not_read.try_for_each(|(summary, _)| fields(summary).map(drop))?;
        Ok(Self { names, traits: traits.into() })
    }
}

fn fields(summary: &Summary) -> Result<SummaryFields<'_>, Unreadable> {
    Ok(SummaryFields::read(std::str::from_utf8(&summary.raw)?)?)
}

/// A table has at most this many places per listing; a sorted list takes as much.
const SPARSEST: u64 = 4;
/// No listing has this id.
const NONE: u32 = u32::MAX;

pub(super) enum Ids {
    /// The positions of the ids from `first` on, `NONE` between them.
    Dense {
        /// The smallest id.
        first: u64,
        positions: Box<[u32]>,
    },
    /// Ids with their positions, sorted by id.
    Sorted(Box<[(ListingId, u32)]>),
}

impl Ids {
    /// Reads the ids of fewer than 2^32 listings. The error is a repeated id.
    pub(super) fn of(summaries: &[Summary]) -> Result<Self, ListingId> {
        let ids = || summaries.iter().map(|summary| summary.id.0);
        let (first, last) = (ids().min().unwrap_or(0), ids().max().unwrap_or(0));
        if last - first >= SPARSEST.saturating_mul(summaries.len() as u64) {
            return Self::sorted(summaries);
        }
        let mut positions = vec![NONE; (last - first + 1) as usize].into_boxed_slice();
        for (position, id) in (0..).zip(ids()) {
            let place = &mut positions[(id - first) as usize];
            if *place != NONE {
                return Err(ListingId(id));
            }
            *place = position;
        }
        Ok(Self::Dense { first, positions })
    }

    fn sorted(summaries: &[Summary]) -> Result<Self, ListingId> {
        let mut sorted: Box<[_]> = (0..).zip(summaries).map(|(position, summary)| (summary.id, position)).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(pair[0].0),
            None => Ok(Self::Sorted(sorted)),
        }
    }

    /// The position of a listing; `None`: unknown id.
    pub(super) fn position(&self, id: ListingId) -> Option<u32> {
        match self {
            Self::Dense { first, positions } => {
                let place = usize::try_from(id.0.checked_sub(*first)?).ok()?;
                positions.get(place).copied().filter(|position| *position != NONE)
            }
            Self::Sorted(sorted) => {
                let at = sorted.binary_search_by_key(&id, |(id, _)| *id).ok()?;
                Some(sorted[at].1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::hash::ContentHash;
    use bytes::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn summaries(ids: impl IntoIterator<Item = u64>) -> Vec<Summary> {
        let summary = |id| Summary { id: ListingId(id), hash: ContentHash::default(), raw: Bytes::new() };
        ids.into_iter().map(summary).collect()
    }

    proptest! {
        #[test]
        fn every_id_is_found_and_no_other(
            ids in prop_oneof![
                proptest::collection::hash_set(0_u64..100, 0..60),
                proptest::collection::hash_set(any::<u64>(), 0..60),
            ],
            other: u64,
        ) {
            let listed: Vec<u64> = ids.iter().copied().collect();
            let found = Ids::of(&summaries(listed.clone())).unwrap();
            for (position, id) in (0_u32..).zip(&listed) {
                prop_assert_eq!(found.position(ListingId(*id)), Some(position));
            }
            let near: BTreeSet<u64> = ids.iter().flat_map(|id| [id.wrapping_sub(1), id.wrapping_add(1)]).collect();
            for id in near.into_iter().chain([other]).filter(|id| !ids.contains(id)) {
                prop_assert_eq!(found.position(ListingId(id)), None);
            }
        }
    }

    #[test]
    fn an_id_that_stands_there_twice_is_named() {
        for ids in [[5, 6, 5], [5, u64::MAX, 5]] {
            assert_eq!(Ids::of(&summaries(ids)).err(), Some(ListingId(5)));
        }
    }
}
