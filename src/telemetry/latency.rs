//! How long answers take, counted in buckets, so that percentiles can be told without keeping each time.
//!
//! A bucket is a quarter of an octave of microseconds: a percentile is off by less than a fifth. Pure. Callers:
//! [`super`] counts, [`super::history`] asks for percentiles.

use std::time::Duration;

/// Buckets of one octave.
const QUARTERS: usize = 4;

/// How many buckets there are: from 1 microsecond to a minute and more.
pub(crate) const BUCKETS: usize = 27 * QUARTERS;

/// The bucket of a time.
pub(crate) fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let octave = micros.ilog2();
    // The two bits below the highest one; the first two octaves have fewer.
    let quarter = if octave >= 2 { (micros >> (octave - 2)) & 3 } else { (micros << (2 - octave)) & 3 };
    (octave as usize * QUARTERS + quarter as usize).min(BUCKETS - 1)
}

/// The end of a bucket, in microseconds.
fn end(bucket: usize) -> u64 {
    let (octave, quarter) = (bucket / QUARTERS, bucket % QUARTERS);
    ((QUARTERS + quarter + 1) as u64) << octave >> 2
}

/// The time in microseconds within which `share` (0 to 1) of the counted answers were given; `None`: none was counted.
pub(crate) fn percentile(counts: &[u64; BUCKETS], share: f64) -> Option<u32> {
    let all: u64 = counts.iter().sum();
    let wanted = (all as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    let found = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    found.filter(|_| all > 0).map(|bucket| u32::try_from(end(bucket).max(1)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(micros: impl IntoIterator<Item = u64>) -> [u64; BUCKETS] {
        let mut counts = [0; BUCKETS];
        micros.into_iter().for_each(|micros| counts[bucket(Duration::from_micros(micros))] += 1);
        counts
    }

    #[test]
    fn percentiles_are_off_by_less_than_a_quarter() {
        assert_eq!(percentile(&counted([]), 0.5), None);
        let counts = counted((1..=1000).map(|n| n * 10));
        for (share, exact) in [(0.5, 5000.0), (0.99, 9900.0), (1.0, 10_000.0)] {
            let told = f64::from(percentile(&counts, share).unwrap());
            assert!(told >= exact && told <= exact * 1.25, "{share}: {told}");
        }
        assert_eq!(percentile(&counted([0, 1, 1]), 0.99), Some(1));
        assert!(percentile(&counted([u64::MAX]), 0.5).unwrap() > 60_000_000, "what is longer than all buckets");
    }

    proptest! {
        #[test]
        fn a_longer_time_is_in_no_earlier_bucket(a in 0_u64..200_000_000, b in 0_u64..200_000_000) {
            let of = |micros| bucket(Duration::from_micros(micros));
            prop_assert!(of(a.min(b)) <= of(a.max(b)));
        }

        #[test]
        fn a_time_is_before_the_end_of_its_bucket(micros in 4_u64..100_000_000) {
            let bucket = bucket(Duration::from_micros(micros));
            prop_assert!(micros < end(bucket), "{micros} {bucket}");
            prop_assert!(end(bucket) <= micros + micros / 4 + 1, "{micros} {bucket}");
        }
    }
}
