//! Positions of listings by what filters ask for: the lists that pages are cut from, made once per snapshot.
//!
//! A list for each term, and one for each sport in a state and each sport in a city that occurs: 20 bytes per listing, so
//! that hardly any answer intersects anything. It knows nothing of pages and of `modified`. Callers: [`super::dataset`].

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::api::taxonomy::TaxonomyKind;

use super::dataset::Doubt;
use super::membership::Membership;

/// What the slug filters of a query leave.
pub enum Matches<'a> {
    /// Everything: there is no such filter.
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

/// The index.
pub struct Index {
    /// The number of each slug's list; `None` for those in doubt.
    slugs: [HashMap<Box<str>, Option<u32>, RandomState>; 3],
    lists: [Lists; 3],
    by_sport_and_state: Option<Pairs>,
    by_city_and_sport: Option<Pairs>,
    /// By city, the state that all its listings are in.
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

    /// The number of the one list that holds each position below `end`, `NONE` where none does; `None` when two do.
    fn owners(&self, end: usize) -> Option<Vec<u32>> {
        let mut owners = vec![NONE; end];
        for (number, list) in (0..).zip(self.iter()) {
            for position in list {
                // Behind the end nobody asks.
                let Some(owner) = owners.get_mut(*position as usize) else { break };
                if *owner != NONE {
                    return None;
                }
                *owner = number;
            }
        }
        Some(owners)
    }

    fn end(&self) -> usize {
        self.iter().filter_map(|list| list.last()).max().map_or(0, |last| *last as usize + 1)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.positions)
    }
}

/// No list.
const NONE: u32 = u32::MAX;

/// Lists cut into parts by the list of another kind that each position is in.
struct Pairs {
    /// Where the parts of each list start in `parts`.
    first: Vec<usize>,
    /// The number of the other list and the start of the positions in both.
    parts: Vec<(u32, usize)>,
    positions: Vec<u32>,
}

impl Pairs {
    fn of(lists: &Lists, owners: &[u32], others: usize) -> Self {
        let mut pairs = Self { first: vec![0], parts: Vec::new(), positions: Vec::new() };
        pairs.positions.reserve_exact(lists.positions.len());
        let mut counts = vec![0_usize; others];
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

    fn get(&self, list: u32, other: u32) -> &[u32] {
        let range = self.first[list as usize]..self.first[list as usize + 1];
        let Ok(part) = self.parts[range.clone()].binary_search_by_key(&other, |(owner, _)| *owner) else { return &[] };
        let part = range.start + part;
        let end = self.parts.get(part + 1).map_or(self.positions.len(), |(_, start)| *start);
        &self.positions[self.parts[part].1..end]
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.first) + size_of_val(&*self.parts) + size_of_val(&*self.positions)
    }
}

impl Index {
    /// Lists what every term stands for.
    pub fn of<H>(membership: &[HashMap<Box<str>, Membership, H>; 3]) -> Self {
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
        let sports_of = sports.owners(end);
        let count = |lists: &Lists| lists.starts.len() - 1;
        let by_sport_and_state = states_of.as_ref().map(|owners| Pairs::of(sports, owners, count(states)));
        let by_city_and_sport = sports_of.map(|owners| Pairs::of(cities, &owners, count(sports)));
        let state_of = cities.iter().map(|list| {
            let owners = states_of.as_ref()?;
            let state = owners[*list.first()? as usize];
            (state != NONE && list.iter().all(|position| owners[*position as usize] == state)).then_some(state)
        });
        let state_of = state_of.collect();
        Self { slugs, lists, by_sport_and_state, by_city_and_sport, state_of }
    }

    /// The positions that slugs leave, by [`TaxonomyKind::index`]. A slug that nothing has leaves none.
    ///
    /// # Errors
    /// When a slug is in doubt, unless another one leaves none anyway.
    pub fn matches(&self, slugs: &[Option<Box<str>>; 3]) -> Result<Matches<'_>, Doubt> {
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
            [Some(sport), Some(state), None] => match &self.by_sport_and_state {
                Some(pairs) => Cow::Borrowed(pairs.get(sport, state)),
                None => both(&list(0, sport), &list(1, state)),
            },
            [sport, state, Some(city)] => {
                let in_city = match (sport, &self.by_city_and_sport) {
                    (None, _) => list(2, city),
                    (Some(sport), Some(pairs)) => Cow::Borrowed(pairs.get(city, sport)),
                    (Some(sport), None) => both(&list(2, city), &list(0, sport)),
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
    pub fn run(&self, kind: usize) -> &[u32] {
        &self.lists[kind].positions
    }

    /// What it takes, in bytes, slugs apart.
    pub fn bytes(&self) -> usize {
        let pairs = [&self.by_sport_and_state, &self.by_city_and_sport].into_iter().flatten().map(Pairs::bytes);
        self.lists.iter().map(Lists::bytes).chain(pairs).sum::<usize>() + size_of_val(&*self.state_of)
    }
}

/// What is in two lists: each member of the shorter one is looked for in the rest of the longer one.
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

/// How many of a sorted list are less than `least`, found in as many steps as there are digits in the answer.
fn galloped(list: &[u32], least: u32) -> usize {
    let mut reach = 1;
    while list.get(reach - 1).is_some_and(|position| *position < least) {
        reach *= 2;
    }
    let known = reach / 2;
    known + list[known..list.len().min(reach)].partition_point(|position| *position < least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::membership::Positions;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LISTINGS: u32 = 40;

    /// What three slugs of a kind stand for; `None`: in doubt.
    type Terms = [Option<BTreeSet<u32>>; 3];

    /// Terms that share no listing, as they are nearly everywhere, or any.
    fn terms() -> impl Strategy<Value = Terms> {
        let apart = proptest::collection::vec(0_usize..4, LISTINGS as usize).prop_map(|owners| {
            let of = |term| (0..LISTINGS).filter(|position| owners[*position as usize] == term).collect();
            std::array::from_fn(|term| Some(of(term)))
        });
        let any = proptest::collection::btree_set(0..LISTINGS, 0..30);
        prop_oneof![3 => apart, 1 => proptest::array::uniform3(proptest::option::weighted(0.8, any))]
    }

    fn membership(terms: &Terms) -> HashMap<Box<str>, Membership> {
        let term = |(slug, positions): (usize, &Option<BTreeSet<u32>>)| {
            let positions = positions.as_ref().map(|positions| positions.iter().copied().collect::<Positions>());
            (slug.to_string().into(), positions.map_or(Membership::Doubtful, Membership::Named))
        };
        terms.iter().enumerate().map(term).collect()
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
            // What no term stands for leaves none, whatever the others are.
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
}
