//! From a client's hash to its window.
//!
//! An open-addressed table of window numbers with linear probing, at most half full. It does not own the keys; its
//! callers compare them. Unlike the standard map it never rehashes: removed entries leave no gaps, so no decision ever
//! waits for a rehash. Callers: `table`.

/// A window's number in the slab.
pub(super) type Slot = u32;

/// The upper half of an entry is the hash, the lower half the slot plus one; 0: empty.
#[derive(Debug)]
pub(super) struct Index(Box<[u64]>);

impl Index {
    /// Room for `most` entries, 16 to 32 bytes each. The operating system supplies memory when it is touched.
    pub(super) fn new(most: usize) -> Self {
        Self(vec![0; (most.max(2) * 2).next_power_of_two()].into_boxed_slice())
    }

    /// The slot with that hash that `is_it` accepts.
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let mut at = self.home(hash);
        loop {
            match self.0[at] {
                0 => return None,
                entry if (entry >> 32) as u32 == hash && is_it(slot_of(entry)) => {
                    return Some(slot_of(entry));
                }
                _ => at = self.after(at),
            }
        }
    }

    /// Adds a slot that is not in it.
    pub(super) fn insert(&mut self, hash: u32, slot: Slot) {
        let mut at = self.home(hash);
        while self.0[at] != 0 {
            at = self.after(at);
        }
        self.0[at] = u64::from(hash) << 32 | (u64::from(slot) + 1);
    }

    /// Removes a slot that is in it.
    pub(super) fn remove(&mut self, hash: u32, slot: Slot) {
        let wanted = u64::from(hash) << 32 | (u64::from(slot) + 1);
        let mut gap = self.home(hash);
        while self.0[gap] != wanted {
            if self.0[gap] == 0 {
                return;
            }
            gap = self.after(gap);
        }
        // A search would stop at the gap. So a later entry of the cluster moves back if its home is at or before the
        // gap.
        let mut at = self.after(gap);
        while self.0[at] != 0 {
            let home = self.home((self.0[at] >> 32) as u32);
            if self.distance(home, at) >= self.distance(gap, at) {
                self.0[gap] = self.0[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.0[gap] = 0;
    }

    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.0.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.0.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.0.len() - 1)
    }
}

const fn slot_of(entry: u64) -> Slot {
    (entry as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map_whatever_collides(steps in prop::collection::vec((0_u32..8, 0_u32..12), 0..200)) {
            // Twelve slots share eight hashes at both ends of an index of 32: they collide, and wrap around.
            let mut index = Index::new(12);
            let mut model = HashMap::new();
            for (bits, slot) in steps {
                let hash = bits.wrapping_sub(4);
                if let Some(hash) = model.remove(&slot) {
                    index.remove(hash, slot);
                } else {
                    index.insert(hash, slot);
                    model.insert(slot, hash);
                }
                for slot in 0..12 {
                    for hash in (0..8_u32).map(|bits| bits.wrapping_sub(4)) {
                        let expected = (model.get(&slot) == Some(&hash)).then_some(slot);
                        prop_assert_eq!(index.find(hash, |found| found == slot), expected);
                    }
                }
            }
        }
    }
}
