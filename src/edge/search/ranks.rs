//! The ranks of all listings: walks over those that match, and the part of them that is on a page.
//!
//! Callers: [`super::index`].

use super::order::Rank;
use super::places::NO_MATCH;

/// The part of what was found that is on the page.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub offset: usize,
    pub size: usize,
}

impl Part {
    /// How many match, and those of this part: least key first, equal ones in the origin's order.
    pub(super) fn of<K: Ord + Copy>(self, ranks: &[Rank], key: impl Fn(u32, Rank) -> K) -> (usize, Vec<u32>) {
        let mut found = Vec::new();
        each_match(ranks, |position, rank| found.push((key(position, rank), position)));
        (found.len(), self.cut(found))
    }

    pub(super) fn cut<K: Ord + Copy>(self, mut found: Vec<(K, u32)>) -> Vec<u32> {
        let end = self.offset.saturating_add(self.size).min(found.len());
        if end < found.len() {
            found.select_nth_unstable(end);
            found.truncate(end);
        }
        if self.offset >= end {
            return Vec::new();
        }
        if self.offset > 0 {
            found.select_nth_unstable(self.offset);
        }
        found[self.offset..].sort_unstable();
        found[self.offset..].iter().map(|(_, position)| *position).collect()
    }
}

fn has_match(ranks: &[Rank]) -> bool {
    ranks.iter().fold(NO_MATCH, |all, rank| all & rank) != NO_MATCH
}

/// Shows the matches with their ranks, in the origin's order.
pub(super) fn each_match(ranks: &[Rank], mut see: impl FnMut(u32, Rank)) {
    const EACH: usize = 16;
    for (number, ranks) in ranks.chunks(EACH).enumerate() {
        if !has_match(ranks) {
            continue;
        }
        for (at, rank) in ranks.iter().enumerate().filter(|(_, rank)| **rank != NO_MATCH) {
            see((number * EACH + at) as u32, *rank);
        }
    }
}

/// Shows the matches, to change their ranks.
pub(super) fn each_match_mut(ranks: &mut [Rank], mut see: impl FnMut(u32, &mut Rank)) {
    let ranks = (0..).zip(ranks).filter(|(_, rank)| **rank != NO_MATCH);
    ranks.for_each(|(position, rank)| see(position, rank));
}
