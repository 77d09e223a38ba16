//! How many cache misses were refused in the last minute: the sign of overload.
//!
//! Pure: time is an argument. Callers: [`super::state`].

use crate::clock::Monotonic;

/// One bucket counts five seconds, all of them a minute.
const BUCKET: u64 = 5_000_000_000;
const BUCKETS: u64 = 12;

/// The refusals of the last minute, to five seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    counts: [usize; BUCKETS as usize],
    /// The number of the newest bucket since the clock began.
    newest: u64,
}

impl Refusals {
    /// One more.
    pub(super) fn note(&mut self, now: Monotonic) {
        self.advance(now);
        self.counts[(self.newest % BUCKETS) as usize] += 1;
    }

    /// How many there were in the last minute.
    pub(super) fn lately(&mut self, now: Monotonic) -> usize {
        self.advance(now);
        self.counts.iter().sum()
    }

    /// Empties the buckets that begin again.
    fn advance(&mut self, now: Monotonic) {
        let newest = (now.as_nanos() / BUCKET).max(self.newest);
        let passed = (newest - self.newest).min(BUCKETS);
        for bucket in newest - passed..newest {
            self.counts[((bucket + 1) % BUCKETS) as usize] = 0;
        }
        self.newest = newest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_count_for_a_minute() {
        let at = Monotonic::from_seconds;
        let mut refusals = Refusals::default();
        assert_eq!(refusals.lately(at(1_000)), 0);
        (0..30).for_each(|second| refusals.note(at(1_000 + second)));
        assert_eq!(refusals.lately(at(1_030)), 30);
        assert_eq!(refusals.lately(at(1_054)), 30);
        assert_eq!(refusals.lately(at(1_070)), 15, "the first fifteen seconds are over");
        assert_eq!(refusals.lately(at(1_500)), 0);
        refusals.note(at(1_400));
        assert_eq!(refusals.lately(at(1_500)), 1, "a clock that seems to go back does no harm");
    }
}
