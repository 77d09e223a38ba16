//! Refusals of Redis that still hold, so that Redis is not asked again.
//!
//! A table of fixed size in which a newer refusal may take the place of another client's: that client's next request
//! asks Redis. Callers: [`super`].

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::clock::Monotonic;
use crate::limit::{ClientKey, Decision};

use super::Wish;

/// How many refusals are remembered; 48 bytes each.
const PLACES: usize = 1 << 14;

/// The refusals.
pub(super) struct KnownRefusals {
    places: Box<[Refusal]>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Default)]
struct Refusal {
    client: (u32, ClientKey),
    /// Until then Redis certainly refuses.
    sure: Monotonic,
    /// From then on Redis certainly admits.
    until: Monotonic,
}

impl KnownRefusals {
    pub(super) fn new() -> Self {
        Self { places: vec![Refusal::default(); PLACES].into(), hasher: RandomState::new() }
    }

    /// Until when a client is refused, if that is known.
    pub(super) fn until(&self, client: (u32, ClientKey), now: Monotonic) -> Option<Monotonic> {
        let refusal = self.places.get(self.place(client))?;
        (refusal.client == client && now < refusal.sure).then_some(refusal.until)
    }

    /// Redis was asked at `asked`, answered by `now`, and refuses for `left` more.
    pub(super) fn remember(&mut self, client: (u32, ClientKey), asked: Monotonic, now: Monotonic, left: Duration) {
        let place = self.place(client);
        self.places[place] = Refusal { client, sure: asked.plus(left), until: now.plus(left) };
    }

    fn place(&self, client: (u32, ClientKey)) -> usize {
        self.hasher.hash_one(client) as usize % PLACES
    }
}

/// The decision for a client whose window is full for `left` more.
pub(super) fn decision(quota: u32, left: Duration, wish: Wish) -> Decision {
    let seconds = seconds(left).max(1);
    match wish {
        Wish::Admit => Decision::Refused { quota, retry_after_seconds: seconds },
        Wish::Peek => Decision::Admitted { quota, remaining: 0, reset_seconds: seconds },
    }
}

/// Whole seconds, rounded up.
pub(super) fn seconds(left: Duration) -> u32 {
    u32::try_from(left.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::limit::{LimitConfig, Limiter};

    #[test]
    fn a_refusal_is_known_only_as_long_as_redis_surely_refuses() {
        let limiter = Limiter::new(&LimitConfig::default());
        let client = limiter.client_of(Ipv4Addr::LOCALHOST.into());
        let mut known = KnownRefusals::new();
        let at = |millis: u64| Monotonic::from_nanos(millis * 1_000_000);
        assert_eq!(known.until(client, at(0)), None);
        known.remember(client, at(1000), at(1010), Duration::from_millis(500));
        assert_eq!(known.until(client, at(1499)), Some(at(1510)));
        assert_eq!(known.until(client, at(1500)), None, "it may be admitted now");
        assert_eq!(known.until((client.0 + 1, client.1), at(1400)), None, "another quota");
        let refused = Decision::Refused { quota: 60, retry_after_seconds: 2 };
        assert_eq!(decision(60, Duration::from_millis(1001), Wish::Admit), refused);
        assert_eq!(decision(60, Duration::ZERO, Wish::Admit).retry_after_seconds(), Some(1));
        let told = Decision::Admitted { quota: 60, remaining: 0, reset_seconds: 1 };
        assert_eq!(decision(60, Duration::from_millis(1), Wish::Peek), told);
    }
}
