//! Cuts a sequence of listings into blocks, after ids that a hash picks, so that an insertion or a deletion changes one
//! block only.
//!
//! Callers: [`super::publish`].

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::api::listing::ListingId;

/// When a block ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Cut after an id whose hash is divisible by this: the mean number of listings per block.
    pub mean: u64,
    /// After this many listings at the latest.
    pub most: usize,
    /// After this many bytes at the latest.
    pub most_bytes: usize,
}

/// Summaries by id. A block is about 80 kB: small enough to rewrite for one changed listing.
pub(super) const SUMMARIES: Rule = Rule { mean: 256, most: 1024, most_bytes: 4 << 20 };

/// Ids in the origin's order.
pub(super) const ORDER: Rule = Rule { mean: 512, most: 4096, most_bytes: usize::MAX };

/// The blocks of a sequence, given each listing's id and size in bytes.
pub(super) fn cut(sequence: impl Iterator<Item = (ListingId, usize)>, rule: Rule) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let (mut start, mut end, mut bytes) = (0, 0, 0_usize);
    for (id, size) in sequence {
        end += 1;
        bytes = bytes.saturating_add(size);
        let picked = xxh3_64(&id.0.to_le_bytes()).is_multiple_of(rule.mean);
        if picked || end - start >= rule.most || bytes >= rule.most_bytes {
            blocks.push(start..end);
            (start, bytes) = (end, 0);
        }
    }
    if start < end {
        blocks.push(start..end);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn blocks(ids: &[u64], rule: Rule) -> Vec<Vec<u64>> {
        let sequence = ids.iter().map(|id| (ListingId(*id), 10));
        cut(sequence, rule).into_iter().map(|range| ids[range].to_vec()).collect()
    }

    #[test]
    fn an_insertion_changes_one_block() {
        let ids: Vec<u64> = (0..20_000).map(|n| n * 3).collect();
        let before = blocks(&ids, SUMMARIES);
        assert_eq!(before.concat(), ids);
        assert!(before.len() > 50 && before.iter().all(|block| block.len() <= 1024));
        let mut more = ids.clone();
        more.insert(10_000, 29_999);
        let known: HashSet<_> = before.into_iter().collect();
        let changed = blocks(&more, SUMMARIES).into_iter().filter(|block| !known.contains(block)).count();
        assert!((1..=2).contains(&changed), "{changed}");
    }

    #[test]
    fn a_block_is_bounded_in_listings_and_bytes() {
        let rule = Rule { mean: u64::MAX, most: 4, most_bytes: 30 };
        assert_eq!(blocks(&[1, 2, 3, 4, 5, 6, 7], rule), [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
        let rule = Rule { most_bytes: usize::MAX, ..rule };
        assert_eq!(blocks(&[1, 2, 3, 4, 5], rule), [vec![1, 2, 3, 4], vec![5]]);
        assert!(blocks(&[], rule).is_empty());
    }
}
