//! Backoff: pauses before the next try, doubled after each failure, and shortened at random.
//!
//! The jitter is from the operating system or, for repeatable runs, from a seed. Not for secrets. Callers: those that try
//! again: [`crate::origin`], [`crate::mirror`], [`crate::fleet`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A pause that was doubled so many times, at most `longest`.
pub(crate) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}

/// A source of jitter; clones draw from the same source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jitter(Option<Arc<Mutex<SmallRng>>>);

impl Jitter {
    /// Always the same draws.
    pub(crate) fn of(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed)))))
    }

    /// A random part of `span`, from half of it up to all of it.
    pub(crate) fn jittered(&self, span: Duration) -> Duration {
        let part = match &self.0 {
            Some(seeded) => seeded.lock().random_range(0.5..1.0),
            None => rand::rng().random_range(0.5..1.0),
        };
        span.mul_f64(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_doubled_up_to_the_longest() {
        let (first, longest) = (Duration::from_millis(500), Duration::from_secs(30));
        let pauses = [0, 1, 2, 5, 6, u32::MAX].map(|times| doubled(first, times, longest).as_millis());
        assert_eq!(pauses, [500, 1_000, 2_000, 16_000, 30_000, 30_000]);
    }

    #[test]
    fn a_seed_draws_the_same_jitter_twice_and_never_less_than_half() {
        let (one, two, span) = (Jitter::of(7), Jitter::of(7), Duration::from_secs(10));
        let draws: Vec<Duration> = (0..100).map(|_| one.jittered(span)).collect();
        assert_eq!(draws, (0..100).map(|_| two.jittered(span)).collect::<Vec<_>>());
        let other = Jitter::default();
        assert!(draws.into_iter().chain([other.jittered(span)]).all(|draw| draw >= span / 2 && draw <= span));
    }
}
