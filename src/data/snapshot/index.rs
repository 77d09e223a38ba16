//! Positions of listings by filter: the lists that pages are cut from, made once per snapshot.
//!
//! A list for each term, and one for each sport in a state and each sport in a city that occurs: 20 bytes per listing,
//! so that hardly any answer needs an intersection. [`Since`] is `modified_since` over an order that is not by
//! `modified`, without looking at each listing: each list is cut into blocks, and these into smaller ones, with sorted
//! instants; bisection counts the later ones of a block, and only the blocks of the page are opened. It takes 12 bytes
//! per listing and list. Callers: [`super::dataset`].

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::api::taxonomy::TaxonomyKind;
use crate::tasks::threads::{beside, together};

use super::dataset::Doubt;
use super::membership::Membership;

/// The result of the slug filters of a query.
pub(super) enum Matches<'a> {
    /// Everything: no filter.
    All,
    /// A term's whole list.
    Term {
        /// The term's kind, by [`TaxonomyKind::index`].
        kind: usize,
        /// Where the list starts in [`Index::run`].
        start: usize,
        /// The positions, in order.
        positions: &'a [u32],
    },
    /// These positions, in order.
    Of(Cow<'a, [u32]>),
}

pub(super) struct Index {
    /// The number of each slug's list; `None` for those in doubt.
    slugs: [HashMap<Box<str>, Option<u32>, RandomState>; 3],
    lists: [Lists; 3],
    by_sport_and_state: Pairs,
    by_city_and_sport: Pairs,
    /// By city, the state of all its listings, if that state shares none with another.
    state_of: Box<[Option<u32>]>,
}

/// Sorted lists of positions, one after the other.
#[derive(Default)]
struct Lists {
    starts: Vec<usize>,
    positions: Vec<u32>,
}

impl Lists {
    fn get(&self, number: u32) -> &[u32] {
        &self.positions[self.starts[number as usize]..self.starts[number as usize + 1]]
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.starts.windows(2).map(|range| &self.positions[range[0]..range[1]])
    }

    /// The owner of each position below `end`.
    fn owners(&self, end: usize) -> Owners {
        let (mut of, mut shares) = (vec![NONE; end], vec![false; self.starts.len() - 1]);
        for (number, list) in (0..).zip(self.iter()) {
            for position in list {
                // Positions from `end` on are not needed.
                let Some(owner) = of.get_mut(*position as usize) else { break };
                if *owner == NONE {
                    *owner = number;
                } else {
                    shares[number as usize] = true;
                    shares[*owner as usize] = true;
                }
            }
        }
        if shares.contains(&true) {
            of.iter_mut().filter(|owner| **owner != NONE && shares[**owner as usize]).for_each(|owner| *owner = NONE);
        }
        Owners { of, shares: shares.into() }
    }

    fn end(&self) -> usize {
        self.iter().filter_map(|list| list.last()).max().map_or(0, |last| *last as usize + 1)
    }
}

/// No list.
const NONE: u32 = u32::MAX;

/// Which list alone holds each position.
struct Owners {
    /// The owning list's number, by position; [`NONE`]: no list, or one that shares positions.
    of: Vec<u32>,
    /// By number, whether a list shares a position with another.
    shares: Box<[bool]>,
}

/// Lists cut into parts by the lists of another kind.
struct Pairs {
    /// Where the parts of each list start in `parts`.
    first: Vec<usize>,
    /// The number of the other list and the start of the positions in both.
    parts: Vec<(u32, usize)>,
    positions: Vec<u32>,
    /// [`Owners::shares`] of the other lists, which have no parts.
    shares: Box<[bool]>,
}

