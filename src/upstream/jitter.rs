//! Random shortening of pauses, from the operating system or, for repeatable runs, from a seed.
//!
//! Not for secrets. Callers: [`super::client`], which hands it to the rest of
//! [`crate::upstream`] and the mirror; [`crate::fleet`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

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
    fn a_seed_draws_the_same_jitter_twice_and_never_less_than_half() {
        let (one, two, span) = (Jitter::of(7), Jitter::of(7), Duration::from_secs(10));
        let draws: Vec<Duration> = (0..100).map(|_| one.jittered(span)).collect();
        assert_eq!(draws, (0..100).map(|_| two.jittered(span)).collect::<Vec<_>>());
        let other = Jitter::default();
        assert!(draws.into_iter().chain([other.jittered(span)]).all(|draw| draw >= span / 2 && draw <= span));
    }
}
