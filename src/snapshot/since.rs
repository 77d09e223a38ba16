//! `modified_since` over an order that is not by `modified`: counts and pages without looking at each listing.
//!
//! Each list is cut into blocks, and these into smaller ones, with sorted instants: bisection counts the later ones of
//! a block, and only the blocks of the page are opened. It takes 12 bytes per listing and list. An order by `modified`
//! does not need it. Callers: [`super::dataset`].

use std::thread;

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
    /// The positions.
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
        let runs = thread::scope(|scope| {
            let sorted = |run: &[u32]| sorted(run.iter().map(|position| ranks[*position as usize]).collect());
            let handles: Vec<_> = runs.iter().map(|run| scope.spawn(move || sorted(run))).collect();
            let joined = handles.into_iter();
            joined.map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        Self { instants, ranks, runs }
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

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let runs = self.runs.iter().flatten().map(|sorted| size_of_val(&**sorted)).sum::<usize>();
        size_of_val(&*self.instants) + size_of_val(&*self.ranks) + runs
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
    use proptest::prelude::*;

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