impl Pairs {
    fn of(lists: &Lists, owners: &Owners) -> Self {
        let Owners { of: owners, shares } = owners;
        let mut pairs = Self { first: vec![0], parts: Vec::new(), positions: Vec::new(), shares: shares.clone() };
        pairs.positions.reserve_exact(lists.positions.len());
        let mut counts = vec![0_usize; shares.len()];
        let mut seen = Vec::new();
        for list in lists.iter() {
            let owner = |position: &u32| owners.get(*position as usize).copied().filter(|owner| *owner != NONE);
            for owner in list.iter().filter_map(owner) {
                if counts[owner as usize] == 0 {
                    seen.push(owner);
                }
                counts[owner as usize] += 1;
            }
            seen.sort_unstable();
            let mut at = pairs.positions.len();
            for owner in &seen {
                pairs.parts.push((*owner, at));
                at += std::mem::replace(&mut counts[*owner as usize], at);
            }
            pairs.positions.resize(at, 0);
            for position in list {
                if let Some(owner) = owner(position) {
                    let place = &mut counts[owner as usize];
                    pairs.positions[*place] = *position;
                    *place += 1;
                }
            }
            seen.drain(..).for_each(|owner| counts[owner as usize] = 0);
            pairs.first.push(pairs.parts.len());
        }
        pairs.parts.shrink_to_fit();
        pairs.positions.shrink_to_fit();
        pairs
    }

    /// The intersection; `None`: the lists must be compared, because the other one shares positions.
    fn get(&self, list: u32, other: u32) -> Option<&[u32]> {
        if self.shares[other as usize] {
            return None;
        }
        let range = self.first[list as usize]..self.first[list as usize + 1];
        let Ok(part) = self.parts[range.clone()].binary_search_by_key(&other, |(owner, _)| *owner) else {
            return Some(&[]);
        };
        let part = range.start + part;
        let end = self.parts.get(part + 1).map_or(self.positions.len(), |(_, start)| *start);
        Some(&self.positions[self.parts[part].1..end])
    }
}

impl Index {
    pub(super) fn of<H>(membership: &[HashMap<Box<str>, Membership, H>; 3]) -> Self {
        let mut slugs: [HashMap<Box<str>, Option<u32>, RandomState>; 3] = Default::default();
        let mut lists: [Lists; 3] = Default::default();
        for kind in 0..3 {
            // Sorted, so that equal data makes equal indexes.
            let mut terms: Vec<_> = membership[kind].iter().collect();
            terms.sort_unstable_by_key(|(slug, _)| *slug);
            let sizes =
                terms.iter().filter_map(|(_, known)| known.positions()).map(|positions| positions.len() as usize);
            lists[kind].positions.reserve_exact(sizes.sum());
            lists[kind].starts.push(0);
            for (slug, known) in terms {
                let number = known.positions().map(|positions| {
                    let number = lists[kind].starts.len() as u32 - 1;
                    lists[kind].positions.extend(positions);
                    let end = lists[kind].positions.len();
                    lists[kind].starts.push(end);
                    number
                });
                slugs[kind].insert(slug.clone(), number);
            }
        }
        let [sports, states, cities] = &lists;
        let end = sports.end().max(cities.end());
        let states_of = states.owners(end);
        let (by_city_and_sport, by_sport_and_state) =
            beside(|| Pairs::of(cities, &sports.owners(end)), || Pairs::of(sports, &states_of));
        let state_of = cities.iter().map(|list| {
            let state_at = |position: &u32| states_of.of[*position as usize];
            let state = state_at(list.first()?);
            (state != NONE && list.iter().all(|position| state_at(position) == state)).then_some(state)
        });
        let state_of = state_of.collect();
        Self { slugs, lists, by_sport_and_state, by_city_and_sport, state_of }
    }

