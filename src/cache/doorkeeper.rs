//! Remembers what was asked for of late: who comes a second time may enter the cache.
//!
//! Most queries are asked once and never again. To keep their replies costs more CPU than to make them (a place in the
//! cache's order, somebody else's eviction), and pushes out what is asked for all the time. This is no cache and no
//! counter: it answers one question, may be wrong about it, and takes no lock. Callers: [`super::Cache`].
//!
//! A bucket is one word of four fingerprints of 16 bits, newest first; a fifth one pushes the oldest out. So memory is
//! 128 KiB for good, the last 65,536 questions or so are known, and old ones fade without anybody sweeping. A
//! fingerprint that two questions share, once in some 16,000, lets a reply in at its first request. Two threads that meet in
//! a bucket may lose what one of them wrote, and its question is asked a third time before its answer is kept.

use std::sync::atomic::{AtomicU64, Ordering};

/// Fingerprints in a bucket.
const PLACES: u32 = 4;
/// Bits of a fingerprint.
const BITS: u32 = u64::BITS / PLACES;
/// Buckets: a power of two.
const BUCKETS: usize = 1 << 14;

/// What was asked for of late.
#[derive(Debug)]
pub struct Doorkeeper {
    buckets: Box<[AtomicU64]>,
}

impl Default for Doorkeeper {
    fn default() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Doorkeeper {
    /// Whether this was asked for of late; from now on it was. The hash must be seeded, lest somebody choose questions
    /// that fill one bucket.
    pub fn knows(&self, hash: u64) -> bool {
        let bucket = &self.buckets[hash as usize % BUCKETS];
        let (next, known) = remembered(bucket.load(Ordering::Relaxed), fingerprint(hash));
        bucket.store(next, Ordering::Relaxed);
        known
    }
}

/// The bits that do not choose the bucket; never 0, which is an empty place.
fn fingerprint(hash: u64) -> u64 {
    (hash >> (u64::BITS - BITS)).max(1)
}

/// A bucket with a fingerprint at its newest place, and whether that was there before.
fn remembered(bucket: u64, print: u64) -> (u64, bool) {
    let mask = (1 << BITS) - 1;
    let found = (0..PLACES).find(|place| (bucket >> (place * BITS)) & mask == print);
    // What is newer moves up by one place, over the one where it was found or the oldest.
    let place = found.unwrap_or(PLACES - 1);
    let newer = bucket & ((1 << (place * BITS)) - 1);
    let older = bucket & u64::MAX.checked_shl((place + 1) * BITS).unwrap_or(0);
    (older | newer << BITS | print, found.is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A hash with this bucket and this fingerprint.
    fn hash(bucket: u64, print: u64) -> u64 {
        print << 48 | bucket
    }

    #[test]
    fn the_second_question_is_known_and_the_first_is_not() {
        let doorkeeper = Doorkeeper::default();
        for number in 1..1000 {
            assert!(!doorkeeper.knows(hash(number, number)));
            assert!(doorkeeper.knows(hash(number, number)));
        }
        assert_eq!(doorkeeper.buckets.len() * 8, 128 << 10, "bytes");
    }

    #[test]
    fn a_flood_of_questions_is_neither_let_in_nor_remembered_for_ever() {
        let (doorkeeper, mut state) = (Doorkeeper::default(), 1_u64);
        let mut unique = move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        };
        let early = unique();
        doorkeeper.knows(early);
        let wrong = (0..1_000_000).filter(|_| doorkeeper.knows(unique())).count();
        assert!(wrong < 200, "{wrong} of a million came in at their first request");
        assert!(!doorkeeper.knows(early), "it faded");
        // What is asked for again and again stays known in between.
        let often = unique();
        doorkeeper.knows(often);
        let missed = (0..1000).filter(|_| {
            for _ in 0..1000 {
                doorkeeper.knows(unique());
            }
            !doorkeeper.knows(often)
        });
        assert_eq!(missed.count(), 0);
    }

    proptest! {
        #[test]
        fn a_bucket_knows_the_last_four_in_whatever_order_they_came(prints in prop::collection::vec(1_u64..9, 0..60)) {
            let doorkeeper = Doorkeeper::default();
            let mut last: Vec<u64> = Vec::new();
            for print in prints {
                prop_assert_eq!(doorkeeper.knows(hash(7, print)), last.contains(&print));
                last.retain(|other| *other != print);
                last.insert(0, print);
                last.truncate(4);
            }
        }

        #[test]
        fn any_bucket_remembers_what_it_was_just_told(bucket: u64, hash: u64) {
            let print = fingerprint(hash);
            let (next, _) = remembered(bucket, print);
            prop_assert_eq!(remembered(next, print), (next, true));
        }
    }
}
