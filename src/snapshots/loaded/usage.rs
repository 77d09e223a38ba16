//! Recent users of a snapshot, and which of two snapshots stays in memory.
//!
//! Households count, not requests: one client with many requests cannot displace a snapshot that others use. Pure.
//! Callers: [`super`].

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::time::Instant;

/// How long a request counts.
const MEMORY: Duration = Duration::from_secs(600);
/// The most households that count for a snapshot.
const MOST: usize = 8;

/// Stands for the clients of the previous current snapshot.
pub(super) const ALL_CLIENTS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// The households that requested a snapshot, the last one last.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage(Vec<(IpAddr, Instant)>);

impl Usage {
    /// Records a request of a household.
    pub(super) fn note(&mut self, household: IpAddr, now: Instant) {
        self.0.retain(|(known, at)| *known != household && now.duration_since(*at) < MEMORY);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push((household, now));
    }

    /// The order in which snapshots make room for a request of `household`: the first goes first.
    pub(super) fn rank(&self, household: IpAddr, now: Instant) -> (usize, usize, Option<Instant>) {
        (self.others(household, now), self.all(now), self.0.last().map(|(_, at)| *at))
    }

    /// Whether the snapshot makes room for the other one, for `household`: no other household uses it, or more use the
    /// other.
    pub(super) fn gives_way(&self, other: &Self, household: IpAddr, now: Instant) -> bool {
        self.others(household, now) == 0 || other.all(now) > self.all(now)
    }

    fn all(&self, now: Instant) -> usize {
        self.0.iter().filter(|(_, at)| now.duration_since(*at) < MEMORY).count()
    }

    fn others(&self, household: IpAddr, now: Instant) -> usize {
        let counts = |(known, at): &&(IpAddr, Instant)| *known != household && now.duration_since(*at) < MEMORY;
        self.0.iter().filter(counts).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(by: &[u8], at: Instant) -> Usage {
        let mut usage = Usage::default();
        for number in by {
            usage.note(IpAddr::from([10, 0, 0, *number]), at);
        }
        usage
    }

    #[test]
    fn a_snapshot_gives_way_to_its_only_client_or_to_one_that_more_want() {
        let (now, scanner) = (Instant::now(), IpAddr::from([10, 0, 0, 9]));
        for (own, other, gives_way) in [
            (&[1][..], &[9][..], false),
            (&[1, 2], &[9, 3], false),
            (&[1], &[9, 3], true),
            (&[9], &[9], true),
            (&[], &[9], true),
            (&[9, 1], &[9], false),
        ] {
            let (own, other) = (used(own, now), used(other, now));
            assert_eq!(own.gives_way(&other, scanner, now), gives_way, "{own:?} {other:?}");
            assert!(own.gives_way(&other, scanner, now + MEMORY), "long ago: {own:?}");
        }
    }

    #[test]
    fn a_household_counts_once_and_few_are_remembered() {
        let now = Instant::now();
        let mut usage = used(&[1; 100], now);
        assert_eq!(usage.all(now), 1);
        for number in 0..=255 {
            usage.note(IpAddr::from([10, 0, 1, number]), now);
        }
        assert_eq!((usage.all(now), usage.0.len()), (MOST, MOST));
        assert_eq!(usage.others(IpAddr::from([10, 0, 1, 255]), now), MOST - 1);
    }
}