    /// The positions that match the slugs, by [`TaxonomyKind::index`]. An unknown slug matches none. A slug in doubt is
    /// an error, unless another one matches none anyway.
    pub(super) fn matches(&self, slugs: &[Option<Box<str>>; 3]) -> Result<Matches<'_>, Doubt> {
        let (mut numbers, mut doubt) = ([None; 3], false);
        for kind in TaxonomyKind::ALL.map(TaxonomyKind::index) {
            let Some(slug) = &slugs[kind] else { continue };
            match self.slugs[kind].get(slug) {
                None => return Ok(Matches::Of(Cow::Borrowed(&[]))),
                Some(None) => doubt = true,
                Some(number) => numbers[kind] = *number,
            }
        }
        if doubt {
            return Err(Doubt::Term);
        }
        let list = |kind: usize, number| Cow::Borrowed(self.lists[kind].get(number));
        let term = |kind: usize, number: u32| {
            let (start, positions) = (self.lists[kind].starts[number as usize], self.lists[kind].get(number));
            Ok(Matches::Term { kind, start, positions })
        };
        Ok(Matches::Of(match numbers {
            [None, None, None] => return Ok(Matches::All),
            [Some(sport), None, None] => return term(0, sport),
            [None, Some(state), None] => return term(1, state),
            [None, None, Some(city)] => return term(2, city),
            [Some(sport), Some(state), None] => match self.by_sport_and_state.get(sport, state) {
                Some(positions) => Cow::Borrowed(positions),
                None => both(&list(0, sport), &list(1, state)),
            },
            [sport, state, Some(city)] => {
                let in_city = match sport.map(|sport| (sport, self.by_city_and_sport.get(city, sport))) {
                    None => list(2, city),
                    Some((_, Some(positions))) => Cow::Borrowed(positions),
                    Some((sport, None)) => both(&list(2, city), &list(0, sport)),
                };
                match (state, self.state_of[city as usize]) {
                    (None, _) => in_city,
                    (Some(state), Some(only)) if state == only => in_city,
                    (Some(_), Some(_)) => Cow::Borrowed(&[]),
                    (Some(state), None) => both(&in_city, &list(1, state)),
                }
            }
        }))
    }

    /// The lists of all terms of a kind, one after the other.
    pub(super) fn run(&self, kind: usize) -> &[u32] {
        &self.lists[kind].positions
    }
}

/// The intersection of two lists: searches each member of the shorter one in the rest of the longer one.
fn both<'a>(one: &[u32], other: &[u32]) -> Cow<'a, [u32]> {
    let (short, mut long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let mut found = Vec::new();
    for position in short {
        long = &long[galloped(long, *position)..];
        if long.first() == Some(position) {
            found.push(*position);
        }
    }
    Cow::Owned(found)
}

/// The number of members below `least` in a sorted list, in logarithmic time.
fn galloped(list: &[u32], least: u32) -> usize {
    let mut reach = 1;
    while list.get(reach - 1).is_some_and(|position| *position < least) {
        reach *= 2;
    }
    let known = reach / 2;
    known + list[known..list.len().min(reach)].partition_point(|position| *position < least)
}

/// Sizes of blocks, each a multiple of the next.
const SIZES: [usize; 3] = [1 << 16, 1 << 11, 1 << 7];

/// The instants of all listings, ready to be counted.
pub(super) struct Since {
    /// All instants, in order.
    instants: Box<[i64]>,
    /// By position, the place of its instant among them.
    ranks: Box<[u32]>,
    /// For each run of lists, the ranks in the order of the lists, sorted within blocks of each size.
    runs: Vec<[Box<[u32]>; 3]>,
}

/// A part of the input of [`Since::of`].
pub(super) struct Part<'a> {
    /// Which of the runs.
    pub run: usize,
    /// Where in the run it starts.
    pub start: usize,
    pub positions: &'a [u32],
}

impl Since {
    /// Prepares `modified`, by position, for parts of these runs of positions.
    pub(super) fn of(modified: &[i64], runs: &[&[u32]]) -> Self {
        let mut instants = modified.to_vec();
        instants.sort_unstable();
        instants.dedup();
        let instants = instants.into_boxed_slice();
        let rank = |at: &i64| instants.partition_point(|instant| instant < at) as u32;
        let ranks: Box<[u32]> = modified.iter().map(rank).collect();
        let mut made = vec![<[Box<[u32]>; 3]>::default(); runs.len()];
        let work = parking_lot::Mutex::new(runs.iter().zip(&mut made));
        let next = || work.lock().next();
        together(runs.len(), &|| {
            let sorted = |run: &[u32]| sorted(run.iter().map(|position| ranks[*position as usize]).collect());
            std::iter::from_fn(next).for_each(|(run, made)| *made = sorted(run));
        });
        Self { instants, ranks, runs: made }
    }

