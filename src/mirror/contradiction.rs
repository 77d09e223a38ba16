//! Pages that contradict each other although they do not change: what is wrong with them, when that is believed, and the
//! list that is made of them.
//!
//! Where the origin's order is not unique, its pages cut it differently: one listing is on two pages, another on none. A
//! total may count listings that no page shows, or come from a cache. Such an origin never sends pages that fit. Pure.
//! Callers: [`super::pass`] finds contradictions, [`super::task`] acts on them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::listing::{ListingId, Summary};
use crate::clock::Monotonic;
use crate::snapshot::dataset::Dataset;

use super::order::Rule;

/// How the pages of one pass contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contradiction {
    /// The listings on more than one page.
    pub doubled: BTreeSet<ListingId>,
    /// By how much the totals of the pages exceed the number of listings; below 0: there are more listings.
    pub excess: BTreeSet<i64>,
}

impl Contradiction {
    /// Compares what pages hold and say: their listings in order, those of the same page together, and their totals.
    /// `None`: they fit.
    pub(super) fn of(listed: &[Summary], totals: &BTreeSet<u64>) -> Option<Self> {
        let mut times: HashMap<ListingId, u32> = HashMap::with_capacity(listed.len());
        for summary in listed {
            *times.entry(summary.id).or_default() += 1;
        }
        let distinct = times.len() as u64;
        let doubled: BTreeSet<ListingId> =
            times.into_iter().filter(|(_, times)| *times > 1).map(|(id, _)| id).collect();
        let excess: BTreeSet<i64> = totals.iter().map(|total| total.cast_signed() - distinct.cast_signed()).collect();
        (!doubled.is_empty() || excess.iter().any(|excess| *excess != 0)).then_some(Self { doubled, excess })
    }
}

/// So many passes in a row must fail in the same way.
const TIMES: u32 = 3;

/// So many passes for a first copy, if they fail in different ways.
const DIFFERENT: u32 = 6;

/// The contradictions of the passes since the pages fitted last.
#[derive(Debug, Default)]
pub(super) struct Recurrence {
    last: Option<Seen>,
    /// When the first of these passes began, and how many there were.
    began: Option<(Monotonic, u32)>,
}

#[derive(Debug)]
struct Seen {
    contradiction: Contradiction,
    times: u32,
    /// When the last pass that counts began.
    began: Monotonic,
}

impl Recurrence {
    /// The pages fitted.
    pub(super) fn ended(&mut self) {
        *self = Self::default();
    }

    /// Takes in a pass that began at `began`; whether the contradiction is believed. Passes count that began more than
    /// `apart` after the last one that counts: until then, old copies may be the reason.
    pub(super) fn see(&mut self, contradiction: &Contradiction, began: Monotonic, apart: Duration) -> bool {
        let (first, tries) = self.began.map_or((began, 1), |(first, tries)| (first, tries + 1));
        self.began = Some((first, tries));
        let seen = match self.last.take() {
            Some(seen) if seen.contradiction == *contradiction => {
                if began.since(seen.began) > apart || apart.is_zero() {
                    Seen { times: seen.times + 1, began, ..seen }
                } else {
                    seen
                }
            }
            _ => Seen { contradiction: contradiction.clone(), times: 1, began },
        };
        let long = if apart.is_zero() { tries >= DIFFERENT } else { began.since(first) > apart * 4 };
        let believed = seen.times >= TIMES || long;
        self.last = Some(seen);
        believed
    }

    /// When the next pass counts.
    pub(super) fn next(&self, apart: Duration) -> Option<Monotonic> {
        self.last.as_ref().map(|seen| seen.began.plus(apart + Duration::from_millis(1)))
    }
}

/// A listing of unknown place, and its place in the last snapshot.
type Unplaced = (Option<usize>, Summary);

