//! The position of a listing in the origin's order, by its id.
//!
//! A table for dense ids (from a database), else a sorted list. Callers: [`super::dataset`].

use crate::api::listing::{ListingId, Summary};

/// A table has at most this many places per listing; a sorted list takes as much.
const SPARSEST: u64 = 4;
/// No listing has this id.
const NONE: u32 = u32::MAX;

/// Positions by id.
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
    /// Reads the ids of fewer than 2^32 listings.
    ///
    /// # Errors
    /// With a repeated id.
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

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Dense { positions, .. } => size_of_val(&**positions),
            Self::Sorted(sorted) => size_of_val(&**sorted),
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