    /// Whether a listing is modified within this range.
    pub(super) fn has_any(&self, from: i64, to: i64) -> bool {
        let first = self.instants.partition_point(|instant| *instant < from);
        self.instants.get(first).is_some_and(|instant| *instant <= to)
    }

    /// How many listings of a part are modified after `at`, and of these `size` from `offset` on.
    pub(super) fn find(&self, part: &Part<'_>, at: i64, offset: usize, size: usize) -> (usize, Vec<u32>) {
        let least = self.instants.partition_point(|instant| *instant <= at) as u32;
        let (mut total, mut page) = (0, Vec::with_capacity(size));
        let (mut here, end) = (part.start, part.start + part.positions.len());
        'blocks: while here < end {
            for (block, sorted) in SIZES.into_iter().zip(&self.runs[part.run]) {
                if !here.is_multiple_of(block) || here + block > end {
                    continue;
                }
                let later = block - sorted[here..here + block].partition_point(|rank| *rank < least);
                if later == 0 || total + later <= offset || page.len() == size {
                    total += later;
                    here += block;
                    continue 'blocks;
                }
            }
            let [.., smallest] = SIZES;
            let stop = end.min((here / smallest + 1) * smallest);
            total += self.look(&part.positions[here - part.start..stop - part.start], least, |found, position| {
                if total + found >= offset && page.len() < size {
                    page.push(position);
                }
            });
            here = stop;
        }
        (total, page)
    }

    /// The same for positions outside runs, one by one.
    pub(super) fn scan(&self, positions: &[u32], at: i64, offset: usize, size: usize) -> (usize, Vec<u32>) {
        let least = self.instants.partition_point(|instant| *instant <= at) as u32;
        let mut page = Vec::with_capacity(size);
        let total = self.look(positions, least, |found, position| {
            if found >= offset && page.len() < size {
                page.push(position);
            }
        });
        (total, page)
    }

    /// Shows each position with a rank of at least `least` and its index among them; returns their number.
    fn look(&self, positions: &[u32], least: u32, mut show: impl FnMut(usize, u32)) -> usize {
        let mut found = 0;
        for position in positions {
            if self.ranks[*position as usize] >= least {
                show(found, *position);
                found += 1;
            }
        }
        found
    }
}

