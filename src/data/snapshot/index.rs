//! Selection by filter: the positions of the listings that the slugs of a query leave, and those modified after an instant.
//!
//! The bitmap of each slug is its index. [`Since`] is `modified_since` over an order that is not by `modified`, without
//! looking at each listing: the list is cut into blocks, and these into smaller ones, with sorted instants; bisection
//! counts the later ones of a block, and only the blocks of the page are opened. It takes 24 bytes per listing. Beside
//! other filters each listing that these leave is looked at. Callers: [`super::dataset`].

use std::borrow::Cow;
use std::collections::HashMap;

use super::dataset::Doubt;
use super::membership::{Membership, Positions};

/// The positions that match the slugs, by [`crate::api::taxonomy::TaxonomyKind::index`]; `None`: all, without a filter. An
/// unknown slug matches none. A slug in doubt is an error, unless another one matches none anyway.
pub(super) fn matches<'a>(
    membership: &'a [HashMap<Box<str>, Membership>; 3],
    slugs: &[Option<Box<str>>; 3],
) -> Result<Option<Cow<'a, Positions>>, Doubt> {
    let (mut all, mut doubt) = (None::<Cow<'_, Positions>>, false);
    for (membership, slug) in membership.iter().zip(slugs) {
        let Some(slug) = slug else { continue };
        match membership.get(slug).map(Membership::positions) {
            None => return Ok(Some(Cow::Owned(Positions::new()))),
            Some(None) => doubt = true,
            Some(Some(own)) => all = Some(all.map_or(Cow::Borrowed(own), |all| Cow::Owned(&*all & own))),
        }
    }
    if doubt { Err(Doubt::Term) } else { Ok(all) }
}

/// Sizes of blocks, each a multiple of the next.
const SIZES: [usize; 3] = [1 << 16, 1 << 11, 1 << 7];

/// The instants of all listings, ready to be counted.
pub(super) struct Since {
    /// All instants, in order.
    instants: Box<[i64]>,
    /// By position, the place of its instant among them.
    ranks: Box<[u32]>,
    /// The ranks, sorted within blocks of each size.
    blocks: [Box<[u32]>; 3],
}

/// What is found, so far.
struct Looked {
    /// The least rank that counts.
    least: u32,
    offset: usize,
    size: usize,
    total: usize,
    page: Vec<u32>,
}

impl Since {
    /// Prepares `modified`, by position.
    pub(super) fn of(modified: &[i64]) -> Self {
        let mut instants = modified.to_vec();
        instants.sort_unstable();
        instants.dedup();
        let instants = instants.into_boxed_slice();
        let rank = |at: &i64| instants.partition_point(|instant| instant < at) as u32;
        let ranks: Box<[u32]> = modified.iter().map(rank).collect();
        let mut blocks: [Box<[u32]>; 3] = Default::default();
        let mut next = ranks.clone();
        for (size, sorted) in SIZES.into_iter().zip(&mut blocks).rev() {
            // The stable sort uses the already sorted blocks.
            next.chunks_mut(size).for_each(<[u32]>::sort);
            sorted.clone_from(&next);
        }
        Self { instants, ranks, blocks }
    }

    /// Whether a listing is modified within this range.
    pub(super) fn has_any(&self, from: i64, to: i64) -> bool {
        let first = self.instants.partition_point(|instant| *instant < from);
        self.instants.get(first).is_some_and(|instant| *instant <= to)
    }

    /// How many listings are modified after `at`, and of these `size` from `offset` on.
    pub(super) fn find(&self, at: i64, offset: usize, size: usize) -> (usize, Vec<u32>) {
        let mut looked = self.begin(at, offset, size);
        let (mut here, end) = (0, self.ranks.len());
        'blocks: while here < end {
            for (block, sorted) in SIZES.into_iter().zip(&self.blocks) {
                if !here.is_multiple_of(block) || here + block > end {
                    continue;
                }
                let later = block - sorted[here..here + block].partition_point(|rank| *rank < looked.least);
                if later == 0 || looked.total + later <= offset || looked.page.len() == size {
                    looked.total += later;
                    here += block;
                    continue 'blocks;
                }
            }
            let [.., smallest] = SIZES;
            let stop = end.min((here / smallest + 1) * smallest);
            self.look(here as u32..stop as u32, &mut looked);
            here = stop;
        }
        (looked.total, looked.page)
    }

    /// The same for some positions, one by one.
    pub(super) fn scan(&self, positions: &Positions, at: i64, offset: usize, size: usize) -> (usize, Vec<u32>) {
        let mut looked = self.begin(at, offset, size);
        self.look(positions, &mut looked);
        (looked.total, looked.page)
    }

    fn begin(&self, at: i64, offset: usize, size: usize) -> Looked {
        let least = self.instants.partition_point(|instant| *instant <= at) as u32;
        Looked { least, offset, size, total: 0, page: Vec::with_capacity(size) }
    }

    fn look(&self, positions: impl IntoIterator<Item = u32>, looked: &mut Looked) {
        for position in positions.into_iter().filter(|position| self.ranks[*position as usize] >= looked.least) {
            if looked.total >= looked.offset && looked.page.len() < looked.size {
                looked.page.push(position);
            }
            looked.total += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    proptest! {
        #[test]
        fn what_matches_is_what_all_filters_stand_for(
            kinds in proptest::array::uniform3(terms()),
            slugs in proptest::array::uniform3(proptest::option::of(0_usize..4)),
        ) {
            let known = kinds.clone().map(|terms| membership(&terms));
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
            let found = matches(&known, &slugs).map(|found| found.map(|positions| positions.iter().collect::<BTreeSet<_>>()));
            prop_assert_eq!(found, expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn blocks_find_what_a_scan_finds(
            seed: u64,
            instants in prop::sample::select(vec![2_i64, 100, 1 << 40]),
            at: i64,
            offset in prop::sample::select(vec![0_usize, 1, 50, 5_000, 60_000, 140_000, usize::MAX]),
            size in 1_usize..100,
        ) {
            let random = |n: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed);
            let modified: Vec<i64> = (0..170_000).map(|n| random(n).cast_signed().rem_euclid(instants) - 1).collect();
            let begin = random(1 << 41) as u32 % 170_000;
            let some: Positions =
                (begin..170_000).filter(|position| random(1 << 40 | u64::from(*position)) % 8 != 0).collect();
            let since = Since::of(&modified);
            for at in [at.rem_euclid(instants), instants - 2, i64::MIN, i64::MAX] {
                let later = |position: &u32| modified[*position as usize] > at;
                let page = |all: &[u32]| all.iter().copied().skip(offset).take(size).collect::<Vec<_>>();
                let all: Vec<u32> = (0..170_000).filter(later).collect();
                prop_assert_eq!(since.find(at, offset, size), (all.len(), page(&all)));
                let these: Vec<u32> = some.iter().filter(later).collect();
                prop_assert_eq!(since.scan(&some, at, offset, size), (these.len(), page(&these)));
            }
        }
    }
}
