//! Remembers recent requests: a reply enters the cache at its second request.
//!
//! Most queries come once. Caching their replies costs more CPU than making them, and pushes out hot replies. This is
//! not a cache and not a counter: it answers one question, may be wrong, and takes no lock.
//!
//! A bucket is one word of four fingerprints of 16 bits, newest first; a fifth one pushes the oldest out. So memory is
//! a constant 128 KiB, about the last 65,536 requests are known, and old ones fade without a sweep. If two requests
//! share a fingerprint (about once in 16,000), a reply enters at its first request. If two threads write to a bucket at
//! once, one entry may be lost, and its reply enters at the third request. Callers: [`super::Cache`].

use std::sync::atomic::{AtomicU64, Ordering};

/// Fingerprints in a bucket.
const PLACES: u32 = 4;
/// Bits of a fingerprint.
const BITS: u32 = u64::BITS / PLACES;
/// Buckets: a power of two.
const BUCKETS: usize = 1 << 14;

/// Recent requests.
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
    /// Whether this request came recently; it is remembered. The hash must be seeded, so that nobody can fill one
    /// bucket on purpose.
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

/// The bucket with the fingerprint at its newest place, and whether it was there before.
fn remembered(bucket: u64, print: u64) -> (u64, bool) {
    let mask = (1 << BITS) - 1;
    let found = (0..PLACES).find(|place| (bucket >> (place * BITS)) & mask == print);
    // Newer fingerprints move up by one place, over the found or the oldest one.
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
        // A request that keeps coming stays known.
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