/// The same ranks, sorted within blocks of each size.
fn sorted(ranks: Vec<u32>) -> [Box<[u32]>; 3] {
    let mut sorted = [const { Vec::new() }; 3];
    let mut next = ranks;
    for (block, sorted) in SIZES.into_iter().zip(&mut sorted).rev() {
        // The stable sort uses the already sorted blocks.
        next.chunks_mut(block).for_each(<[u32]>::sort);
        sorted.clone_from(&next);
    }
    sorted.map(Vec::into_boxed_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::snapshot::membership::Positions;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LISTINGS: u32 = 40;

    /// The members of three slugs of a kind; `None`: in doubt.
    type Terms = [Option<BTreeSet<u32>>; 3];

    /// Terms that share no listing, as they are nearly everywhere, or two of them do, or any.
    fn terms() -> impl Strategy<Value = Terms> {
        let apart = proptest::collection::vec(0_usize..4, LISTINGS as usize).prop_map(|owners| {
            let of = |term| (0..LISTINGS).filter(|position| owners[*position as usize] == term).collect();
            std::array::from_fn(|term| Some(of(term)))
        });
        let some_shared = (apart.clone(), 0..LISTINGS).prop_map(|(mut terms, position): (Terms, u32)| {
            for (number, term) in terms.iter_mut().flatten().enumerate() {
                let _ = if number < 2 { term.insert(position) } else { term.remove(&position) };
            }
            terms
        });
        let any = proptest::collection::btree_set(0..LISTINGS, 0..30);
        prop_oneof![3 => apart, 2 => some_shared, 1 => proptest::array::uniform3(proptest::option::weighted(0.8, any))]
    }

    fn membership(terms: &Terms) -> HashMap<Box<str>, Membership> {
        let term = |(slug, positions): (usize, &Option<BTreeSet<u32>>)| {
            let positions = positions.as_ref().map(|positions| positions.iter().copied().collect::<Positions>());
            (slug.to_string().into(), positions.map_or(Membership::Doubtful, Membership::Named))
        };
        terms.iter().enumerate().map(term).collect()
    }

    #[test]
    fn one_listing_in_two_terms_makes_only_these_two_slower() {
        let of = |positions: &[u32]| Some(positions.iter().copied().collect::<BTreeSet<_>>());
        let sports = [of(&[0, 2, 4]), of(&[1, 3, 5]), of(&[])];
        let states = [of(&[0, 1, 2]), of(&[2, 3]), of(&[4, 5])];
        let index = Index::of(&[&sports, &states, &sports].map(membership));
        let is_at_hand = |state: usize| {
            let slugs = [Some("0".into()), Some(state.to_string().into()), None];
            matches!(index.matches(&slugs), Ok(Matches::Of(Cow::Borrowed(_))))
        };
        assert_eq!([0, 1, 2].map(is_at_hand), [false, false, true]);
    }

    proptest! {
        #[test]
        fn what_matches_is_what_all_filters_stand_for(
            kinds in proptest::array::uniform3(terms()),
            slugs in proptest::array::uniform3(proptest::option::of(0_usize..4)),
        ) {
            let index = Index::of(&kinds.clone().map(|terms| membership(&terms)));
            let mut expected = Ok(None);
            for (terms, slug) in kinds.iter().zip(slugs) {
                let (Ok(so_far), Some(slug)) = (&expected, slug) else { continue };
                expected = match (terms.get(slug), so_far) {
                    (None | Some(None), _) => Err(Doubt::Term),
                    (Some(Some(own)), None) => Ok(Some(own.clone())),
                    (Some(Some(own)), Some(all)) => Ok(Some(own & all)),
                };
            }
            // An unknown slug matches none, whatever the others are.
            if kinds.iter().zip(slugs).any(|(terms, slug)| slug.is_some_and(|slug| slug >= terms.len())) {
                expected = Ok(Some(BTreeSet::new()));
            }
            let slugs = slugs.map(|slug| slug.map(|slug| slug.to_string().into()));
            let found = index.matches(&slugs).map(|matches| match matches {
                Matches::All => None,
                Matches::Term { positions, .. } => Some(positions.to_vec()),
                Matches::Of(positions) => Some(positions.into_owned()),
            });
            prop_assert_eq!(found, expected.map(|all| all.map(|all| all.into_iter().collect::<Vec<_>>())));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn blocks_find_what_a_scan_finds(
            seed: u64,
            instants in prop::sample::select(vec![2_i64, 100, 1 << 40]),
            ends in prop::array::uniform2(0_usize..150_000),
            at: i64,
            offset in prop::sample::select(vec![0_usize, 1, 50, 5_000, 60_000, 140_000, usize::MAX]),
            size in 1_usize..100,
        ) {
            let random = |n: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed);
            let modified: Vec<i64> = (0..170_000).map(|n| random(n).cast_signed().rem_euclid(instants) - 1).collect();
            // The lists of a run have some of the positions, in any order.
            let mut run: Vec<u32> = (0..170_000).filter(|position| random(1 << 40 | position) % 8 != 0).map(|position| position as u32).collect();
            run.sort_by_cached_key(|position| random(1 << 41 | u64::from(*position)));
            let since = Since::of(&modified, &[&[], &run]);
            let ends = ends.map(|end| end.min(run.len()));
            let (start, end) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let part = Part { run: 1, start, positions: &run[start..end] };
            for at in [at.rem_euclid(instants), instants - 2, i64::MIN, i64::MAX] {
                let later = part.positions.iter().copied().filter(|position| modified[*position as usize] > at);
                let expected: Vec<u32> = later.clone().skip(offset).take(size).collect();
                prop_assert_eq!(since.find(&part, at, offset, size), (later.count(), expected.clone()));
                prop_assert_eq!(since.scan(part.positions, at, offset, size).1, expected);
            }
        }
    }
}
