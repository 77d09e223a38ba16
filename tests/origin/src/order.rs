//! The origin's order of venues, and cached views of a world, dropped when it changes.
//!
//! Not an index: filters still walk. Callers: the world, the listing endpoint.

use std::cmp::Reverse;
use std::sync::Arc;

use parking_lot::Mutex;
use sample::dice::Dice;
use sample::{Term, Venue};

/// The order of `items`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemOrder {
    /// Ascending id.
    ById,
    /// Latest `modified` first, among equals the largest id first.
    #[default]
    ByModifiedDesc,
    /// By name in code point order, among equals by id.
    ByName,
    /// Shuffled with this seed; listings that stay keep their relative order.
    Arbitrary(u64),
}

/// Kept results; a clone starts without any.
#[derive(Debug, Default)]
pub(super) struct Views {
    ordered: Mutex<Option<(ItemOrder, Arc<[u32]>)>>,
    terms: Mutex<Option<Arc<[Vec<Term>; 3]>>>,
}

impl Clone for Views {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Views {
    pub(super) fn ordered(&self, venues: &[Venue], order: ItemOrder) -> Arc<[u32]> {
        let mut kept = self.ordered.lock();
        match &*kept {
            Some((of, positions)) if *of == order => Arc::clone(positions),
            _ => {
                let positions = sort(venues, order);
                *kept = Some((order, Arc::clone(&positions)));
                positions
            }
        }
    }

    pub(super) fn terms(&self, count: impl FnOnce() -> [Vec<Term>; 3]) -> Arc<[Vec<Term>; 3]> {
        Arc::clone(self.terms.lock().get_or_insert_with(|| Arc::new(count())))
    }
}

fn sort(venues: &[Venue], order: ItemOrder) -> Arc<[u32]> {
    let mut positions: Vec<u32> = (0..venues.len() as u32).collect();
    let venue = |position: &u32| &venues[*position as usize];
    match order {
        ItemOrder::ById => {}
        ItemOrder::ByModifiedDesc => positions.sort_unstable_by_key(|at| Reverse((venue(at).modified.at, *at))),
        ItemOrder::ByName => positions.sort_unstable_by_key(|at| (&venue(at).name, *at)),
        ItemOrder::Arbitrary(seed) => positions.sort_by_cached_key(|at| Dice::of(&[seed, venue(at).id]).roll()),
    }
    positions.into()
}