/// Puts listings in order: those on one page where the pages have them, those of unknown place beside their neighbours in
/// the last snapshot, new ones of unknown place by id; all of them only where the field that orders the pages allows it.
/// `pages` has each listing once, in the order of the pages; `others` are on none.
pub(super) fn arranged(
    pages: Vec<Summary>,
    doubled: &BTreeSet<ListingId>,
    others: Vec<Summary>,
    last: Option<&Dataset>,
) -> Vec<Summary> {
    let mut placed = Vec::with_capacity(pages.len() + others.len());
    let (mut unknown, mut tie) = (BTreeMap::new(), None);
    for summary in pages {
        if doubled.contains(&summary.id) {
            tie.get_or_insert(placed.len());
            unknown.insert(summary.id, summary);
        } else {
            placed.push(summary);
        }
    }
    unknown.extend(others.into_iter().map(|summary| (summary.id, summary)));
    let rule = Rule::of_one_field(&placed);
    // By the place before which they go.
    let mut before: BTreeMap<usize, Vec<Unplaced>> = BTreeMap::new();
    let mut put = |place: usize, unplaced: Unplaced| {
        let place = rule.as_ref().map_or(place, |rule| {
            let allowed = rule.places(&placed, &unplaced.1);
            place.clamp(*allowed.start(), *allowed.end())
        });
        before.entry(place).or_default().push(unplaced);
    };
    if let Some(last) = last {
        let places: HashMap<ListingId, usize> =
            placed.iter().enumerate().map(|(place, summary)| (summary.id, place)).collect();
        let mut next = 0;
        for (at, known) in last.content.summaries.iter().enumerate() {
            if let Some(place) = places.get(&known.id) {
                next = place + 1;
            } else if let Some(summary) = unknown.remove(&known.id) {
                put(next, (Some(at), summary));
            }
        }
    }
    for summary in unknown.into_values() {
        put(tie.unwrap_or(placed.len()), (None, summary));
    }
    let mut arranged = Vec::with_capacity(placed.len());
    let (mut placed, mut taken) = (placed.into_iter(), 0);
    for (place, mut some) in before {
        let key = |(at, summary): &Unplaced| (at.is_none(), *at, summary.id);
        let by_rule = |one: &Unplaced, other: &Unplaced| {
            rule.as_ref().map_or(Ordering::Equal, |rule| rule.compare_listings(&one.1, &other.1))
        };
        some.sort_by(|one, other| by_rule(one, other).then_with(|| key(one).cmp(&key(other))));
        arranged.extend(placed.by_ref().take(place - taken));
        arranged.extend(some.into_iter().map(|(_, summary)| summary));
        taken = place;
    }
    arranged.extend(placed);
    arranged
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::api::hash::ContentHash;
    use crate::api::page::Envelope;
    use crate::snapshot::content::Content;
    use crate::snapshot::membership::Evidence;

    fn rows(ids: &[u64]) -> Vec<Summary> {
        let row = |id: &u64| {
            let raw = Bytes::from(format!(r#"{{"id":{id}}}"#));
            Summary { id: ListingId(*id), hash: ContentHash::of(&raw), raw }
        };
        ids.iter().map(row).collect()
    }

    fn ids(of: &[u64]) -> BTreeSet<ListingId> {
        of.iter().copied().map(ListingId).collect()
    }

    fn dataset(of: &[u64]) -> Dataset {
        let envelope = Envelope::default();
        let content = Content { envelope, taxonomies: [(); 3].map(|()| "[]".into()), summaries: rows(of) };
        Dataset::build(content, &Evidence::new()).unwrap()
    }

    #[test]
    fn what_fits_is_no_contradiction() {
        let of = |listed: &[u64], totals: &[u64]| Contradiction::of(&rows(listed), &totals.iter().copied().collect());
        assert_eq!(of(&[1, 2, 3], &[3]), None);
        assert_eq!(of(&[], &[0]), None);
        for (listed, totals, doubled, excess) in [
            (&[1, 2, 2][..], &[3][..], &[2][..], &[1][..]),
            (&[1, 2, 2], &[2], &[2], &[0]),
            (&[1, 2], &[5], &[], &[3]),
            (&[1, 2], &[1], &[], &[-1]),
            (&[1, 2], &[2, 3], &[], &[0, 1]),
        ] {
            let expected = Contradiction { doubled: ids(doubled), excess: excess.iter().copied().collect() };
            assert_eq!(of(listed, totals), Some(expected), "{listed:?} {totals:?}");
        }
    }

    #[test]
    fn a_contradiction_is_believed_after_three_passes_far_enough_apart() {
        let at = Monotonic::from_seconds;
        let apart = Duration::from_secs(10);
        let one = Contradiction { doubled: ids(&[2]), excess: [1].into() };
        let other = Contradiction { doubled: ids(&[3]), excess: [1].into() };
        let mut seen = Recurrence::default();
        for (began, contradiction, believed) in [
            (0, &one, false),
            (1, &one, false),
            (11, &one, false),
            // Not far enough apart.
            (20, &one, false),
            (22, &one, true),
        ] {
            assert_eq!(seen.see(contradiction, at(began), apart), believed, "{began}");
        }
        seen.ended();
        for (began, contradiction, believed) in
            [(100, &one, false), (111, &one, false), (122, &other, false), (133, &one, false), (141, &one, true)]
        {
            assert_eq!(seen.see(contradiction, at(began), apart), believed, "{began}");
        }
        let mut first = Recurrence::default();
        let tries = [&one, &one, &one].map(|contradiction| first.see(contradiction, at(5), Duration::ZERO));
        assert_eq!(tries, [false, false, true]);
        first.ended();
        let tries = [&one, &other, &one, &other, &one, &other];
        let tries = tries.map(|contradiction| first.see(contradiction, at(6), Duration::ZERO));
        assert_eq!(tries, [false, false, false, false, false, true]);
    }

    #[test]
    fn rows_of_unknown_place_stand_where_they_stood() {
        let arranged = |pages: &[u64], doubled: &[u64], others: &[u64], last: Option<&[u64]>| {
            let last = last.map(dataset);
            let all = arranged(rows(pages), &ids(doubled), rows(others), last.as_ref());
            all.iter().map(|summary| summary.id.0).collect::<Vec<u64>>()
        };
        let last = &[9, 8, 7, 6, 5, 4][..];
        // 7 is on two pages, 6 on none.
        assert_eq!(arranged(&[9, 8, 7, 5, 4], &[7], &[6], Some(last)), last);
        assert_eq!(arranged(&[9, 7, 8, 5, 4], &[7], &[6], Some(last)), last);
        assert_eq!(arranged(&[8, 7, 6, 5, 4], &[], &[9], Some(last)), last);
        assert_eq!(arranged(&[9, 8, 7, 6, 5], &[], &[4], Some(last)), last);
        // No field orders these, but the id where it does.
        assert_eq!(arranged(&[9, 3, 7, 5, 4], &[7], &[2, 1, 6], Some(last)), [9, 7, 6, 3, 1, 2, 5, 4]);
        assert_eq!(arranged(&[5, 9, 2, 7], &[9], &[3, 1], None), [5, 1, 3, 9, 2, 7]);
        assert_eq!(arranged(&[9, 8, 7, 5], &[8], &[3, 6], None), [9, 8, 7, 6, 5, 3]);
    }

    #[test]
    fn rows_of_unknown_place_stand_among_their_equals() {
        let dated = |rows: &[(u64, u64)]| -> Vec<Summary> {
            let row = |(id, day): &(u64, u64)| {
                let raw = Bytes::from(format!(r#"{{"id":{id},"modified":"2026-01-0{day}"}}"#));
                Summary { id: ListingId(*id), hash: ContentHash::of(&raw), raw }
            };
            rows.iter().map(row).collect()
        };
        let pages = dated(&[(1, 5), (2, 4), (3, 4), (9, 4), (5, 1)]);
        // 7 and 8 were modified since the last snapshot.
        let last = dataset(&[1, 2, 3, 5, 8, 7]);
        let all = arranged(pages, &ids(&[3]), dated(&[(7, 4), (8, 2)]), Some(&last));
        assert_eq!(all.iter().map(|summary| summary.id.0).collect::<Vec<u64>>(), [1, 2, 3, 9, 7, 8, 5]);
    }
}
