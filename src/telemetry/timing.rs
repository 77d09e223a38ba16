//! How long answers take, by route and outcome: the histogram in `/metrics`.
//!
//! Coarser than [`super::latency`], from which the charts are drawn. Each thread counts for itself. Callers: [`super`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::RouteLabel;
use super::tally::Group;

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

const BUCKETS: usize = BOUNDS.len() + 1;
const SERIES: usize = RouteLabel::ALL.len() * Group::ALL.len();

/// The counters of one thread, since the start.
pub(super) struct Timings(Box<[Timing]>);

/// One route and outcome: two cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Timing {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// The times of one route and outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// The route.
    pub route: RouteLabel,
    /// The outcome.
    pub outcome: Group,
    /// How many answers took at most as long as each of [`BOUNDS`]; the last value counts all.
    pub at_most: [u64; BUCKETS],
    /// The sum of all times.
    pub sum: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self((0..SERIES).map(|_| Timing::default()).collect())
    }
}

impl Timings {
    pub(super) fn count(&self, route: RouteLabel, outcome: Group, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(_, bound)| nanos <= *bound).unwrap_or(BOUNDS.len());
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
        let mut below = 0;
        let at_most = std::array::from_fn(|bucket| {
            below += of_all(&|timing| timing.buckets[bucket].load(Ordering::Relaxed));
            below
        });
        let sum = Duration::from_nanos(of_all(&|timing| timing.nanos.load(Ordering::Relaxed)));
        Histogram { route, outcome, at_most, sum }
    });
    histograms.filter(|histogram| histogram.at_most[BUCKETS - 1] > 0).collect()
}

#[cfg(test)]
mod tests {
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
        let of = |at: usize| (read[at].route, read[at].outcome);
        assert_eq!((of(0), of(1)), ((RouteLabel::Detail, Group::Fresh), (RouteLabel::Limit, Group::Refused)));
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
}
