//! Answer times: the histograms in `/metrics`, by route and outcome, and the percentiles of the charts.
//!
//! A bucket for percentiles is a quarter of an octave of microseconds: a percentile is off by less than a fifth. Each
//! thread counts for itself. Callers: [`super`] counts, [`super::history`] asks for percentiles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Group, RouteLabel};

/// The upper bounds of the buckets but the last, as they are written, and in nanoseconds.
pub(crate) const BOUNDS: [(&str, u64); 14] = [
    ("0.0001", 100_000),
    ("0.00025", 250_000),
    ("0.0005", 500_000),
    ("0.001", 1_000_000),
    ("0.0025", 2_500_000),
    ("0.005", 5_000_000),
    ("0.01", 10_000_000),
    ("0.025", 25_000_000),
    ("0.05", 50_000_000),
    ("0.1", 100_000_000),
    ("0.25", 250_000_000),
    ("1.0", 1_000_000_000),
    ("2.5", 2_500_000_000),
    ("10.0", 10_000_000_000),
];

/// The buckets between [`BOUNDS`], and the last.
const STEPS: usize = BOUNDS.len() + 1;
// 102 series of 128 bytes in each of the 32 shards: 420 kB in all, fixed at the start.
const SERIES: usize = RouteLabel::ALL.len() * Group::ALL.len();

/// The counters of one thread, since the start.
pub(super) struct Timings(Box<[Timing]>);

/// One route and outcome: two cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Timing {
    buckets: [AtomicU64; STEPS],
    nanos: AtomicU64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// The values of the metric's labels.
    pub labels: Vec<&'static str>,
    /// How many answers took at most as long as each of [`BOUNDS`]; the last value counts all.
    pub at_most: [u64; STEPS],
    pub sum: Duration,
}

/// Times that are not counted by each thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    buckets: [u64; STEPS],
    sum: Duration,
}

impl Times {
    pub(crate) fn count(&mut self, took: Duration) {
        self.buckets[step(took)] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    pub(crate) fn histogram(&self, labels: Vec<&'static str>) -> Histogram {
        Histogram { labels, at_most: summed(|bucket| self.buckets[bucket]), sum: self.sum }
    }
}

/// The bucket between [`BOUNDS`] of a time.
fn step(took: Duration) -> usize {
    BOUNDS.iter().position(|(_, bound)| took <= Duration::from_nanos(*bound)).unwrap_or(BOUNDS.len())
}

/// Each bucket with those below it.
fn summed(of: impl Fn(usize) -> u64) -> [u64; STEPS] {
    let mut below = 0;
    std::array::from_fn(|bucket| {
        below += of(bucket);
        below
    })
}

impl Default for Timings {
    fn default() -> Self {
        Self((0..SERIES).map(|_| Timing::default()).collect())
    }
}

impl Timings {
    pub(super) fn count(&self, route: RouteLabel, outcome: Group, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = step(took);
        if let Some(timing) = self.0.get(route as usize * Group::ALL.len() + outcome as usize) {
            timing.buckets[bucket].fetch_add(1, Ordering::Relaxed);
            timing.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }
}

/// The histograms of all threads together, without empty ones.
pub(super) fn read<'a>(shards: &(impl Iterator<Item = &'a Timings> + Clone)) -> Vec<Histogram> {
    let kinds = RouteLabel::ALL.into_iter().flat_map(|route| Group::ALL.map(|outcome| (route, outcome)));
    let histograms = kinds.enumerate().map(|(at, (route, outcome))| {
        let of_all = |counter: &dyn Fn(&Timing) -> u64| shards.clone().map(|shard| counter(&shard.0[at])).sum::<u64>();
        let at_most = summed(|bucket| of_all(&|timing| timing.buckets[bucket].load(Ordering::Relaxed)));
        let sum = Duration::from_nanos(of_all(&|timing| timing.nanos.load(Ordering::Relaxed)));
        Histogram { labels: vec![route.as_str(), outcome.as_str()], at_most, sum }
    });
    histograms.filter(|histogram| histogram.at_most[STEPS - 1] > 0).collect()
}

const QUARTERS: usize = 4;

/// How many buckets there are: from 1 microsecond to a minute and more.
pub(crate) const BUCKETS: usize = 27 * QUARTERS;

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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_times_of_all_threads_add_up_in_the_buckets_that_their_bounds_name() {
        let shards = [Timings::default(), Timings::default()];
        let micros = Duration::from_micros;
        for (shard, took) in [(0, 100), (1, 100), (1, 101), (0, 2_500_000), (1, 11_000_000)] {
            shards[shard].count(RouteLabel::Detail, Group::Fresh, micros(took));
        }
        shards[0].count(RouteLabel::Limit, Group::Refused, micros(1));
        let read = read(&shards.iter());
        assert_eq!(read.len(), 2);
        assert_eq!((&read[0].labels[..], &read[1].labels[..]), (&["detail", "fresh"][..], &["limit", "refused"][..]));
        assert_eq!(read[0].at_most, [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 5]);
        assert_eq!(read[0].sum, micros(13_500_301));
    }

    #[test]
    fn each_bound_is_written_as_it_counts_and_each_route_has_its_place() {
        for (written, nanos) in BOUNDS {
            let seconds: f64 = written.parse().unwrap();
            assert!((seconds * 1e9 - nanos as f64).abs() < 0.5, "{written}");
        }
        for (at, route) in RouteLabel::ALL.into_iter().enumerate() {
            assert_eq!(at, route as usize);
        }
    }

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
